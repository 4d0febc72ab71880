"""ONNX files as networks: the same answers as ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from onnx_chain import Chain, assert_imports, kinds, vgg
from trninfer.models import Conv2d, Dense, FeatureInput, Flatten, ModelError, Pool, Softmax
from trninfer.models.importing import fold, import_network

ACTIVATIONS = ("Relu", "Gelu", "Sigmoid", "Tanh")


def test_a_vgg_becomes_fused_layers(tmp_path: Path) -> None:
    imported = assert_imports(vgg(), tmp_path)
    layers = imported.network.layers
    assert kinds(imported) == [*[Conv2d] * 10, Flatten, Dense, Dense]
    assert [layer.pool_size for layer in layers[:10]] == [1, 2] * 5
    assert {layer.activation for layer in layers[:11] if isinstance(layer, Conv2d)} == {"relu"}
    assert [layer.activation for layer in layers[-2:]] == ["relu", "identity"]


@st.composite
def chains(draw: st.DrawFn) -> Chain:
    """Any chain of supported operations, in any order that fits."""
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


@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chain=chains())
def test_any_chain_gives_what_onnx_runtime_gives(chain: Chain, tmp_path: Path) -> None:
    try:
        assert_imports(chain, tmp_path)
    except ModelError as error:  # the one thing that such a chain may have too little of
        assert "has 0 layers" in str(error)


@pytest.mark.parametrize(
    ("auto_pad", "kernel"), [("SAME_UPPER", 3), ("SAME_UPPER", 4), ("SAME_LOWER", 4), ("SAME_LOWER", 1), ("VALID", 2)]
)
def test_automatic_padding(auto_pad: str, kernel: int, tmp_path: Path) -> None:
    chain = Chain(3, 9, 8)
    chain.conv((3, 4), (kernel, kernel), auto_pad=auto_pad)
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    assert_imports(chain, tmp_path)


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


def test_gemm_scales_and_a_bias_of_one_number(tmp_path: Path) -> None:
    chain = Chain(5)
    chain.add("Gemm", chain.weight(5, 4), chain.weight(1), alpha=0.5, beta=3.0)
    chain.add("Gemm", chain.weight(4, 3))
    assert_imports(chain, tmp_path)


@pytest.mark.parametrize("form", ["after", "before", "division by hand"])
def test_a_gelu_in_five_nodes_is_one(form: str, tmp_path: Path) -> None:
    chain = Chain(6)
    chain.gemm(6, 8)
    x = chain.value
    if form == "division by hand":
        chain.add("Mul", chain.constant(0.70710678))
    else:
        chain.add("Div", chain.constant(1.41421356))
    chain.add("Erf")
    plus = chain.add("Add", chain.constant(1.0))
    if form == "before":
        chain.add("Mul", chain.constant(0.5), first=x)
        chain.add("Mul", plus)
    else:
        chain.add("Mul", plus, first=x)
        chain.add("Mul", chain.constant(0.5))
    chain.gemm(8, 3)
    layers = assert_imports(chain, tmp_path).network.layers
    assert [layer.activation for layer in layers] == ["gelu", "identity"]


def test_a_gelu_of_torch_export_at_opset_18(tmp_path: Path) -> None:
    chain = Chain(6)
    x = chain.add("Neg")
    chain.add("Div", chain.constant(1.41421356))
    chain.add("Erf")
    chain.add("Add", chain.constant(1.0))
    half = chain.add("Mul", chain.value, first=chain.constant(0.5))
    chain.add("Mul", half, first=x)
    assert [layer.kind for layer in assert_imports(chain, tmp_path).network.layers] == ["affine"]


def test_what_is_nearly_a_gelu_is_computed_by_its_steps(tmp_path: Path) -> None:
    chain = Chain(6)
    x = chain.value
    chain.add("Div", chain.constant(1.5))
    chain.add("Erf")
    plus = chain.add("Add", chain.constant(1.0))
    chain.add("Mul", plus, first=x)
    chain.add("Mul", chain.constant(0.5))
    activations = [getattr(layer, "activation", "") for layer in assert_imports(chain, tmp_path).network.layers]
    assert "erf" in activations and "gelu" not in activations


def test_a_view_by_the_batch_size_is_a_flatten(tmp_path: Path) -> None:
    """x.view(x.size(0), -1), as PyTorch exports it."""
    chain = Chain(3, 4, 4)
    chain.conv((3, 2))
    x = chain.value
    chain.add("Shape")
    chain.add("Gather", chain.constant(np.array(0)), axis=0)
    chain.add("Unsqueeze", chain.constant([0]))
    target = chain.add("Concat", chain.constant([-1]), axis=0)
    chain.add("Reshape", target, first=x)
    chain.gemm(8, 2)
    assert kinds(assert_imports(chain, tmp_path)) == [Conv2d, Flatten, Dense]


def test_means_over_height_and_width_are_a_global_pool(tmp_path: Path) -> None:
    chain = Chain(1, 6, 5)
    chain.conv((1, 3))
    chain.add("ReduceMean", chain.constant([-1, 2]), keepdims=0)
    chain.gemm(3, 2)
    assert kinds(assert_imports(chain, tmp_path)) == [Conv2d, Pool, Flatten, Dense]


def test_weights_as_constants_and_transposed(tmp_path: Path) -> None:
    chain = Chain(4)
    value = numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(3, 4) / 12)
    chain.nodes.append(helper.make_node("Constant", [], ["w"], value=value))
    chain.nodes.append(helper.make_node("Transpose", ["w"], ["wt"], perm=[1, 0]))
    chain.nodes.append(helper.make_node("Identity", ["wt"], ["shared"]))
    chain.add("MatMul", "shared")
    assert_imports(chain, tmp_path)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_float_types(dtype: type, tmp_path: Path) -> None:
    chain = Chain(6)
    chain.inputs = [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), [1, 6])]
    weight = np.random.default_rng(1).standard_normal((6, 4)).astype(dtype)
    chain.weights.append(numpy_helper.from_array(weight, "w"))
    chain.add("MatMul", "w")
    model = chain.model()
    model.graph.output[0].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    imported = import_network(path)
    np.testing.assert_array_equal(imported.tensors["dense1.weight"], weight.astype(np.float32))
    assert imported.comparison.passed and imported.comparison.skipped == ""


def test_values_beyond_float32_are_refused(tmp_path: Path) -> None:
    chain = Chain(2)
    chain.weights.append(numpy_helper.from_array(np.full((2, 2), 1e300), "w"))
    chain.add("MatMul", "w")
    with pytest.raises(ModelError, match=r"'dense1\.weight' holds NaN or infinity"):
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
