"""A sweep as a table: a row each batch size, target and dtype, and the best of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from .console import Columns, cell, print_line, print_pairs
from .html_markup import percent
from .report import Report
from .resources import short

if TYPE_CHECKING:
    from ...runtime.sweep import SweepPoint


def print_sweep(console: Console, report: Report) -> None:
    """The points, and a line for each best one."""
    points = report.sweep or []
    rates = [(cell(_number(p.us_per_input)), cell(f"{p.inputs_per_second:,.0f}")) for p in points]
    used = [(cell(_share(p.mfu)), cell(_share(p.hfu))) for p in points]
    floors = ["-" if p.times_floor is None else f"{p.times_floor:.2f}" for p in points]
    columns: list[Columns] = [
        (("batch", "network"), [(cell(f"{p.batch_size}{' *' * p.best}", "bold"), cell(p.network)) for p in points]),
        (("target", "dtype"), [(cell(p.target), cell(p.dtype)) for p in points]),
        (
            (f"{report.latency_kind} us", "bound by"),
            [(cell(_number(p.total_us), "bold"), cell(short(p.bound_by))) for p in points],
        ),
        (("us an input", "inputs/s"), rates),
        (("MFU", "HFU"), used),
        (("SBUF peak", "x floor"), [(cell(_kib(p.sbuf_peak_bytes)), cell(f)) for p, f in zip(points, floors)]),
    ]
    cores = next((p.cores for p in points if p.cores is not None), None)
    if cores is not None:
        columns.append(
            (
                (f"us on {cores} cores", "inputs/s"),
                [
                    (cell(_number(p.cores_total_us or 0.0)), cell(f"{p.cores_inputs_per_second or 0.0:,.0f}"))
                    for p in points
                ],
            )
        )
    title = "one batch of each size" if report.lnc == 1 else f"one batch of each size, LNC {report.lnc}"
    print_pairs(console, title, columns)
    for line in best_lines(report):
        print_line(console, line)
    console.print()


def best_lines(report: Report) -> list[str]:
    """A line for each network, target and dtype: the batch with most inputs a second."""
    points, limit = report.sweep or [], report.latency_limit_us
    lines = []
    within = "" if limit is None else f" within {limit:g} us"
    for key in dict.fromkeys(_key(point) for point in points):
        best = next((point for point in points if _key(point) == key and point.best), None)
        where = " ".join(key[1:]) if len({p.network for p in points}) == 1 else " ".join(key)
        if best is None:
            least = min(point.total_us for point in points if _key(point) == key)
            lines.append(f"* {where}: no batch is{within}; the quickest takes {_number(least)} us")
        else:
            lines.append(
                f"* {where}: most inputs a second{within} by a batch of {best.batch_size}, "
                f"{best.inputs_per_second:,.0f} at {_number(best.total_us)} us a batch"
            )
    return lines


def _key(point: SweepPoint) -> tuple[str, str, str]:
    return point.network, point.target, point.dtype


def _share(value: float | None) -> str:
    return "-" if value is None else percent(value)


def _kib(size: int | None) -> str:
    return "-" if size is None else f"{size / 1024:.1f} KiB"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
