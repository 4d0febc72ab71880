"""`--compare-backends`: run the same inputs on the chip and on the simulator, and compare outputs and times."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..inference.predictions import make_predictions
from ..inference.stream import Batch, SourceBatch
from ..models.files import Model
from ..runtime.backend import latency_note
from ..runtime.measure.compare import compare_backends
from ..runtime.session import Result
from ..runtime.simulated import SimulatedBackend
from ..runtime.verify import Verification, Verifier
from .backends import open_backend
from .options import AnswerOptions
from .reports.report import LayerTable, Report


def run_comparison(
    command: str, model: Model, batches: Iterable[Batch] | Iterable[SourceBatch], options: AnswerOptions, top_k: int
) -> Report:
    """Run the batches on the chip, and each kernel also on the simulator; with --verify, also run the golden model.

    The report contains the predictions and times of the chip, and the comparison. All inputs are held in memory. Raises
    BackendUnavailable if there is no chip.
    """
    chip = open_backend(options)
    names: list[str | int] = []
    values = [np.empty((0, *model.network.input.shape), np.float32)]
    for batch_names, batch in batches:
        names += batch_names
        values.append(np.asarray(batch))  # batches are always arrays here
    inputs = np.concatenate(values)
    report = Report.on(command, model.network.name, chip.info, options.dtype)
    simulator = SimulatedBackend(chip.info.target)
    report.comparison = compare_backends(model, inputs, chip, simulator, options.dtype, options.batch_size)
    report.latency_note = latency_note(simulator.info)  # the note describes the predicted times
    result = report.comparison.result
    report.tables = [LayerTable(model.network.name, "", result.layers)]
    report.predictions = make_predictions(names, model.network, result.classes, result.probabilities, top_k)
    report.verify = _verify(model, inputs, options, result) if options.verify else None
    return report


def _verify(model: Model, inputs: np.ndarray, options: AnswerOptions, result: Result) -> Verification:
    verifier = Verifier(model, options.dtype, measured=True)
    for first in range(0, len(inputs), options.batch_size):
        part = slice(first, first + options.batch_size)
        verifier.check(inputs[part], result.classes[part], result.probabilities[part])
    return verifier.verdict
