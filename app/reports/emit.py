"""Write a report in the requested format to the requested file or stream."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ..errors import complain
from ..options import Format, ReportFormat
from ..output import stream_of, write_output, write_stderr
from .cells import change_of
from .report import Report


def emit(report: Report, form: ReportFormat, output: Path | None, quiet: bool, csv_safe: bool = False) -> None:
    """Write a report to `output` or standard output; with a machine-readable format, also print its tables to standard
    error."""
    from . import machine as report_machine
    from . import table as report_table

    if form != "table":
        write_output(report_machine.render(report, form, change_of(form, output, csv_safe)), output)
        if not quiet:
            write_stderr(report_table.render_layers(report, sys.stderr))
    else:
        write_output(report_table.render(report, quiet, stream_of(output)), output)
    for problem in report.errors:
        complain(str(problem))


def emit_rows(rows: list[dict[str, Any]], command: str, form: Format, output: Path | None) -> None:
    """Write plain records (models, machine checks) in a machine-readable format."""
    from . import machine as report_machine

    write_output(report_machine.render_rows(rows, command, form, change_of(form, output, False)), output)
