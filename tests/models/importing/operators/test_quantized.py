"""Whole numbers, which are computed as the floating point numbers that they stand for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import helper, numpy_helper
from onnx_chain import Chain
from trninfer.models.importing import import_network
from trninfer.models.outputs import Output


def test_whole_numbers_by_operators_of_their_own(tmp_path: Path) -> None:
    """QLinear operators, as the quantiser of ONNX Runtime writes them."""
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


def test_whole_numbers_are_computed_as_what_they_stand_for(tmp_path: Path) -> None:
    """QDQ: a zero point of 0 is all that is left of the relu, and must not be lost."""
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
    assert any("whole numbers (int8) are computed as the floating point" in note for note in imported.notes)
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
