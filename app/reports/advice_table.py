"""Print advice on making a network faster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding

from .columns import ReportColumn, bound_column, number_column
from .console import cell, print_line, print_table
from .report import NetworkAdvice

if TYPE_CHECKING:
    from ...runtime.advice import WhatIf


def print_advice(console: Console, networks: Sequence[NetworkAdvice]) -> None:
    """Print, for each network, the time that faster resources would save, and numbered advice."""
    for entry in networks:
        print_table(console, f"{entry.network}: with a resource twice as fast", what_if_columns(entry), entry.what_ifs)
        print_line(console, f"{entry.network}: advice", "bold")
        for number, advice in enumerate(entry.advice, 1):
            console.print(Padding(cell(f"{number}. {advice.sentence()}"), (0, 0, 0, 2)))
        if not entry.advice:
            print_line(console, "  no change that was tried saves 3 % or more")
        console.print()


def what_if_columns(advice: NetworkAdvice) -> list[ReportColumn[WhatIf]]:
    """Return the columns that show the times with one resource twice as fast."""
    return [
        bound_column("resource", lambda what: what.resource),
        number_column("critical us", lambda what: what.critical_us),
        number_column("total us", lambda what: what.latency_us),
        number_column(
            "saves", lambda what: what.saved_us / (advice.total_us or 1.0), lambda part: f"{100 * part:.1f} %"
        ),
    ]
