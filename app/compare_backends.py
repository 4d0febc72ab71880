"""`--compare-backends`: the same inputs through the chip and through the simulator, outputs and times side by side."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ..inference.predictions import make_predictions
from ..inference.stream import Batch
from ..models.files import Model
from ..runtime.backend import latency_note
from ..runtime.measure.compare import compare_backends
from ..runtime.session import Result
from ..runtime.sharing.remote import simulator_beside
from ..runtime.verify import Verification, Verifier
from .backends import BackendOptions, open_backend
from .errors import UsageError
from .reports.report import LayerTable, Report


def check_comparison(options: BackendOptions, resume: bool) -> BackendOptions:
    """The options with the chip named as the backend; UsageError where they do not go with a comparison."""
    if options.name == "sim":
        raise UsageError("--compare-backends needs the chip beside the simulator; leave out --backend sim")
    if options.cores > 1:
        raise UsageError("--compare-backends runs on one core; leave out --cores, or give --cores 1")
    if resume:
        raise UsageError("--compare-backends and --resume exclude each other: a comparison is of one run")
    return replace(options, name="neuron")


def run_comparison(
    command: str,
    model: Model,
    batches: Iterable[Batch],
    options: BackendOptions,
    dtype: str,
    batch_size: int,
    top_k: int,
    verify: bool,
) -> Report:
    """Run batches on the chip, each kernel also on the simulator; with `verify`, also the golden model.

    The report has the chip's answers and times, and the comparison. All inputs are held in memory. BackendUnavailable
    where there is no chip.
    """
    chip = open_backend(options)
    names: list[str | int] = []
    values = [np.empty((0, *model.network.input.shape), np.float32)]
    for batch_names, batch in batches:
        names += batch_names
        values.append(batch)
    inputs = np.concatenate(values)
    simulator = simulator_beside(chip.info.target)
    try:
        comparison = compare_backends(model, inputs, chip, simulator, dtype, batch_size)
        note = latency_note(simulator.info)
    finally:
        simulator.close()
    result = comparison.result
    return Report(
        command=command,
        model=model.network.name,
        backend=chip.info.name,
        target=chip.info.target,
        dtype=dtype,
        latency_kind=chip.info.latency_kind,
        latency_note=note,  # of the predictions beside the measurements
        latency_label=chip.info.latency_label,
        comparison=comparison,
        tables=[LayerTable(model.network.name, "", result.layers)],
        predictions=make_predictions(names, model.network.labels, result.classes, result.probabilities, top_k),
        verify=_verify(model, inputs, dtype, batch_size, result) if verify else None,
    )


def _verify(model: Model, inputs: np.ndarray, dtype: str, batch_size: int, result: Result) -> Verification:
    verifier = Verifier(model, dtype)
    for first in range(0, len(inputs), batch_size):
        part = slice(first, first + batch_size)
        verifier.check(inputs[part], result.classes[part], result.probabilities[part])
    return verifier.verdict
