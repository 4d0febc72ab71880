"""The benchmark of several workers, on few pictures."""

import subprocess
import sys


def test_it_tells_the_memory_of_each_worker() -> None:
    command = [sys.executable, "-m", "trninfer.benchmarks.benchmark_cluster", "--memory", "--pictures", "100"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout.splitlines()
    tenths = [line.split() for line in lines[1:]]
    assert len(tenths) >= 4 and tenths[-1][0] == "100"
    for answered, rate, *resident in tenths:
        assert int(answered) <= 100 and float(rate) > 0 and all(float(megabytes) > 10 for megabytes in resident)
    assert any(len(line) == 4 for line in tenths)  # the driver and two workers
