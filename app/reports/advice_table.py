"""Print advice on making a network faster."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding

from .console import cell, new_table, print_line
from .report import NetworkAdvice
from .resources import short


def print_advice(console: Console, networks: Sequence[NetworkAdvice]) -> None:
    """Print, for each network, the time that faster resources would save, and numbered advice."""
    for each in networks:
        table = new_table(f"{each.network}: a resource twice as fast")
        table.add_column("resource")
        for heading in ("critical us", "then us", "saves"):
            table.add_column(heading, justify="right")
        for what in each.what_ifs:
            saved = what.saved_us / each.total_us if each.total_us else 0.0
            table.add_row(
                cell(short(what.resource)), f"{what.critical_us:.2f}", f"{what.latency_us:.2f}", f"{100 * saved:.1f} %"
            )
        console.print(table)
        print_line(console, f"{each.network}: advice", "bold")
        for number, advice in enumerate(each.advice, 1):
            console.print(Padding(cell(f"{number}. {advice.sentence()}"), (0, 0, 0, 2)))
        if not each.advice:
            print_line(console, "  no change that was tried gains 3 % or more")
        console.print()
