"""Time the cases of a published suite."""

from __future__ import annotations

from pathlib import Path

from ...runtime.measure.published import SourceError
from ...runtime.measure.suites import load_suite, run_suite
from ..errors import UsageError
from ..options import RunOptions
from ..progress import progress_bar
from ..reports.report import Report


def bench_suite(report: Report, suite: str, options: RunOptions, sources: Path | None = None) -> None:
    """Add the cases of a suite to the report. `sources` is a folder that contains checkouts of the published
    kernels."""
    cases = load_suite(suite)
    report.model = suite
    report.latency_note = None
    report.target = ",".join(dict.fromkeys(case.target for case in cases))
    report.dtype = ",".join(dict.fromkeys(case.dtype for case in cases))
    with progress_bar(suite, len(cases), options.quiet) as progress:
        try:
            report.suite = list(run_suite(suite, lambda done, total, name: progress(done), sources))
        except SourceError as error:
            raise UsageError(f"--sources {error}") from None
