"""What each kind of layer launches: kernels by name, with operands laid out for them.

Most layers are one launch. A convolution that feeds a sum, and nothing else, is one launch with it. A Dense is three
(transpose, matmul, bias and activation), and takes the Softmax after it into its last one. Flatten and Reshape are
views of what lies in HBM and launch nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..models.checks import INPUT, Shape
from ..models.files import Model
from ..models.layers import (
    Activation,
    Affine,
    ChannelShuffle,
    ChannelSlice,
    Combine,
    Concat,
    Conv2d,
    Dense,
    Flatten,
    GroupNorm,
    Layer,
    LayerNorm,
    LocalResponseNorm,
    Pad,
    Pool,
    PRelu,
    Reshape,
    Softmax,
    Transpose,
)
from ..models.layout import pack_conv2d
from .timing import BATCH, Row

CONCAT_AT_ONCE = 8  # tensors that the kernel takes
DEPTHWISE_WINDOW = 8192  # pixels that a filter of the depthwise kernel spans
NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True)
class LayerLaunch:
    """One launch: `kernel` (a name in trninfer.kernels) on data, then `operands`, with `parameters`.

    `reads` names the data: the input of the network ("input") or the step that gave it. Shapes are those in which the
    kernel takes the data and gives its result; BATCH stands for the batch axis. `answers` are the numbers of the
    network's outputs that it computes.
    """

    name: str
    kernel: str
    reads: tuple[str, ...]
    input_shapes: tuple[Shape, ...]
    output_shape: Shape
    operands: tuple[np.ndarray, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    answers: tuple[int, ...] = ()

    @property
    def row(self) -> Row:
        """The step in the table of times."""
        return Row(self.name, self.kernel, self.input_shapes[0], self.output_shape)


def plan_layers(model: Model, dtype: np.dtype[Any], form: str = "quickest") -> tuple[LayerLaunch, ...]:
    """The launches of a network in order, weights cast to `dtype` and laid out for the kernels; biases stay float32.

    The last one is the argmax of what the network gives, unless that is values. `form`: in which filters are multiplied
    (kernels/convolution/forms.py).
    """
    return tuple(_Chain(model, dtype, form).launches)


class _Chain:
    def __init__(self, model: Model, dtype: np.dtype[Any], form: str) -> None:
        self.launches: list[LayerLaunch] = []
        self._network = model.network
        self._tensors = model.tensors
        self._dtype = dtype
        self._form = form
        self._shapes = model.network.shapes()
        self._sums: dict[str, LayerLaunch] = {}  # convolutions, by layer, that a sum can be fused into
        self._values = {INPUT: INPUT}  # what gave a layer's output: a step, or the input of the network
        self._answers = [named.layer for named in model.network.named_outputs]
        for layer in model.network.layers:
            _KINDS[type(layer)](self, layer)
        self._mark_answers()
        self._add_argmax()

    def launch(
        self,
        layer: Layer,
        kernel: str,
        operands: tuple[np.ndarray, ...] = (),
        parameters: Mapping[str, Any] = NOTHING,
        name: str = "",
    ) -> None:
        """A launch that reads and gives what the layer does; its name ends in `name`, else the kernel's."""
        reads = tuple(self._values[read] for read in layer.inputs)
        before = tuple((BATCH, *self._shapes[read]) for read in layer.inputs)
        after = (BATCH, *self._shapes[layer.name])
        step = LayerLaunch(f"{layer.name}.{name or kernel}", kernel, reads, before, after, operands, parameters)
        self._values[layer.name] = self._append(step)

    def view(self, layer: Layer) -> None:
        """The layer's output is its input, in another shape."""
        self._values[layer.name] = self._values[layer.inputs[0]]

    def numbers(self, layer: Layer, name: str) -> np.ndarray:
        """A tensor of numbers for each channel or element, in float32."""
        return np.ascontiguousarray(self._tensors[f"{layer.name}.{name}"], np.float32)

    def conv2d(self, layer: Conv2d) -> None:
        """Depthwise convolutions have a kernel of their own."""
        weight = self._tensors[f"{layer.name}.weight"].astype(self._dtype)
        parameters = {
            "stride": layer.stride,
            "padding": layer.padding,
            "dilation": layer.dilation,
            **_activation_of(layer),
        }
        if _is_depthwise(layer):
            operands = (np.ascontiguousarray(weight), self.numbers(layer, "bias"))
            self.launch(layer, "depthwise_conv2d", operands, parameters)
            return
        parameters.update(
            in_channels=layer.in_channels,
            out_channels=layer.out_channels,
            kernel_size=layer.kernel_size,
            pool_size=layer.pool_size,
            groups=layer.groups,
            form=self._form,
        )
        packed = pack_conv2d(weight, self._tensors[f"{layer.name}.bias"], layer.groups)
        self.launch(layer, "fused_conv2d_maxpool_packed", packed, parameters, "conv2d")
        if layer.pool_size == 1 and layer.activation == "identity" and self._network.readers()[layer.name] == 1:
            self._sums[layer.name] = self.launches[-1]

    def combine(self, layer: Combine) -> None:
        """A sum goes into the convolution that feeds it: its launch then comes when both tensors are there."""
        for name, other in (layer.inputs, layer.inputs[::-1]):
            step = self._sums.get(name)
            if layer.operation == "add" and step is not None and self._shapes[name] == self._shapes[other]:
                self.launches = [launch for launch in self.launches if launch is not step]
                parameters = {**step.parameters, **_activation_of(layer)}
                del parameters["pool_size"]
                fused = LayerLaunch(
                    f"{step.name}_add",
                    "fused_conv2d_add_packed",
                    (*step.reads, self._values[other]),
                    (*step.input_shapes, step.output_shape),
                    step.output_shape,
                    step.operands,
                    parameters,
                )
                self._values[layer.name] = self._append(fused)
                return
        self.launch(layer, "combine", (), {"operation": layer.operation, **_activation_of(layer)})

    def dense(self, layer: Dense) -> None:
        """Three launches; a softmax that alone reads the layer goes into the last one."""
        features, outputs = layer.in_features, layer.out_features
        weight = np.ascontiguousarray(self._tensors[f"{layer.name}.weight"], self._dtype)
        bias = self.numbers(layer, "bias").reshape(1, outputs)
        turned, result = (features, BATCH), (BATCH, outputs)
        activation = {"activation": "softmax"} if self._takes_softmax(layer) else _activation_of(layer)
        before = (self._values[layer.inputs[0]],)
        first = self._append(LayerLaunch(f"{layer.name}.transpose", "transpose", before, ((BATCH, features),), turned))
        second = self._append(
            LayerLaunch(f"{layer.name}.matmul", "matmul_fully_optimized", (first,), (turned,), result, (weight,))
        )
        last = LayerLaunch(
            f"{layer.name}.bias_activation", "bias_activation", (second,), (result,), result, (bias,), activation
        )
        self._values[layer.name] = self._append(last)

    def softmax(self, layer: Softmax) -> None:
        """One launch, unless the dense layer before has taken it."""
        read = layer.inputs[0]
        before = next((other for other in self._network.layers if other.name == read), None)
        if layer.log:
            self.launch(layer, "log_softmax")
        elif isinstance(before, Dense) and self._takes_softmax(before):
            self.view(layer)
        else:
            no_bias = np.zeros((1, *self._shapes[read]), np.float32)
            self.launch(layer, "bias_activation", (no_bias,), {"activation": "softmax"}, "softmax")

    def concat(self, layer: Concat) -> None:
        """One launch for every eight tensors, the result of the ones before among them."""
        name, *rest = layer.inputs
        joined, shape = self._values[name], self._shapes[name]
        while rest:
            some, rest = rest[: CONCAT_AT_ONCE - 1], rest[CONCAT_AT_ONCE - 1 :]
            reads = (joined, *(self._values[read] for read in some))
            before = (shape, *(self._shapes[read] for read in some))
            shape = (sum(part[0] for part in before), *shape[1:])
            label = f"{layer.name}.concat" if not rest else f"{layer.name}.concat of {shape[0]}"
            joined = self._append(
                LayerLaunch(label, "concat", reads, tuple((BATCH, *part) for part in before), (BATCH, *shape))
            )
        self._values[layer.name] = joined

    def _append(self, step: LayerLaunch) -> str:
        self.launches.append(step)
        return step.name

    def _takes_softmax(self, layer: Dense) -> bool:
        last = self._network.layers[-1]
        alone = self._network.readers()[layer.name] == 1 and last.inputs == (layer.name,)
        alone = alone and layer.name not in self._answers
        return layer.activation == "identity" and alone and isinstance(last, Softmax) and not last.log

    def _mark_answers(self) -> None:
        """Note which steps compute the outputs of the network; an input that is one as it is gets copied."""
        for number, name in enumerate(self._answers):
            if self._values[name] == INPUT:
                shape = (BATCH, *self._shapes[name])
                identity = {"activation": "identity"}
                copy = LayerLaunch(f"{name}.copy", "apply_activation", (INPUT,), (shape,), shape, (), identity)
                self._values[name] = self._append(copy)
            place = next(n for n, step in enumerate(self.launches) if step.name == self._values[name])
            step = self.launches[place]
            self.launches[place] = replace(step, answers=(*step.answers, number))

    def _add_argmax(self) -> None:
        """Append the argmax of classes or independent labels; values have none."""
        if self._network.output.kind == "values":
            return
        last = self._network.layers[-1].name
        shape = (BATCH, *self._shapes[last])
        self._append(LayerLaunch("argmax", "argmax", (self._values[last],), (shape,), (BATCH,)))


