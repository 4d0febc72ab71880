"""`bench --compare`: compare the times of a bench with an earlier one, and detect regressions.

Both runs are JSON documents of schema_version 1. Their times must both be measured or both be predicted, and they
must cover networks, a suite, or one kernel at one shape. If networks, targets, dtypes or batch sizes differ, the
differences are listed and nothing is considered a regression.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from ...runtime.timing import add_critical
from ..errors import UsageError, reason
from ..text import printable
from .resources import TITLES, short

DEFAULT_THRESHOLD = "5%"
MAX_BYTES = 64 << 20  # maximum size of a baseline in bytes; a bench of a hundred layers takes 40 KB


MOST_REASONS = 2  # maximum number of resources shown with the change of a row,
LEAST_REASON_US = 0.005  # except resources whose change would be printed as 0.00
_COMPARABLE = ("model", "target", "dtype", "batch_size")


class _Time(NamedTuple):
    """The time of a row, and its critical time by resource, in microseconds."""

    us: float
    critical: dict[str, float]


@dataclass(frozen=True)
class ComparedRow:
    """A layer, or a case of a suite.

    `change` is relative to the baseline (0.05: 5 % slower), or None if the row is missing on one side. `critical` is
    the change of the critical time of each resource in microseconds, if it is known on both sides.
    """

    name: str
    status: str  # same, faster, slower, regression, added or removed
    baseline_us: float | None
    latency_us: float | None
    change: float | None
    critical: Mapping[str, float] = field(default_factory=dict)

    @property
    def why(self) -> str:
        """Return the resources that explain most of a change: `tensor +1.20 us, launch -0.30`; "" if unknown."""
        moved = sorted(self.critical.items(), key=lambda part: -abs(part[1]))[:MOST_REASONS]
        words = [f"{short(name)} {change:+.2f}" for name, change in moved if abs(change) >= LEAST_REASON_US]
        return ", ".join([f"{words[0]} us", *words[1:]]) if words else ""


@dataclass(frozen=True)
class BaselineComparison:
    """All rows, with the total as an additional row. A regression is a change beyond the threshold (0.05 for 5 %).

    `differences` lists the properties that differ between the two sides; times are per input if batch sizes differ.
    """

    baseline: str
    threshold: float
    rows: tuple[ComparedRow, ...]
    total: ComparedRow
    differences: tuple[str, ...] = ()
    an_input: bool = False

    @property
    def passed(self) -> bool:
        """Return True if neither a row nor the total became slower by more than the threshold."""
        return not any(row.status == "regression" for row in (*self.rows, self.total))

    def section(self) -> dict[str, Any]:
        """Return the `compare` section of the JSON document."""
        rows = [{**vars(row), "critical": dict(row.critical)} for row in self.rows]
        return {
            "differences": list(self.differences),
            "an_input": self.an_input,
            "critical": dict(self.total.critical),
            "baseline": printable(self.baseline),
            "threshold": self.threshold,
            "passed": self.passed,
            "baseline_total_us": self.total.baseline_us,
            "change": self.total.change,
            "rows": rows,
        }


def parse_threshold(text: str) -> float:
    """Parse `5%` as 0.05. Raises UsageError if there is no percent sign, since the number might be a fraction."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*%\s*", text)
    if match is None:
        raise UsageError(f"--threshold {text!r}: not a percentage, as in 5% or 0.5%")
    value = float(match[1]) / 100
    if not math.isfinite(value):
        raise UsageError(f"--threshold {text!r}: too large")
    return value


def read_baseline(path: Path) -> dict[str, Any]:
    """Return the document of an earlier bench. Raises UsageError if the file is anything else."""
    name = f"--compare {path}"
    if path.exists() and not path.is_file():
        raise UsageError(f"{name}: not a regular file")
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"{name}: larger than {MAX_BYTES >> 20} MiB, so it is not a report of trninfer bench")
        document = json.loads(path.read_bytes(), parse_constant=_no_number)
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {reason(error)}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{name}: not JSON; write a baseline with trninfer bench --format json") from None
    problem = _what_is_wrong(document)
    if problem:
        raise UsageError(f"{name}: not a report of trninfer bench --format json: {problem}")
    return dict(document)


