"""`bench --compare`: the times of a bench beside those of an earlier one, and whether any got too slow.

Both sides are JSON documents of schema_version 1. They must tell of the same thing: the same networks, kernel or suite,
at the same shapes, in the same dtype, for the same target, and both measured or both predicted.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from ..errors import UsageError, reason
from ..text import printable

DEFAULT_THRESHOLD = "5%"
MAX_BYTES = 64 << 20  # of a baseline: a bench of a hundred layers takes 40 KB


@dataclass(frozen=True)
class ComparedRow:
    """A layer, or a case of a suite. `change` is relative to the baseline, 0.05 for 5 % slower, and None where
    there is nothing to compare with."""

    name: str
    status: str  # same, faster, slower, regression, added or removed
    baseline_us: float | None
    latency_us: float | None
    change: float | None


@dataclass(frozen=True)
class BaselineComparison:
    """All rows, and the total as one more. A regression is a change beyond the threshold (0.05 for 5 %)."""

    baseline: str
    threshold: float
    rows: tuple[ComparedRow, ...]
    total: ComparedRow

    @property
    def passed(self) -> bool:
        """Whether neither a row nor the total got slower by more than the threshold."""
        return not any(row.status == "regression" for row in (*self.rows, self.total))

    def section(self) -> dict[str, Any]:
        """The `compare` section of the JSON document."""
        rows = [dict(vars(row)) for row in self.rows]
        return {
            "baseline": printable(self.baseline),
            "threshold": self.threshold,
            "passed": self.passed,
            "baseline_total_us": self.total.baseline_us,
            "change": self.total.change,
            "rows": rows,
        }


def parse_threshold(text: str) -> float:
    """`5%` as 0.05; UsageError for what is no percentage, and for one without its sign, which might be a fraction."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*%\s*", text)
    if match is None:
        raise UsageError(f"--threshold {text!r}: not a percentage, as in 5% or 0.5%")
    value = float(match[1]) / 100
    if not math.isfinite(value):
        raise UsageError(f"--threshold {text!r}: too large")
    return value


def read_baseline(path: Path) -> dict[str, Any]:
    """The document of an earlier bench; UsageError where the file is something else."""
    name = f"--compare {path}"
    if path.exists() and not path.is_file():
        raise UsageError(f"{name}: not a regular file")
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"{name}: larger than {MAX_BYTES >> 20} MiB, so no report of a bench")
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
    """The rows of a bench's document beside a baseline's; UsageError, which tells all that differs, where they are not
    of the same thing."""
    kinds = document["latency_kind"], baseline["latency_kind"]
    if kinds[0] != kinds[1]:
        raise UsageError(f"--compare {path}: its times are {kinds[1]}, these are {kinds[0]}; the two are not compared")
    differences = list(_differences(document, baseline))
    if differences:
        raise UsageError(f"--compare {path}: not of the same bench: {'; '.join(differences)}")
    now, before = _times(document), _times(baseline)
    rows = [_compare_row(name, before.get(name), now.get(name), threshold) for name in _merged(list(now), list(before))]
    total = _compare_row("total", sum(before.values()), sum(now.values()), threshold)
    return BaselineComparison(str(path), threshold, tuple(rows), total)


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


def _what_is_wrong(document: Any) -> str | None:
    """The first thing that keeps a document from being a bench's; None where it is one."""
    if not isinstance(document, dict) or document.get("schema_version") != 1:
        return "its schema_version is not 1"
    if document.get("command") != "bench":
        return f"it is one of {str(document.get('command'))[:40]!r}"
    if not isinstance(document.get("bench"), dict):
        return "it lacks the section 'bench'"
    for key in ("latency_kind", "latency_label", "target", "dtype"):
        if not isinstance(document.get(key), str):
            return f"its {key} is no text"
    key = "suite" if "suite" in document else "layers"
    rows = document.get(key)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return f"its {key} are no list of rows"
    time = _time_key(document)
    if not all(isinstance(row.get("name"), str) and _is_time(row.get(time)) for row in rows):
        return f"a row of its {key} lacks a name or a time"
    if len({row["name"] for row in rows}) < len(rows):
        return f"two rows of its {key} have one name"
    return None


