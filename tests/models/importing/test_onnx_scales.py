"""Scales and zero points of whole numbers that enter a graph or leave it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_chain import Chain, checked
from trninfer.models.importing import import_network
from trninfer.models.inputs import ImageInput


def quantized(dtype: type, outputs: bool, rearranged: bool = False) -> Chain:
    """A convolution as TFLite files become ONNX: whole numbers in and out, each with scale and zero point."""
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
