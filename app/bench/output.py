"""Write the report of a bench, including its additional sections."""

from __future__ import annotations

import json
import sys
from typing import Any

from ..options import RunOptions
from ..output import stream_of, write_output, write_stderr
from ..reports import machine as report_machine
from ..reports import table as report_table
from ..reports.cells import change_of
from ..reports.lowering import render_lowering
from ..reports.regression import BaselineComparison, render_comparison
from ..reports.report import Report
from .subject import BenchSubject


def bench_section(subject: BenchSubject, options: RunOptions) -> dict[str, Any]:
    """Return the `bench` section of the JSON document, against which later comparisons are checked."""
    networks = subject.suite is None and subject.kernel is None
    batch_size = options.batch_size if networks else None
    return {"kernel": subject.kernel, "shape": subject.sizes, "batch_size": batch_size}


def write_bench(
    report: Report, section: dict[str, Any], comparison: BaselineComparison | None, options: RunOptions
) -> None:
    """Write a report as `reports.emit` does, with the additional sections of a bench, each of which is a field in JSON
    and a line in NDJSON.

    The comparison is also printed as a table, on standard error if a machine-readable format is written to standard
    output.
    """
    output = options.output
    if options.form == "table":
        stream = stream_of(output)
        text = render_lowering(report.lowering or [])
        text += report_table.render(report, options.quiet, stream)
        text += render_comparison(comparison, stream) if comparison is not None else ""
        write_output(text, output)
        return
    sections = {"bench": section} if comparison is None else {"bench": section, "compare": comparison.section()}
    text = report_machine.render(report, options.form, change_of(options.form, output, options.csv_safe))
    if options.form == "json":
        text = json.dumps({**json.loads(text), **sections}, indent=2) + "\n"
    elif options.form == "ndjson":
        text += "".join(json.dumps({"type": kind, **fields}) + "\n" for kind, fields in sections.items())
    write_output(text, output)
    if not options.quiet:
        if options.form == "csv":
            write_stderr(render_lowering(report.lowering or []))
        write_stderr(report_table.render_layers(report, sys.stderr))
        write_stderr(render_comparison(comparison, sys.stderr) if comparison is not None else "")
