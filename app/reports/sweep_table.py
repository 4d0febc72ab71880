"""Print a sweep: one row per batch size, target and dtype, and the best points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from .columns import ReportColumn, bound_column, filled, number_column
from .console import figures, print_line, print_rows
from .html_markup import microseconds, percent, shape_text
from .report import Report

if TYPE_CHECKING:
    from ...runtime.sweep import SweepPoint


def print_sweep(console: Console, report: Report) -> None:
    """Print the points, and one line for each best point."""
    title = "one batch of each size" if report.lnc == 1 else f"one batch of each size, LNC {report.lnc}"
    points = report.sweep or []
    print_rows(console, title, figures(sweep_columns(report, points), points), report.wide)
    for line in best_lines(report):
        print_line(console, line)
    console.print()


def sweep_columns(report: Report, points: Sequence[SweepPoint]) -> list[ReportColumn[SweepPoint]]:
    """Return the columns of the table. Networks and input shapes are dropped first unless they differ between rows."""
    networks = len({point.network for point in points})
    network_rank = 0 if networks > 1 else 9
    shape_rank = 0 if len({point.input_shape for point in points}) > networks else 10
    cores = next((point.cores for point in points if point.cores is not None), None)
    columns: list[ReportColumn[SweepPoint]] = [
        ReportColumn("batch", _batch, "name", lambda point: point.batch_size),
        ReportColumn("network", lambda point: point.network, rank=network_rank),
        ReportColumn("input", lambda point: shape_text(point.input_shape), rank=shape_rank),
        ReportColumn("target", lambda point: point.target, rank=2),
        ReportColumn("dtype", lambda point: point.dtype, rank=2),
        number_column(f"{report.latency_kind} us", lambda point: point.total_us),
        number_column("us/input", lambda point: point.us_per_input, rank=1),
        number_column("inputs/s", lambda point: point.inputs_per_second, "{:,.0f}".format, kind="rate"),
        bound_column("bound by", lambda point: point.bound_by, 3),
        number_column("MFU", lambda point: point.mfu, percent, 4),
        number_column("HFU", lambda point: point.hfu, percent, 7),
        number_column("SBUF peak", lambda point: point.sbuf_peak_bytes, lambda size: f"{size / 1024:.1f} KiB", 6),
        number_column("\u00d7 floor", lambda point: point.times_floor, "{:.2f}".format, 5),
        number_column(f"us on {cores} cores", lambda point: point.cores_total_us, rank=1),
        number_column(f"inputs/s on {cores}", lambda point: point.cores_inputs_per_second, "{:,.0f}".format, rank=1),
    ]
    return filled(columns, points)


def _batch(point: SweepPoint) -> str:
    return f"{point.batch_size} \u2605" if point.best else str(point.batch_size)


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
    """Describe the batch size with the highest throughput; `within` is the latency limit as text."""
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
