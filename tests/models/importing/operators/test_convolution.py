"""Convolutions and products with weights, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx_chain import Chain, assert_imports, checked, ends, kinds
from onnx_runtime_faults import OLD
from trninfer.models.errors import ModelError
from trninfer.models.importing import import_network
from trninfer.models.inputs import FeatureInput
from trninfer.models.layers import ChannelSoftmax, Transpose


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    side=st.tuples(st.integers(5, 12), st.integers(5, 12)),
    kernel=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    strides=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    dilations=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    pads=st.tuples(*[st.integers(0, 2)] * 4),
    groups=st.sampled_from([1, 2, 4]),
    same=st.sampled_from([None, "SAME_UPPER", "SAME_LOWER", "VALID"]),
)
def test_convolutions_of_any_geometry(side, kernel, strides, dilations, pads, groups, same, tmp_path: Path) -> None:
    chain = Chain(4, *side)
    if any((size - 1) * step + 1 > extent for size, step, extent in zip(kernel, dilations, side)):
        dilations = (1, 1)
    if same in ("SAME_UPPER", "SAME_LOWER"):
        dilations = (1, 1)  # ONNX Runtime supports no others there
    way = {"pads": pads} if same is None else {"auto_pad": same}
    chain.conv((4 // groups, 4), kernel, strides=strides, dilations=dilations, group=groups, **way)
    chain.add("GlobalAveragePool")
    ends(chain, 4, tmp_path)


def test_sounds_are_images_of_one_row(tmp_path: Path) -> None:
    chain = Chain(4, 50)
    chain.conv((4, 6), (5,), strides=[2], pads=[2, 1], dilations=[2])
    chain.batch_norm(6)
    chain.add("Relu")
    chain.add("MaxPool", kernel_shape=[3], strides=[2])
    gate = chain.value
    chain.add("GlobalAveragePool")
    chain.add("Sigmoid")
    chain.add("Mul", gate)
    chain.add("ReduceMean", chain.constant([2]), keepdims=0)
    chain.gemm(6, 3)
    imported = assert_imports(chain, tmp_path)
    assert imported.network.input.layout == "CW" and imported.network.input.preprocess == "none"


@pytest.mark.skipif(OLD, reason="ONNX Runtime 1.23 does not run the second of these convolutions")
def test_onnx_runtimes_own_operators(tmp_path: Path) -> None:
    chain = Chain(4, 6, 6)
    weight, bias = chain.weight(4, 4, 3, 3), chain.weight(4)
    domain = {"domain": "com.microsoft"}
    relu = chain.add("FusedConv", weight, bias, activation="Relu", pads=[1] * 4, **domain)
    chain.add("FusedConv", weight, bias, relu, activation="Relu", pads=[1] * 4, **domain)
    chain.add("FusedConv", weight, bias, activation="LeakyRelu", activation_params=[0.2], **domain)
    chain.add("FusedConv", weight, activation="Clip", activation_params=[0.0, 1.0], pads=[1] * 4, **domain)
    chain.add("Flatten")
    chain.add("FusedGemm", chain.weight(64, 8), chain.weight(8), activation="Relu", **domain)
    chain.add("FusedMatMul", chain.weight(5, 8), transB=1, alpha=0.5, **domain)
    chain.add("BiasGelu", chain.weight(5), **domain)
    chain.add("QuickGelu", alpha=1.5, **domain)
    model = chain.model()
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    chain.model = lambda opset=20: model  # type: ignore[method-assign]
    assert_imports(chain, tmp_path)


@pytest.mark.parametrize("shape", [(28,), (1, 28), (5, 7), (3, 6, 6), (1, 6, 6)])
def test_inputs_of_other_ranks(shape: tuple[int, ...], tmp_path: Path) -> None:
    """Without a batch axis, or [batch, height, width]."""
    chain = Chain(*shape)
    if len(shape) in (1, 3):
        chain.inputs[0].type.tensor_type.shape.dim.pop(0)
    size = int(np.prod(shape))
    if len(shape) == 3:
        chain.add("Unsqueeze", chain.constant([0]))
        chain.conv((shape[0], 2))
        chain.add("Squeeze", chain.constant([0]))
        size = 2 * 4 * 4
    chain.add("Reshape", chain.constant([-1, size]))
    chain.add("MatMul", chain.weight(size, 3))
    imported = assert_imports(chain, tmp_path)
    assert isinstance(imported.network.input, FeatureInput) == (size == max(shape))


def test_long_filters_of_sounds(tmp_path: Path) -> None:
    chain = Chain(1, 2000)
    chain.add("Conv", chain.weight(4, 1, 80), strides=[16])
    chain.add("Conv", chain.weight(4, 1, 64), group=4, pads=[31, 31])
    chain.add("GlobalAveragePool")
    ends(chain, 4, tmp_path)
    chain = Chain(1, 80, 80)
    chain.conv((1, 2), (65, 65))
    with pytest.raises(
        ModelError, match="filters of 65x65 are too large; at most 1024 per side and 4096 elements in all are allowed"
    ):
        import_network(chain.save(tmp_path))


@pytest.mark.parametrize("shape", [(5, 6), (2, 5, 6)])
def test_weights_times_data(shape: tuple[int, ...], tmp_path: Path) -> None:
    """A graph convolution with fixed neighbours: A @ x @ W."""
    chain = Chain(*shape)
    chain.add("MatMul", "x", first=chain.weight(5, 5))
    chain.add("MatMul", chain.weight(6, 3))
    chain.add("Relu")
    chain.add("MatMul", chain.value, first=chain.weight(4, 5))
    ends(chain, 12 * (1 if len(shape) == 2 else 2), tmp_path)


@pytest.mark.parametrize("sizes", [(8,), (8, 1), (8, "columns"), (1, 8), ("batch", 8)])
def test_weights_on_the_left(sizes: tuple[int | str, ...], tmp_path: Path) -> None:
    """With a vector, a column, and a row that is reshaped to a column."""
    chain = Chain()
    chain.inputs[0] = helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)
    if sizes[0] in (1, "batch"):
        chain.add("Transpose", perm=[1, 0])
    bias = (6,) if len(sizes) == 1 else (6, 1)
    chain.add("MatMul", chain.value, first=chain.weight(6, 8))
    chain.add("Add", chain.weight(*bias))
    chain.add("Relu")
    if len(sizes) == 1:
        chain.add("MatMul", chain.value, first=chain.weight(3, 6))
    else:
        chain.add("Gemm", chain.value, chain.weight(3, 1), first=chain.weight(3, 6))
    checked(chain.model(), tmp_path)


def test_a_column_of_features_turned_by_the_product(tmp_path: Path) -> None:
    chain = Chain()
    chain.inputs[0] = helper.make_tensor_value_info("x", TensorProto.FLOAT, (8, 1))
    chain.add("Gemm", chain.weight(8, 3), chain.weight(3), transA=1)
    checked(chain.model(), tmp_path)


def test_weights_times_a_batch_of_rows_are_refused(tmp_path: Path) -> None:
    chain = Chain(6)
    chain.inputs[0].type.tensor_type.shape.dim[0].dim_value = 3
    chain.add("MatMul", "x", first=chain.weight(5, 3))
    with pytest.raises(
        ModelError, match=r"cannot multiply weights \[5, 3\] by \[batch, 6\], because its rows are the examples"
    ):
        import_network(chain.save(tmp_path))


@pytest.mark.parametrize(
    ("auto_pad", "kernel"), [("SAME_UPPER", 3), ("SAME_UPPER", 4), ("SAME_LOWER", 4), ("SAME_LOWER", 1), ("VALID", 2)]
)
def test_automatic_padding(auto_pad: str, kernel: int, tmp_path: Path) -> None:
    chain = Chain(3, 9, 8)
    chain.conv((3, 4), (kernel, kernel), auto_pad=auto_pad)
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    assert_imports(chain, tmp_path)


@pytest.mark.parametrize("beta", [1.0, -0.5])
@pytest.mark.parametrize("width", [1, 4])
def test_gemm_adds_data(beta: float, width: int, tmp_path: Path) -> None:
    """As skl2onnx computes the distances of KMeans."""
    chain = Chain(6)
    squares = chain.add("ReduceSumSquare", chain.constant([1]), first="x")
    added = squares if width == 1 else chain.add("MatMul", chain.weight(1, width), first=squares)
    chain.add("Gemm", chain.weight(6, 4), added, first="x", alpha=-2.0, beta=beta)
    assert_imports(chain, tmp_path)


def test_gemm_scales_and_a_bias_of_one_number(tmp_path: Path) -> None:
    chain = Chain(5)
    chain.add("Gemm", chain.weight(5, 4), chain.weight(1), alpha=0.5, beta=3.0)
    chain.add("Gemm", chain.weight(4, 3))
    assert_imports(chain, tmp_path)


@pytest.mark.parametrize("depth", [1, 3])
def test_images_of_three_sides(depth: int, tmp_path: Path) -> None:
    chain = Chain(2, depth, 8, 7)
    chain.add("Conv", chain.weight(4, 2, 3, 3, 2), chain.weight(4), pads=[1, 1, 0, 1, 1, 1], strides=[2, 1, 1])
    chain.batch_norm(4)
    chain.add("Relu")
    if depth == 1:
        chain.add("MaxPool", kernel_shape=[1, 2, 2], strides=[1, 2, 2])
        chain.add("Conv", chain.weight(4, 2, 1, 1, 1), group=2)
        chain.add("GlobalAveragePool")
    chain.add("Flatten")
    checked(chain.model(), tmp_path)
    assert checked(chain.model(), tmp_path).network.input.shape == (2 * depth, 8, 7)


@pytest.mark.parametrize(
    ("shape", "weight", "how", "says"),
    [
        ((1, 2, 6, 5), (2, 1, 3, 3, 3), {}, "its depth of 2 is too large, or its output is empty"),
        ((8, 64, 6, 5), (64, 8, 3, 3, 3), {}, "its depth of 64 is too large, or its output is empty"),
        (
            (4, 1, 6, 5),
            (3, 2, 1, 1, 1),
            {"group": 2},
            "cannot be divided into 2 groups|with 2 groups, but its input has 4 channels",
        ),
        ((2, 1, 6, 5), (2, 2, 1, 1, 1), {"strides": [0, 1, 1]}, "with 1 groups, but its input has 2 channels"),
        ((2, 1, 6, 5), (2, 2, 1, 3, 3), {"auto_pad": "SAME_UPPER"}, "or its auto_pad is not supported"),
    ],
)
def test_images_of_three_sides_that_are_not_supported(
    shape: tuple[int, ...], weight: tuple[int, ...], how: dict, says: str, tmp_path: Path
) -> None:
    chain = Chain(*shape)
    chain.add("Conv", chain.weight(*weight), **how)
    with pytest.raises(ModelError, match=says):
        import_network(chain.save(tmp_path))


def test_windows_over_three_sides_that_differ_in_each(tmp_path: Path) -> None:
    chain = Chain(2, 5, 6, 7)
    how = {"strides": [2, 1, 3], "pads": [1, 2, 0, 0, 1, 3], "dilations": [2, 1, 1]}
    chain.add("Conv", chain.weight(4, 1, 2, 3, 2), chain.weight(4), group=2, **how)
    chain.add("Flatten")
    checked(chain.model(), tmp_path)


@pytest.mark.parametrize("op", ["Conv", "MatMul"])
@pytest.mark.parametrize("pixels", [(12,), (3, 4)])
def test_bins_that_are_neighbouring_channels_are_mixed_in_place(pixels, op: str, tmp_path: Path) -> None:
    """As YOLO computes the sides of boxes from 16 bins each; the softmax does not move the channels."""
    chain = Chain(20, *pixels)
    count = int(np.prod(pixels))
    chain.conv((20, 20), (1,) * len(pixels))
    chain.add("Reshape", chain.constant([0, 4, 5, count]))
    chain.add("Transpose", perm=[0, 2, 1, 3] if op == "Conv" else [0, 1, 3, 2])
    chain.add("Softmax", axis=1 if op == "Conv" else 3)
    if op == "Conv":
        chain.conv((5, 2), (1, 1))
    else:
        chain.add("MatMul", chain.weight(5, 2))
    chain.add("Relu")
    found = kinds(ends(chain, 8 * count, tmp_path))
    assert ChannelSoftmax in found and Transpose not in found


@pytest.mark.parametrize("op", ["Conv", "MaxPool", "AveragePool"])
def test_windows_of_an_image_as_images_of_their_own(op: str, tmp_path: Path) -> None:
    """As in timm's tnt, which convolves the pixels of each patch, and sam2_hiera, which pools those of each window."""
    chain = Chain(6, 4, 6)
    chain.add("Reshape", chain.constant([6, 2, 2, 2, 3]))
    chain.add("Transpose", perm=[1, 3, 0, 2, 4])
    chain.add("Reshape", chain.constant([4, 6, 2, 3]))
    if op == "Conv":
        chain.conv((3, 4), (2, 2), group=2)
    else:
        chain.add(op, kernel_shape=[2, 2], strides=[2, 1])
    channels, rows = (4, 1) if op == "Conv" else (6, 1)
    chain.add("Reshape", chain.constant([1, 4 * channels * rows * 2]))
    chain.gemm(4 * channels * rows * 2, 5)
    assert_imports(chain, tmp_path, batch=1)