def _is_depthwise(layer: Conv2d) -> bool:
    reaches = [(size - 1) * dilation + 1 for size, dilation in zip(layer.kernel_size, layer.dilation)]
    channels = {layer.in_channels, layer.out_channels, layer.groups}
    return len(channels) == 1 and layer.pool_size == 1 and reaches[0] * reaches[1] <= DEPTHWISE_WINDOW


def _activation_of(layer: Conv2d | Dense | Activation | Combine | Affine) -> dict[str, Any]:
    return {"activation": layer.activation, "parameters": layer.activation_parameters}


def _pool(chain: _Chain, layer: Pool) -> None:
    parameters = {
        "window": layer.window,
        "stride": layer.stride,
        "padding": layer.padding,
        "ceil_mode": layer.ceil_mode,
        "dilation": layer.dilation,
    }
    if layer.method == "average":
        parameters["count_include_pad"] = layer.count_include_pad
    chain.launch(layer, f"{layer.method}_pool", (), parameters)


def _affine(chain: _Chain, layer: Affine) -> None:
    chain.launch(layer, "affine", (chain.numbers(layer, "scale"), chain.numbers(layer, "shift")), _activation_of(layer))


def _layer_norm(chain: _Chain, layer: LayerNorm) -> None:
    operands = (chain.numbers(layer, "scale"), chain.numbers(layer, "shift"))
    chain.launch(layer, "layer_norm", operands, {"epsilon": layer.epsilon})


