"""Store predicted times of launches in a JSON file, for comparison with later versions of a kernel.

    entry = entry_of(run)                  # the record of a launch, for storage
    text = slower(entry, run, 0.01)        # the slower lines and resources; "" if there are none
    write(path, {"test_softmax": entry})   # preserves other entries in the file

A line is identified by its text and the number of equal lines before it, so that it can move within the file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..machine.atomic_file import replacing
from ..timing.by_line import MOST_TEXT

if TYPE_CHECKING:
    from ..running.run import Run

SCHEMA_VERSION = 1
SHOWN_LINES = 5  # maximum number of slower lines in a report
LEAST_US = 0.005  # smallest difference in a report

Entry = dict[str, Any]


class BaselineError(Exception):
    """Raised if the baseline file cannot be used."""


class _Line(NamedTuple):
    """A line of a kernel, and its time on the critical path in microseconds for each resource."""

    place: str
    text: str
    critical: dict[str, float]


def entry_of(run: Run) -> Entry:
    """Return the record of a launch: its target, its latency, and the time of each resource and line on its critical
    path."""
    lines = [{"text": text, "critical_us": line.critical} for text, line in _lines(run).items() if line.critical]
    return {
        "kernel": run.name,
        "target": run.target,
        "latency_us": run.latency_us,
        "critical_us": run.critical.by_resource,
        "lines": lines,
    }


def read(path: Path) -> dict[str, Entry]:
    """Return the entries of a file, keyed by name, or an empty dictionary if the file does not exist.

    Raises:
        BaselineError: the file is not a baseline file.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise BaselineError(f"{path}: cannot be read: {error}") from None
    if not isinstance(document, dict) or document.get("schema_version") != SCHEMA_VERSION:
        raise BaselineError(f"{path}: not a file of baselines (schema_version {SCHEMA_VERSION})")
    entries = document.get("launches")
    if not isinstance(entries, dict) or not all(_is_entry(entry) for entry in entries.values()):
        raise BaselineError(f"{path}: damaged; delete it and run pytest --nki-update-baselines")
    return entries


def _is_entry(entry: Any) -> bool:
    """Return True if the value has the form of a result of `entry_of`."""

    def times(value: Any) -> bool:
        return isinstance(value, dict) and all(isinstance(time, (int, float)) for time in value.values())

    if not isinstance(entry, dict) or not isinstance(entry.get("lines"), list):
        return False
    lines = [line if isinstance(line, dict) else {} for line in entry["lines"]]
    return (
        isinstance(entry.get("latency_us"), (int, float))
        and isinstance(entry.get("target"), str)
        and times(entry.get("critical_us"))
        and all(isinstance(line.get("text"), str) and times(line.get("critical_us")) for line in lines)
    )


def write(path: Path, entries: dict[str, Entry]) -> None:
    """Write entries to a file atomically, preserving entries with other names.

    Raises:
        BaselineError: the file is not a baseline file, or cannot be written.
    """
    merged = {**read(path), **entries}
    text = json.dumps({"schema_version": SCHEMA_VERSION, "launches": dict(sorted(merged.items()))}, indent=1)
    try:
        with replacing(path) as file:
            file.write(f"{text}\n".encode())
    except OSError as error:
        raise BaselineError(f"{path}: cannot be written: {error.strerror}") from None


def slower(entry: Entry, run: Run, tolerance: float) -> str:
    """Describe which resources and lines make a launch slower than its baseline.

    Return "" unless the launch is slower by more than the relative `tolerance`.
    """
    before, now = float(entry["latency_us"]), run.latency_us
    if now <= before * (1 + tolerance):
        return ""
    head = f"{run.name} is predicted to take {now:.2f} us on {run.target}, {before:.2f} us in the baseline"
    parts = [f"{name} {change:+.2f}" for name, change in _changes(entry["critical_us"], run.critical.by_resource)]
    lines = [f"{head} ({now / before - 1:+.1%}, {tolerance:.1%} allowed)", f"critical path: {', '.join(parts)} us"]
    return "\n".join([*lines, *_slower_lines(entry, run)])


def _slower_lines(entry: Entry, run: Run) -> list[str]:
    """Return the lines of a kernel that have become slower, sorted by decreasing difference."""
    former = {line["text"]: line["critical_us"] for line in entry["lines"]}
    slower = []
    for text, line in _lines(run).items():
        before = former.get(text, {})
        change = sum(line.critical.values()) - sum(before.values())
        if change >= LEAST_US:
            parts = ", ".join(f"{name} {part:+.2f}" for name, part in _changes(before, line.critical))
            was = "" if text in former else ", new on the critical path"
            shortened = line.text if len(line.text) <= MOST_TEXT else f"{line.text[: MOST_TEXT - 3]}..."
            slower.append((change, f"{line.place} {change:+.2f} us ({parts}{was}): {shortened}"))
    return [lines for _, lines in sorted(slower, key=lambda each: -each[0])[:SHOWN_LINES]]


def _changes(before: dict[str, float], now: dict[str, float]) -> list[tuple[str, float]]:
    """Return the increase of the time of each resource, in decreasing order."""
    changes = {name: now.get(name, 0.0) - before.get(name, 0.0) for name in {**before, **now}}
    return sorted(((n, c) for n, c in changes.items() if abs(c) >= LEAST_US), key=lambda part: -part[1])


def _lines(run: Run) -> dict[str, _Line]:
    """Return the lines of a run, keyed by text. Equal lines are numbered in the order of the file."""
    lines: dict[str, _Line] = {}
    counts: dict[str, int] = {}
    for line in sorted(run.lines, key=lambda line: (line.file, line.line)):
        counts[line.text] = counts.get(line.text, 0) + 1
        key = line.text if counts[line.text] == 1 else f"{line.text} #{counts[line.text]}"
        lines[key] = _Line(line.place, line.text, line.critical)
    return lines