def compare_documents(
    document: dict[str, Any], baseline: dict[str, Any], path: Path, threshold: float
) -> BaselineComparison:
    """Compare a bench's document with a baseline row by row. If they are not comparable, raises UsageError with a list
    of all differences."""
    kinds = document["latency_kind"], baseline["latency_kind"]
    if kinds[0] != kinds[1]:
        raise UsageError(
            f"--compare {path}: its times are {_value(kinds[1])}, but these are {kinds[0]}; they cannot be compared"
        )
    changes = list(_differences(document, baseline))
    if any(fatal for _, fatal in changes):
        raise UsageError(f"--compare {path}: the benches differ: {'; '.join(text for text, _ in changes)}")
    sizes = [side["bench"].get("batch_size") or 1 for side in (document, baseline)]
    an_input = sizes[0] != sizes[1]
    now, before = (_times(side, size if an_input else 1) for side, size in zip((document, baseline), sizes))
    allowed = threshold if not changes else math.inf
    names = _merged(list(now), list(before)) if document.get("model") == baseline.get("model") else []
    rows = [_compare_row(name, before.get(name), now.get(name), allowed) for name in names]
    total = _compare_row("total", _total(before), _total(now), allowed)
    differences = tuple(text for text, _ in changes)
    return BaselineComparison(str(path), threshold, tuple(rows), total, differences, an_input)


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


def _what_is_wrong(document: Any) -> str | None:
    """Return the first reason why a document is not a bench, or None if it is one."""
    if not isinstance(document, dict) or document.get("schema_version") != 1:
        return "its schema_version is not 1"
    if document.get("command") != "bench":
        return f"it is one of {str(document.get('command'))[:40]!r}"
    if not isinstance(document.get("bench"), dict):
        return "it lacks the section 'bench'"
    size = document["bench"].get("batch_size")
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or not 0 < size < 1 << 40):
        return "its batch size is not an integer"
    for key in ("latency_kind", "latency_label", "target", "dtype"):
        if not isinstance(document.get(key), str):
            return f"its {key} is not text"
    return _wrong_rows(document)


def _wrong_rows(document: dict[str, Any]) -> str | None:
    """Return the first reason why the rows of a bench cannot be compared, or None if they can."""
    key = "suite" if "suite" in document else "layers"
    rows = document.get(key)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return f"its {key} is not a list of rows"
    time = _time_key(document)
    if not all(isinstance(row.get("name"), str) and _is_time(row.get(time)) for row in rows):
        return f"a row of its {key} lacks a name or a time"
    if len({row["name"] for row in rows}) < len(rows):
        return f"two rows of its {key} have the same name"
    return None


