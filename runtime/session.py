"""Run a network on a backend: weights are prepared once, batches are processed as they arrive, and each layer is
timed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ..lowering.show import ShownLaunch
from ..models.checks import describe_shape
from ..models.errors import InputError
from ..models.files import Model
from ..models.golden import probabilities_of
from .backend import EIGHT_BITS, NETWORK_DTYPES, Backend, BackendInfo, KernelError, LaunchTime
from .launch_options import DEFAULT_LAUNCHES, LaunchOptions
from .launches import Launches, plan_launches
from .timing import LayerTiming, Row, Totals, add_times, named_timelines

DEFAULT_BATCH_SIZE = 64

_LOG = logging.getLogger(__name__)

Progress = Callable[[float], None]
_ADVICE = {
    "float32": "",
    EIGHT_BITS: "; calibrate with inputs such as this one (--calibrate), or try --dtype bfloat16",
}


class OverflowedError(InputError):
    """An output of the network is not finite in this dtype. The message is one line for the user."""


@dataclass(frozen=True)
class BatchAnswer:
    """The results for one batch of B inputs, and their times.

    `classes` int32 [B] are computed by the argmax on the chip (-1 if the network outputs values). `probabilities`
    float32 [B, row_size] contains all outputs of the network, concatenated (`Network.unpack`). Both omit inputs that
    could not be processed; `failures` maps their positions in the batch to the reasons. `times` has an entry for each
    row of the session, and `timelines` has a timeline or None for each. `worker` is the number of the worker that
    processed the batch. `raw` float32 [B, C] contains the scores of the primary output before the softmax, if the
    network ends in raw scores.
    """

    size: int
    classes: np.ndarray
    probabilities: np.ndarray
    times: tuple[LaunchTime, ...]
    timelines: tuple[object | None, ...]
    failures: Mapping[int, str] = field(default_factory=dict)
    worker: int = 0
    raw: np.ndarray | None = None


def no_answers(rows: tuple[Row, ...], labels: int, failures: Mapping[int, str]) -> BatchAnswer:
    """Return the result for a batch without usable inputs."""
    return BatchAnswer(0, np.empty(0, np.int32), np.empty((0, labels), np.float32), (), (None,) * len(rows), failures)


def join_answers(parts: Sequence[BatchAnswer], rows: tuple[Row, ...]) -> BatchAnswer:
    """Return the result for a batch whose inputs were processed one at a time."""
    answered = [part for part in parts if part.size]
    return BatchAnswer(
        size=len(answered),
        classes=np.concatenate([part.classes for part in parts]),
        probabilities=np.concatenate([part.probabilities for part in parts]),
        times=add_times([part.times for part in answered]),
        timelines=(None,) * len(rows),
        failures={position: part.failures[0] for position, part in enumerate(parts) if part.failures},
        worker=answered[-1].worker if answered else 0,
    )


@dataclass(frozen=True)
class Result:
    """The results in the order of the inputs, and the time of each layer in the order of the network."""

    classes: np.ndarray  # int32 [N]; -1 if the network outputs values
    probabilities: np.ndarray  # float32 [N, row_size]
    layers: tuple[LayerTiming, ...]
    total_us: float
    timelines: tuple[tuple[str, object], ...] = ()  # row and timeline of each launch of the first batch, if kept


class BatchSession(Protocol):
    """A session that processes batches: a `Session`, or one that distributes batches to workers."""

    @property
    def model(self) -> Model:
        """The model whose network is run."""

    @property
    def info(self) -> BackendInfo:
        """The backend on which the network runs."""

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows of the network's table of times."""

    def stream(self, batches: Iterable[np.ndarray], progress: Progress | None = None) -> Iterator[BatchAnswer]:
        """Process batches [B, *network.input.shape] as they arrive. This is the only loop over batches.

        One batch is held at a time. `progress` is called with the number of inputs processed so far; the current batch
        counts in proportion to its finished launches. Raises ValueError for another shape, KernelError if a kernel
        rejects its arguments or returns a class that does not exist, and OverflowedError for a result that is not
        finite.
        """