def _is_time(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e300


def _time_key(document: dict[str, Any]) -> str:
    return "predicted_us" if "suite" in document else "latency_us"


def _times(document: dict[str, Any]) -> dict[str, float]:
    rows = document["suite"] if "suite" in document else document["layers"]
    return {row["name"]: float(row[_time_key(document)]) for row in rows}


def _differences(document: dict[str, Any], baseline: dict[str, Any]) -> Iterator[str]:
    """In words, what was asked for here and what the baseline has of it."""
    if ("suite" in document) != ("suite" in baseline):
        yield "one is of a suite, the other is not"
    pairs = [(key, document[key], baseline.get(key)) for key in ("latency_label", "model", "target", "dtype")]
    pairs += [(key, value, baseline["bench"].get(key)) for key, value in document["bench"].items()]
    for key, here, there in pairs:
        if here != there:
            yield f"{key.replace('_', ' ')} {_value(here)}, in the baseline {_value(there)}"
    shapes = {row["name"]: row for row in baseline.get("layers", []) if "suite" not in baseline}
    for row in document["layers"]:
        old = shapes.get(row["name"])
        for key in ("input_shape", "output_shape"):
            if old is not None and list(row[key]) != old.get(key):
                yield f"{row['name']} has the {key.replace('_', ' ')} {_value(row[key])}, there {_value(old.get(key))}"


def _value(value: Any) -> str:
    """A value of a document in few words."""
    if value is None:
        return "none"
    if isinstance(value, dict):
        value = ",".join(f"{key}={size}" for key, size in value.items())
    elif isinstance(value, (list, tuple)):
        value = "x".join(map(str, value))
    text = printable(str(value))
    return text if len(text) <= 60 else f"{text[:57]}..."


def _merged(now: list[str], before: list[str]) -> list[str]:
    """All names in today's order, each one that went after the last that is still there."""
    known = set(now)
    removed: dict[str | None, list[str]] = {}
    last = None
    for name in before:
        if name in known:
            last = name
        else:
            removed.setdefault(last, []).append(name)
    return [*removed.get(None, []), *(merged for name in now for merged in (name, *removed.get(name, [])))]


def _compare_row(name: str, before: float | None, now: float | None, threshold: float) -> ComparedRow:
    if before is None or now is None:
        return ComparedRow(name, "added" if before is None else "removed", before, now, None)
    change = now / before - 1 if before else None
    if now == before:
        status = "same"
    elif now < before:
        status = "faster"
    else:
        status = "slower" if now <= before * (1 + threshold) else "regression"
    return ComparedRow(name, status, before, now, change)


def render_comparison(comparison: BaselineComparison, stream: Any) -> str:
    """The comparison as a table for `stream` (a file where it is None), and the verdict in a line."""
    from .console import render_records

    records = [
        (
            row.name,
            _right(row.baseline_us),
            _right(row.latency_us),
            "" if row.change is None else f"{_percent(row.change):>10}",
            row.status.upper() if row.status == "regression" else row.status,
        )
        for row in (*comparison.rows, comparison.total)
    ]
    columns = ("layer", f"{'baseline us':>11}", f"{'now us':>11}", f"{'change':>10}", "")
    table = render_records(f"compared with {comparison.baseline}", columns, records, stream)
    return f"{table}{verdict(comparison)}\n"


def verdict(comparison: BaselineComparison) -> str:
    """What became of the comparison, in a line."""
    allowed = f"{100 * comparison.threshold:g} %"
    slow = [row.name for row in (*comparison.rows, comparison.total) if row.status == "regression"]
    changed = [f"{row.name} {row.status}" for row in comparison.rows if row.status in ("added", "removed")]
    note = f" ({', '.join(map(printable, changed))})" if changed else ""
    if not slow:
        return f"compare passed: nothing is more than {allowed} slower{note}"
    return f"compare FAILED: more than {allowed} slower: {', '.join(map(printable, slow))}{note}"


def _right(value: float | None) -> str:
    return f"{'-' if value is None else f'{value:,.2f}':>11}"


def _percent(change: float) -> str:
    return f"{100 * change:+.2f} %"