def _is_time(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e300


def _time_key(document: dict[str, Any]) -> str:
    return "predicted_us" if "suite" in document else "latency_us"


def _times(document: dict[str, Any], inputs: int) -> dict[str, _Time]:
    """Return the time per input of each row."""
    rows = document["suite"] if "suite" in document else document["layers"]
    return {row["name"]: _Time(float(row[_time_key(document)]) / inputs, _critical(row, inputs)) for row in rows}


def _critical(row: dict[str, Any], inputs: int) -> dict[str, float]:
    """Return the critical time of a row by resource, or an empty dictionary if it is missing or malformed."""
    critical = row.get("critical")
    if not isinstance(critical, dict) or not all(_is_time(time) for time in critical.values()):
        return {}
    return {name: time / inputs for name, time in critical.items() if name in TITLES}


def _total(times: Mapping[str, _Time]) -> _Time:
    return _Time(sum(time.us for time in times.values()), add_critical(time.critical for time in times.values()))


def _differences(document: dict[str, Any], baseline: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield a description of each difference between this benchmark run and the baseline, and whether it prevents a
    comparison."""
    if ("suite" in document) != ("suite" in baseline):
        yield "only one of them is of a suite", True
    pairs = [(key, document[key], baseline.get(key)) for key in ("latency_label", "model", "target", "dtype")]
    pairs += [(key, value, baseline["bench"].get(key)) for key, value in document["bench"].items()]
    # Suites define targets and dtypes, and kernels have no batch size. For these, runs that differ in target, dtype or
    # batch size cannot be compared.
    networks = all("suite" not in side and side["bench"].get("kernel") is None for side in (document, baseline))
    others = False
    for key, new_value, old_value in pairs:
        if new_value != old_value:
            fatal = key not in _COMPARABLE or (not networks and key not in ("target", "dtype"))
            others = others or not fatal
            yield f"{key.replace('_', ' ')} {_value(new_value)}, but {_value(old_value)} in the baseline", fatal
    if not others and "suite" not in baseline:
        yield from ((difference, True) for difference in _other_shapes(document["layers"], baseline.get("layers", [])))


def _other_shapes(rows: Sequence[dict[str, Any]], before: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield a description of each shape that differs from the baseline's layer of the same name."""
    shapes = {row["name"]: row for row in before}
    for row in (row for row in rows if row["name"] in shapes):
        old = shapes[row["name"]]
        for key in ("input_shape", "output_shape"):
            if list(row[key]) != old.get(key):
                shape, old_shape = _value(row[key]), _value(old.get(key))
                yield f"{row['name']} has the {key.replace('_', ' ')} {shape}, but {old_shape} in the baseline"


def _value(value: Any) -> str:
    """Format a value of a document briefly."""
    if value is None:
        return "none"
    if isinstance(value, dict):
        value = ",".join(f"{key}={size}" for key, size in value.items())
    elif isinstance(value, (list, tuple)):
        value = "x".join(map(str, value))
    text = printable(str(value))
    return text if len(text) <= 60 else f"{text[:57]}..."


def _merged(now: list[str], before: list[str]) -> list[str]:
    """Return all names in the current order; removed names follow the last preceding name that still exists."""
    known = set(now)
    removed: dict[str | None, list[str]] = {}
    last = None
    for name in before:
        if name in known:
            last = name
        else:
            removed.setdefault(last, []).append(name)
    return [*removed.get(None, []), *(merged for name in now for merged in (name, *removed.get(name, [])))]


def _compare_row(name: str, before: _Time | None, now: _Time | None, threshold: float) -> ComparedRow:
    if before is None or now is None:
        us = (None if before is None else before.us), (None if now is None else now.us)
        return ComparedRow(name, "added" if before is None else "removed", *us, None)
    change = now.us / before.us - 1 if before.us else None
    critical = {}
    if before.critical and now.critical:
        names = dict.fromkeys((*now.critical, *before.critical))
        critical = {n: round(now.critical.get(n, 0.0) - before.critical.get(n, 0.0), 6) for n in names}
    return ComparedRow(name, _change_status(before.us, now.us, change, threshold), before.us, now.us, change, critical)


def _change_status(before: float, now: float, change: float | None, threshold: float) -> str:
    """Return the status of a row; "same" includes changes that are printed as 0.00 %."""
    if now == before or (change is not None and not round(100 * change, 2)):
        return "same"
    if now < before:
        return "faster"
    return "slower" if now <= before * (1 + threshold) else "regression"


def render_comparison(comparison: BaselineComparison, stream: Any) -> str:
    """Return the comparison as a table for `stream` (or for a file if it is None), followed by the verdict on one
    line."""
    from .console import render_records

    records = [
        (
            row.name,
            _right(row.baseline_us),
            _right(row.latency_us),
            "" if row.change is None else f"{_percent(row.change):>10}",
            _status(row),
        )
        for row in (*comparison.rows, comparison.total)
    ]
    columns = ("layer", f"{'baseline us':>11}", f"{'now us':>11}", f"{'change':>10}", "")
    of = ", an input" if comparison.an_input else ""
    table = render_records(f"compared with {comparison.baseline}{of}", columns, records, stream)
    return f"{table}{verdict(comparison)}\n"


def _status(row: ComparedRow) -> str:
    """Return the status of a row, with its reason."""
    status = row.status.upper() if row.status == "regression" else row.status
    return f"{status}: {row.why}" if row.why and row.status != "same" else status


def verdict(comparison: BaselineComparison) -> str:
    """Return the verdict of the comparison as one line."""
    allowed = f"{100 * comparison.threshold:g} %"
    if comparison.differences:
        total = comparison.total
        change = "" if total.change is None else f", {_percent(total.change)}{f' ({total.why})' if total.why else ''}"
        return f"compared, although the benches differ: {'; '.join(map(printable, comparison.differences))}{change}"
    slow = [
        f"{row.name} ({row.why})" if row.why else row.name
        for row in (*comparison.rows, comparison.total)
        if row.status == "regression"
    ]
    changes = [f"{row.name} {row.status}" for row in comparison.rows if row.status in ("added", "removed")]
    note = f" ({', '.join(map(printable, changes))})" if changes else ""
    if not slow:
        return f"compare passed: nothing is more than {allowed} slower{note}"
    return f"compare FAILED: more than {allowed} slower: {', '.join(map(printable, slow))}{note}"


def _right(value: float | None) -> str:
    return f"{'-' if value is None else f'{value:,.2f}':>11}"


def _percent(change: float) -> str:
    return f"{100 * change:+.2f} %"
