"""The final passes of an import: they merge layers into preceding ones without changing the result.

A pass examines one layer and its inputs, and applies if no other layer reads these inputs. Batch normalisations are
folded into weights, activations into the preceding layer, 2x2 pools into plain convolutions, and zero padding into its
consumer; x * sigmoid(x) becomes silu.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..checks import INPUT, Shape
from ..layers import (
    MONOTONE,
    Activation,
    Affine,
    Attention,
    ChannelShuffle,
    ChannelSlice,
    Combine,
    Conv2d,
    Dense,
    Flatten,
    GroupNorm,
    Layer,
    LayerNorm,
    Pad,
    Pool,
    Reshape,
    Transpose,
)
from . import fold
from .centre import centre_streams
from .gated_sums import GatedSums
from .layer_table import free_name, needed, reading
from .linear import LinearLayers
from .sink import sink_affines
from .stacks import compute_parts
from .taps import drop_unmet_taps
from .weighted_means import average_by_weights

_Activated = (Conv2d, Dense, Affine, Combine)
_SIXTH = 1 / 6


def fuse_layers(
    layers: Sequence[Layer], tensors: Mapping[str, np.ndarray], shapes: Mapping[str, Shape], outputs: Sequence[str]
) -> tuple[tuple[Layer, ...], dict[str, np.ndarray], tuple[str, ...]]:
    """Return the merged layers that `outputs` depend on (the first output last), their tensors, and the outputs."""
    fusing = _Fusing(layers, tensors, shapes, outputs)
    for fuse in _PASSES:
        fusing.run(fuse)
    fusing.sink()
    for fuse in _LATER:
        fusing.run(fuse)
    fusing.merge_linear()
    fusing.centre()
    return fusing.result()


class _Fusing:
    """The state of the passes: the layers in order, keyed by name, and the number of consumers of each layer."""

    def __init__(
        self,
        layers: Sequence[Layer],
        tensors: Mapping[str, np.ndarray],
        shapes: Mapping[str, Shape],
        outputs: Sequence[str],
    ) -> None:
        self.layers = {layer.name: layer for layer in layers}
        self.tensors = dict(tensors)
        self.shapes = dict(shapes)
        self.outputs = list(outputs)
        self._drop_unread()

    def run(self, fuse: Callable[[_Fusing, Layer], Layer | str | None]) -> None:
        """Apply a pass to each layer. The pass returns a replacement, the name of an existing layer with the same
        value, or None if it does not apply."""
        renamed: dict[str, str] = {}
        for name in tuple(self.layers):
            layer = self.layers[name] = reading(self.layers[name], renamed)
            replacement = fuse(self, layer)
            if isinstance(replacement, str):
                target = renamed[name] = renamed.get(replacement, replacement)
                self.reads[target] += self.reads[name] - 1
                self.outputs = [renamed.get(output, output) for output in self.outputs]
            elif replacement is not None:
                self.layers[name] = replacement
        self._drop_unread()

    def sink(self) -> None:
        """Move affine maps into the layers that read them, and compute stacked values part by part."""
        self.layers, self.tensors = average_by_weights(self.layers, self.tensors, self.shapes)
        self.layers, self.tensors, self.outputs = sink_affines(self.layers, self.tensors, self.shapes, self.outputs)
        self.layers, self.tensors = compute_parts(self.layers, self.tensors, self._update_shapes(), self.outputs)
        self._update_shapes()
        self._drop_unread()

    def _update_shapes(self) -> dict[str, Shape]:
        for name, layer in self.layers.items():
            self.shapes[name] = layer.output_shape(*(self.shapes[read] for read in layer.inputs))
        return self.shapes

    def merge_linear(self) -> None:
        """Merge layers whose composition is linear."""
        linear = LinearLayers(self.layers, self.tensors, self.shapes)
        for layer in tuple(self.layers.values()):
            merged = linear.merged(layer, self.reads, set(self.outputs))
            self.layers.update({merged_layer.name: merged_layer for merged_layer in merged})
        self._drop_unread()

    def centre(self) -> None:
        """Subtract the mean from streams that only layer norms read."""
        self.layers, self.tensors = centre_streams(self.layers, self.tensors, self._update_shapes(), self.outputs)

    def source(self, layer: Layer) -> Layer | None:
        """Return the layer that computes the first input of `layer` if no other layer reads it, otherwise None."""
        name = layer.inputs[0]
        return self.layers.get(name) if self.reads[name] == 1 and name not in self.outputs else None

    def absorb(self, source: Layer, **changes: object) -> str:
        """Apply changes to `source` in place and return its name, which replaces the layer merged into it."""
        self.layers[source.name] = dataclasses.replace(source, **changes)  # type: ignore[arg-type]
        return source.name

    def result(self) -> tuple[tuple[Layer, ...], dict[str, np.ndarray], tuple[str, ...]]:
        """Return the remaining layers, their tensors and the outputs. The first output is the last layer; it is a
        copy if other layers read it."""
        leading = self.outputs[0]
        if leading == INPUT or self.reads[leading]:
            copy = Activation(free_name(f"{leading}.copy", self.layers), "identity", inputs=(leading,))
            self.layers[copy.name] = copy
            self.outputs[0] = copy.name
        else:
            self.layers[leading] = self.layers.pop(leading)
        names = [name for layer in self.layers.values() for name in layer.tensor_shapes()]
        return tuple(self.layers.values()), {name: self.tensors[name] for name in names}, tuple(self.outputs)

    def _drop_unread(self) -> None:
        self.layers = needed(self.layers, self.outputs)
        self.reads = Counter(name for layer in self.layers.values() for name in layer.inputs)


def _swish(state: _Fusing, layer: Layer) -> Layer | None:
    """Merge x * sigmoid(x), x * hardsigmoid(x), x * tanh(softplus(x)) and x * (x > limit) into one activation."""
    if not isinstance(layer, Combine) or layer.operation != "multiply" or layer.activation != "identity":
        return None
    for x, gate in (layer.inputs, layer.inputs[::-1]):
        gate_activation = _gate_of(state, x, gate)
        if gate_activation:
            return Activation(layer.name, *gate_activation, inputs=(x,))
    return None


def _gate_of(state: _Fusing, x: str, name: str) -> tuple[str, tuple[float, ...]] | None:
    """Return the activation (and its parameters) that equals x times the layer `name`, or None if there is none."""
    gate = state.layers.get(name)
    if not isinstance(gate, Activation) or state.reads[name] != 1:
        return None
    if gate.activation == "tanh":
        inner = state.layers.get(gate.inputs[0])
        soft = isinstance(inner, Activation) and inner.activation == "softplus" and inner.inputs == (x,)
        return ("mish", ()) if soft else None
    if gate.inputs != (x,):
        return None
    if gate.activation == "sigmoid":
        return "silu", ()
    if gate.activation == "step":
        return "threshold", gate.activation_parameters
    expected = (_SIXTH, 0.5)
    hard = gate.activation == "hardsigmoid" and np.allclose(gate.activation_parameters, expected, rtol=1e-5)
    return ("hardswish", ()) if hard else None


def _hard_sigmoid(state: _Fusing, layer: Layer) -> Layer | None:
    """Merge clip(x + 3, 0, 6) / 6 into hardsigmoid."""
    if not isinstance(layer, Affine) or layer.activation != "identity":
        return None
    clip = state.source(layer)
    if not isinstance(clip, Activation) or clip.activation != "clip" or clip.activation_parameters != (0.0, 6.0):
        return None
    plus = state.source(clip)
    if not isinstance(plus, Affine) or plus.activation != "identity":
        return None
    is_hard = _all(state, plus, 1.0, 3.0) and _all(state, layer, _SIXTH, 0.0)
    return Activation(layer.name, "hardsigmoid", (_SIXTH, 0.5), inputs=plus.inputs) if is_hard else None


def _all(state: _Fusing, layer: Affine, scale: float, shift: float) -> bool:
    """Return True if all elements of an affine layer equal this scale and this shift."""
    pairs = ((state.tensors[f"{layer.name}.scale"], scale), (state.tensors[f"{layer.name}.shift"], shift))
    return all(np.allclose(tensor, value, rtol=1e-6, atol=0) for tensor, value in pairs)


def _gated_after_scale(state: _Fusing, layer: Layer) -> Layer | None:
    """Merge (x * clip(x + 3, 0, 6)) / 6, an equivalent form of hardswish."""
    if not isinstance(layer, Affine) or not _all(state, layer, _SIXTH, 0.0):
        return None
    product = state.source(layer)
    if not isinstance(product, Combine) or product.operation != "multiply":
        return None
    for x, gate in (product.inputs, product.inputs[::-1]):
        clip = state.layers.get(gate)
        plus = state.layers.get(clip.inputs[0]) if isinstance(clip, Activation) else None
        if not isinstance(clip, Activation) or not isinstance(plus, Affine) or plus.inputs != (x,):
            continue
        if clip.activation_parameters == (0.0, 6.0) and _all(state, plus, 1.0, 3.0):
            return Activation(layer.name, "hardswish", inputs=(x,))
    return None


def _affine(state: _Fusing, layer: Layer) -> str | None:
    """Drop scales and shifts that have no effect; fold per-channel ones into the preceding weights."""
    if not isinstance(layer, Affine):
        return None
    if layer.activation == "identity" and _all(state, layer, 1.0, 0.0):
        return layer.inputs[0]
    before = state.source(layer)
    if isinstance(before, (GroupNorm, LayerNorm)) and layer.activation == "identity" and len(layer.shape) == 1:
        return _into_norm(state, before, layer)
    if not isinstance(before, (Conv2d, Dense, Affine)) or before.activation != "identity":
        return None
    has_same_axes = layer.shape == before.shape if isinstance(before, Affine) else len(layer.shape) == 1
    if not has_same_axes or getattr(before, "pool_size", 1) > 1:
        return None
    affine = fold.ScaleShift(*(state.tensors[f"{layer.name}.{part}"].astype(np.float64) for part in ("scale", "shift")))
    after = {Affine: fold.after_affine, Conv2d: fold.after_conv2d, Dense: fold.after_dense}[type(before)]
    parts = ("scale", "shift") if isinstance(before, Affine) else ("weight", "bias")
    names = [f"{before.name}.{part}" for part in parts]
    folded = after(state.tensors[names[0]], state.tensors[names[1]], affine)
    state.tensors.update(zip(names, folded, strict=True))
    return state.absorb(before, activation=layer.activation, activation_parameters=layer.activation_parameters)


def _into_norm(state: _Fusing, norm: GroupNorm | LayerNorm, layer: Affine) -> str:
    """Fold per-channel scales and shifts into the preceding normalisation."""
    affine = fold.ScaleShift(*(state.tensors[f"{layer.name}.{part}"].astype(np.float64) for part in ("scale", "shift")))
    names = (f"{norm.name}.scale", f"{norm.name}.shift")
    folded = fold.after_affine(state.tensors[names[0]], state.tensors[names[1]], affine)
    state.tensors.update(zip(names, folded, strict=True))
    return norm.name


def _activation(state: _Fusing, layer: Layer) -> str | None:
    """Merge an activation into the preceding layer; drop a relu that follows a relu."""
    if not isinstance(layer, Activation):
        return None
    if layer.activation == "identity":
        return layer.inputs[0]
    before = state.source(layer)
    if not isinstance(before, _Activated):
        return None
    if before.activation == layer.activation == "relu":
        return before.name
    if before.activation != "identity" or (isinstance(before, Conv2d) and before.pool_size > 1):
        return None
    return state.absorb(before, activation=layer.activation, activation_parameters=layer.activation_parameters)


def _max_pool(state: _Fusing, layer: Layer) -> str | None:
    """Merge a 2x2 max pool and a monotonic activation after it into the preceding plain convolution."""
    if isinstance(layer, Activation):
        before = state.source(layer)
        if not isinstance(before, Conv2d) or before.pool_size == 1 or before.activation != "identity":
            return None
        if layer.activation not in MONOTONE:
            return None
        return state.absorb(before, activation=layer.activation, activation_parameters=layer.activation_parameters)
    if not isinstance(layer, Pool) or layer.method != "max" or (layer.window, layer.stride) != ((2, 2), (2, 2)):
        return None
    before = state.source(layer)
    if not isinstance(before, Conv2d) or before.pool_size > 1 or not before.is_plain:
        return None
    channels, height, width = before.convolved_shape(state.shapes[before.inputs[0]])
    pooled = layer.output_shape((channels, height, width))
    if any(layer.padding) or layer.dilation != (1, 1) or pooled != (channels, height // 2, width // 2):
        return None
    return state.absorb(before, pool_size=2)


def _is_cut_at_zero(layer: Layer | None) -> bool:
    """Return True if the activation of a layer makes its values nonnegative and maps zero to zero."""
    low = getattr(layer, "activation_parameters", ()) or (math.inf,)
    activation = getattr(layer, "activation", "")
    return activation == "relu" or (activation == "clip" and low[0] == 0)


def _gated_sum(state: _Fusing, layer: Layer) -> Layer | None:
    """Simplify gated sums and quotients."""
    return GatedSums(state.layers, state.tensors, state.shapes, state.reads).simplify(layer, state.outputs)


def _padding(state: _Fusing, layer: Layer) -> Layer | None:
    """Merge the zero padding of an image into the convolution or pool that reads it."""
    if not isinstance(layer, (Conv2d, Pool)):
        return None
    zeros = state.source(layer)
    if not isinstance(zeros, Pad) or zeros.value or zeros.mode != "constant" or min(zeros.padding) < 0:
        return None
    total = tuple(a + b for a, b in zip(layer.padding, zeros.padding))
    padding = (total[0], total[1], total[2], total[3])
    if isinstance(layer, Conv2d):
        return dataclasses.replace(layer, padding=padding, inputs=zeros.inputs)
    if max(a / b for a, b in zip(padding, layer.spans * 2)) >= 1 or layer.ceil_mode:
        return None
    if layer.method == "max":
        # If all inputs are nonnegative, zero never exceeds the other values of a window.
        if any(layer.padding) or not _is_cut_at_zero(state.layers.get(zeros.inputs[0])):
            return None
        return dataclasses.replace(layer, padding=padding, inputs=zeros.inputs)
    if any(layer.padding) and not layer.count_include_pad:
        return None
    return dataclasses.replace(layer, padding=padding, count_include_pad=True, inputs=zeros.inputs)


def _own_convolutions(state: _Fusing, layer: Layer) -> None:
    """Turn attention operands that select channels of a convolution into separate convolutions of these channels, so
    that each operand has its own tiles. Other layers that select the same channels also read the new convolution."""
    if not isinstance(layer, Attention):
        return
    for name in dict.fromkeys(layer.inputs):
        selection = _channels_of(state, name)
        if selection is None:
            continue
        source, order = selection
        base = state.layers[source]
        assert isinstance(base, Conv2d)
        if name == source or not _are_picked_alone(state, source):
            continue
        convolution = dataclasses.replace(base, name=name, out_channels=len(order))
        state.tensors[f"{name}.weight"] = np.ascontiguousarray(state.tensors[f"{source}.weight"][order])
        state.tensors[f"{name}.bias"] = np.ascontiguousarray(state.tensors[f"{source}.bias"][order])
        state.layers[name] = convolution


def _channels_of(state: _Fusing, name: str) -> tuple[str, np.ndarray] | None:
    """Return the ungrouped convolution whose channels a layer selects and the selected channels, or None."""
    steps: list[Layer] = []
    layer = state.layers.get(name)
    while isinstance(layer, (ChannelShuffle, ChannelSlice)):
        steps.append(layer)
        layer = state.layers.get(layer.inputs[0])
    if not isinstance(layer, Conv2d) or layer.groups > 1 or not steps:
        return None
    order = np.arange(layer.out_channels)
    for step in reversed(steps):
        if isinstance(step, ChannelSlice):
            order = order[step.first : step.last]
        elif isinstance(step, ChannelShuffle):
            order = order.reshape(step.groups, -1).T.ravel()
    return layer.name, order


def _are_picked_alone(state: _Fusing, source: str) -> bool:
    """Return True if all consumers of a convolution only select or reorder its channels, and none is an output."""
    if source in state.outputs:
        return False
    readers = [layer for layer in state.layers.values() if source in layer.inputs]
    return all(isinstance(layer, (ChannelShuffle, ChannelSlice)) or layer.name == source for layer in readers)


# The order matters, because gates must be found before activations are merged into other layers.
_PASSES: tuple[Callable[[_Fusing, Layer], Layer | str | None], ...] = (
    _affine,
    _gated_after_scale,
    _hard_sigmoid,
    _swish,
    _affine,
    _activation,
    _gated_sum,
    _padding,
)


def _reshaped(state: _Fusing, layer: Layer) -> Layer | None:
    """If a transpose reads a reshaped value, let it read the original value, since its axes do not depend on the
    shape."""
    source = state.layers.get(layer.inputs[0]) if isinstance(layer, Transpose) else None
    return dataclasses.replace(layer, inputs=source.inputs) if isinstance(source, (Flatten, Reshape)) else None


def _unmet_taps(state: _Fusing, layer: Layer) -> Layer | None:
    """Drop filter taps that only ever read padding."""
    if not isinstance(layer, Conv2d) or not any(layer.padding):
        return None
    name = f"{layer.name}.weight"
    reduced = drop_unmet_taps(layer, state.tensors[name], state.shapes[layer.inputs[0]])
    if reduced is None:
        return None
    smaller, state.tensors[name] = reduced
    return smaller


_LATER: list[Callable[[_Fusing, Layer], Layer | str | None]] = [_reshaped, _unmet_taps, _max_pool, _own_convolutions]
