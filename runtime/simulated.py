"""The backend that is always available. Kernels run on the NeuronCore simulator, which predicts their time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from .. import simulator
from ..kernels.nki_source import use_nki
from .backend import (
    ArraySpec,
    BackendInfo,
    BackendUnavailable,
    KernelError,
    LaunchResult,
    LaunchTime,
    check_cores,
    resolve_target,
    split_arguments,
)
from .layer_times import layer_parts, layer_times


@contextmanager
def what_if(constants: Mapping[str, float], target: str) -> Iterator[None]:
    """Predict times of a target with other timing constants (simulator/timing/constants/) while the block runs.

    Such times are labelled as hypothetical.

    Raises KernelError for an unknown constant or an invalid value.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(simulator.changed(target, constants))
        except simulator.NkiValidationError as error:
            raise KernelError(str(error)) from None
        yield


def predicted_time(run: simulator.Run) -> LaunchTime:
    """Return the predicted time of a launch."""
    return LaunchTime(
        run.latency_us,
        flops=run.flops,
        hbm_bytes=run.hbm_bytes,
        bound_by=run.bound_by,
        mfu=run.mfu,
        latency_error=run.latency_error,
        hardware_flops=run.hardware_flops,
        hfu=run.hfu,
        active_us=run.latency_us,
        critical=run.critical.by_resource,
        sbuf_peak_bytes=run.memory.sbuf_bytes,
    )


class SimulatedBackend:
    """Runs kernels on the simulator. Times depend only on the kernel, the shapes and the dtypes, and are cached."""

    def __init__(self, target: str, keep_timelines: bool = False, lnc: int = 1) -> None:
        check_cores(target, lnc)
        self.info = BackendInfo("sim", target, "predicted", "predicted", has_layer_times=True, lnc=lnc)
        self._keep_timelines = keep_timelines
        self._timed: dict[tuple[Any, ...], LaunchResult] = {}

    def launch(self, kernel: Any, *arrays: np.ndarray, **parameters: Any) -> LaunchResult:
        """Not implemented, because a hypothetical machine computes nothing."""
        operands, others = split_arguments(kernel, arrays, parameters)
        run = self._run(kernel, operands, others, functional=True)
        timed = self._timing(kernel, operands, others, lambda: run)
        return replace(timed, outputs=tuple(run.outputs))

    def time(self, kernel: Any, *specs: ArraySpec, **parameters: Any) -> LaunchResult:
        """Predict the time from shapes only, without computing results."""
        operands, others = split_arguments(kernel, specs, parameters)
        blank = {name: simulator.TensorSpec(s.shape, np.dtype(s.dtype).name) for name, s in operands.items()}
        return self._timing(kernel, operands, others, lambda: self._run(kernel, blank, others, functional=False))

    def _timing(
        self, kernel: Any, operands: dict[str, Any], parameters: dict[str, Any], get_run: Callable[[], simulator.Run]
    ) -> LaunchResult:
        key = (
            kernel.__name__,
            tuple((name, operand.shape, np.dtype(operand.dtype)) for name, operand in operands.items()),
            tuple(sorted(parameters.items())),
        )
        if key not in self._timed:
            run = get_run()
            timeline = None
            program = parameters.get("program")  # set for the network kernel
            parts = None if program is None else layer_parts(run, program.layers)
            if self._keep_timelines:
                timeline = simulator.Run(run.prediction, (), run.name, run.profiled)
                timeline.parts = parts
            launch, layers = (None, {}) if parts is None else layer_times(run, parts)
            self._timed[key] = LaunchResult((), predicted_time(run), timeline, launch, layers)
        return self._timed[key]

    def _run(
        self, kernel: Any, operands: dict[str, Any], parameters: dict[str, Any], functional: bool
    ) -> simulator.Run:
        try:
            with np.errstate(all="ignore"):  # infinity and NaN are valid values, as on the chip
                return simulator.run(
                    kernel,
                    target=self.info.target,
                    functional=functional,
                    pure=True,
                    lnc=self.info.lnc,
                    **operands,
                    **parameters,
                )
        except (simulator.NkiValidationError, AssertionError) as error:
            if not str(error):
                raise  # an assertion without a message indicates a bug, not an invalid argument
            raise KernelError(f"{kernel.__name__} on {self.info.target}: {' '.join(str(error).split())}") from error


class FasterBackend:
    """Times launches as if a resource were twice as fast, by rescheduling the launches that `backend` timed.

    The backend must keep timelines. The time of a launch is not divided among its layers.
    """

    def __init__(self, backend: SimulatedBackend, resource: str) -> None:
        self.info = backend.info
        self._backend, self._resource = backend, resource

    def launch(self, kernel: Any, *arrays: np.ndarray, **parameters: Any) -> LaunchResult:
        """Not implemented, because a hypothetical machine computes nothing."""
        raise KernelError(f"{kernel.__name__}: a run with a faster {self._resource} predicts only times, not values")

    def time(self, kernel: Any, *specs: ArraySpec, **parameters: Any) -> LaunchResult:
        """Return the time with the faster resource, computed from shapes only."""
        result = self._backend.time(kernel, *specs, **parameters)
        assert isinstance(result.timeline, simulator.Run)  # set because the backend keeps timelines
        latency = result.timeline.what_if(self._resource)
        launch = None if result.launch is None else replace(result.launch, latency_us=latency)
        layers = {name: replace(layer, latency_us=0.0) for name, layer in result.layers.items()}
        return replace(result, time=replace(result.time, latency_us=latency), launch=launch, layers=layers)


def open_for_worker(
    target: str, lnc: int = 1, *, progress: Callable[[str], None], warn: Callable[[str], None]
) -> SimulatedBackend:
    """Open the simulator for a target. Workers call this function to open their backend."""
    return open_simulated_backend(target, lnc=lnc)


def open_simulated_backend(target: str | None, keep_timelines: bool = False, lnc: int = 1) -> SimulatedBackend:
    """Open the simulator for a target (see `resolve_target`), and use it for the kernels of this process.

    Raises BackendUnavailable if the process has imported AWS's `nki`, and TargetError if the target has no logical core
    of `lnc` NeuronCores.
    """
    try:
        use_nki("sim")
    except RuntimeError as error:
        raise BackendUnavailable(f"backend 'sim' is not available: {error}") from error
    return SimulatedBackend(resolve_target(target), keep_timelines, lnc)
