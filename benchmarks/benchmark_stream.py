"""Check that speed and memory of `trninfer classify` stay constant over many pictures.

    python benchmarks/benchmark_stream.py [--pictures 10000] [--side 28] [--batch-size 16]

Small pictures are drawn into a temporary folder and classified in one run, which writes CSV to a pipe. For each tenth
of the run, the script prints the pictures per second, the processor time per picture (which other load hardly affects)
and the resident set of the process. It then compares the last tenth with the first. Rates are measured from the first
result on, to exclude startup. The script requires Linux, because it reads /proc.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from PIL import Image, ImageDraw

TENTHS = 10


class Sample(NamedTuple):
    """The progress of a run at one point in time."""

    answered: int
    seconds: float
    processor: float  # processor seconds of all threads
    resident: int  # resident set in bytes


def draw_pictures(folder: Path, count: int, side: int) -> None:
    """Draw small, distinct grey pictures that resemble digits, reproducibly."""
    chance = random.Random(0)
    for number in range(count):
        image = Image.new("L", (side, side), 255)
        pen = ImageDraw.Draw(image)
        left, top = chance.uniform(0.2, 0.3) * side, chance.uniform(0.1, 0.2) * side
        pen.ellipse((left, top, side - left, side - top), outline=chance.randrange(100), width=2)
        pen.line((side / 2, top, chance.uniform(left, side - left), side - top), fill=0, width=2)
        image.save(folder / f"{number:06}.png")


def resident_bytes(process: int) -> int:
    """Return the resident set of a process."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def processor_seconds(process: int) -> float:
    """Return the processor time of a process, in user and kernel mode."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()  # the fields after the command name
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def watch(command: list[str], count: int) -> Iterator[Sample]:
    """Run a command that writes a header and a line per picture.

    Yield a sample at the first line and after each tenth.
    """
    with subprocess.Popen(command, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        next(running.stdout)
        marks = [1, *(count * tenth // TENTHS for tenth in range(1, TENTHS + 1))]
        for answered, _ in enumerate(running.stdout, 1):
            if answered == marks[0]:
                process = running.pid
                yield Sample(answered, time.perf_counter(), processor_seconds(process), resident_bytes(process))
                marks = [mark for mark in marks if mark > answered] or [count + 1]
    if running.returncode:
        raise SystemExit(f"{' '.join(command)} ended with status {running.returncode}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=10_000, help="number of pictures (default 10000; at least 100)")
    parser.add_argument("--side", type=int, default=28, help="height and width of a picture in pixels (default 28)")
    parser.add_argument("--batch-size", type=int, default=16, help="pictures per batch (default 16)")
    options = parser.parse_args()
    count = max(100, options.pictures)
    with tempfile.TemporaryDirectory() as folder:
        draw_pictures(Path(folder), count, options.side)
        command = [sys.executable, "-m", "trninfer", "classify", folder, "--format", "csv", "--quiet"]
        print(f"{count} pictures of {options.side}x{options.side} in batches of {options.batch_size}")
        print(f"{'answered':>9} {'pictures/s':>11} {'CPU ms each':>12} {'resident MB':>12}")
        samples: list[Sample] = []
        for sample in watch([*command, "--batch-size", str(options.batch_size)], count):
            rates = f"{'-':>11} {'-':>12}"
            if samples:
                rates = f"{_rate(samples[-1], sample):11.1f} {1000 * _cost(samples[-1], sample):12.2f}"
            print(f"{sample.answered:9} {rates} {sample.resident / 1e6:12.1f}", flush=True)
            samples.append(sample)
    rate = _rate(*samples[-2:]) / _rate(*samples[:2])
    cost = _cost(*samples[-2:]) / _cost(*samples[:2])
    growth = samples[-1].resident - samples[1].resident
    print(f"last tenth to first tenth: rate {100 * rate:.1f} %, processor time per picture {100 * cost:.1f} %")
    print(f"memory from the first tenth to the end: {growth / 1e6:+.1f} MB, {growth / count:+.0f} bytes per picture")


def _cost(earlier: Sample, later: Sample) -> float:
    return (later.processor - earlier.processor) / (later.answered - earlier.answered)


def _rate(earlier: Sample, later: Sample) -> float:
    return (later.answered - earlier.answered) / (later.seconds - earlier.seconds)


if __name__ == "__main__":
    main()
