"""Slower launches that are used if the chip fails to compile or run the planned launches. They are tried in this order:

the launches as requested
launches with at most half as many instructions as the largest requested launch
layer by layer

The next kind is chosen when a launch fails. This module depends only on launches, not on how a network is lowered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from .. import simulator
from ..lowering.show import ShownLaunch
from ..models.files import Model
from .backend import ArraySpec, Backend, BackendInfo, LaunchResult, LaunchTime, split_arguments
from .launch_options import LaunchOptions
from .launches import BatchRun, Launches, Progress, plan_launches
from .neuron.errors import CompileError, ExecutionError
from .timing import Row, add_times

Result = TypeVar("Result")
Timelines = tuple[object | None, ...]


@dataclass(frozen=True)
class PlannedLaunch:
    """A kernel, the shapes and dtypes of its operands, keyed by name, and its other arguments."""

    kernel: Any
    operands: tuple[tuple[str, tuple[int, ...], str], ...]
    parameters: tuple[tuple[str, Any], ...]

    def count_instructions(self, target: str) -> int:
        """Count the instructions of the unrolled kernel by running it on shapes only on the simulator."""
        specs: dict[str, Any] = {name: simulator.TensorSpec(shape, dtype) for name, shape, dtype in self.operands}
        run = simulator.run(self.kernel, target=target, functional=False, **specs, **dict(self.parameters))
        return max(len(program) for program in run.prediction.programs)


class _Recorder:
    """A backend that records the launches passed to `time`, and runs nothing."""

    def __init__(self, info: BackendInfo) -> None:
        self.info = info
        self.launches: list[PlannedLaunch] = []

    def launch(self, kernel: Any, *arrays: Any, **parameters: Any) -> LaunchResult:
        raise NotImplementedError

    def time(self, kernel: Any, *specs: ArraySpec, **parameters: Any) -> LaunchResult:
        arrays, others = split_arguments(kernel, specs, parameters)
        operands = tuple((name, tuple(spec.shape), np.dtype(spec.dtype).name) for name, spec in arrays.items())
        self.launches.append(PlannedLaunch(kernel, operands, tuple(sorted(others.items()))))
        return LaunchResult((), LaunchTime(0.0))


def planned_launches(launches: Launches, info: BackendInfo, batch: int) -> tuple[PlannedLaunch, ...]:
    """Return the launches of a batch of the given size, in order."""
    recorder = _Recorder(info)
    launches.time(recorder, batch)
    return tuple(recorder.launches)


class FallbackLaunches:
    """The launches of a network, which are replaced with slower ones if the chip rejects them.

    `warn` is called with a line for each replacement.

    The rows of the first plan are kept: if it has one row for the network, that row contains the total time of all
    launches.
    """

    def __init__(
        self,
        model: Model,
        dtype: str,
        info: BackendInfo,
        options: LaunchOptions,
        batch: int,
        warn: Callable[[str], None],
    ) -> None:
        self._plan: Callable[[LaunchOptions], Launches] = lambda changed: plan_launches(
            model, dtype, info, changed, batch
        )
        self._name = model.network.name
        self._info = info
        self._options = options
        self._warn = warn
        self._current = self._plan(options)
        self._is_halved = False
        self.rows: tuple[Row, ...] = self._current.rows
        self.note: str | None = self._current.note

    def run(self, backend: Backend, data: np.ndarray, progress: Progress) -> BatchRun:
        """See `Launches`. If a launch fails, the batch is restarted."""
        result = self._attempt(len(data), lambda launches: launches.run(backend, data, progress))
        return replace(result, times=self._folded(result.times), timelines=self._shown(result.timelines))

    def time(self, backend: Backend, batch: int) -> tuple[tuple[LaunchTime, ...], Timelines]:
        """See `Launches`."""
        times, timelines = self._attempt(batch, lambda launches: launches.time(backend, batch))
        return self._folded(times), self._shown(timelines)

    def show(self, batch: int) -> list[ShownLaunch]:
        """See `Launches`."""
        return self._current.show(batch)

    def _attempt(self, batch: int, work: Callable[[Launches], Result]) -> Result:
        while True:
            try:
                return work(self._current)
            except (CompileError, ExecutionError) as error:
                slower = self._slower(batch)
                if slower is None:
                    raise
                self._current, description = slower
                self._warn(f"{self._name}: {error}; continuing {description}")
                self.note = description

    def _slower(self, batch: int) -> tuple[Launches, str] | None:
        """Return the next slower launches and their description, or None if there are none."""
        if self._options.per == "layer":
            return None
        if not self._is_halved:
            self._is_halved = True
            failed = planned_launches(self._current, self._info, batch)
            limit = max(1, max(launch.count_instructions(self._info.target) for launch in failed) // 2)
            halves = self._plan(replace(self._options, instructions=limit))
            if planned_launches(halves, self._info, batch) != failed:
                return halves, f"in launches of at most {limit:,} instructions"
        if self._info.lnc > 1:  # launches of single layers use one core only
            return None
        self._options = replace(self._options, per="layer")
        return self._plan(self._options), "layer by layer"

    def _folded(self, times: tuple[LaunchTime, ...]) -> tuple[LaunchTime, ...]:
        if len(times) == len(self.rows):
            return times
        return add_times([(time,) for time in times])

    def _shown(self, timelines: Timelines) -> Timelines:
        return timelines if len(timelines) == len(self.rows) else (None,) * len(self.rows)
