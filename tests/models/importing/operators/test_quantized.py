"""Quantised integers, computed as the floating-point numbers that they represent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper, numpy_helper
from onnx_chain import Chain
from trninfer.models.importing import import_network
from trninfer.models.outputs import Output


def test_whole_numbers_by_operators_of_their_own(tmp_path: Path) -> None:
    """QLinear operators, as written by ONNX Runtime's quantiser."""
    chain = Chain(4, 6, 6)
    domain = {"domain": "com.microsoft"}
    scale, zero = chain.constant(0.05), numpy_zero(chain, 128)
    chain.add("QuantizeLinear", scale, zero)
    weight = np.random.default_rng(0).integers(-127, 128, (4, 4, 3, 3)).astype(np.int8)
    chain.weights.append(numpy_helper.from_array(weight, "w"))
    chain.weights.append(numpy_helper.from_array(np.array(0, np.int8), "wz"))
    numbers = (scale, zero, "w", chain.constant(0.003), "wz", scale, zero)
    x = chain.add("QLinearConv", *numbers, pads=[1] * 4)
    y = chain.add("QLinearLeakyRelu", scale, zero, scale, zero, alpha=0.1, **domain)
    chain.add("QLinearAdd", scale, zero, y, scale, zero, scale, zero, first=x, **domain)
    chain.add("QLinearConcat", zero, chain.value, scale, zero, y, scale, zero, first=scale, axis=1, **domain)
    chain.add("QLinearGlobalAveragePool", scale, zero, scale, zero, **domain)
    chain.add("QLinearSigmoid", scale, zero, chain.constant(1 / 256), numpy_zero(chain, 0), **domain)
    chain.add("DequantizeLinear", chain.constant(1 / 256), numpy_zero(chain, 0))
    chain.add("Flatten")
    chain.gemm(8, 4)
    model = chain.model(13)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    imported = import_network(path)
    assert imported.comparison.passed and not imported.comparison.skipped
    assert imported.comparison.max_abs_error < 0.05 * imported.comparison.largest_output


def quantised(chain: Chain, scale: float, zero: int) -> None:
    numbers = (chain.constant(scale), numpy_zero(chain, zero))
    chain.add("QuantizeLinear", *numbers)
    chain.add("DequantizeLinear", *numbers)


def numpy_zero(chain: Chain, zero: int) -> str:
    chain.weights.append(numpy_helper.from_array(np.array(zero, np.uint8), f"zero{len(chain.weights)}"))
    return chain.weights[-1].name


def test_quantized_integers_are_dequantized(tmp_path: Path) -> None:
    """QDQ: a zero point of 0 is all that remains of the relu, and must not be lost."""
    chain = Chain(3, 8, 8)
    quantised(chain, 0.04, 128)
    random = np.random.default_rng(0)
    weight = random.integers(-127, 128, (6, 3, 3, 3)).astype(np.int8)
    scales = random.uniform(0.001, 0.003, 6).astype(np.float32)
    chain.weights += [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(scales, "s")]
    chain.nodes.append(helper.make_node("DequantizeLinear", ["w", "s"], ["wf"], axis=0))
    chain.add("Conv", "wf")
    quantised(chain, 0.02, 0)
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    chain.gemm(6, 4)
    imported = import_network(chain.save(tmp_path))
    assert any("the int8 network is dequantised" in note for note in imported.notes)
    assert imported.comparison.passed and imported.comparison.max_abs_error < 0.05 * imported.comparison.largest_output
    first = imported.network.layers[1]
    assert first.activation == "clip" and first.activation_parameters[0] == 0
    np.testing.assert_allclose(imported.tensors["conv1.weight"], weight * scales[:, None, None, None])


def test_whole_numbers_added_to_weights_and_probabilities_of_them(tmp_path: Path) -> None:
    chain = Chain(6)
    microsoft = {"domain": "com.microsoft"}
    scale, zero = chain.constant(0.05), numpy_zero(chain, 128)
    data = chain.add("QuantizeLinear", scale, zero)
    chain.weights.append(numpy_helper.from_array(np.arange(100, 106, dtype=np.uint8), "numbers"))
    names = [scale, zero, "numbers", scale, zero, scale, zero]
    chain.add("QLinearAdd", *names, first=data, **microsoft)
    chain.add("QLinearMul", *names, **microsoft)
    steps = chain.constant(1 / 256), numpy_zero(chain, 0)
    chain.add("QLinearSoftmax", scale, zero, *steps, axis=1, opset=13, **microsoft)
    chain.add("DequantizeLinear", *steps)
    model = chain.model()
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    imported = import_network(path)
    assert imported.network.output == Output("classes", "softmax")
    assert imported.comparison.passed and not imported.comparison.skipped


MICROSOFT = {"domain": "com.microsoft"}


def assert_nearly(chain: Chain, folder: Path) -> None:
    """Check that the import is within a twentieth of ONNX Runtime's integer computation."""
    model = chain.model(13)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    comparison = import_network(path).comparison
    assert comparison.passed and not comparison.skipped
    assert comparison.max_abs_error < 0.05 * comparison.largest_output


