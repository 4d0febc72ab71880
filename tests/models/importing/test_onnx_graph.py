"""Import of ONNX files, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import numpy_helper
from onnx_chain import Chain, assert_imports, kinds, vgg
from trninfer.models import Dense, FeatureInput, ModelError, Softmax
from trninfer.models.importing import fold, import_network

ACTIVATIONS = ("Relu", "Gelu", "Sigmoid", "Tanh")


@st.composite
def chains(draw: st.DrawFn) -> Chain:
    """Draw any chain of supported operations, in any valid order."""
    shape = [draw(st.sampled_from([1, 3])), draw(st.integers(6, 14)), draw(st.integers(6, 14))]
    chain = Chain(*shape, seed=draw(st.integers(0, 999)))
    for op in draw(st.lists(st.sampled_from([*"ccccbapgim"]), max_size=7)):
        if op == "c":
            kernel = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
            top, left = draw(st.integers(0, 2)), draw(st.integers(0, 2))
            bottom = draw(st.integers(0, 2))
            right = top + bottom - kernel[0] + kernel[1] - left  # height and width change by the same amount
            after = [side + top + bottom - kernel[0] + 1 for side in shape[1:]]
            if min(after) < 1 or right < 0:
                continue
            channels = (shape[0], draw(st.sampled_from([1, 2, 5])))
            chain.conv(channels, kernel, pads=[top, left, bottom, right])
            shape = [channels[1], *after]
        elif op == "b":
            chain.batch_norm(shape[0])
        elif op == "a":
            chain.add(draw(st.sampled_from(ACTIVATIONS)))
        elif op == "p" and min(shape[1:]) > 1:
            chain.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
            shape[1:] = [side // 2 for side in shape[1:]]
        elif op == "g":
            window = [draw(st.integers(1, min(3, side))) for side in shape[1:]]
            chain.add("AveragePool", kernel_shape=window, strides=window)
            shape[1:] = [side // size for side, size in zip(shape[1:], window, strict=True)]
        elif op == "i":
            chain.add(draw(st.sampled_from(["Identity", "Dropout"])))
        elif op == "m":
            chain.add("Add", chain.weight(1, shape[0], 1, 1))
    if draw(st.booleans()):
        chain.add("GlobalAveragePool")
        shape[1:] = [1, 1]
    if draw(st.booleans()):
        chain.add("Flatten")
    else:
        chain.add("Reshape", chain.constant([-1, int(np.prod(shape))]))
    features = int(np.prod(shape))
    for op in draw(st.lists(st.sampled_from([*"dmba"]), max_size=4)):
        if op == "d":
            chain.gemm(features, 6)
            features = 6
        elif op == "m":
            chain.add("MatMul", chain.weight(features, 9))
            features = 9
            chain.add("Add", chain.weight(features))
        elif op == "b":
            chain.batch_norm(features)
        else:
            chain.add(draw(st.sampled_from(ACTIVATIONS)))
    if draw(st.booleans()):
        chain.add("Softmax")
    if not chain.nodes:
        chain.add("Identity")
    return chain


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chain=chains())
def test_any_chain_matches_onnx_runtime(chain: Chain, tmp_path: Path) -> None:
    try:
        assert_imports(chain, tmp_path)
    except ModelError as error:  # such a chain may leave no layer
        assert "has 0 layers" in str(error)


def test_a_perceptron_of_features(tmp_path: Path) -> None:
    chain = Chain(12)
    chain.gemm(12, 20)
    chain.batch_norm(20)
    chain.add("Relu")
    chain.add("MatMul", chain.weight(20, 5))
    chain.add("Add", chain.weight(5), first=None)
    chain.add("Softmax", axis=1)
    imported = assert_imports(chain, tmp_path)
    assert kinds(imported) == [Dense, Dense, Softmax] and imported.network.layers[0].activation == "relu"
    assert import_network(chain.save(tmp_path)).network.input == FeatureInput(12)


def test_values_beyond_float32_are_refused(tmp_path: Path) -> None:
    chain = Chain(2)
    chain.weights.append(numpy_helper.from_array(np.full((2, 2), 1e300), "w"))
    chain.add("MatMul", "w")
    with pytest.raises(ModelError, match=r"chain\.onnx: node 'n0' \(MatMul\): its 'w' contains NaN or infinity"):
        import_network(chain.save(tmp_path))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_named_with_their_node(value: float, tmp_path: Path) -> None:
    def chain(spoiled: str) -> Chain:
        graph = Chain(3, 8, 8)
        graph.conv((3, 4))
        graph.batch_norm(4)
        graph.add("Relu")
        number = {"Conv": 1, "BatchNormalization": 3}[spoiled]
        weights = numpy_helper.to_array(graph.weights[number]).copy()
        weights.flat[1] = value
        graph.weights[number].CopyFrom(numpy_helper.from_array(weights, f"weight{number}"))
        return graph

    for op, name in (("Conv", "weight1"), ("BatchNormalization", "weight3")):
        with pytest.raises(ModelError, match=rf"chain\.onnx: node 'n\d' \({op}\): its '{name}' contains NaN"):
            import_network(chain(op).save(tmp_path))


def test_weights_that_become_infinite_are_named_with_their_node(tmp_path: Path) -> None:
    chain = Chain(3, 8, 8)
    chain.conv((3, 4))
    chain.add("Mul", chain.constant(1e30))
    chain.add("Mul", chain.constant(1e30))
    with pytest.raises(ModelError, match=r"node 'n0' \(Conv\): its weight, as computed from the file, contains NaN or"):
        import_network(chain.save(tmp_path))


def test_the_check_finds_a_wrong_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = vgg().save(tmp_path)
    right = fold.batch_norm
    monkeypatch.setattr(
        "trninfer.models.importing.fold.batch_norm",
        lambda *statistics: right(*statistics)._replace(shift=right(*statistics).shift + 0.1),
    )
    comparison = import_network(path).comparison
    assert not comparison.passed and comparison.max_abs_error > comparison.tolerance
