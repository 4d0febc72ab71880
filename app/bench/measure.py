"""Time the subject of a bench: networks, one kernel, or a suite."""

from __future__ import annotations

import time
from dataclasses import replace

from ...runtime.backend import Backend
from ..backends import choice_note, open_backend
from ..errors import complain
from ..options import RunOptions
from ..reports.report import Report
from .advise import advise
from .kernel import bench_kernel
from .networks import bench_networks
from .subject import BenchSubject
from .suite import bench_suite
from .what_if import Values, another_machine

Timelines = list[tuple[str, object]]  # (row name, timeline) pairs, in launch order


def measure(subject: BenchSubject, options: RunOptions, started: float, constants: Values) -> tuple[Report, Timelines]:
    """Return the report and, if the backend records them, the timelines.

    `constants` overrides constants of the timing model, by target.
    """
    if subject.suite is not None:
        if (ignored := subject.ignored(options)) and not options.quiet:
            complain(f"{', '.join(ignored)}: ignored, because the cases of a suite define these settings")
        options = replace(options, backend="sim", target=None)  # suites are always predicted
    note = choice_note(options.backend)
    backend = open_backend(options)
    target = None if subject.suite is not None else backend.info.target  # suites set their own targets
    with another_machine(backend.info.name, target, constants):
        return _measured(subject, options, started, note, backend)


def _measured(
    subject: BenchSubject, options: RunOptions, started: float, note: str | None, backend: Backend
) -> tuple[Report, Timelines]:
    sizes = subject.sizes
    report = Report.on("bench", subject.model, backend.info, options.dtype)
    report.choice_note, report.wide = note, options.wide
    timelines: Timelines = []
    if subject.suite is not None:
        bench_suite(report, subject.suite, options, subject.sources)
    elif subject.kernel is not None:
        timelines += bench_kernel(report, subject.kernel, sizes or {}, backend, options.verify)
    else:
        timelines += bench_networks(report, subject, backend, options)
        if subject.advise:
            advise(report, subject, options)
    report.host_seconds = time.perf_counter() - started
    return report, timelines