def whole(chain: Chain, *shape: int, dtype: type = np.int8) -> str:
    low, high = (-127, 128) if dtype is np.int8 else (0, 256)
    values = np.random.default_rng(len(chain.weights)).integers(low, high, shape).astype(dtype)
    chain.weights.append(numpy_helper.from_array(values, f"whole{len(chain.weights)}"))
    return chain.weights[-1].name


@pytest.mark.parametrize("zero", [None, 3])
def test_matrices_of_whole_numbers_whose_scale_is_found_while_it_runs(zero: int | None, tmp_path: Path) -> None:
    """As ONNX Runtime's dynamic quantiser writes a dense layer, scaled by the product of the data's and the weights'
    scales."""
    chain = Chain(12)
    data = chain.add("DynamicQuantizeLinear", outputs=3)
    numbers = [f"{data}''"]
    if zero is not None:
        chain.weights.append(numpy_helper.from_array(np.array(zero, np.int8), "wz"))
        numbers.append("wz")
    product = chain.add("MatMulInteger", whole(chain, 12, 5), *numbers, first=data)
    floats = chain.add("Cast", to=1, first=product)
    scale = chain.add("Mul", chain.constant(0.01), first=f"{data}'")
    chain.add("Mul", scale, first=floats)
    chain.gemm(5, 3)
    assert_nearly(chain, tmp_path)


def test_convolutions_of_whole_numbers_whose_scale_is_found_while_it_runs(tmp_path: Path) -> None:
    chain = Chain(3, 6, 5)
    data = chain.add("DynamicQuantizeLinear", outputs=3)
    chain.add("ConvInteger", whole(chain, 4, 3, 3, 3, dtype=np.uint8), f"{data}''", pads=[1, 0, 1, 0], first=data)
    floats = chain.add("Cast", to=1)
    chain.add("Mul", f"{data}'", first=floats)
    chain.add("Mul", chain.constant(0.002))
    chain.add("Flatten")
    assert_nearly(chain, tmp_path)


@pytest.mark.parametrize("op", ["QLinearMatMul", "QGemm", "QGemm turned"])
def test_matrices_with_scales_of_the_file(op: str, tmp_path: Path) -> None:
    chain = Chain(10)
    scale, zero = chain.constant(0.03), numpy_zero(chain, 120)
    chain.add("QuantizeLinear", scale, zero)
    turned = op.endswith("turned")
    weight = whole(chain, *((6, 10) if turned else (10, 6)))
    chain.weights.append(numpy_helper.from_array(np.array(0, np.int8), "wz"))
    numbers, out = [scale, zero, weight, chain.constant(0.004), "wz"], [chain.constant(0.05), numpy_zero(chain, 128)]
    if op == "QLinearMatMul":
        chain.add(op, *numbers, *out)
    else:
        bias = np.arange(-3, 3, dtype=np.int32) * 2000  # its scale is the product of the data's and the weights' scales
        chain.weights.append(numpy_helper.from_array(bias, "bias"))
        chain.add("QGemm", *numbers, "bias", *out, transB=int(turned), **MICROSOFT)
    chain.add("DequantizeLinear", *out)
    assert_nearly(chain, tmp_path)


@pytest.mark.parametrize("channels_last", [0, 1])
def test_pools_of_whole_numbers(channels_last: int, tmp_path: Path) -> None:
    chain = Chain(*((6, 5, 3) if channels_last else (3, 6, 5)))
    scale, zero = chain.constant(0.03), numpy_zero(chain, 128)
    chain.add("QuantizeLinear", scale, zero)
    how = {"kernel_shape": [3, 2], "strides": [2, 1], "channels_last": channels_last}
    chain.add("QLinearAveragePool", scale, zero, scale, zero, **how, **MICROSOFT)
    chain.add("DequantizeLinear", scale, zero)
    chain.add("Flatten")
    assert_nearly(chain, tmp_path)


def test_a_convolution_with_a_scale_for_each_filter(tmp_path: Path) -> None:
    chain = Chain(4, 6, 5)
    scale, zero = chain.constant(0.03), numpy_zero(chain, 128)
    chain.add("QuantizeLinear", scale, zero)
    weight, out = whole(chain, 4, 4, 3, 3), [chain.constant(0.05), numpy_zero(chain, 128)]
    scales = chain.constant([0.001, 0.002, 0.004, 0.008])
    chain.weights.append(numpy_helper.from_array(np.zeros(4, np.int8), "zeros"))
    chain.weights.append(numpy_helper.from_array(np.array([9000, -9000, 3000, -500], np.int32), "bias"))
    chain.add("QLinearConv", scale, zero, weight, scales, "zeros", *out, "bias", pads=[1, 1, 0, 1])
    chain.add("DequantizeLinear", *out)
    chain.add("Flatten")
    assert_nearly(chain, tmp_path)
