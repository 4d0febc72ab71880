"""Time every combination of batch size, target and dtype."""

from __future__ import annotations

import time
from dataclasses import replace

from ...models.bundled import bundled_models
from ...models.files import Model
from ...runtime.backend import Backend, latency_note
from ...runtime.floor import floor_of
from ...runtime.simulated import what_if
from ...runtime.sweep import SweepPoint, marked, shared_hbm, sweep_point, with_cores
from ..backends import choice_note, load, open_backend, session_on
from ..errors import UsageError
from ..options import RunOptions
from ..progress import progress_bar
from ..reports.report import Report
from .subject import BenchSubject
from .sweep_options import SweepOptions, microseconds
from .what_if import Values, another_machine


def check_sweep(
    subject: BenchSubject, options: RunOptions, compared: bool, cores: int | None, sizes: bool = False
) -> None:
    """Raise UsageError for options that are supported only for a single combination."""
    if subject.suite is not None or subject.kernel is not None:
        raise UsageError(
            "--latency-limit, --cores, and several values of --batch-size, --target or --dtype require a network"
        )
    if sizes and subject.model is None:
        raise UsageError("--input-size requires --model FILE.onnx")
    if cores is not None and options.lnc > 1:
        raise UsageError("bench --cores runs separate batches on each NeuronCore; omit --lnc")
    options_given = {
        "--verify": options.verify,
        "--trace": options.trace is not None,
        "--compare": compared,
        "--advise": subject.advise,
        "--show-lowering": subject.show_lowering,
        "--graph": subject.graph is not None,
        "--format markdown": options.form == "markdown",
    }
    wrong = [option for option, is_given in options_given.items() if is_given]
    if wrong:
        raise UsageError(
            f"{' and '.join(wrong)}: not supported in a sweep; use a single --batch-size, --target and --dtype"
        )


def _check_backend(backend: Backend, sweep: SweepOptions) -> None:
    """Raise UsageError if a sweep needs predicted times and the backend measures them."""
    if backend.info.latency_kind != "predicted" and (sweep.cores or len(sweep.target or ()) > 1):
        raise UsageError("--cores and several values of --target require predicted times; add --backend sim")


def bench_sweep(
    subject: BenchSubject, sweep: SweepOptions, options: RunOptions, constants: Values, started: float
) -> Report:
    """Return a report with one point for each combination and network."""
    limit = microseconds(sweep.latency_limit)
    names = [subject.model] if subject.model is not None else [bundled.name for bundled in bundled_models()]
    models = [load(name, options.quiet, size) for name in names for size in sweep.input_size or (None,)]
    combinations = list(sweep.combinations(options))
    note = choice_note(options.backend)
    points: list[SweepPoint] = []
    report: Report | None = None
    with progress_bar("sweep", len(models) * len(combinations), options.quiet) as progress:
        for model in models:
            for combination in combinations:
                backend = open_backend(combination)
                _check_backend(backend, sweep)
                report = report or Report.on(
                    "bench", subject.model and model.network.name, backend.info, combination.dtype
                )
                points.append(_point(model, combination, constants, sweep.cores))
                progress(len(points))
    assert report is not None
    report.sweep = marked(points, limit)
    report.latency_limit_us = limit
    report.target = ",".join(dict.fromkeys(point.target for point in points))
    report.dtype = ",".join(dict.fromkeys(point.dtype for point in points))
    report.choice_note, report.wide = note, options.wide
    notes = [latency_note(open_backend(combination).info) for combination in combinations]
    report.latency_note = "; ".join(dict.fromkeys(message for message in notes if message)) or None
    report.host_seconds = time.perf_counter() - started
    return report


def _point(model: Model, options: RunOptions, constants: Values, cores: int | None) -> SweepPoint:
    batch, dtype, name = options.batch_size, options.dtype, model.network.name
    backend = open_backend(options)
    target = backend.info.target
    with another_machine(backend.info.name, target, constants):
        layers = session_on(backend, model, options).time(batch).layers
        floor = floor_of(model.network, dtype, batch, target, options.lnc).latency_us
        point = replace(sweep_point(name, target, dtype, batch, layers, floor), input_shape=model.network.input.shape)
        if cores is None:
            return point
        with what_if(shared_hbm(target, cores), target):
            shared = session_on(open_backend(options), model, options).time(batch)
        return with_cores(point, cores, shared.total_us)
