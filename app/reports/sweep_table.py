"""Print a sweep: one row per batch size, target and dtype, and the best points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from ...inference import palette
from .console import Column, cell, print_line, print_rows
from .html_markup import microseconds, percent
from .report import Report
from .resources import short

if TYPE_CHECKING:
    from ...runtime.sweep import SweepPoint


def _columns_of_cores(points: Sequence[SweepPoint]) -> list[Column]:
    """Return the columns of points that several cores share; empty if none are."""
    cores = next((point.cores for point in points if point.cores is not None), None)
    if cores is None:
        return []
    return [
        _numbers(f"us on {cores} cores", [microseconds(p.cores_total_us or 0.0) for p in points], 1),
        _numbers(f"inputs/s on {cores}", [f"{p.cores_inputs_per_second or 0.0:,.0f}" for p in points], 1),
    ]


def print_sweep(console: Console, report: Report) -> None:
    """Print the points, and one line for each best point."""
    columns = _columns(report, report.sweep or [])
    title = "one batch of each size" if report.lnc == 1 else f"one batch of each size, LNC {report.lnc}"
    print_rows(console, title, columns, report.wide)
    for line in best_lines(report):
        print_line(console, line)
    console.print()


def _columns(report: Report, points: Sequence[SweepPoint]) -> list[Column]:
    """Return the columns of the table; networks and input shapes have a high rank if they differ."""

    def texts(heading: str, show: Callable[[SweepPoint], Text], rank: int = 0) -> Column:
        return Column(heading, [show(point) for point in points], False, rank)

    def numbers(heading: str, show: Callable[[SweepPoint], str], rank: int) -> Column:
        return Column(heading, [cell(show(point)) for point in points], rank=rank)

    networks = len({point.network for point in points})
    network_rank = 0 if networks > 1 else 9
    shape_rank = 0 if len({point.input_shape for point in points}) > networks else 10
    return [
        texts("batch", lambda point: cell(f"{point.batch_size}{' *' * point.best}", "bold")),
        texts("network", lambda point: cell(point.network), network_rank),
        texts("input", lambda point: cell("x".join(map(str, point.input_shape))), shape_rank),
        texts("target", lambda point: cell(point.target), 2),
        texts("dtype", lambda point: cell(point.dtype), 2),
        numbers(f"{report.latency_kind} us", lambda point: microseconds(point.total_us), 0),
        numbers("us an input", lambda point: microseconds(point.us_per_input), 1),
        numbers("inputs/s", lambda point: f"{point.inputs_per_second:,.0f}", 0),
        texts("bound by", _bound, 3),
        numbers("MFU", lambda point: _share(point.mfu), 4),
        numbers("HFU", lambda point: _share(point.hfu), 7),
        numbers("SBUF peak", lambda point: _kib(point.sbuf_peak_bytes), 6),
        numbers("x floor", lambda point: "-" if point.times_floor is None else f"{point.times_floor:.2f}", 5),
        *_columns_of_cores(points),
    ]


def _numbers(heading: str, texts: Sequence[str], rank: int) -> Column:
    return Column(heading, [cell(text) for text in texts], rank=rank)


def _bound(point: SweepPoint) -> Text:
    return cell(short(point.bound_by), palette.TERMINAL_STYLES.get(point.bound_by or "", ""))


def best_lines(report: Report) -> list[str]:
    """Return one line per network, target and dtype that states the batch size with the highest throughput."""
    points, limit = report.sweep or [], report.latency_limit_us
    within = "" if limit is None else f" within {limit:g} us"
    several = [len(set(values)) > 1 for values in zip(*map(_key, points))]
    lines = []
    for key in dict.fromkeys(map(_key, points)):
        where = " ".join(name for name, is_one_of in zip(key, (several[0], True, True, several[3])) if is_one_of)
        lines.append(f"* {where}: {_best_of([point for point in points if _key(point) == key], within)}")
    return lines


def _best_of(points: Sequence[SweepPoint], within: str) -> str:
    """Describe the batch size with the highest throughput; `within`: the limit of the latency, in words."""
    best = next((point for point in points if point.best), None)
    if best is None:
        least = min(point.total_us for point in points)
        return f"no batch is{within}; the fastest takes {microseconds(least)} us"
    return (
        f"highest throughput{within} by a batch of {best.batch_size}, "
        f"{best.inputs_per_second:,.0f} at {microseconds(best.total_us)} us per batch"
    )


def _key(point: SweepPoint) -> tuple[str, str, str, str]:
    return point.network, point.target, point.dtype, "x".join(map(str, point.input_shape))


def _share(value: float | None) -> str:
    return "-" if value is None else percent(value)


def _kib(size: int | None) -> str:
    return "-" if size is None else f"{size / 1024:.1f} KiB"
