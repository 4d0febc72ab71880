"""Run batches of inputs through a session and collect the predictions; an input that overflows does not affect
others."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..models.files import Model
from ..runtime.backend import BackendInfo
from ..runtime.session import BatchAnswer, BatchSession, OverflowedError, Progress, join_answers, no_answers
from ..runtime.timing import LayerTiming, Row
from .predictions import MakePredictions, Prediction
from .stream import Batch, answer_batches

if TYPE_CHECKING:
    from .python_inputs import Refuse


@dataclass(frozen=True)
class RunResult:
    """The predictions for all inputs, the time of each layer, and the backend."""

    predictions: tuple[Prediction, ...]
    layers: tuple[LayerTiming, ...]
    info: BackendInfo


def run_batches(
    session: BatchSession,
    batches: Iterable[Batch],
    make: MakePredictions,
    refuse: Refuse,
    stopped: threading.Event | None = None,
) -> RunResult:
    """Run batches and convert the outputs to predictions with `make`.

    `refuse` is called with the name of an input for which no prediction can be made, and the reason. No further batches
    are read once `stopped` is set.
    """
    collected = _PredictionList(stopped)
    result = answer_batches(session, batches, collected, make, lambda done: None, refuse=refuse)
    return RunResult(tuple(collected.predictions), result.layers, session.info)


class PatientSession:
    """A session that repeats a batch one input at a time if one of the inputs overflows."""

    def __init__(self, session: BatchSession) -> None:
        self._session = session
        self.model: Model = session.model
        self.info: BackendInfo = session.info
        self.rows: tuple[Row, ...] = session.rows

    def stream(self, batches: Iterable[np.ndarray], progress: Progress | None = None) -> Iterator[BatchAnswer]:
        """Run batches in order; see `Session.stream`."""
        finished = 0
        for batch in batches:
            if len(batch):
                yield self._answer(batch, finished, progress or (lambda answered: None))
            else:
                yield no_answers(self.rows, self.model.network.row_size, {})
            finished += len(batch)

    def _answer(self, batch: np.ndarray, done: int, progress: Progress) -> BatchAnswer:
        try:
            (answer,) = self._session.stream([batch], lambda answered: progress(done + answered))
            return answer
        except OverflowedError as error:
            if len(batch) == 1:
                return no_answers(self.rows, self.model.network.row_size, {0: str(error)})
        positions = range(len(batch))
        parts = [self._answer(batch[position : position + 1], done + position, progress) for position in positions]
        return join_answers(parts, self.rows)


class _PredictionList:
    """Collects all predictions."""

    def __init__(self, stopped: threading.Event | None) -> None:
        self.predictions: list[Prediction] = []
        self._stopped = stopped

    def add(self, predictions: Sequence[Prediction]) -> bool:
        self.predictions += predictions
        return self._stopped is None or not self._stopped.is_set()
