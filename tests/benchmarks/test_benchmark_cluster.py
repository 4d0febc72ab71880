"""The benchmark of several workers, on a few pictures."""

import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.by_hand


def test_benchmark_reports_the_memory_of_each_worker() -> None:
    command = [sys.executable, "-m", "trninfer.benchmarks.benchmark_cluster", "--memory", "--pictures", "100"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout.splitlines()
    tenths = [line.split() for line in lines[1:]]
    assert len(tenths) >= 4 and tenths[-1][0] == "100"
    for answered, rate, *resident in tenths:
        assert int(answered) <= 100 and float(rate) > 0 and all(float(megabytes) > 10 for megabytes in resident)
    assert all(len(line) in (4, 5) for line in tenths)  # the driver, and one or two workers


def test_benchmark_reports_the_start_separately() -> None:
    command = [sys.executable, "-m", "trninfer.benchmarks.benchmark_cluster", "--pictures", "8", "--side", "32"]
    command += ["--batch-size", "2", "--workers", "2"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout.splitlines()
    assert [line.split("  ")[0] for line in lines] == ["one process", "2 workers", "2 independent"]
    numbers = r"ready after +([\d.]+) s, then +([\d.]+) pictures/s \( *([\d.]+) ms .*idle +(\d+)%, waited +(\d+)%"
    for line in lines:
        found = re.search(numbers, line)
        assert found and all(float(number) > 0 for number in found.groups()[:3]), line
        assert float(found[4]) + float(found[5]) <= 100
    comparison = "times as fast as one process"
    assert comparison not in lines[0] and all(comparison in line for line in lines[1:])
