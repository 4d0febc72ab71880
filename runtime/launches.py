"""The launches of a network: one for each layer, or as few as possible."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from ..kernels.convolution.forms import DEPTHWISE, QUICKEST, worthwhile
from ..lowering.config import LoweringConfig
from ..lowering.describe import forms_by_layer, rows_of
from ..lowering.eight_bits import EightBits
from ..lowering.graph.graph import Unsupported
from ..lowering.launch_sequence import LaunchSequence, describe_fault
from ..lowering.pipeline import LaunchPlan
from ..lowering.show import ShownLaunch as ShownLaunch  # re-exported for app, which imports runtime only
from ..models.checks import INPUT
from ..models.files import Model
from ..simulator.machine.chip import find_target
from .backend import DTYPES, EIGHT_BITS, NETWORK_DTYPES, Backend, BackendInfo, KernelError, LaunchResult, LaunchTime
from .calibration import Calibration, own_calibration
from .launch_options import DEFAULT_LAUNCHES, LaunchOptions
from .layer_launches import plan_layers, predicted_us, row_of, specs_of
from .model_flops import row_operations, with_model_flops
from .quicker_layers import quicker
from .simulated import SimulatedBackend
from .timing import BATCH, Row, add_times, with_batch

_LOG = logging.getLogger(__name__)

Progress = Callable[[float], None]  # called with the completed fraction of a batch, 0 to 1


@dataclass(frozen=True)
class BatchRun:
    """The result of one batch: the scores of all outputs [B, row_size] in the order of `named_outputs`, the classes of
    the primary output as int32 [B] (-1 for values), and a time and a timeline for each row."""

    scores: np.ndarray
    classes: np.ndarray
    times: tuple[LaunchTime, ...]
    timelines: tuple[object | None, ...]


class Launches(Protocol):
    """The launches of a network.

    `rows` are the rows of its table. `note` explains why it is not launched as requested.
    """

    rows: tuple[Row, ...]
    note: str | None

    def run(self, backend: Backend, data: np.ndarray, progress: Progress) -> BatchRun:
        """Run a batch [B, *input] in the planned dtype."""

    def time(self, backend: Backend, batch: int) -> tuple[tuple[LaunchTime, ...], tuple[object | None, ...]]:
        """Time a batch of the given size from shapes only, and return a time and a timeline for each row."""

    def show(self, batch: int) -> list[ShownLaunch]:
        """Return the launches of a batch of the given size, with the graphs from which they were lowered."""


def plan_launches(
    model: Model, dtype: str, info: BackendInfo, options: LaunchOptions = DEFAULT_LAUNCHES, batch: int = 1
) -> Launches:
    """Return the launches of a network. They are layer by layer if its layers cannot share a launch.

    `info` describes the backend. `batch` is the typical batch size, to which `note` refers. Raises KernelError if
    the network would have to run layer by layer on two cores.
    """
    if dtype == EIGHT_BITS:
        return _in_eight_bits(model, info, options, batch)
    config = config_of(dtype, info, options)
    if options.per == "layer":
        _check_one_core(model, info, "as asked for")
        return LayerLaunches(model, dtype, None, config)
    try:
        launches = NetworkLaunches(model, dtype, config, options.instructions, batch, info.has_layer_times)
        return quicker(model.network, dtype, info, batch, launches, lambda: LayerLaunches(model, dtype, None, config))
    except Unsupported as reason:
        why = str(reason)
    except Exception as fault:  # a bug in planning must not stop the network: launches of single layers still work
        _LOG.exception("%s: no plan of one launch in %s", model.network.name, dtype)
        why = f"its plan failed ({describe_fault(fault)})"
    _check_one_core(model, info, why)
    return LayerLaunches(model, dtype, f"layer by layer, not in one launch: {why}", config)


def _check_one_core(model: Model, info: BackendInfo, reason: str) -> None:
    if info.lnc > 1:
        raise KernelError(
            f"{model.network.name}: runs layer by layer ({reason}), so on one NeuronCore; omit --lnc {info.lnc}"
        )


def _in_eight_bits(model: Model, info: BackendInfo, options: LaunchOptions, batch: int) -> Launches:
    """Return the launches of a network that uses 8-bit values, with a note on its 8-bit layers.

    Raise KernelError if this is impossible.
    """
    if options.per == "layer":
        raise KernelError(f"{EIGHT_BITS} requires --launches network; single layers run in --dtype bfloat16")
    calibration = options.calibration or own_calibration(model.network)
    config = config_of(EIGHT_BITS, info, options)
    values = find_target(info.target).generation > 2  # older cores multiply 8 bits no faster than 16
    largest = partial(_largest, calibration, model)
    eight_bits = EightBits(largest, values, are_all=options.eight_bits == "all")
    config = replace(config, eight_bits=eight_bits)
    try:
        launches = NetworkLaunches(model, EIGHT_BITS, config, options.instructions, batch, info.has_layer_times)
    except Unsupported as reason:
        raise KernelError(f"{EIGHT_BITS} requires a network in one launch: {reason}; try --dtype bfloat16") from None
    launches.note = "; ".join(filter(None, [launches.eight_bits_note(calibration.source), launches.note]))
    return launches


def _largest(calibration: Calibration, model: Model, layer: str) -> float:
    return calibration.trace(model).largest[layer]


def config_of(dtype: str, info: BackendInfo, options: LaunchOptions) -> LoweringConfig:
    """Return the lowering settings for a backend."""
    itemsize = NETWORK_DTYPES[dtype].itemsize
    is_old = find_target(info.target).generation == 2
    forms = (*worthwhile(is_old, itemsize), *DEPTHWISE) if options.form == QUICKEST else ()
    return LoweringConfig(info.target, itemsize, forms, cores=info.lnc)


class LayerLaunches:
    """One or more launches for each layer; intermediate values are stored in HBM."""

    def __init__(self, model: Model, dtype: str, note: str | None, config: LoweringConfig) -> None:
        self.note = note
        self._of_values = not model.network.output.is_labelled
        self._dtype = DTYPES[dtype]
        self._steps = plan_layers(model, self._dtype, config)
        self.rows = tuple(row_of(step) for step in self._steps)
        self._work = row_operations(model.network, self.rows)

    def run(self, backend: Backend, data: np.ndarray, progress: Progress) -> BatchRun:
        """See `Launches`."""
        size = len(data)
        launches: list[LaunchResult] = []
        values: dict[str, Any] = {INPUT: data}
        answers: dict[int, np.ndarray] = {}
        left = Counter(name for step in self._steps for name in step.reads)
        for step in self._steps:
            shapes = [with_batch(shape, size) for shape in step.input_shapes]
            read = [values[name].reshape(shape) for name, shape in zip(step.reads, shapes)]
            launches.append(step.launch(backend, read))
            values[step.name] = launches[-1].outputs[0]
            answers |= {number: _numbers(values[step.name], size) for number in step.answers}
            left.subtract(step.reads)
            values = {name: value for name, value in values.items() if left[name] or name not in step.reads}
            progress(len(launches) / len(self._steps))
        classes = _no_classes(size) if self._of_values else np.asarray(launches[-1].outputs[0])
        scores = np.concatenate([answers[n] for n in sorted(answers)], axis=1)
        return BatchRun(scores, classes, *self._times(launches, size))

    def time(self, backend: Backend, batch: int) -> tuple[tuple[LaunchTime, ...], tuple[object | None, ...]]:
        """See `Launches`."""
        return self._times([step.time(backend, batch, self._dtype) for step in self._steps], batch)

    def predicted_us(
        self, target: str, batch: int, most: float = math.inf, least: Mapping[str, float] = MappingProxyType({})
    ) -> float:
        """Return the predicted microseconds of a batch of the given size, or a lower bound if the prediction reaches
        `most`.

        `least` contains lower bounds on the microseconds of layers, which are used until the launches of the layers are
        predicted.
        """
        backend, total = SimulatedBackend(target), sum(least.values())
        for step in sorted(self._steps, key=lambda step: not step.layers):  # one bound may cover several steps
            if total >= most:
                break
            total += step.predicted_us(backend, batch, self._dtype) - sum(least.get(name, 0.0) for name in step.layers)
        return total

    def show(self, batch: int) -> list[ShownLaunch]:
        """See `Launches`."""
        return [step.show(batch) for step in self._steps]

    def _times(
        self, launches: list[LaunchResult], batch: int
    ) -> tuple[tuple[LaunchTime, ...], tuple[object | None, ...]]:
        times = [with_model_flops(launch.time, work, batch) for launch, work in zip(launches, self._work, strict=True)]
        return tuple(times), tuple(launch.timeline for launch in launches)


class NetworkLaunches:
    """The network in as few launches as possible; intermediate values stay in SBUF if they fit.

    If the backend times layers, the first row is the launch, followed by a row for each layer; otherwise there is one
    row for the network.
    """

    def __init__(
        self, model: Model, dtype: str, config: LoweringConfig, instructions: int, batch: int, has_layer_times: bool
    ) -> None:
        """See `plan_launches`. Raises Unsupported if the kernel cannot express the network."""
        from .. import kernels  # only after the backend is chosen

        self._dtype = NETWORK_DTYPES[dtype]
        self._plan = LaunchSequence(model, self._dtype, config, instructions, batch)
        self.note = self._plan.note_of(batch)
        self._kernel = kernels.kernel("run_network")
        self._has_layer_times = has_layer_times
        shape = model.network.input.shape
        self._of_values = not model.network.output.is_labelled
        before, after = (BATCH, *shape), (BATCH, model.network.outputs)
        if has_layer_times:
            layers = [
                Row(row.name, row.kind, *_shapes(row.before, row.after), row.layers)
                for row in rows_of(self._plan.graph)
            ]
            self.rows = (Row("launch", "run_network", before, after), *layers)
        else:
            every = tuple(layer.name for layer in model.network.layers)
            self.rows = (Row("network", "run_network", before, after, every),)
        self._work = row_operations(model.network, self.rows)

    def eight_bits_note(self, source: str) -> str:
        """Describe which layers use 8-bit values; `source` is the origin of the scales."""
        return self._plan.eight_bits_note(source)

    def run(self, backend: Backend, data: np.ndarray, progress: Progress) -> BatchRun:
        """See `Launches`."""
        results_of_segments: list[list[tuple[Any, Any]]] = []
        results = []
        step = self._plan.images(len(data))
        for first in range(0, len(data), step):
            value: Any = self._plan.image.of(data[first : first + step])
            size = len(value)
            for number, segment in enumerate(self._plan.segments):
                plan = segment.plan(size)
                value = segment.arrange(value, plan, self._dtype)
                operands = segment.operands(plan, self._dtype)
                result = backend.launch(self._kernel, value, **operands, program=plan.program)
                results.append((number, plan, result))
                answers = plan.outputs(result.outputs)
                value = answers[0][0]
                progress((first + size * (number + 1) / len(self._plan.segments)) / len(data))
            results_of_segments.append([_first(plan, size, *answer) for answer in answers])
        scores = np.concatenate(
            [np.concatenate([values for values, _ in outputs], axis=1) for outputs in results_of_segments]
        )
        classes = (
            _no_classes(len(data))
            if self._of_values
            else np.concatenate([outputs[0][1] for outputs in results_of_segments])
        )
        return BatchRun(scores, classes, *self._rows_of(results, len(data)))

    def time(self, backend: Backend, batch: int) -> tuple[tuple[LaunchTime, ...], tuple[object | None, ...]]:
        """See `Launches`."""
        results = []
        for number, plan in self._planned(batch):
            result = backend.time(self._kernel, **specs_of(plan, self._dtype), program=plan.program)
            results.append((number, plan, result))
        return self._rows_of(results, batch)

    def predicted_us(self, target: str, batch: int) -> float:
        """Return the predicted microseconds of a batch of the given size.

        Its launches were timed when they were planned.
        """
        return sum(predicted_us(plan, target) for _, plan in self._planned(batch))

    def _planned(self, batch: int) -> Iterator[tuple[int, LaunchPlan]]:
        """Yield the launches of a batch, each with the number of its segment."""
        step = self._plan.images(batch)
        for first in range(0, batch, step):
            for number, segment in enumerate(self._plan.segments):
                yield number, segment.plan(min(step, batch - first))

    def show(self, batch: int) -> list[ShownLaunch]:
        """See `Launches`."""
        return self._plan.show(batch)

    def _rows_of(
        self, results: list[tuple[int, LaunchPlan, LaunchResult]], batch: int
    ) -> tuple[tuple[LaunchTime, ...], tuple[object | None, ...]]:
        """Return the time and the timeline of each row. `results` contains the segment number, plan and result of each
        launch.

        The first row of a segment has the timeline of the segment's first launch.
        """
        if not self._has_layer_times:
            (time,) = add_times([(result.time,) for *_, result in results])
            return (with_model_flops(time, self._work[0], batch),), (results[0][2].timeline,)
        times: list[LaunchTime] = [*add_times([(_launch_of(result),) for *_, result in results])]
        timelines: list[object | None] = [results[0][2].timeline]
        for number in range(len(self._plan.segments)):
            launches = [(plan, result) for n, plan, result in results if n == number]
            layers = [_layers_of(plan, result) for plan, result in launches]
            times += add_times(layers)
            timelines += [launches[0][1].timeline if number else None, *(None,) * (len(layers[0]) - 1)]
        modelled = [with_model_flops(time, work, batch) for time, work in zip(times, self._work, strict=True)]
        return tuple(modelled), tuple(timelines)


def _layers_of(planned: LaunchPlan, result: LaunchResult) -> tuple[LaunchTime, ...]:
    """Return the times of a launch's layers. The expected error is known only for the whole launch and is assigned to
    each row."""
    error = result.time.latency_error
    none = LaunchTime(0.0, hardware_flops=0)
    return tuple(
        replace(result.layers.get(name, none), latency_error=error, form=form)
        for name, form in forms_by_layer(planned.graph).items()
    )


def _launch_of(result: LaunchResult) -> LaunchTime:
    """Return the part of a launch's time that is not attributed to any layer."""
    assert result.launch is not None  # set for the network kernel on a backend that times layers
    return replace(result.launch, latency_error=result.time.latency_error)


def _first(planned: LaunchPlan, size: int, values: Any, classes: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the values [size, numbers] and the classes of the first `size` inputs; the rest of the batch is
    padding."""
    scores = _numbers(planned.pictures_of(values)[:size], size)
    return scores, None if classes is None else planned.pictures_of(classes)[:size]


def _numbers(values: Any, size: int) -> np.ndarray:
    """Return an output as rows [size, numbers]; classes of pixels are converted to float32, which represents them
    exactly."""
    rows = np.asarray(values).reshape(size, -1)
    return rows.astype(np.float32) if rows.dtype.kind in "iu" else rows


def _no_classes(size: int) -> np.ndarray:
    return np.full(size, -1, np.int32)


def _shapes(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shapes shown in a layer's row; features are shown without image axes."""
    shapes = [shape[:1] if shape[1:] == (1, 1) else shape for shape in (before, after)]
    return (BATCH, *shapes[0]), (BATCH, *shapes[1])
