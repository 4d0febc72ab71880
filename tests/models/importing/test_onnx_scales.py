"""Scales and zero points of quantised integers at the inputs and outputs of a graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_chain import Chain, checked
from trninfer.models.errors import ModelError
from trninfer.models.importing import import_network
from trninfer.models.importing.onnx_file import Node
from trninfer.models.importing.onnx_scales import Scale, input_scale, output_scale
from trninfer.models.inputs import ImageInput


def quantized(dtype: type, outputs: bool, rearranged: bool = False) -> Chain:
    """Return a convolution as converted from TFLite: integers in and out, each with a scale and a zero point."""
    chain = Chain(3, 6, 6)
    number = TensorProto.UINT8 if dtype is np.uint8 else TensorProto.INT8
    chain.inputs[0] = helper.make_tensor_value_info("x", number, [1, 6, 6, 3] if rearranged else ["b", 3, 6, 6])
    for name, value in (("zero", 120 if dtype is np.uint8 else -5), ("out", 10)):
        chain.weights.append(numpy_helper.from_array(np.array(value, dtype), name))
    if rearranged:
        chain.add("Transpose", perm=[0, 3, 1, 2])
    chain.add("DequantizeLinear", chain.constant(0.02), "zero", first=chain.value)
    chain.conv((3, 4))
    chain.add("Relu")
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    if outputs:
        chain.add("QuantizeLinear", chain.constant(0.01), "out")
    return chain


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("outputs", [False, True])
@pytest.mark.parametrize("rearranged", [False, True])
def test_whole_numbers_in_and_out(dtype: type, outputs: bool, rearranged: bool, tmp_path: Path) -> None:
    chain = quantized(dtype, outputs, rearranged)
    kind = TensorProto.FLOAT if not outputs else (TensorProto.UINT8 if dtype is np.uint8 else TensorProto.INT8)
    imported = checked(chain.model(13, dtype=kind), tmp_path)
    assert imported.comparison.max_abs_error < 0.05 * imported.comparison.largest_output
    spec = imported.network.input
    assert isinstance(spec, ImageInput) and spec.preprocess == "photo"
    black, white = (-np.array(spec.mean) / spec.std, (1 - np.array(spec.mean)) / spec.std)
    low, high = (0, 255) if dtype is np.uint8 else (-128, 127)
    np.testing.assert_allclose(black, low, atol=1e-3)
    np.testing.assert_allclose(white, high, atol=1e-3)


def test_a_wrong_scale_of_the_input_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trninfer.models.importing.onnx_input.input_scale", lambda *found: None)
    path = tmp_path / "m.onnx"
    path.write_bytes(quantized(np.uint8, False).model(13).SerializeToString())
    assert not import_network(path).comparison.passed


def node(op: str, inputs: str, output: str = "y") -> Node:
    return Node(op, "n", tuple(inputs.split()), (output,), {})


CONSTANTS = {
    "s": np.array([0.5], np.float32),
    "z": np.array(3, np.uint8),
    "t": np.array(0.25, np.float32),
    "many": np.ones(4, np.float32),
}


@pytest.mark.parametrize(
    ("nodes", "scale"),
    [
        ([node("DequantizeLinear", "x s z")], Scale(0.5, 3)),
        ([node("com.microsoft.DequantizeLinear", "x s")], Scale(0.5, 0)),
        (
            [node("Transpose", "x", "a"), node("MaxPool", "a", "b"), node("QLinearConv", "b s z w t z t z")],
            Scale(0.5, 3),
        ),
        ([node("com.microsoft.QLinearAdd", "w t z x s z t z")], Scale(0.5, 3)),  # as the second of two operands
        ([node("QLinearMatMul", "x s z w t z t z")], Scale(0.5, 3)),
        ([node("com.microsoft.QLinearConcat", "t z w t z x s z")], Scale(0.5, 3)),
        ([node("Cast", "x", "a"), node("DequantizeLinear", "a s z")], None),
        ([node("Relu", "other"), node("QLinearConv", "other t z x s z t z")], None),  # weights, not data
        ([], None),
    ],
)
def test_the_scale_of_what_enters_is_that_of_the_first_node_that_needs_it(
    nodes: list[Node], scale: Scale | None
) -> None:
    assert input_scale(nodes, CONSTANTS, "x") == scale


@pytest.mark.parametrize(
    ("nodes", "scale"),
    [
        ([node("QuantizeLinear", "x t z")], Scale(0.25, 3)),
        ([node("QLinearConv", "x s z w s z t z")], Scale(0.25, 3)),
        ([node("com.microsoft.QGemm", "x s z w s z bias t z")], Scale(0.25, 3)),
        ([node("com.microsoft.QLinearSigmoid", "x s z t z", "a"), node("Reshape", "a shape")], Scale(0.25, 3)),
        ([node("com.microsoft.QLinearConcat", "t z a s z b s z")], Scale(0.25, 3)),
        ([node("QuantizeLinear", "x t z", "a"), node("Relu", "a")], None),
        ([node("Identity", "x")], None),
        ([node("Identity", "y")], None),  # a circle
    ],
)
def test_the_scale_of_what_leaves_is_that_of_the_last_node_that_has_one(nodes: list[Node], scale: Scale | None) -> None:
    assert output_scale(nodes, CONSTANTS, "y") == scale


@pytest.mark.parametrize("inputs", ["x many z", "x missing z", "x s many", "x"])
def test_a_scale_that_is_not_one_number(inputs: str) -> None:
    with pytest.raises(
        ModelError, match=r"^node 'n' \(DequantizeLinear\): its scale or zero point is not a constant scalar"
    ):
        input_scale([node("DequantizeLinear", inputs)], CONSTANTS, "x")


def test_whole_numbers_as_what_they_stand_for() -> None:
    given = Scale(0.5, 130).dequantize(np.array([0, 130, 255], np.uint8))
    assert given.dtype == np.float32 and given.tolist() == [-65.0, 0.0, 62.5]  # no overflow in uint8


# The inputs of each operator as documented by ONNX and ONNX Runtime: data x with scale s and zero point z, the output
# with t and z.
SIGNATURES = {
    "QLinearConv": "x s z w t z t z bias",
    "QLinearMatMul": "x s z w t z t z",
    "QGemm": "x s z w t z bias t z",
    "QLinearAdd": "x s z w t z t z",
    "QLinearMul": "x s z w t z t z",
    "QLinearAveragePool": "x s z t z",
    "QLinearGlobalAveragePool": "x s z t z",
    "QLinearSigmoid": "x s z t z",
    "QLinearLeakyRelu": "x s z t z",
    "QLinearSoftmax": "x s z t z",
    "QLinearConcat": "t z x s z w t z",
}


@pytest.mark.parametrize("op", SIGNATURES)
def test_scales_of_every_operator_are_where_it_has_them(op: str) -> None:
    nodes = [node(op, SIGNATURES[op])]
    assert input_scale(nodes, CONSTANTS, "x") == Scale(0.5, 3)
    assert output_scale(nodes, CONSTANTS, "y") == Scale(0.25, 3)