@pytest.mark.parametrize(
    ("shape", "weight", "left"),
    [((3, 5, 4), (3, 4, 6), False), ((3, 5, 4), (1, 3, 4, 6), False), ((1, 5, 4), (3, 4, 6), False),
     ((3, 5, 4), (3, 7, 5), True), ((2, 3, 5, 4), (1, 3, 4, 2), False), ((3, 5, 4), (1, 3, 1, 5), True)],
)  # fmt: skip
def test_a_matrix_for_each_head(shape: tuple[int, ...], weight: tuple[int, ...], left: bool, tmp_path: Path) -> None:
    chain = Chain(int(np.prod(shape[:-2])), *shape[-2:])
    chain.add("Reshape", chain.constant([-1, *shape]))
    given = chain.weight(*weight)
    operands = (np.zeros(weight), np.zeros((1, *shape)))
    if left:
        chain.add("MatMul", chain.value, first=given)
    else:
        chain.add("MatMul", given)
    ends(chain, np.matmul(*(operands if left else operands[::-1])).size, tmp_path)


@pytest.mark.parametrize("shape", [(6,), (5, 6)])
def test_a_product_with_a_vector(shape: tuple[int, ...], tmp_path: Path) -> None:
    """As scikit-learn's exporter writes a Poisson regression, dropping the last axis."""
    chain = Chain(*shape)
    chain.add("MatMul", chain.weight(6))
    chain.add("Exp")
    chain.add("Reshape", chain.constant([-1, *(shape[:-1] or (1,))]))
    checked(chain.model(), tmp_path)
