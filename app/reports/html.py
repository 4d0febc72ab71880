"""`--report`: what a command found as one page of HTML that needs nothing else, no network among it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..output import write_output

if TYPE_CHECKING:
    from .regression import BaselineComparison
    from .report import Report


def write_report(
    path: Path | None,
    report: Report,
    timelines: Sequence[tuple[str, Any]] = (),
    comparison: BaselineComparison | None = None,
) -> None:
    """Write a report as a page, whole or not at all; nothing without a path.

    `timelines` are (row, `Launch.timeline`) of launches that follow each other, as `Session.timelines` has them where
    the backend was asked to keep them; without them the page has no timeline. UsageError where the file cannot be
    written.
    """
    if path is None:
        return
    from .html_page import render_page

    write_output(render_page(report, timelines, comparison), path, "--report")
