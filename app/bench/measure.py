"""Timing what a bench is of: networks, one kernel, or a suite."""

from __future__ import annotations

import time
from dataclasses import replace

from ..backends import choice_note, open_backend
from ..options import BackendName, RunOptions
from ..reports.report import Report
from .kernel import bench_kernel
from .networks import bench_networks
from .subject import BenchSubject
from .suite import bench_suite

Timelines = list[tuple[str, object]]  # row and timeline, in the order of the launches


def measure(subject: BenchSubject, options: RunOptions, started: float) -> tuple[Report, Timelines]:
    """The report on what was timed, and its timelines where the backend keeps them."""
    if subject.suite is not None:
        options = replace(options, backend=BackendName.sim)  # a suite is predicted, whatever is here
    sizes = subject.sizes
    note = choice_note(options.backend.value)
    backend = open_backend(options)
    report = Report.on("bench", subject.model, backend.info, options.dtype.value)
    report.choice_note = note
    timelines: Timelines = []
    if subject.suite is not None:
        bench_suite(report, subject.suite, options)
    elif subject.kernel is not None:
        timelines += bench_kernel(report, subject.kernel, sizes or {}, backend, options.verify)
    else:
        timelines += bench_networks(report, subject.model, backend, options)
    report.host_seconds = time.perf_counter() - started
    return report, timelines
