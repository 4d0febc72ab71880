"""Launch a network layer by layer: it is lowered as usual but split after every layer, with intermediate values in HBM.

A dense layer is a sequence of single kernels: transpose, matmul, bias and activation, including a softmax that follows
it. A convolution is the fused kernel, which includes pooling, and also a residual sum if no other layer reads the
convolution. Any other layer is a separate program. Flattening and reshaping to features are views and need no launch.
The last launch finds the class with the largest score.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from ..kernels.convolution.forms import Form
from ..kernels.program import MAX_INPUTS, input_name
from ..lowering.config import LoweringConfig
from ..lowering.graph.graph import Graph, Unsupported
from ..lowering.launch_plan import LaunchPlanner
from ..lowering.layer_graph import computes_nothing, lower_layer
from ..lowering.pipeline import LaunchPlan
from ..lowering.show import ShownLaunch
from ..models.checks import INPUT, Shape
from ..models.files import Model
from ..models.layers import Combine, Concat, Conv2d, Dense, Layer, Softmax
from ..models.layout import pack_conv2d
from ..simulator.timing.constants import machine
from .backend import ArraySpec, Backend, KernelError, LaunchResult
from .timing import BATCH, Row, with_batch


@dataclass(frozen=True)
class KernelStep:
    """A launch of a single kernel, named as in trninfer.kernels.

    Its operands are data, followed by the constants that `make` returns.
    """

    name: str
    kernel: str
    reads: tuple[str, ...]  # sources of the data: "input", or the steps that compute it
    input_shapes: tuple[Shape, ...]
    output_shape: Shape
    make: Callable[[], tuple[np.ndarray, ...]] = tuple
    parameters: Mapping[str, Any] = field(default_factory=dict)
    answers: tuple[int, ...] = ()
    layers: tuple[str, ...] = ()

    @cached_property
    def operands(self) -> tuple[np.ndarray, ...]:
        """The constants, which are created when they are first needed.

        They are read-only, so that a backend can cache them.
        """
        operands = tuple(operand.view() for operand in self.make())  # the model's own tensors stay writable
        for operand in operands:
            operand.setflags(write=False)
        return operands

    def launch(self, backend: Backend, data: list[Any]) -> LaunchResult:
        """Run the step on data of `input_shapes`."""
        return backend.launch(_kernel(self.kernel), *data, *self.operands, **self.parameters)

    def time(self, backend: Backend, batch: int, dtype: np.dtype[Any]) -> LaunchResult:
        """Time the step from shapes only."""
        data = [ArraySpec(with_batch(shape, batch), dtype) for shape in self.input_shapes]
        operands = [ArraySpec(operand.shape, operand.dtype) for operand in self.operands]
        return backend.time(_kernel(self.kernel), *data, *operands, **self.parameters)

    def predicted_us(self, backend: Backend, batch: int, dtype: np.dtype[Any]) -> float:
        """Return the microseconds that the simulator predicts for the step."""
        return self.time(backend, batch, dtype).time.latency_us

    def show(self, batch: int) -> ShownLaunch:
        """Return the launch without graph passes, since a single kernel is not lowered."""
        return ShownLaunch(self.name, self.kernel, batch)


@dataclass(frozen=True)
class ProgramStep:
    """A launch of a program that consists of one layer.

    `kernel` is the kind of the layer; all other members are as in `KernelStep`.
    """

    name: str
    kernel: str
    reads: tuple[str, ...]
    input_shapes: tuple[Shape, ...]
    output_shape: Shape
    planner: LaunchPlanner
    dtype: np.dtype[Any]
    answers: tuple[int, ...] = ()
    layers: tuple[str, ...] = ()

    def launch(self, backend: Backend, data: list[Any]) -> LaunchResult:
        """Run the step on data of `input_shapes`."""
        batch = len(data[0])
        plan = self._plan(batch)
        arguments = {
            input_name(number): plan.arrange_input(number, value, self.dtype) for number, value in enumerate(data)
        }
        operands = self.planner.operands(plan, self.dtype)
        result = backend.launch(_kernel("run_network"), **arguments, **operands, program=plan.program)
        ((values, _classes),) = plan.outputs(result.outputs)
        shape = with_batch(self.output_shape, batch)
        values = values if len(values) == batch else np.asarray(values)[:batch]
        return replace(result, outputs=(values.reshape(shape),))

    def time(self, backend: Backend, batch: int, dtype: np.dtype[Any]) -> LaunchResult:
        """Time the step from shapes only."""
        plan = self._plan(batch)
        return backend.time(_kernel("run_network"), **specs_of(plan, dtype), program=plan.program)

    def predicted_us(self, backend: Backend, batch: int, dtype: np.dtype[Any]) -> float:
        """Return the predicted microseconds of the step, which was timed on the simulator when it was planned."""
        return predicted_us(self._plan(batch), backend.info.target)

    def show(self, batch: int) -> ShownLaunch:
        """Return the launch with its graph after each pass."""
        return replace(self.planner.show(batch), name=self.name)

    def _plan(self, batch: int) -> LaunchPlan:
        """Return the planned launch of a batch. Raise KernelError if the layer does not fit into the target's
        memory."""
        try:
            return self.planner.plan(batch)
        except Unsupported as why:
            advice = "; 16-bit dtypes need about half as much" if self.dtype.itemsize > 2 else ""
            raise KernelError(f"in {self.dtype.name}, {why}{advice}") from None


LayerStep: TypeAlias = KernelStep | ProgramStep


def predicted_us(plan: LaunchPlan, target: str) -> float:
    """Return the predicted microseconds of a launch, including its start."""
    return (plan.nanoseconds + machine(target).launch_ns) / 1000


def specs_of(plan: LaunchPlan, dtype: np.dtype[Any]) -> dict[str, ArraySpec]:
    """Return the operands of `run_network` in a launch, keyed by name."""
    inputs = {
        input_name(number): ArraySpec((plan.images, *image), dtype) for number, image in enumerate(plan.graph.inputs)
    }
    return inputs | {name: ArraySpec(*spec) for name, spec in plan.layout.sizes.specs(dtype).items()}


def row_of(step: LayerStep) -> Row:
    """Return a step's row in the table of times."""
    return Row(step.name, step.kernel, step.input_shapes[0], step.output_shape, step.layers)


