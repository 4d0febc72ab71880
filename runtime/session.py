"""A network on a backend: weights prepared once, inputs in batches, each layer timed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..models.files import Model
from ..models.golden import probabilities_of
from ..models.network import describe_shape
from .backend import ArraySpec, Backend, KernelError
from .plan import DTYPES, plan_network, with_batch
from .timing import LayerTiming, Stopwatch

DEFAULT_BATCH_SIZE = 64

Progress = Callable[[float], None]


class OverflowedError(ValueError):
    """The network's output is not finite in the dtype it ran in; the message is one line for the user."""


@dataclass(frozen=True)
class Result:
    """Answers in the order of the inputs, and the time of each layer in the order of the network."""

    classes: np.ndarray  # int32 [N], from the argmax on the chip
    probabilities: np.ndarray  # float32 [N, C]
    layers: tuple[LayerTiming, ...]
    total_us: float


class Session:
    """Runs a model's network on a backend in one dtype ("float32", "bfloat16" or "float16")."""

    def __init__(
        self, model: Model, backend: Backend, dtype: str = "float32", batch_size: int = DEFAULT_BATCH_SIZE
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; at least 1 is needed")
        from .. import kernels  # not before the backend is chosen: importing kernels settles which `nki` they get

        self.model = model
        self.backend = backend
        self.dtype = dtype
        self.batch_size = batch_size
        self.timelines: tuple[tuple[str, object], ...] = ()  # see `Stopwatch.timelines`; of the latest run
        self._numpy_dtype = DTYPES[dtype]
        self._steps = plan_network(model, self._numpy_dtype)
        self._kernels: list[Any] = [getattr(kernels, step.kernel) for step in self._steps]

    def run(self, x: np.ndarray, progress: Progress | None = None) -> Result:
        """Run inputs [N, *network.input.shape], at most `batch_size` at a time; see `run_batches`."""
        return self.run_batches(split_batches(x, self.batch_size), progress)

    def run_batches(self, batches: Iterable[np.ndarray], progress: Progress | None = None) -> Result:
        """Run batches [B, *network.input.shape] as they come.

        Only one batch is held at a time. `progress` is called with the inputs answered so far, those of the batch at
        work in proportion to its launches. Raises ValueError for another shape, KernelError where a kernel refuses or
        gives a class that does not exist, and OverflowedError where a result is not finite.
        """
        classes, probabilities = [], []
        stopwatch = Stopwatch(self._steps)
        for batch in batches:
            answer, chances = self._run_batch(batch, stopwatch, progress or _no_progress)
            classes.append(answer)
            probabilities.append(chances)
        return self._result(classes, probabilities, stopwatch)

    def time(self, count: int) -> Result:
        """The time of each layer for `count` inputs in batches, from shapes alone: a result without answers."""
        stopwatch = Stopwatch(self._steps)
        for first in range(0, count, self.batch_size):
            size = min(self.batch_size, count - first)
            launches = []
            for step, kernel in zip(self._steps, self._kernels, strict=True):
                data = ArraySpec(with_batch(step.input_shape, size), self._numpy_dtype)
                operands = [ArraySpec(operand.shape, operand.dtype) for operand in step.operands]
                launches.append(self.backend.time(kernel, data, *operands, **step.parameters))
            stopwatch.add_batch(size, launches)
        return self._result([], [], stopwatch)

    def _result(self, classes: list[np.ndarray], probabilities: list[np.ndarray], stopwatch: Stopwatch) -> Result:
        self.timelines = stopwatch.timelines()
        layers = stopwatch.rows()
        nothing = np.empty((0, len(self.model.network.labels)), np.float32)
        return Result(
            np.concatenate(classes) if classes else np.empty(0, np.int32),
            np.concatenate(probabilities) if probabilities else nothing,
            layers,
            sum(layer.latency_us for layer in layers),
        )

    def _run_batch(self, x: np.ndarray, stopwatch: Stopwatch, progress: Progress) -> tuple[np.ndarray, np.ndarray]:
        network = self.model.network
        if x.shape[1:] != network.input.shape:
            raise ValueError(
                f"network {network.name!r} takes {describe_shape(network.input.shape)}, "
                f"not {describe_shape(tuple(x.shape[1:]))}"
            )
        size = len(x)
        with np.errstate(over="ignore"):  # what overflows here is told below, in words
            data = np.ascontiguousarray(x, self._numpy_dtype)
        launches = []
        scores = data
        for step, kernel in zip(self._steps, self._kernels, strict=True):
            scores = data.reshape(with_batch(step.input_shape, size))
            launches.append(self.backend.launch(kernel, scores, *step.operands, **step.parameters))
            data = launches[-1].outputs[0]
            progress(stopwatch.count + size * len(launches) / len(self._steps))
        stopwatch.add_batch(size, launches)
        probabilities = self._probabilities(scores.astype(np.float32))  # scores: what the argmax was given
        if ((data < 0) | (data >= len(network.labels))).any():
            raise KernelError(f"argmax on {self.backend.target}: gave classes outside 0 to {len(network.labels) - 1}")
        return data, probabilities

    def _probabilities(self, scores: np.ndarray) -> np.ndarray:
        if not np.isfinite(scores).all():
            advice = "" if self.dtype == "float32" else "; try --dtype float32"
            raise OverflowedError(
                f"the output of {self.model.network.name!r} is not finite in {self.dtype}: numbers overflowed on the "
                f"way{advice}"
            )
        return probabilities_of(scores, self.model.network.output)


def _no_progress(done: float) -> None:
    pass


def split_batches(x: np.ndarray, batch_size: int) -> Iterator[np.ndarray]:
    """Consecutive rows of x, at most `batch_size` at a time; views, so that a memory map is read bit by bit."""
    for first in range(0, len(x), batch_size):
        yield x[first : first + batch_size]