def _group_norm(chain: _Chain, layer: GroupNorm) -> None:
    operands = (chain.numbers(layer, "scale"), chain.numbers(layer, "shift"))
    chain.launch(layer, "group_norm", operands, {"groups": layer.groups, "epsilon": layer.epsilon})


def _prelu(chain: _Chain, layer: PRelu) -> None:
    chain.launch(layer, "prelu", (chain.numbers(layer, "slope"),))


def _of_fields(kernel: str, *fields: str) -> Callable[[_Chain, Any], None]:
    """A launch without operands, whose parameters are these fields of the layer."""

    def launch(chain: _Chain, layer: Layer) -> None:
        chain.launch(layer, kernel, (), {field: getattr(layer, field) for field in fields})

    return launch


_KINDS: dict[type[Layer], Callable[[_Chain, Any], None]] = {
    Conv2d: _Chain.conv2d,
    Dense: _Chain.dense,
    Pool: _pool,
    Flatten: _Chain.view,
    Reshape: _Chain.view,
    Softmax: _Chain.softmax,
    Activation: lambda chain, layer: chain.launch(layer, "apply_activation", (), _activation_of(layer)),
    PRelu: _prelu,
    Combine: _Chain.combine,
    Affine: _affine,
    Concat: _Chain.concat,
    ChannelSlice: _of_fields("channel_slice", "first", "last"),
    ChannelShuffle: _of_fields("channel_shuffle", "groups"),
    Transpose: _of_fields("permute", "split", "order"),
    Pad: _of_fields("pad", "padding", "value"),
    LocalResponseNorm: _of_fields("local_response_norm", "size", "alpha", "beta", "bias"),
    LayerNorm: _layer_norm,
    GroupNorm: _group_norm,
}