class Session:
    """Runs a model's network on a backend in one dtype ("float32", "bfloat16", "float16" or "float8_e4m3").

    If `warn` is given, launches that the chip rejects are replaced with slower ones (fallback.py), and `warn` is called
    with a line for each replacement.
    """

    def __init__(
        self,
        model: Model,
        backend: Backend,
        dtype: str = "float32",
        batch_size: int = DEFAULT_BATCH_SIZE,
        launches: LaunchOptions = DEFAULT_LAUNCHES,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; expected at least 1")
        began = time.perf_counter()
        self.model = model
        self.backend = backend
        self.info = backend.info
        self.dtype = dtype
        self.batch_size = batch_size
        self._numpy_dtype = NETWORK_DTYPES[dtype]
        self._launches: Launches
        if warn is not None and self.info.name == "neuron":
            from .fallback import FallbackLaunches

            self._launches = FallbackLaunches(model, dtype, self.info, launches, batch_size, warn)
        else:
            self._launches = plan_launches(model, dtype, self.info, launches, batch_size)
        self.rows = self._launches.rows
        _LOG.info(
            "%s in %s on %s, %s: %d rows of times, batches of at most %d, planned in %.3f s",
            *(model.network.name, dtype, self.info.name, self.info.target, len(self.rows), batch_size),
            time.perf_counter() - began,
        )

    @property
    def launches_note(self) -> str | None:
        """The number of launches, or the reason why each layer is launched separately.

        None for a single launch, or if the network is launched as requested.
        """
        return self._launches.note

    def run(self, x: np.ndarray, progress: Progress | None = None) -> Result:
        """Run inputs [N, *network.input.shape], at most `batch_size` at a time; see `stream`."""
        totals = Totals(self.rows)
        answers = []
        for answer in self.stream(split_batches(x, self.batch_size), progress):
            totals.add(answer.size, answer.times)
            answers.append(answer)
        timelines = named_timelines(self.rows, answers[0].timelines) if answers else ()
        nothing = self._no_answers()
        classes = np.concatenate([nothing[0], *(answer.classes for answer in answers)])
        probabilities = np.concatenate([nothing[1], *(answer.probabilities for answer in answers)])
        return Result(classes, probabilities, totals.layers(), totals.total_us, timelines)

    def stream(self, batches: Iterable[np.ndarray], progress: Progress | None = None) -> Iterator[BatchAnswer]:
        """Process batches [B, *network.input.shape] as they arrive. This is the only loop over batches.

        Only one batch is held at a time. `progress` is called with the number of inputs processed so far; the current
        batch counts in proportion to its finished launches. Raises ValueError for another shape, KernelError if a
        kernel rejects its arguments or returns a class that does not exist, and OverflowedError if a result is not
        finite.
        """
        finished = 0
        for batch in batches:
            yield self._answer(batch, finished, progress or _no_progress)
            finished += len(batch)

    def time(self, count: int, backend: Backend | None = None) -> Result:
        """Time each layer for `count` inputs in batches, from shapes only, and return a result without outputs.

        `backend` may be another backend of the same kind.
        """
        totals = Totals(self.rows)
        timelines: tuple[tuple[str, object], ...] = ()
        for first in range(0, count, self.batch_size):
            size = min(self.batch_size, count - first)
            times, run_timelines = self._launches.time(backend or self.backend, size)
            totals.add(size, times)
            timelines = timelines or named_timelines(self.rows, run_timelines)
        return Result(*self._no_answers(), totals.layers(), totals.total_us, timelines)

    def show(self, count: int) -> list[ShownLaunch]:
        """Return the launches of a batch of `count` inputs, with the graphs from which they were lowered."""
        return self._launches.show(count)

    def _no_answers(self) -> tuple[np.ndarray, np.ndarray]:
        return np.empty(0, np.int32), np.empty((0, self.model.network.row_size), np.float32)

    def _answer(self, x: np.ndarray, done: int, progress: Progress) -> BatchAnswer:
        network = self.model.network
        if x.shape[1:] != network.input.shape:
            raise ValueError(
                f"network {network.name!r} expects {describe_shape(network.input.shape)}, "
                f"not {describe_shape(tuple(x.shape[1:]))}"
            )
        size = len(x)
        with np.errstate(over="ignore"):  # an overflow is reported below
            data = np.ascontiguousarray(x, self._numpy_dtype)
        result = self._launches.run(self.backend, data, lambda share: progress(done + size * share))
        scores = result.scores.astype(np.float32)
        probabilities = self._probabilities(scores)
        lowest = 0 if network.output.is_labelled else -1
        if ((result.classes < lowest) | (result.classes >= network.outputs)).any():
            raise KernelError(f"argmax on {self.info.target}: returned classes outside 0 to {network.outputs - 1}")
        raw = network.unpack(scores)[0] if network.output.scores == "raw" else None
        return BatchAnswer(size, result.classes, probabilities, result.times, result.timelines, raw=raw)

    def _probabilities(self, scores: np.ndarray) -> np.ndarray:
        if not np.isfinite(scores).all():
            advice = _ADVICE.get(self.dtype, "; try --dtype float32")
            raise OverflowedError(
                f"the output of {self.model.network.name!r} is not finite in {self.dtype}: an intermediate value "
                f"overflowed{advice}"
            )
        network = self.model.network
        if network.output.kind == "map":
            self._check_map(network.unpack(scores)[0])
        parts = zip(network.unpack(scores), network.named_outputs)
        probabilities = [probabilities_of(part, named_output.output) for part, named_output in parts]
        return probabilities[0] if len(probabilities) == 1 else np.concatenate(probabilities, axis=1)

    def _check_map(self, classes: np.ndarray) -> None:
        """Raise OverflowedError if a pixel has no class, because its scores are NaN."""
        network = self.model.network
        if classes.min(initial=0) < 0 or classes.max(initial=0) >= len(network.labels):
            advice = _ADVICE.get(self.dtype, "; try --dtype float32")
            raise OverflowedError(
                f"pixels of {network.name!r} have no class in {self.dtype}: an intermediate value overflowed{advice}"
            )


def _no_progress(done: float) -> None:
    pass


def split_batches(x: np.ndarray, batch_size: int) -> Iterator[np.ndarray]:
    """Yield consecutive rows of x, at most `batch_size` at a time.

    The batches are views, so that memory maps are read in pieces.
    """
    for first in range(0, len(x), batch_size):
        yield x[first : first + batch_size]
