"""Running a network over batches as they come: each batch is answered, told and forgotten before the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Protocol

import numpy as np

from ..models.files import Model
from ..runtime.session import Result
from ..runtime.timing import LayerTiming
from ..runtime.verify import Verification, Verifier
from .predictions import Prediction, make_predictions

Batch = tuple[Sequence["str | int"], np.ndarray]  # the names of the inputs, and the inputs


class Runner(Protocol):
    """A `Session`, or what takes its place."""

    @property
    def model(self) -> Model: ...

    def run_batches(self, batches: Iterable[np.ndarray], progress: Callable[[float], None] | None = None) -> Result: ...


class Taker(Protocol):
    """Where answers go."""

    def add(self, predictions: Sequence[Prediction]) -> bool:
        """Take answers; whether anyone wants more."""


@dataclass(frozen=True)
class StreamResult:
    """What is left when all batches have been answered; timelines are those of the first batch."""

    count: int
    layers: tuple[LayerTiming, ...]
    verification: Verification | None
    timelines: tuple[tuple[str, object], ...]


def answer_batches(
    session: Runner,
    batches: Iterable[Batch],
    answers: Taker,
    top_k: int,
    progress: Callable[[float], None],
    verify_as: str | None = None,
    at_once: int = 1,
) -> StreamResult:
    """Run batches and give each answer to `answers`, until nobody wants more.

    `verify_as` names the dtype whose tolerance the golden model is compared with; `at_once` is how many batches the
    session is given together, as one with several cores wants them. `progress` gets the inputs answered so far.
    """
    model = session.model
    totals = _Totals()
    verdict: Verification | None = None
    timelines: tuple[tuple[str, object], ...] = ()
    coming = iter(batches)
    for first in coming:
        names: list[str | int] = []
        inputs: Iterable[np.ndarray] = _noting_names(chain([first], islice(coming, at_once - 1)), names)
        verifier = Verifier(model, verify_as) if verify_as is not None else None
        result = session.run_batches(
            verifier.watch(inputs) if verifier else inputs, lambda done: progress(totals.count + done)
        )
        if verifier is not None:
            verdict = _worst([*([verdict] if verdict else []), verifier.compare(result)])
        timelines = timelines or getattr(session, "timelines", ())
        totals.add(result.layers, len(names))
        if not answers.add(make_predictions(names, model.network.labels, result.classes, result.probabilities, top_k)):
            break
    if verify_as is not None and verdict is None:
        verdict = Verifier(model, verify_as).compare(session.run_batches(()))
    return StreamResult(totals.count, totals.rows(), verdict, timelines)


def _noting_names(batches: Iterable[Batch], names: list[str | int]) -> Iterator[np.ndarray]:
    """The inputs of batches as they are taken; `names` gets their names."""
    for batch_names, values in batches:
        names += batch_names
        yield values


class _Totals:
    """The rows of a network, added up over runs."""

    def __init__(self) -> None:
        self.count = 0
        self._rows: list[LayerTiming] = []
        self._longest: list[float] = []  # time of the run that each row's `bound_by` is from

    def add(self, rows: Sequence[LayerTiming], count: int) -> None:
        """Add the rows of a run over `count` inputs."""
        self.count += count
        if not self._rows:
            self._rows, self._longest = list(rows), [row.latency_us for row in rows]
            return
        for position, row in enumerate(rows):
            self._rows[position] = _sum(self._rows[position], row, row.latency_us > self._longest[position])
            self._longest[position] = max(self._longest[position], row.latency_us)

    def rows(self) -> tuple[LayerTiming, ...]:
        """A row a step, with all inputs on its batch axis."""
        total = sum(row.latency_us for row in self._rows)
        return tuple(
            replace(
                row,
                share=row.latency_us / total if total else 0.0,
                input_shape=_with_count(row.input_shape, row.kernel.startswith("matmul"), self.count),
                output_shape=_with_count(row.output_shape, row.kernel == "transpose", self.count),
            )
            for row in self._rows
        )


def _sum(one: LayerTiming, other: LayerTiming, other_is_longer: bool) -> LayerTiming:
    """Two runs of a row as one. Its shapes and share are to be set."""
    latency = one.latency_us + other.latency_us
    used = _plus(*(None if row.mfu is None else row.mfu * row.latency_us for row in (one, other)))
    return replace(
        one,
        flops=one.flops + other.flops,
        hbm_bytes=one.hbm_bytes + other.hbm_bytes,
        latency_us=latency,
        latency_us_p99=_plus(one.latency_us_p99, other.latency_us_p99),
        bound_by=other.bound_by if other_is_longer else one.bound_by,
        mfu=used / latency if used is not None and latency else None,
        device_us=_plus(one.device_us, other.device_us),
    )


def _plus(one: float | None, other: float | None) -> float | None:
    """A sum; None where a part of it is not known."""
    return None if one is None or other is None else one + other


def _with_count(shape: tuple[int, ...], batch_is_last: bool, count: int) -> tuple[int, ...]:
    """A shape with `count` inputs: they are on the last axis of a matmul's stationary operand, else on the first."""
    return (*shape[:-1], count) if batch_is_last else (count, *shape[1:])


def _worst(verdicts: Sequence[Verification]) -> Verification:
    """The verdicts on several batches as one."""
    return Verification(
        passed=all(verdict.passed for verdict in verdicts),
        max_abs_error=max(verdict.max_abs_error for verdict in verdicts),
        disagreements=sum(verdict.disagreements for verdict in verdicts),
        near_ties=sum(verdict.near_ties for verdict in verdicts),
        tolerance=verdicts[0].tolerance,
    )
