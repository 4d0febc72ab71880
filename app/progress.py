"""A progress bar on standard error, shown only in a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(title: str, total: int, quiet: bool) -> Iterator[Callable[[float], None]]:
    """Yield a function that is called with the number of completed items. No bar is drawn with `quiet` or outside a
    terminal.

    The bar shows the count, the rate and the remaining time.
    """
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeftColumn
    from rich.text import Text

    class RateColumn(ProgressColumn):
        """The rate per second over the last 30 seconds."""

        def render(self, task: Task) -> Text:
            speed = task.speed
            return Text("" if speed is None else f"{speed:.0f}/s" if speed >= 10 else f"{speed:.2g}/s")

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), RateColumn(), TimeLeftColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=total)
        yield lambda done: progress.update(task, completed=done)
