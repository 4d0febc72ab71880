"""Run the checks, and run bundled networks on inputs. On a chip, the simulator's predictions are added.

Predicted and measured times have separate fields. Nothing is measured on the simulator, or if kernels are only
compiled.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...models.files import Model
from ..backend import DTYPES, ArraySpec, Backend, BackendUnavailable, KernelError
from ..fallback import planned_launches
from ..launch_options import LaunchOptions
from ..launches import plan_launches
from ..measure.compare import BackendComparison, compare_backends, relative_error
from ..neuron.compile_alone import CompileReport, Estimate
from ..neuron.compile_only import CompileOnlyBackend
from ..neuron.compiled import Attempt, CompiledKernels
from ..neuron.errors import CompileError, DeviceLost, ExecutionError, raised_line
from ..neuron.on_device import OnDevice
from ..session import OverflowedError, Result, Session
from ..tolerances import kernel_tolerance, network_tolerance
from ..verify import Verification, Verifier
from .checks import Check, checks

_OF_SEVERAL = ("run_network", "ffnn_forward", "ffnn_predict")  # kernels that run a whole network
_AHEAD = 16  # number of checks that are compiled in advance
_HEAD, _TAIL = 6000, 2000  # characters kept from the head and tail of a compiler's log
_NO_RESULT = (KernelError, OverflowedError, DeviceLost)
OK, WRONG, FAILED = "ok", "wrong", "failed"  # "wrong": the result differs from the golden model; "failed": no result


@dataclass(frozen=True)
class Failure:
    """An exception: its type, its message, and the tracebacks in this process and in the process that ran or compiled
    the kernel."""

    type: str
    message: str
    traceback: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Return the description of an exception."""
        causes, cause = [], error.__cause__
        while cause is not None:
            causes.append(str(getattr(cause, "traceback", "")))
            cause = cause.__cause__
        texts = ["".join(traceback.format_exception(error)), *filter(None, causes)]
        return cls(type(error).__name__, str(error), _clipped("\n".join(texts)))


@dataclass(frozen=True)
class KernelOutcome:
    """The outcome of one check. `error` is the largest difference, relative to the largest expected magnitude (at least
    1). Times are in microseconds per launch, or None if not available. `message` is the reason for a missing result,
    `log` contains the head and tail of the compiler's output, `otherwise` states whether the kernel compiled in other
    ways, and `tensors` describes the operands and results of the compiled kernel. For compile-only runs, `compiled_by`
    and `compile_tried` name the method that succeeded and all methods that were tried, `aws_estimate` is AWS's
    estimate, and `birsim_error` is the largest difference between BIRSim's outputs and the golden model. An
    `informational` check is known to differ on some chips and does not count as a failure."""

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
    measured_device_by: str | None = None
    informational: bool = False
    compile_seconds: float | None = None
    compile_peak_bytes: int | None = None
    otherwise: tuple[Attempt, ...] = ()
    tensors: Mapping[str, Any] = field(default_factory=dict)
    log: str = ""
    failure: Failure | None = None
    compiled_by: str = ""
    compile_tried: tuple[tuple[str, str], ...] = ()
    aws_estimate: Estimate | None = None
    birsim_error: float | None = None

    @property
    def is_failure(self) -> bool:
        """True if the result is missing or wrong, unless the check is informational."""
        return self.status != OK and not self.informational


@dataclass(frozen=True)
class NetworkOutcome:
    """The outcome of a network on inputs, compared with the golden model.

    `launches` describes its launches. On a chip, one of the runs also compares the network with the simulator, layer by
    layer. `message` is the reason for a missing result, and `log` is the compiler's output.
    """

    model: str
    inputs: tuple[str, ...]
    launches: str
    launches_note: str | None
    status: str
    result: Result | None = None
    verification: Verification | None = None
    comparison: BackendComparison | None = None
    message: str = ""
    log: str = ""
    failure: Failure | None = None

    @property
    def is_failure(self) -> bool:
        """True if the result differs or is missing."""
        return self.status != OK


def count_checks(dtype: str) -> int:
    """Return the number of kernels and the number of sizes to check."""
    return sum(1 for _ in checks(DTYPES[dtype]))


