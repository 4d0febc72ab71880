"""Running the checks, and bundled networks on inputs; beside a chip the simulator says what it expects.

A time is either predicted or measured and stands in a field of its own: on the simulator nothing is measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...models.files import Model
from ..backend import DTYPES, ArraySpec, Backend, KernelError
from ..measure.compare import BackendComparison, compare_backends, relative_error
from ..session import OverflowedError, Result, Session
from ..tolerances import kernel_tolerance, network_tolerance
from ..verify import Verification, Verifier
from .checks import Check, checks

_OF_SEVERAL = ("run_network", "ffnn_forward", "ffnn_predict")  # kernels that are a network
OK, WRONG, FAILED = "ok", "wrong", "failed"  # another result than the golden model's; none at all


@dataclass(frozen=True)
class KernelOutcome:
    """One check. `error` is the largest difference, relative to the largest magnitude expected (at least 1). Times are
    microseconds of one launch; None where there is none of the kind. `message` says why there is no result."""

    kernel: str
    size: str
    variant: str
    shapes: tuple[tuple[int, ...], ...]
    status: str
    error: float | None
    tolerance: float
    message: str = ""
    predicted_us: float | None = None
    measured_host_us: float | None = None
    measured_host_us_p99: float | None = None
    measured_device_us: float | None = None
    measured_device_us_p99: float | None = None


@dataclass(frozen=True)
class NetworkOutcome:
    """A network on inputs, in one launch where it can be, against the golden model; on a chip also layer by layer
    beside the simulator. `message` says why there is no result."""

    model: str
    inputs: tuple[str, ...]
    launches_note: str | None
    status: str
    result: Result | None = None
    verification: Verification | None = None
    comparison: BackendComparison | None = None
    message: str = ""


def count_checks(dtype: str) -> int:
    """How many kernels at how many sizes there are to check."""
    return sum(1 for _ in checks(DTYPES[dtype]))


def check_kernels(backend: Backend, dtype: str, predicting: Backend | None) -> Iterator[KernelOutcome]:
    """Every kernel at each size, once. `predicting` tells what the simulator expects of a chip, None on the simulator
    itself. A kernel that is refused or ends with an error is an outcome; BackendUnavailable ends it all."""
    measured = backend.info.latency_kind == "measured"
    for check in checks(DTYPES[dtype]):
        allowed = network_tolerance if check.kernel in _OF_SEVERAL else kernel_tolerance
        outcome = KernelOutcome(
            check.kernel,
            check.size,
            check.variant,
            tuple(array.shape for array in check.arrays),
            FAILED,
            None,
            allowed(dtype, measured),
        )
        try:
            yield _with_prediction(_launched(check, backend, outcome), check, predicting)
        except KernelError as error:
            yield replace(outcome, message=str(error))


def _launched(check: Check, backend: Backend, outcome: KernelOutcome) -> KernelOutcome:
    from ... import kernels  # not before the backend is chosen

    launch = backend.launch(kernels.kernel(check.kernel), *check.arrays, **check.parameters)
    found = [np.asarray(output) for output in launch.outputs]
    expected = check.expected()
    if check.scores is not None:
        expected = tuple(
            _settled(a, b, check.scores(), outcome.tolerance) for a, b in zip(found, expected, strict=True)
        )
    errors = [relative_error(a, b) for a, b in zip(found, expected, strict=True)]
    whole = [array.dtype.kind in "iu" for array in expected]
    right = all(error <= (0.0 if exact else outcome.tolerance) for error, exact in zip(errors, whole))
    outcome = replace(outcome, status=OK if right else WRONG, error=max(errors))
    time = launch.time
    if backend.info.latency_kind == "predicted":
        return replace(outcome, predicted_us=time.latency_us)
    return replace(
        outcome,
        measured_host_us=time.latency_us,
        measured_host_us_p99=time.latency_us_p99,
        measured_device_us=time.device_us,
        measured_device_us_p99=time.device_us_p99,
    )


def _settled(found: np.ndarray, expected: np.ndarray, scores: np.ndarray, tolerance: float) -> np.ndarray:
    """Classes expected; where those found have scores within twice the tolerance of theirs, these: near-ties."""
    if expected.dtype.kind not in "iu" or found.shape != expected.shape:
        return expected
    rows = np.arange(len(found))
    there = (found >= 0) & (found < scores.shape[1])
    gap = scores[rows, expected] - scores[rows, np.where(there, found, expected)]
    return np.where(there & (gap <= 2 * tolerance), found, expected)


def _with_prediction(outcome: KernelOutcome, check: Check, predicting: Backend | None) -> KernelOutcome:
    if predicting is None:
        return outcome
    from ... import kernels

    specs = [ArraySpec(array.shape, array.dtype) for array in check.arrays]
    predicted: Any = predicting.time(kernels.kernel(check.kernel), *specs, **check.parameters)
    return replace(outcome, predicted_us=predicted.time.latency_us)


def check_network(
    model: Model, names: tuple[str, ...], x: np.ndarray, backend: Backend, dtype: str, predicting: Backend | None
) -> NetworkOutcome:
    """A network on inputs x [N, *network.input.shape]; BackendUnavailable where the chip is lost."""
    session = Session(model, backend, dtype, len(x))
    outcome = NetworkOutcome(model.network.name, names, session.launches_note, FAILED)
    try:
        result = session.run(x)
        verifier = Verifier(model, dtype, predicting is not None)
        verifier.check(x, result.classes, result.probabilities)
        compared = compare_backends(model, x, backend, predicting, dtype, len(x)) if predicting is not None else None
    except (KernelError, OverflowedError) as error:
        return replace(outcome, message=str(error))
    right = verifier.verdict.passed and (compared is None or compared.passed)
    return replace(
        outcome,
        status=OK if right else WRONG,
        result=result,
        verification=verifier.verdict,
        comparison=compared,
    )
