"""The benchmark of many pictures in one run, on a few pictures."""

import subprocess
import sys

import pytest


@pytest.mark.slow
def test_benchmark_reports_rate_and_memory(request) -> None:
    script = request.config.rootpath / "benchmarks" / "benchmark_stream.py"
    command = [sys.executable, str(script), "--pictures", "100", "--batch-size", "5"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line.split()[0] for line in lines[2:13]] == ["1", *(str(10 * tenth) for tenth in range(1, 11))]
    for line in lines[3:13]:
        rate, cost, memory = map(float, line.split()[1:])
        assert rate > 0 and cost >= 0 and memory > 1
    assert lines[13].startswith("last tenth to first tenth: rate ") and lines[14].startswith("memory from the first")