def check_kernels(backend: Backend, dtype: str, predicting: Backend | None) -> Iterator[KernelOutcome]:
    """Run every kernel once at each size.

    `predicting` is the backend that predicts the times of a chip, or None if there is no chip.

    The outcome also records a rejection, a failure or the loss of the chip. Raises BackendUnavailable if the
    chip is lost permanently.
    """
    recovery = Recovery(backend)
    measured = backend.info.latency_kind == "measured"
    for check in _begun(backend, checks(DTYPES[dtype])):
        allowed = network_tolerance if check.kernel in _OF_SEVERAL else kernel_tolerance
        outcome = KernelOutcome(
            kernel=check.kernel,
            size=check.size,
            variant=check.variant,
            shapes=check.shapes,
            status=FAILED,
            error=None,
            tolerance=allowed(dtype, measured),
            informational=check.informational,
        )
        try:
            outcome = _with_prediction(_launched(check, backend, outcome), check, predicting)
            recovery.succeeded()
        except Exception as error:  # the archive records any exception, and the other checks continue
            if isinstance(error, BackendUnavailable) and not isinstance(error, DeviceLost):
                raise
            outcome = replace(outcome, message=_line_of(error), log=_log_of(error), failure=Failure.of(error))
            outcome = replace(outcome, otherwise=recovery.compile_otherwise(check, error))
            yield _with_compilation(outcome, backend, check)
            recovery.recover(error)
            continue
        yield _with_compilation(outcome, backend, check)


class Recovery:
    """Recovers from failures: the process is restarted after a kernel fails on the chip or the chip is lost.

    A chip that is lost MAX_LOSSES times in succession is considered lost permanently. At most MAX_OTHERWISE of the
    kernels that do not compile are also compiled in other ways, because further attempts would only waste time if no
    kernel compiles.
    """

    MAX_LOSSES = 3
    MAX_OTHERWISE = 8

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._losses = 0
        self._refused = 0

    def succeeded(self) -> None:
        """Record that a kernel ran successfully."""
        self._losses = 0

    def compile_otherwise(self, check: Check, error: Exception) -> tuple[Attempt, ...]:
        """Compile the kernel of a check in other ways if the compiler rejected it."""
        from ... import kernels

        if not isinstance(error, CompileError) or not isinstance(self._backend, CompiledKernels):
            return ()
        self._refused += 1
        if self._refused > self.MAX_OTHERWISE:
            return ()
        return self._backend.compile_otherwise(kernels.kernel(check.kernel), *check.arrays, **check.arguments)

    def recover(self, error: Exception) -> None:
        """Prepare the chip for the next kernel. If the chip is lost permanently, raise the error."""
        if isinstance(error, DeviceLost):
            self._losses += 1
            if self._losses == self.MAX_LOSSES:
                raise error
        if isinstance(error, (DeviceLost, ExecutionError)) and isinstance(self._backend, OnDevice):
            self._backend.restart()


def _begun(backend: Backend, all_checks: Iterable[Check]) -> Iterator[Check]:
    """Yield the checks in order. If kernels are only compiled, start some compilations in advance."""
    from ... import kernels

    waiting: deque[Check] = deque()
    for check in all_checks:
        if isinstance(backend, CompileOnlyBackend):
            backend.prepare(kernels.kernel(check.kernel), *check.arrays, **check.arguments)
        waiting.append(check)
        if not isinstance(backend, CompileOnlyBackend) or len(waiting) > _AHEAD:
            yield waiting.popleft()
    yield from waiting


def _with_compilation(outcome: KernelOutcome, backend: Backend, check: Check) -> KernelOutcome:
    """Move the backend's record of the compilation to the outcome."""
    if not isinstance(backend, CompiledKernels) or not backend.compilations:
        return outcome
    compilation = backend.compilations[-1]
    backend.compilations.clear()
    return replace(
        outcome,
        compile_seconds=None if compilation.is_cached else compilation.seconds,
        compile_peak_bytes=compilation.peak_bytes or None,
        tensors=compilation.tensors,
        **(_of_report(compilation.report, check) if compilation.report is not None else {}),
    )


def _of_report(report: CompileReport, check: Check) -> dict[str, Any]:
    """Return the fields of an outcome that describe the compilation and AWS's estimate."""
    error = None
    if report.birsim is not None:
        pairs = zip(report.birsim, check.expected(), strict=True)
        error = max(relative_error(np.asarray(output).reshape(expected.shape), expected) for output, expected in pairs)
    return {
        "compiled_by": report.way,
        "compile_tried": report.tried,
        "aws_estimate": report.estimate,
        "birsim_error": error,
    }


def _log_of(error: Exception) -> str:
    """Return the head and tail of the compiler's output."""
    return _clipped(getattr(error, "log", ""))


def _clipped(log: str) -> str:
    return log if len(log) <= _HEAD + _TAIL else f"{log[:_HEAD]}\n[...]\n{log[-_TAIL:]}"


def _line_of(error: Exception) -> str:
    """Return a one-line description of an error, with its type if it is unexpected."""
    if isinstance(error, _NO_RESULT):
        return str(error)
    return raised_line("".join(traceback.format_exception(error)))


