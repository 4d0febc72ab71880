"""The worker processes of a server that run the network; for decoders, see `decoding`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ...runtime.session import BatchAnswer
from ...runtime.workers.process import ProcessWorker, WorkerProcess
from ...runtime.workers.worker import Hello, Setup, Worker


@dataclass(frozen=True)
class InputAnswer:
    """The prediction for one input: its class (-1 for a network of values), its scores, float32 [C], the batch size,
    and the device time of the batch in microseconds.

    `raw` contains the scores before the softmax, if the network ends in raw scores.
    """

    class_index: int
    scores: np.ndarray
    batch_size: int
    batch_us: float
    raw: np.ndarray | None = None


class NetworkWorker(ProcessWorker):
    """Runs a network: sources are inputs of the network, and results are `InputAnswer` objects.

    `greeted` is called with the description of the session when it is ready, and `timed` with the device time of each
    batch in microseconds.
    """

    def __init__(
        self,
        setup: Setup,
        variables: Mapping[str, str],
        greeted: Callable[[Hello], None],
        timed: Callable[[float], None],
    ) -> None:
        super().__init__(WorkerProcess(Worker, variables))
        self._setup = setup
        self._greeted = greeted
        self._timed = timed

    def begin(self) -> str:
        """Wait until the session is ready; return a line for the log."""
        hello: Hello = self._process.ask(self._setup)
        self._greeted(hello)
        return f"{hello.process}, {hello.info.name} {hello.info.target}"

    def answer(self, sources: list[np.ndarray]) -> list[InputAnswer]:
        """Return the prediction for each input."""
        answer: BatchAnswer = self._process.ask(np.stack(sources))
        device_us = sum(part.latency_us for part in answer.times)
        self._timed(device_us)
        raw = [None] * len(answer.classes) if answer.raw is None else list(answer.raw)
        return [
            InputAnswer(int(index), scores, len(sources), device_us, before)
            for index, scores, before in zip(answer.classes, answer.probabilities, raw, strict=True)
        ]
