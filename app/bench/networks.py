"""Time networks layer by layer."""

from __future__ import annotations

import numpy as np

from ...models.bundled import bundled_models
from ...runtime.backend import EIGHT_BITS, Backend
from ...runtime.calibration import Calibration, own_calibration
from ...runtime.floor import floor_of
from ...runtime.session import Result, Session
from ...runtime.verify import Verification, Verifier, merge
from ..backends import load, session_on
from ..calibration import agreement_of, is_compared, read_calibration
from ..options import RunOptions
from ..output import write_output
from ..reports.network_graph import GraphTitle, render_graph
from ..reports.report import LayerTable, NetworkLowering, Report
from .subject import BenchSubject


def bench_networks(
    report: Report, subject: BenchSubject, backend: Backend, options: RunOptions
) -> list[tuple[str, object]]:
    """Add the layers of one model, or of all bundled models, to the report, together with their lowering if requested;
    return the timelines."""
    model = subject.model
    names = [model] if model is not None else [bundled.name for bundled in bundled_models()]
    verdicts: list[Verification] = []
    timelines: list[tuple[str, object]] = []
    for name in names:
        loaded = load(name, options.quiet)
        network = loaded.network.name
        report.model = network if model is not None else None
        calibration = read_calibration(options.calibrate, loaded)
        session = session_on(backend, loaded, options, calibration)
        result, verdict = _bench_network(session, options.verify, calibration)
        if is_compared(options):
            report.agreement = agreement_of(session, calibration, options.batch_size)
        if verdict is not None:
            verdicts.append(verdict)
        prefix = "" if len(names) == 1 else f"{network}/"
        title = f"{network}: a batch of {options.batch_size}"
        floor = floor_of(loaded.network, report.dtype, options.batch_size, backend.info.target, options.lnc)
        table = LayerTable(title, prefix, result.layers, floor)
        report.tables.append(table)
        _add_views(report, subject, session, table)
        timelines += [(f"{prefix}{row}", timeline) for row, timeline in result.timelines]
    if verdicts:
        report.verify = merge(verdicts)
    return timelines


def _add_views(report: Report, subject: BenchSubject, session: Session, table: LayerTable) -> None:
    """Add the lowering of a network to the report and write its graph, if requested."""
    network, target, batch = session.model.network, session.info.target, session.batch_size
    if subject.show_lowering:
        lowering = NetworkLowering(network.name, report.dtype, batch, target, session.show(batch))
        report.lowering = [*(report.lowering or []), lowering]
    if subject.graph is not None:
        title = GraphTitle(report.latency_kind, target, report.dtype, batch)
        write_output(render_graph(network, table, title), subject.graph, "--graph")


def _bench_network(
    session: Session, verify: bool, calibration: Calibration | None
) -> tuple[Result, Verification | None]:
    """Return the result of one batch. With `verify`, run random inputs and compare the outputs with the golden model.

    An 8-bit network is run on its calibration inputs, since random inputs may exceed the range of its scales.
    """
    if not verify:
        return session.time(session.batch_size), None
    shape = (session.batch_size, *session.model.network.input.shape)
    verifier = Verifier(session.model, session.dtype, session.info.latency_kind == "measured")
    if session.dtype == EIGHT_BITS:
        known = (calibration or own_calibration(session.model.network)).inputs
        inputs = known[np.arange(session.batch_size) % len(known)]
    else:
        inputs = np.random.default_rng(0).standard_normal(shape, np.float32)
    result = session.run(inputs)
    verifier.check(inputs, result.classes, result.probabilities)
    return result, verifier.verdict
