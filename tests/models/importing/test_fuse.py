"""Layers are fused if the answers stay the same, and kept otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_chain import Chain, assert_imports, ends, kinds, vgg
from trninfer.models.importing.fuse import fuse_layers
from trninfer.models.layers import Activation, Affine, Combine, Conv2d, Dense, Flatten, GroupNorm, Layer, Pad, Pool

Arrays = dict[str, np.ndarray]
X = np.random.default_rng(5).standard_normal((2, 2, 6, 6)).astype(np.float32)


class Steps:
    """A sequence of layers on an image or on earlier layers, with random weights."""

    def __init__(self, x: np.ndarray = X) -> None:
        self.random = np.random.default_rng(1)
        self.layers: list[Layer] = []
        self.tensors: Arrays = {}
        self.shapes: dict[str, tuple[int, ...]] = {"input": x.shape[1:]}
        self.last = "input"

    def add(self, layer: Layer, **tensors: np.ndarray) -> str:
        for name, shape in layer.tensor_shapes().items():
            given = tensors.get(name.split(".")[1])
            values = self.random.uniform(-1, 1.5, shape) if given is None else np.broadcast_to(given, shape)
            self.tensors[name] = values.astype(np.float32)
        self.layers.append(layer)
        self.shapes[layer.name] = layer.output_shape(*(self.shapes[name] for name in layer.inputs))
        self.last = layer.name
        return layer.name

    @property
    def name(self) -> str:
        return f"n{len(self.layers)}"

    def affine(self, scale: float | None = None, shift: float | None = None) -> str:
        channels = self.shapes[self.last][0]
        given = {key: np.float32(v) for key, v in (("scale", scale), ("shift", shift)) if v is not None}
        return self.add(Affine(self.name, (channels,), inputs=(self.last,)), **given)

    def activate(self, activation: str, *parameters: float) -> str:
        return self.add(Activation(self.name, activation, parameters, inputs=(self.last,)))

    def conv(self, side: int = 1, pad: int = 0) -> str:
        channels = self.shapes[self.last][0]
        return self.add(Conv2d(self.name, channels, 3, (side, side), (pad,) * 4, inputs=(self.last,)))

    def pad(self, padding: tuple[int, int, int, int], value: float = 0.0) -> str:
        return self.add(Pad(self.name, padding, value, inputs=(self.last,)))

    def pool(self, method: str, window: int = 2, stride: int = 2, **more: object) -> str:
        sizes = ((window, window), (stride, stride))
        return self.add(Pool(self.name, method, *sizes, **more, inputs=(self.last,)))  # type: ignore[arg-type]

    def combine(self, operation: str, *names: str) -> str:
        return self.add(Combine(self.name, operation, inputs=names))

    def fused(self, *outputs: str) -> tuple[tuple[Layer, ...], Arrays, tuple[str, ...]]:
        """Return the remaining layers; all outputs have the same answers as before."""
        outputs = outputs or (self.last,)
        layers, tensors, names = fuse_layers(self.layers, self.tensors, self.shapes, outputs)
        before, after = run(self.layers, self.tensors), run(layers, tensors)
        for old, new in zip(outputs, names, strict=True):
            np.testing.assert_allclose(
                after[new], before[old], rtol=2e-4, atol=1e-4 * max(1, np.abs(before[old]).max())
            )
        assert layers[-1].name == names[0]  # the first output is the last layer
        read = {name for layer in layers for name in layer.inputs}
        assert names[0] not in read and {layer.name for layer in layers} <= read | set(names)
        assert set(tensors) == {name for layer in layers for name in layer.tensor_shapes()}
        return layers, tensors, names


def run(layers: Sequence[Layer], tensors: Mapping[str, np.ndarray]) -> Arrays:
    """Return the value of every layer, computed by its own reference without fusion."""
    values = {"input": X}
    for layer in layers:
        own = {name.split(".")[1]: tensors[name] for name in layer.tensor_shapes()}
        values[layer.name] = layer.run(own, *(values[name] for name in layer.inputs))
    return values


STEPS = ["affine", "one", "three", "sixth", "conv", "conv3", "max", "average", "pad", "ceil", "again", "gate", "times"]
FUNCTIONS = [("relu",), ("sigmoid",), ("gelu",), ("clip", 0.0, 6.0), ("clip", -1.0, 1.0), ("tanh",), ("softplus",)]


@settings(max_examples=50)
@given(data=st.data())
def test_merged_layers_compute_the_same_outputs(data: st.DataObject) -> None:
    steps = Steps()
    for kind in data.draw(st.lists(st.sampled_from([*STEPS, *FUNCTIONS]), min_size=1, max_size=9)):
        side = min(steps.shapes[steps.last][1:])
        if isinstance(kind, tuple):
            steps.activate(*kind)
        elif kind in ("affine", "one", "three", "sixth"):
            numbers = {"affine": (None, None), "one": (1, 0), "three": (1, 3), "sixth": (1 / 6, 0)}
            steps.affine(*numbers[kind])
        elif kind in ("conv", "conv3") and side > 2:
            steps.conv(*((3, 1) if kind == "conv3" else (1, 0)))
        elif kind == "pad":
            steps.pad((1, 0, 1, 1), data.draw(st.sampled_from([0.0, 0.0, -2.0])))
        elif kind in ("max", "average", "ceil") and side > 2:
            window = data.draw(st.sampled_from([(2, 2), (3, 2), (2, 1)]))
            padding = data.draw(st.sampled_from([(0, 0, 0, 0), (1, 1, 0, 0)]))
            include = data.draw(st.booleans()) and kind == "average"
            method = "average" if kind == "average" else "max"
            steps.pool(method, *window, padding=padding, ceil_mode=kind == "ceil", count_include_pad=include)
        elif kind in ("again", "gate", "times"):
            alike = [name for name, shape in steps.shapes.items() if shape == steps.shapes[steps.last]]
            other = data.draw(st.sampled_from(alike))
            if kind == "gate":
                x = steps.last
                steps.activate(*data.draw(st.sampled_from([("sigmoid",), ("step", 0.5), ("hardsigmoid", 1 / 6, 0.5)])))
                other = x
            steps.combine("add" if kind == "again" else "multiply", steps.last, other)
    if steps.layers:
        extra = data.draw(st.lists(st.sampled_from([layer.name for layer in steps.layers]), max_size=1))
        steps.fused(steps.last, *(name for name in extra if name != steps.last))


@pytest.mark.parametrize("count", [1, 2])
def test_layer_with_another_reader_is_not_changed(count: int) -> None:
    steps = Steps()
    conv = steps.conv()
    steps.affine()
    last = steps.activate("relu")
    if count == 1:
        assert [layer.kind for layer in steps.fused()[0]] == ["conv2d"]
    else:
        layers = steps.fused(last, conv)[0]
        assert [(layer.kind, getattr(layer, "activation", "")) for layer in layers] == [
            ("conv2d", "identity"), ("affine", "relu"),
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("low", "high", "scale", "found"),
    [(0.0, 6.0, 1 / 6, "hardswish"), (0.0, 6.0, 0.2, None), (0.0, 5.0, 1 / 6, None), (-1.0, 6.0, 1 / 6, None)],
)
@pytest.mark.parametrize("late", [False, True])
def test_a_hardswish_only_with_its_own_numbers(
    low: float, high: float, scale: float, found: str | None, late: bool
) -> None:
    steps = Steps()
    x = steps.conv()
    steps.affine(1, 3)
    gate = steps.activate("clip", low, high)
    if late:
        steps.combine("multiply", x, gate)
        steps.affine(scale, 0)
    else:
        steps.combine("multiply", x, steps.affine(scale, 0))
    layers = steps.fused()[0]
    assert (getattr(layers[0], "activation", "") == "hardswish" and len(layers) == 1) == (found == "hardswish")


@pytest.mark.parametrize(
    ("gate", "found"),
    [
        ([("sigmoid",)], "silu"),
        ([("step", 0.5)], "threshold"),
        ([("softplus",), ("tanh",)], "mish"),
        ([("hardsigmoid", 1 / 6, 0.5)], "hardswish"),
        ([("hardsigmoid", 0.2, 0.5)], None),
        ([("tanh",)], None),
        ([("relu",), ("sigmoid",)], None),
    ],
)
@pytest.mark.parametrize("first", [False, True])
def test_gates_of_what_they_multiply(gate: list[tuple], found: str | None, first: bool) -> None:
    steps = Steps()
    x = steps.conv()
    for function in gate:
        steps.activate(*function)
    steps.combine("multiply", *((steps.last, x) if first else (x, steps.last)))
    layers = steps.fused()[0]
    assert [getattr(layer, "activation", "") for layer in layers] == [found] or (found is None and len(layers) > 1)


def test_a_max_pool_is_fused_only_without_padding() -> None:
    for more, expected in (
        ({}, 1), ({"ceil_mode": True}, 1), ({"padding": (1, 1, 0, 0)}, 2), ({"window": 3}, 2), ({"stride": 1}, 2),
        ({"dilation": (2, 2)}, 2),
    ):  # fmt: skip
        steps = Steps()
        steps.conv()
        steps.pool("max", **more)
        assert len(steps.fused()[0]) == expected, more
    odd = Steps()
    odd.conv(2)  # 5x5 pixels: the last row and column are dropped, or pooled with padding
    odd.pool("max", ceil_mode=True)
    assert len(odd.fused()[0]) == 2


@pytest.mark.parametrize(("after", "count"), [("relu", 1), ("gelu", 2), ("sigmoid", 1)])
def test_only_monotone_functions_go_before_a_maximum(after: str, count: int) -> None:
    steps = Steps()
    steps.conv()
    steps.pool("max")
    steps.activate(after)
    assert len(steps.fused()[0]) == count


@pytest.mark.parametrize(
    ("pad", "merged"), [(((1, 0, 2, 1), 0.0), True), (((1, 0, 2, 1), 0.5), False), (((1, 0, -1, 1), 0.0), False)]
)
def test_only_zeros_are_the_padding_of_a_convolution(pad: tuple, merged: bool) -> None:
    steps = Steps()
    steps.pad(*pad)
    steps.conv(3, 1)
    layers = steps.fused()[0]
    assert [layer.kind for layer in layers] == (["conv2d"] if merged else ["pad", "conv2d"])
    assert layers[-1].padding == ((2, 1, 3, 2) if merged else (1, 1, 1, 1))


def test_zeros_are_no_padding_of_a_maximum_of_numbers_below_them() -> None:
    for function, expected in ((("relu",), 2), (("clip", 0.0, 1.0), 2), (("tanh",), 3), (("clip", -1.0, 1.0), 3)):
        steps = Steps()
        steps.conv()
        steps.activate(*function)
        steps.pad((1, 1, 0, 0))
        steps.pool("max", 3, 3)
        assert len(steps.fused()[0]) == expected, function


@pytest.mark.parametrize("method", ["max", "average"])
def test_zeros_that_a_window_of_the_rounded_up_size_begins_in_stay(method: str) -> None:
    steps = Steps()
    steps.conv()
    steps.activate("relu")
    steps.pad((0, 0, 1, 1))  # 7x7 pixels, 4x4 windows; the last window contains only zeros
    steps.pool(method, ceil_mode=True)
    assert [layer.kind for layer in steps.fused()[0]] == ["conv2d", "pad", "pool"]


@pytest.mark.parametrize(
    ("own", "include", "merged"),
    [((0, 0, 0, 0), False, True), ((1, 0, 1, 0), True, True), ((1, 0, 1, 0), False, False)],
)
def test_zeros_count_in_a_mean_and_its_own_padding_may_not(own: tuple, include: bool, merged: bool) -> None:
    steps = Steps()
    steps.conv()
    steps.pad((1, 1, 1, 1))
    steps.pool("average", 4, padding=own, count_include_pad=include)
    assert (len(steps.fused()[0]) == 2) == merged


def test_numbers_of_channels_go_into_a_norm() -> None:
    steps = Steps()
    steps.add(GroupNorm("norm", 2, 1, inputs=("input",)))
    steps.affine()
    layers, tensors, _ = steps.fused()
    assert [layer.kind for layer in layers] == ["group_norm"] and set(tensors) == {"norm.scale", "norm.shift"}


def test_an_output_that_others_read_is_copied_to_the_end() -> None:
    steps = Steps()
    conv = steps.conv()
    last = steps.conv()
    layers, _, names = steps.fused(conv, last)
    assert layers[-1] == Activation(f"{conv}.copy", "identity", inputs=(conv,)) and names == (f"{conv}.copy", last)


def test_layers_that_no_output_needs_are_dropped() -> None:
    steps = Steps()
    conv = steps.conv()
    steps.add(Dense("aside", 108, 3, inputs=(steps.add(Flatten("flat", inputs=(conv,))),)))
    layers, tensors, _ = steps.fused(conv)
    assert [layer.name for layer in layers] == [conv] and "aside.weight" not in tensors


def test_a_residual_block_with_squeeze_and_excite(tmp_path: Path) -> None:
    chain = Chain(3, 10, 10)
    chain.conv((3, 8), strides=[2, 2], pads=[1] * 4)
    chain.batch_norm(8)
    x = chain.add("Clip", chain.constant(0.0), chain.constant(6.0))
    chain.conv((1, 8), group=8, pads=[1] * 4)
    y = chain.add("HardSwish")
    chain.add("GlobalAveragePool")
    chain.conv((8, 2), (1, 1))
    chain.add("Relu")
    chain.conv((2, 8), (1, 1))
    gate = chain.add("HardSigmoid", alpha=1 / 6)
    scaled = chain.add("Mul", y, first=gate)
    chain.add("Add", scaled, first=x)
    chain.add("Relu")
    chain.add("GlobalMaxPool")
    imported = ends(chain, 8, tmp_path)
    combined = [layer for layer in imported.network.layers if isinstance(layer, Combine)]
    assert [(layer.operation, layer.activation) for layer in combined] == [("multiply", "identity"), ("add", "relu")]


def test_zeros_around_an_image_go_into_the_layer_that_reads_it(tmp_path: Path) -> None:
    chain = Chain(3, 8, 8)
    chain.add("Pad", chain.constant([0, 0, 1, 1, 0, 0, 0, 2]))
    chain.conv((3, 4))
    chain.add("Relu")
    chain.add("Pad", chain.constant([0, 0, 1, 1, 0, 0, 1, 1]))
    chain.add("MaxPool", kernel_shape=[3, 3], strides=[2, 2])
    chain.add("Pad", chain.constant([0, 0, 0, 1, 0, 0, 0, 0]))
    chain.add("AveragePool", kernel_shape=[2, 2])
    imported = ends(chain, 4 * 3 * 5, tmp_path)
    assert kinds(imported) == [Conv2d, Pool, Pool, Flatten, Dense]
    assert imported.network.layers[0].padding == (1, 1, 0, 2)


def test_activations_that_exporters_spell_out(tmp_path: Path) -> None:
    chain = Chain(4, 6, 6)
    wanted = []
    for spelled in ("silu", "hardswish", "hardswish too", "mish"):
        chain.conv((4, 4), (1, 1))
        x = chain.value
        if spelled == "silu":
            chain.add("Sigmoid")
            chain.add("Mul", x)
        elif spelled == "mish":
            chain.add("Softplus")
            chain.add("Tanh")
            chain.add("Mul", chain.value, first=x)
        else:
            chain.add("Add", chain.constant(3.0))
            chain.add("Clip", chain.constant(0.0), chain.constant(6.0))
            if spelled == "hardswish":
                chain.add("Div", chain.constant(6.0))
                chain.add("Mul", x)
            else:
                chain.add("Mul", x)
                chain.add("Div", chain.constant(6.0))
        wanted.append(spelled.removesuffix(" too"))
    imported = ends(chain, 144, tmp_path)
    assert [layer.activation for layer in imported.network.layers[:4]] == wanted


def test_a_vgg_becomes_fused_layers(tmp_path: Path) -> None:
    imported = assert_imports(vgg(), tmp_path)
    layers = imported.network.layers
    assert kinds(imported) == [*[Conv2d] * 10, Flatten, Dense, Dense]
    assert [layer.pool_size for layer in layers[:10]] == [1, 2] * 5
    assert {layer.activation for layer in layers[:11] if isinstance(layer, Conv2d)} == {"relu"}
    assert [layer.activation for layer in layers[-2:]] == ["relu", "identity"]
