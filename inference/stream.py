"""Run batches of named inputs one after the other. The predictions of each batch are passed on before the next batch
runs."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..runtime.session import BatchAnswer, BatchSession
from ..runtime.timing import LayerTiming, Totals, named_timelines
from ..runtime.verify import Verification, Verifier
from .predictions import MakePredictions, PredictionSink

Batch = tuple[Sequence["str | int"], np.ndarray]  # names of the inputs, and the inputs
SourceBatch = tuple[Sequence["str | int"], Sequence[Any]]  # names of the inputs, and the sources that workers decode

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class StreamResult:
    """The totals after all batches have been run.

    `worker_us` is the time of each worker, keyed by number; the timelines are from the first batch.
    """

    count: int
    layers: tuple[LayerTiming, ...]
    worker_us: dict[int, float]
    verification: Verification | None
    timelines: tuple[tuple[str, object], ...]


def answer_batches(
    session: BatchSession,
    batches: Iterable[Batch] | Iterable[SourceBatch],
    answers: PredictionSink,
    make: MakePredictions,
    progress: Callable[[float], None],
    verify_as: str | None = None,
    refuse: Callable[[str | int, str], None] = lambda name, reason: None,
) -> StreamResult:
    """Convert the outputs of batches to predictions with `make` and add them to `answers`, in order, until no more are
    accepted.

    `verify_as` is the dtype whose tolerance applies to the comparison with the golden model; in that case, the inputs
    are arrays. `progress` is called with the number of inputs processed so far, and `refuse` with the name of an input
    without a prediction and the reason.
    """
    network = session.model.network
    waiting: deque[tuple[Sequence[str | int], Any]] = deque()  # batches passed to the session that have no result yet
    totals = Totals(session.rows)
    measured = session.info.latency_kind == "measured"
    verifier = Verifier(session.model, verify_as, measured) if verify_as is not None else None
    timelines: tuple[tuple[str, object], ...] = ()

    def taken() -> Iterator[Any]:
        for names, inputs in batches:
            waiting.append((names, inputs))
            yield inputs

    for answer in session.stream(taken(), progress):
        names, inputs = waiting.popleft()
        answered = _answered(names, answer, refuse)
        if not answered:
            continue
        names = [names[position] for position in answered]
        totals.add(answer.size, answer.times, answer.worker)
        _LOG.debug("%d inputs answered, %.1f us, %s", totals.count, totals.total_us, session.info.latency_kind)
        timelines = timelines or named_timelines(session.rows, answer.timelines)
        if verifier is not None:
            verifier.check(np.asarray(inputs)[answered], answer.classes, answer.probabilities)
        if not answers.add(make(names, network, answer.classes, answer.probabilities)):
            break
    verdict = verifier.verdict if verifier is not None else None
    return StreamResult(totals.count, totals.layers(), totals.worker_us, verdict, timelines)


def _answered(names: Sequence[str | int], answer: BatchAnswer, refuse: Callable[[str | int, str], None]) -> list[int]:
    """Return the positions of the answered inputs of a batch, and call `refuse` for the others."""
    for position, reason in sorted(answer.failures.items()):
        refuse(names[position], reason)
    return [position for position in range(len(names)) if position not in answer.failures]