def _launched(check: Check, backend: Backend, outcome: KernelOutcome) -> KernelOutcome:
    from ... import kernels  # import only after the backend is chosen

    launch = backend.launch(kernels.kernel(check.kernel), *check.arrays, **check.arguments)
    outputs = [np.asarray(output) for output in launch.outputs]
    expected = check.expected()
    if check.scores is not None:
        expected = tuple(
            _settled(a, b, check.scores(), outcome.tolerance) for a, b in zip(outputs, expected, strict=True)
        )
    errors = [relative_error(a, b) for a, b in zip(outputs, expected, strict=True)]
    are_integers = [array.dtype.kind in "iu" for array in expected]
    right = all(error <= (0.0 if exact else outcome.tolerance) for error, exact in zip(errors, are_integers))
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
        measured_device_by=time.device_by,
    )


def _settled(found: np.ndarray, expected: np.ndarray, scores: np.ndarray, tolerance: float) -> np.ndarray:
    """Return the expected classes or, for near-ties (scores that differ by at most twice the tolerance), the actual
    classes."""
    if expected.dtype.kind not in "iu" or found.shape != expected.shape:
        return expected
    rows = np.arange(len(found))
    is_valid = (found >= 0) & (found < scores.shape[1])
    gap = scores[rows, expected] - scores[rows, np.where(is_valid, found, expected)]
    return np.where(is_valid & (gap <= 2 * tolerance), found, expected)


def _with_prediction(outcome: KernelOutcome, check: Check, predicting: Backend | None) -> KernelOutcome:
    if predicting is None:
        return outcome
    from ... import kernels

    specs = [ArraySpec(array.shape, array.dtype) for array in check.arrays]
    operand_specs = {name: ArraySpec(array.shape, array.dtype) for name, array in check.named.items()}
    predicted: Any = predicting.time(kernels.kernel(check.kernel), *specs, **operand_specs, **check.parameters)
    return replace(outcome, predicted_us=predicted.time.latency_us)


def check_network(
    model: Model, names: tuple[str, ...], x: np.ndarray, backend: Backend, dtype: str, predicting: Backend | None
) -> Iterator[NetworkOutcome]:
    """Run a network on inputs x [N, *network.input.shape], and yield an outcome for each kind of launch.

    The network runs in as few launches as possible and, if those fail, in smaller launches and then layer by layer. On
    a chip, the kernels of each layer are also compared with the simulator. Raises BackendUnavailable if the chip is
    lost permanently.
    """
    recovery = Recovery(backend)
    for label, options in _ways(model, backend, dtype, len(x)):
        session = Session(model, backend, dtype, len(x), options)
        outcome = NetworkOutcome(model.network.name, names, label, session.launches_note, FAILED)
        try:
            outcome = _answered(outcome, session, model, x, dtype, predicting)
        except _NO_RESULT as error:
            yield replace(outcome, message=str(error), log=_log_of(error), failure=Failure.of(error))
            recovery.recover(error)
            continue
        if predicting is None:
            yield outcome
            return
        try:
            comparison = compare_backends(model, x, backend, predicting, dtype, len(x))
        except _NO_RESULT as error:
            yield outcome
            with_simulator = replace(
                outcome, launches="layer by layer, compared with the simulator", result=None, verification=None
            )
            yield replace(
                with_simulator, status=FAILED, message=str(error), log=_log_of(error), failure=Failure.of(error)
            )
            recovery.recover(error)
            return
        yield replace(outcome, comparison=comparison, status=outcome.status if comparison.passed else WRONG)
        return


def _ways(model: Model, backend: Backend, dtype: str, batch: int) -> Iterator[tuple[str, LaunchOptions]]:
    """Yield the kinds of launches of a network, from the fastest to the slowest, each with a description."""
    options = LaunchOptions()
    yield "as few launches as possible", options
    info = replace(backend.info, has_layer_times=False)  # as for the planned launches
    launches = plan_launches(model, dtype, info, options, batch)
    largest = max(launch.count_instructions(backend.info.target) for launch in planned_launches(launches, info, batch))
    limit = max(1, largest // 2)
    yield f"launches of at most {limit:,} instructions", replace(options, instructions=limit)
    yield "layer by layer", replace(options, per="layer")


def _answered(
    outcome: NetworkOutcome, session: Session, model: Model, x: np.ndarray, dtype: str, predicting: Backend | None
) -> NetworkOutcome:
    result = session.run(x)
    verifier = Verifier(model, dtype, predicting is not None)
    verifier.check(x, result.classes, result.probabilities)
    status = OK if verifier.verdict.passed else WRONG
    return replace(outcome, status=status, result=result, verification=verifier.verdict)
