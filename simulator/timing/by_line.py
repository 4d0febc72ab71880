"""Attribute the time of a kernel to its source lines: the time on the critical path and the total busy time."""

from __future__ import annotations

import linecache
import os
from typing import Any, NamedTuple

from .critical_path import RESOURCES

MOST_TEXT = 60  # maximum number of characters shown of a source line


class LineTime(NamedTuple):
    """Times of one source line of a kernel, in microseconds.

    `critical` is the time of each resource on the critical path that is spent on the line, and `critical_us` is the
    sum. `busy_us` is the total busy time of its instructions on engines and DMA queues.

    `text` is the line itself, or "" if the source is not available.
    """

    file: str
    line: int
    text: str
    critical_us: float
    critical: dict[str, float]
    busy_us: float
    instructions: int

    @property
    def place(self) -> str:
        """Return the file name and line number."""
        return f"{os.path.basename(self.file)}:{self.line}"


def line_times(run: Any) -> tuple[LineTime, ...]:
    """Return the lines of a run, sorted by decreasing time on the critical path.

    The critical times and the launch overhead add up to the latency.
    """
    busy: dict[tuple[str, int], float] = {}
    counts: dict[tuple[str, int], int] = {}
    for program, s in zip(run.prediction.programs, run.prediction.schedules):
        for index, instruction in enumerate(program):
            start, end = s.moving.get(index, (s.start[index], s.end[index]))
            busy[instruction.line] = busy.get(instruction.line, 0.0) + end - start
            counts[instruction.line] = counts.get(instruction.line, 0) + 1
    critical = run.critical.by_line
    lines = [
        LineTime(
            file=file,
            line=number,
            text=" ".join(linecache.getline(file, number).split()),
            critical_us=round(sum(critical.get((file, number), {}).values()), 6),
            critical=critical.get((file, number), {}),
            busy_us=busy[file, number] / 1000,
            instructions=counts[file, number],
        )
        for file, number in busy
    ]
    return tuple(sorted(lines, key=lambda line: (-line.critical_us, -line.busy_us, line.file, line.line)))


def describe_line(line: LineTime) -> str:
    """Describe a line: `my.py:12 3.40 us (vector 2.10, semaphore 1.30), busy 5.00 us, 12 instructions: nisa...`."""
    parts = sorted(line.critical.items(), key=lambda part: -part[1])
    spent = ", ".join(f"{name} {time:.2f}" for name, time in parts)
    text = line.text if len(line.text) <= MOST_TEXT else f"{line.text[: MOST_TEXT - 3]}..."
    times = f"{line.critical_us:.2f} us ({spent})" if spent else "0.00 us"
    count = "1 instruction" if line.instructions == 1 else f"{line.instructions} instructions"
    return f"{line.place} {times}, busy {line.busy_us:.2f} us, {count}{f': {text}' if text else ''}"


def describe_critical(run: Any) -> str:
    """Format the time of each resource on the critical path: `launch 10.20 us, vector 2.10, ...`."""
    parts = sorted(run.critical.by_resource.items(), key=lambda part: -part[1])
    words = [f"{name} {time:.2f}" for name, time in parts if name in RESOURCES]
    return ", ".join([f"{words[0]} us", *words[1:]]) if words else "nothing"
