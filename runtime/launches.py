"""How a network is launched: layer by layer, or all layers in one launch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from ..models.files import Model
from ..models.network import INPUT
from .backend import ArraySpec, Backend, LaunchResult, LaunchTime
from .network_plan import DoesNotFit, NetworkLaunch, NetworkPlan
from .plan import DTYPES, plan_network
from .timing import BATCH, Row, with_batch

LAUNCHES = ("network", "layer")

Progress = Callable[[float], None]  # is given the share of a batch that is done


@dataclass(frozen=True)
class Ran:
    """One batch: what the last layer gave [B, outputs], the largest of each int32 [B], and a time and a timeline a row.

    Of values there is no largest: -1.
    """

    scores: np.ndarray
    classes: np.ndarray
    times: tuple[LaunchTime, ...]
    timelines: tuple[object | None, ...]


class Launches(Protocol):
    """A network as launches. `rows` are those of its table; `note` says why it is not launched as was asked."""

    rows: tuple[Row, ...]
    note: str | None

    def run(self, backend: Backend, data: np.ndarray, progress: Progress) -> Ran:
        """Run a batch [B, *input] of the dtype that was planned for."""

    def time(self, backend: Backend, batch: int) -> tuple[tuple[LaunchTime, ...], tuple[object | None, ...]]:
        """A time and a timeline a row for a batch of that size, from shapes alone."""


def plan_launches(model: Model, dtype: str, how: str, tells_layers: bool) -> Launches:
    """The launches of a network, by `how` of LAUNCHES; layer by layer where it cannot be one launch.

    `tells_layers`: the backend tells the time of each layer within a launch.
    """
    if how == "layer":
        return LayerLaunches(model, dtype, None)
    try:
        return OneLaunch(model, dtype, tells_layers)
    except DoesNotFit as reason:
        return LayerLaunches(model, dtype, f"layer by layer, not in one launch: {reason}")


class LayerLaunches:
    """A launch or a few for each layer; what passes between them lies in HBM."""

    def __init__(self, model: Model, dtype: str, note: str | None) -> None:
        from .. import kernels  # not before the backend is chosen: loading a kernel settles which `nki` it gets

        self.note = note
        self._of_values = model.network.output.kind == "values"
        self._dtype = DTYPES[dtype]
        self._steps = plan_network(model, self._dtype)
        self._kernels: list[Any] = [kernels.kernel(step.kernel) for step in self._steps]
        for step in self._steps:
            _keep(*step.operands)
        self.rows = tuple(step.row for step in self._steps)

    def run(self, backend: Backend, data: np.ndarray, progress: Progress) -> Ran:
        """See `Launches`."""
        size = len(data)
        launches: list[LaunchResult] = []
        values: dict[str, Any] = {INPUT: data}
        left = Counter(name for step in self._steps for name in step.reads)
        read: list[Any] = [data]
        for step, kernel in zip(self._steps, self._kernels, strict=True):
            shapes = [with_batch(shape, size) for shape in step.input_shapes]
            read = [values[name].reshape(shape) for name, shape in zip(step.reads, shapes)]
            launches.append(backend.launch(kernel, *read, *step.operands, **step.parameters))
            values[step.name] = launches[-1].outputs[0]
            for name in step.reads:  # what nothing reads any more is let go
                left[name] -= 1
                if not left[name]:
                    del values[name]
            progress(len(launches) / len(self._steps))
        given = np.asarray(launches[-1].outputs[0])
        if self._of_values:
            return Ran(given.reshape(size, -1), _no_classes(size), *_told(launches))
        return Ran(np.asarray(read[0]), given, *_told(launches))

    def time(self, backend: Backend, batch: int) -> tuple[tuple[LaunchTime, ...], tuple[object | None, ...]]:
        """See `Launches`."""
        launches = []
        for step, kernel in zip(self._steps, self._kernels, strict=True):
            data = [ArraySpec(with_batch(shape, batch), self._dtype) for shape in step.input_shapes]
            operands = [ArraySpec(operand.shape, operand.dtype) for operand in step.operands]
            launches.append(backend.time(kernel, *data, *operands, **step.parameters))
        return _told(launches)


class OneLaunch:
    """All layers in one launch, what passes between them in SBUF.

    Its rows are the launch and then each layer where the backend tells the layers apart, else one for the network.
    """

    def __init__(self, model: Model, dtype: str, tells_layers: bool) -> None:
        """DoesNotFit where the network cannot be one launch."""
        from .. import kernels  # not before the backend is chosen

        self.note: str | None = None
        self._dtype = DTYPES[dtype]
        self._plan = NetworkPlan(model, self._dtype)
        self._kernel = kernels.kernel("run_network")
        self._tells_layers = tells_layers
        shape = model.network.input.shape
        self._image = self._plan.image
        self._of_values = model.network.output.kind == "values"
        before, after = (BATCH, *shape), (BATCH, model.network.outputs)
        if tells_layers:
            layers = [Row(each.name, each.shown, *_shapes(each.before, each.after)) for each in self._plan.layers]
            self.rows = (Row("launch", "run_network", before, after), *layers)
        else:
            self.rows = (Row("network", "run_network", before, after),)

    def run(self, backend: Backend, data: np.ndarray, progress: Progress) -> Ran:
        """See `Launches`."""
        planned = self._plan.launch(len(data))
        whole = np.zeros((_whole(len(data), planned), *self._image), self._dtype)
        whole[: len(data)] = data.reshape(-1, *self._image)
        operands = (planned.weights, planned.constants)
        _keep(*operands)
        result = backend.launch(self._kernel, whole, *operands, **_parameters(planned))
        progress(1.0)
        scores, classes = (np.asarray(output)[: len(data)] for output in result.outputs)
        return Ran(scores, _no_classes(len(data)) if self._of_values else classes, *self._rows_of(result))

    def time(self, backend: Backend, batch: int) -> tuple[tuple[LaunchTime, ...], tuple[object | None, ...]]:
        """See `Launches`."""
        planned = self._plan.launch(batch)
        x = ArraySpec((_whole(batch, planned), *self._image), self._dtype)
        operands = [ArraySpec(operand.shape, operand.dtype) for operand in (planned.weights, planned.constants)]
        return self._rows_of(backend.time(self._kernel, x, *operands, **_parameters(planned)))

    def _rows_of(self, result: LaunchResult) -> tuple[tuple[LaunchTime, ...], tuple[object | None, ...]]:
        if not self._tells_layers:
            return (result.time,), (result.timeline,)
        # How sure a prediction is, is known of the launch as a whole: each row has that.
        error = result.time.latency_error
        launch = LaunchTime(result.launch_us, bound_by="latency", mfu=0.0, latency_error=error)
        layers = [replace(layer, latency_error=error) for layer in result.layers]
        return (launch, *layers), (result.timeline, *[None] * len(layers))


def _keep(*operands: np.ndarray) -> None:
    """Weights: nobody may write to them from now on, so that a backend may keep them on the device."""
    for operand in operands:
        operand.setflags(write=False)


def _told(launches: list[LaunchResult]) -> tuple[tuple[LaunchTime, ...], tuple[object | None, ...]]:
    return tuple(launch.time for launch in launches), tuple(launch.timeline for launch in launches)


def _no_classes(size: int) -> np.ndarray:
    return np.full(size, -1, np.int32)


def _shapes(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A layer's shapes as rows show them: features without the axes that an image has."""
    shown = [shape[:1] if shape[1:] == (1, 1) else shape for shape in (before, after)]
    return (BATCH, *shown[0]), (BATCH, *shown[1])


def _whole(batch: int, planned: NetworkLaunch) -> int:
    """The batch filled up to a multiple of the images side by side."""
    return -(-batch // planned.together) * planned.together


def _parameters(planned: NetworkLaunch) -> dict[str, Any]:
    return {
        "program": planned.program,
        "together": planned.together,
        "images_at_once": planned.images_at_once,
    }