def plan_layers(model: Model, dtype: np.dtype[Any], config: LoweringConfig) -> tuple[LayerStep, ...]:
    """Return the launches of a network in order, with weights converted to `dtype` and laid out for the kernels.

    The last launch is the argmax of the primary output, unless that output consists of values. Raises Unsupported if a
    layer has no rule.
    """
    return tuple(_Chain(model, dtype, config).steps)


class _Chain:
    """The steps so far, and the source of each layer's value, which is a step or the input of the network."""

    def __init__(self, model: Model, dtype: np.dtype[Any], config: LoweringConfig) -> None:
        self.steps: list[LayerStep] = []
        self._model, self._network = model, model.network
        self._dtype, self._config = dtype, config
        self._shapes = model.network.shapes()
        self._sums: dict[str, KernelStep] = {}  # convolutions into which a residual sum could be fused, by layer
        self._values = {INPUT: INPUT}
        self._answers = [output.layer for output in model.network.named_outputs]
        for layer in model.network.layers:
            self._add(layer)
        self._mark_answers()
        self._add_argmax()

    def _add(self, layer: Layer) -> None:
        if isinstance(layer, Dense):
            self._add_dense(layer)
        elif isinstance(layer, Conv2d):
            self._add_convolution(layer)
        elif isinstance(layer, Softmax) and not layer.log:
            self._add_softmax(layer)
        elif not (isinstance(layer, Combine) and self._add_sum(layer)):
            self._add_program(layer)

    def _add_convolution(self, layer: Conv2d) -> None:
        """Append the convolution fused with its pooling."""
        tensors = self._model.tensors

        def operands() -> tuple[np.ndarray, ...]:
            weight = tensors[f"{layer.name}.weight"].astype(self._dtype)
            return pack_conv2d(weight, tensors[f"{layer.name}.bias"], layer.groups)

        parameters = {
            "in_channels": layer.in_channels,
            "out_channels": layer.out_channels,
            "kernel_size": layer.kernel_size,
            "pool_size": layer.pool_size,
            "stride": layer.stride,
            "padding": layer.padding,
            "dilation": layer.dilation,
            "groups": layer.groups,
            "activation": layer.activation,
            "parameters": layer.activation_parameters,
            "form": "quickest" if any(form.is_minimal for form in self._config.forms) else Form.DIRECT.value,
        }
        step = self._kernel_step(layer, "conv2d", "fused_conv2d_maxpool_packed", operands, parameters)
        self._values[layer.name] = self._append(step)
        plain = layer.pool_size == 1 and layer.activation == "identity"
        if plain and self._network.readers()[layer.name] == 1 and layer.name not in self._answers:
            self._sums[layer.name] = step

    def _add_sum(self, layer: Combine) -> bool:
        """Fuse a sum into the convolution that feeds only this sum.

        The launch is moved to the point at which both operands are available.
        """
        for name, other in (layer.inputs, layer.inputs[::-1]):
            step = self._sums.get(name)
            if layer.operation != "add" or step is None or self._shapes[name] != self._shapes[other]:
                continue
            self.steps = [known for known in self.steps if known is not step]
            parameters = {**step.parameters, **_activation_of(layer)}
            del parameters["pool_size"]
            fused = replace(
                step,
                name=f"{step.name}_add",
                kernel="fused_conv2d_add_packed",
                reads=(*step.reads, self._values[other]),
                input_shapes=(*step.input_shapes, step.output_shape),
                parameters=parameters,
                layers=(*step.layers, layer.name),
            )
            self._values[layer.name] = self._append(fused)
            return True
        return False

    def _add_dense(self, layer: Dense) -> None:
        """Append three launches. The last one includes a softmax if the softmax is the layer's only consumer."""
        features, outputs = layer.in_features, layer.out_features
        tensors = self._model.tensors
        transposed, result = (features, BATCH), (BATCH, outputs)
        activation, work = _activation_of(layer), [layer.name]
        if self._takes_softmax(layer):
            activation = {"activation": "softmax"}
            work.append(self._network.layers[-1].name)
        name, before = layer.name, (self._values[layer.inputs[0]],)
        first = self._append(KernelStep(f"{name}.transpose", "transpose", before, ((BATCH, features),), transposed))
        matmul = KernelStep(
            name=f"{name}.matmul",
            kernel="matmul_fully_optimized",
            reads=(first,),
            input_shapes=(transposed,),
            output_shape=result,
            make=lambda: (np.ascontiguousarray(tensors[f"{name}.weight"], self._dtype),),
            layers=tuple(work),
        )
        second = self._append(matmul)
        last = KernelStep(
            name=f"{name}.bias_activation",
            kernel="bias_activation",
            reads=(second,),
            input_shapes=(result,),
            output_shape=result,
            make=lambda: (np.ascontiguousarray(tensors[f"{name}.bias"], np.float32).reshape(1, outputs),),
            parameters=activation,
        )
        self._values[name] = self._append(last)

    def _add_softmax(self, layer: Softmax) -> None:
        """Append a softmax, unless it is fused into the preceding dense layer."""
        read = layer.inputs[0]
        before = next((other for other in self._network.layers if other.name == read), None)
        self._values[layer.name] = self._values[read]
        if isinstance(before, Dense) and self._takes_softmax(before):
            return
        width = math.prod(self._shapes[layer.name])
        step = self._kernel_step(
            layer, "softmax", "bias_activation", lambda: (np.zeros((1, width), np.float32),), {"activation": "softmax"}
        )
        rows = (BATCH, width)
        self._values[layer.name] = self._append(replace(step, input_shapes=(rows,), output_shape=rows))

    def _add_program(self, layer: Layer) -> None:
        """Append a program for the layer, unless its value equals its input."""
        layer = self._with_few_inputs(layer) if isinstance(layer, Concat) else layer
        graph = lower_layer(self._model, self._dtype, layer, self._shapes)
        if computes_nothing(graph):
            self._values[layer.name] = self._values[layer.inputs[0]]
            return
        self._values[layer.name] = self._append(self._program_step(layer, graph))

    def _with_few_inputs(self, layer: Concat) -> Concat:
        """Split a concatenation that has too many inputs for one launch by first appending concatenations of some of
        its inputs."""
        reads = layer.inputs
        while len(reads) > MAX_INPUTS:
            groups = [reads[first : first + MAX_INPUTS] for first in range(0, len(reads), MAX_INPUTS)]
            reads = ()
            for group in groups:
                part = Concat(f"{layer.name}.inputs{len(self.steps)}", inputs=group)
                self._shapes[part.name] = part.output_shape(*(self._shapes[name] for name in group))
                self._add_program(part)
                reads = (*reads, part.name)
        return replace(layer, inputs=reads)

    def _program_step(self, layer: Layer, graph: Graph) -> ProgramStep:
        names = list(dict.fromkeys(layer.inputs))
        return ProgramStep(
            name=f"{layer.name}.{graph.nodes[-1].kind}",
            kernel=graph.nodes[-1].kind,
            reads=tuple(self._values[name] for name in names),
            input_shapes=tuple((BATCH, *self._shapes[name]) for name in names),
            output_shape=(BATCH, *self._shapes[layer.name]),
            planner=LaunchPlanner(graph, self._config),
            dtype=self._dtype,
            # an operand of a concatenation is not a layer
            layers=tuple(layer_part.name for layer_part in self._network.layers if layer_part.name == layer.name),
        )

    def _kernel_step(
        self,
        layer: Layer,
        label: str,
        kernel: str,
        make: Callable[[], tuple[np.ndarray, ...]],
        parameters: Mapping[str, Any],
    ) -> KernelStep:
        return KernelStep(
            name=f"{layer.name}.{label}",
            kernel=kernel,
            reads=tuple(self._values[name] for name in layer.inputs),
            input_shapes=tuple((BATCH, *self._shapes[name]) for name in layer.inputs),
            output_shape=(BATCH, *self._shapes[layer.name]),
            make=make,
            parameters=parameters,
            layers=(layer.name,),
        )

    def _append(self, step: LayerStep) -> str:
        self.steps.append(step)
        return step.name

    def _takes_softmax(self, layer: Dense) -> bool:
        last = self._network.layers[-1]
        alone = self._network.readers()[layer.name] == 1 and last.inputs == (layer.name,)
        alone = alone and layer.name not in self._answers
        return layer.activation == "identity" and alone and isinstance(last, Softmax) and not last.log

    def _mark_answers(self) -> None:
        """Mark the steps that compute outputs. If the network's input is an output, append a copy of it."""
        for number, name in enumerate(self._answers):
            if self._values[name] == INPUT:
                last = next(layer for layer in self._network.layers if layer.name == name)
                graph = lower_layer(self._model, self._dtype, last, self._shapes)
                self._values[name] = self._append(self._program_step(last, graph))
            index = next(n for n, step in enumerate(self.steps) if step.name == self._values[name])
            step = self.steps[index]
            assert isinstance(step, (KernelStep, ProgramStep))
            self.steps[index] = replace(step, answers=(*step.answers, number))

    def _add_argmax(self) -> None:
        """Append the argmax of the primary output, unless it consists of values."""
        if not self._network.output.is_labelled:
            return
        last = self._network.layers[-1].name
        shape = (BATCH, *self._shapes[last])
        self._append(KernelStep("argmax", "argmax", (self._values[last],), (shape,), (BATCH,)))


def _activation_of(layer: Dense | Combine) -> dict[str, Any]:
    return {"activation": layer.activation, "parameters": layer.activation_parameters}


def _kernel(name: str) -> Any:
    from .. import kernels  # only after the backend is chosen: importing a kernel decides which `nki` it uses

    return kernels.kernel(name)
