"""The worker processes of a server: those that decode pictures, and those that run the network."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...models.errors import InputError
from ...models.network import ImageInput
from ...runtime.cluster.worker import Hello, Reply, Setup, Worker, WorkerFault
from ...runtime.session import BatchAnswer
from ...runtime.worker_process import WorkerProcess
from ..pictures import ignore_warnings
from ..shipping import decode_sources


@dataclass(frozen=True)
class InputAnswer:
    """The answer to one input: its class (-1 for a network of values), its scores float32 [C], the size of the
    batch that it was in, and the device time of that batch in microseconds."""

    class_index: int
    scores: np.ndarray
    batch_size: int
    batch_us: float


class _ProcessWorker:
    """A worker of a pool that is a process; see `PoolWorker`."""

    def __init__(self, process: WorkerProcess) -> None:
        self._process = process

    def notes(self) -> list[tuple[str, str]]:
        """Return the worker's lines since the last call: (level, line)."""
        return self._process.notes()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def close(self) -> None:
        """End it, and wait until it has ended."""
        self._process.close()


class NetworkWorker(_ProcessWorker):
    """Runs a network: a source is an input as the network reads it, a result an `InputAnswer`.

    `greeted` is called with what the session says of itself when it is ready, `timed` with the device time of each
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
        """Wait until it is ready; a line for the log."""
        hello: Hello = self._process.ask(self._setup)
        self._greeted(hello)
        return f"{hello.process}, {hello.info.name} {hello.info.target}"

    def answer(self, sources: list[np.ndarray]) -> list[InputAnswer]:
        """The answer to each input."""
        answer: BatchAnswer = self._process.ask(np.stack(sources))
        device_us = sum(part.latency_us for part in answer.times)
        self._timed(device_us)
        return [
            InputAnswer(int(index), scores, len(sources), device_us)
            for index, scores in zip(answer.classes, answer.probabilities, strict=True)
        ]


class DecodingWorker(_ProcessWorker):
    """Decodes pictures: a source is what a file holds, a result the network's input float32 [C, H, W]."""

    def __init__(self, spec: ImageInput) -> None:
        super().__init__(WorkerProcess(Decoder))
        self._spec = spec

    def begin(self) -> str:
        """Wait until it is ready; a line for the log."""
        return str(self._process.ask(self._spec))

    def answer(self, sources: list[bytes]) -> list[np.ndarray | InputError]:
        """The input that each picture becomes, or why it is none."""
        results: list[np.ndarray | InputError] = self._process.ask(sources)
        return results


class Decoder:
    """Worker in the process of a `DecodingWorker`."""

    def __init__(self) -> None:
        self._spec: ImageInput | None = None

    def begin(self, setup: ImageInput) -> Reply:
        """Take what the network reads."""
        ignore_warnings()
        self._spec = setup
        return Reply(os.getpid(), None, (), ())

    def answer(self, inputs: Sequence[bytes]) -> Reply:
        """A reply with inputs and InputErrors, in the order of the files."""
        assert self._spec is not None
        try:
            decoded, failures = decode_sources(self._spec, inputs)
        except MemoryError:
            raise  # ends the process, which is of no more use
        except Exception:
            return Reply(None, WorkerFault(traceback.format_exc()), (), ())
        rest = iter(decoded)
        results = [InputError(failures[i]) if i in failures else next(rest) for i in range(len(inputs))]
        return Reply(results, None, (), ())
