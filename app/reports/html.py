"""`--report`: write the results of a command as a single self-contained HTML page that loads no external resources."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..output import write_output

if TYPE_CHECKING:
    from ...simulator import Run
    from .regression import BaselineComparison
    from .report import Report


def write_report(
    path: Path | None,
    report: Report,
    timelines: Sequence[tuple[str, Any]] = (),
    comparison: BaselineComparison | None = None,
) -> None:
    """Write a report as an HTML page, atomically; do nothing if there is no path.

    `timelines` are (row name, `Launch.timeline`) pairs of consecutive launches, as in `Session.timelines` if the
    backend records them; without them, the page contains no timeline. Raises UsageError if the file is not writable.
    """
    if path is None:
        return
    from .html_page import render_page

    write_output(render_page(report, timelines, comparison), path, "--report")


def page_of_launches(source: str, runs: Sequence[Run], seconds: float) -> str:
    """Return a page for the kernels that a script launched on the simulator, in launch order."""
    from ...runtime.backend import BackendInfo
    from ...runtime.simulated import predicted_time
    from ...runtime.timing import Row, Totals
    from .html_page import render_page
    from .report import LayerTable, Report

    targets = ",".join(dict.fromkeys(run.target for run in runs)) or "trn2"
    report = Report.on("simulate", source, BackendInfo("sim", targets, "predicted", "predicted"), "")
    notes = dict.fromkeys(run.note for run in runs if run.note)
    report.latency_note = "; ".join(notes) or None
    report.host_seconds = seconds
    names = _numbered([run.name for run in runs])
    totals = Totals([Row(name, run.name, (), ()) for name, run in zip(names, runs)])
    if runs:
        totals.add(1, [predicted_time(run) for run in runs])
        report.tables.append(LayerTable(source, "", totals.layers()))
    return render_page(report, list(zip(names, runs)), None)


def _numbered(names: Sequence[str]) -> list[str]:
    """Append a number to each name that occurs more than once."""
    counts: dict[str, int] = {}
    numbered = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        numbered.append(name if counts[name] == 1 else f"{name} #{counts[name]}")
    return numbered
