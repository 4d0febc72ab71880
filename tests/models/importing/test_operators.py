"""Every operator that is imported, against ONNX Runtime: layouts, geometry, arithmetic, whole numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx_chain import Chain, assert_imports, checked, ends, kinds, run_onnx
from onnx_runtime_faults import OLD, miscounts
from trninfer.models import Conv2d, Dense, Flatten, Pool, Softmax, run_network
from trninfer.models.errors import ModelError
from trninfer.models.importing import ImportOptions, PreprocessingOptions, import_network
from trninfer.models.inputs import FeatureInput
from trninfer.models.layers import Affine, ChannelShuffle, ChannelSlice, Combine, Concat, LayerNorm, Transpose
from trninfer.models.outputs import Output


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
        dilations = (1, 1)  # ONNX Runtime has no others there
    way = {"pads": pads} if same is None else {"auto_pad": same}
    chain.conv((4 // groups, 4), kernel, strides=strides, dilations=dilations, group=groups, **way)
    chain.add("GlobalAveragePool")
    ends(chain, 4, tmp_path)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    side=st.tuples(st.integers(4, 12), st.integers(4, 12)),
    window=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    strides=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    pads=st.tuples(*[st.integers(0, 1)] * 4),
    ceil_mode=st.integers(0, 1),
    op=st.sampled_from(["MaxPool", "AveragePool"]),
    include=st.integers(0, 1),
    dilations=st.tuples(st.integers(1, 2), st.integers(1, 2)),
)
def test_pools_of_any_geometry(side, window, strides, pads, ceil_mode, op, include, dilations, tmp_path: Path) -> None:
    chain = Chain(3, *side)
    pads = [min(pad, size - 1) for pad, size in zip(pads, window * 2)]
    more = {"count_include_pad": include} if op == "AveragePool" else {}
    assume(not miscounts("count_include_pad" in more and include, pads, ceil_mode))
    fits = all((size - 1) * step < room for size, step, room in zip(window, dilations, side))
    dilations = dilations if fits else (1, 1)
    chain.add(op, kernel_shape=window, strides=strides, pads=pads, ceil_mode=ceil_mode, dilations=dilations, **more)
    chain.add("GlobalAveragePool")
    ends(chain, 3, tmp_path)


def test_keras_puts_channels_last(tmp_path: Path) -> None:
    """As tf2onnx writes a small Keras network: no Transpose is left but the one that the first layer needs anyway."""
    chain = Chain(9, 7, 3)
    chain.add("Transpose", perm=[0, 3, 1, 2])
    chain.conv((3, 5))
    chain.add("Relu")
    chain.add("Transpose", perm=[0, 2, 3, 1])
    chain.add("Mul", chain.weight(5))
    chain.add("Transpose", perm=[0, 3, 1, 2])
    chain.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    chain.add("Transpose", perm=[0, 2, 3, 1])
    chain.add("Reshape", chain.constant([-1, 3 * 2 * 5]))
    chain.add("MatMul", chain.weight(30, 4))
    chain.add("Add", chain.weight(4))
    imported = assert_imports(chain, tmp_path)
    assert kinds(imported) == [Conv2d, Affine, Pool, Flatten, Dense]
    assert imported.network.input.layout == "HWC" and imported.network.input.shape == (3, 9, 7)


def test_channels_last_arithmetic_pooling_and_concatenation(tmp_path: Path) -> None:
    chain = Chain(6, 8, 3)
    x = chain.value
    left = chain.add("Add", chain.weight(1, 1, 1, 3))
    chain.add("Mul", chain.weight(6, 8, 3), first=x)
    both = chain.add("Concat", left, axis=3)
    mean = chain.add("ReduceMean", chain.constant([1, 2]), first=both)
    chain.add("Mul", mean, first=both)
    chain.add("MatMul", chain.weight(6, 5))
    chain.add("LayerNormalization", chain.weight(5), chain.weight(5), axis=-1)
    chain.add("ReduceMean", chain.constant([1, 2]), keepdims=0)
    chain.gemm(5, 3)
    imported = assert_imports(chain, tmp_path)
    assert Transpose not in kinds(imported) and LayerNorm in kinds(imported)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 7), (2, 21), (6, 7), (3, 14)])
def test_axes_that_share_no_factors(shape: tuple[int, ...], turned: bool, tmp_path: Path) -> None:
    chain = Chain(7, 2, 3)
    if turned:
        chain.add("Transpose", perm=[0, 3, 1, 2])
    chain.add("Reshape", chain.constant([-1, *shape]))
    chain.add("MatMul", chain.weight(shape[-1], 2))
    ends(chain, 42 // shape[-1] * 2, tmp_path)


@pytest.mark.parametrize("shape", [(28,), (1, 28), (5, 7), (3, 6, 6), (1, 6, 6)])
def test_inputs_of_other_ranks(shape: tuple[int, ...], tmp_path: Path) -> None:
    """Without a batch, or [batch, height, width]."""
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


def test_rows_of_more_axes_than_one_are_features(tmp_path: Path) -> None:
    chain = Chain(1, 1, 5)
    chain.add("Sub", chain.weight(1, 1, 1, 5))
    chain.add("Flatten")
    chain.gemm(5, 3)
    assert assert_imports(chain, tmp_path).network.input == FeatureInput(5)


def test_an_image_without_a_batch_that_is_made_one(tmp_path: Path) -> None:
    chain = Chain(9)
    chain.inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 9])]
    chain.add("Reshape", chain.constant([1, 1, 8, 9]))
    chain.conv((1, 4))
    chain.add("Flatten")
    chain.gemm(4 * 6 * 7, 3)
    network = import_network(chain.save(tmp_path)).network
    assert network.input.shape == (1, 8, 9) and network.outputs == 3


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


def test_channels_are_shuffled_split_and_put_together(tmp_path: Path) -> None:
    chain = Chain(8, 5, 5)
    chain.conv((8, 8), (1, 1))
    chain.add("Reshape", chain.constant([-1, 2, 4, 5, 5]))
    chain.add("Transpose", perm=[0, 2, 1, 3, 4])
    x = chain.add("Reshape", chain.constant([-1, 8, 5, 5]))
    first = chain.add("Split", first=x, outputs=2, axis=1, num_outputs=2)
    second = f"{first}'"
    chain.add("Slice", *(chain.constant([n]) for n in (2, 4, 1)), first=second)
    chain.add("Concat", first, axis=1)
    chain.add("Gather", chain.constant(np.array(3)), axis=1)
    imported = ends(chain, 25, tmp_path)
    assert kinds(imported)[:2] == [Conv2d, ChannelShuffle]
    assert ChannelSlice in kinds(imported) and Concat in kinds(imported)


def test_rows_and_columns_are_cut_and_skipped_and_channels_padded(tmp_path: Path) -> None:
    """The shortcut of residual networks for CIFAR: every other pixel, and zeros for the new channels."""
    chain = Chain(3, 9, 8)
    ends_, axes, steps = chain.constant([1 << 62, 7]), chain.constant([2, 3]), chain.constant([2, 2])
    chain.add("Slice", chain.constant([0, -8]), ends_, axes, steps)
    chain.add("Pad", chain.constant([0, 1, 0, 0, 0, 2, 0, 0]), chain.constant(0.0))
    chain.add("Pad", chain.constant([0, 0, 1, 0, 0, 0, 0, 2]), chain.constant(1.5))
    ends(chain, 6 * 6 * 6, tmp_path)


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


def test_slopes_by_channel_and_normalisation_by_neighbours(tmp_path: Path) -> None:
    chain = Chain(5, 4, 4)
    chain.add("PRelu", chain.weight(5, 1, 1))
    chain.add("LRN", size=3, alpha=0.01, beta=0.6, bias=1.5)
    chain.add("PRelu", chain.constant([[[0.3]]]))
    ends(chain, 80, tmp_path)


WITH_NUMBERS = [(op, shape) for op in ("Add", "Sub", "Mul", "Div") for shape in ((), (5, 1, 1), (1, 5, 4, 3), (1, 3))]


@pytest.mark.parametrize(("op", "shape"), [*WITH_NUMBERS, ("Max", ()), ("Min", ())])
def test_arithmetic_with_numbers(op: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    chain = Chain(5, 4, 3)
    numbers = chain.constant(np.random.default_rng(2).uniform(0.5, 2, shape))
    chain.add(op, numbers)
    if op in ("Add", "Sub", "Mul"):
        chain.add(op, chain.value, first=numbers)
    ends(chain, 60, tmp_path)


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Max", "Min"])
def test_arithmetic_of_two_values_in_different_layouts(op: str, tmp_path: Path) -> None:
    chain = Chain(3, 4, 4)
    chain.conv((3, 4), (1, 1))
    a = chain.value
    b = chain.add("Transpose", perm=[0, 2, 1, 3])
    chain.add(op, b, first=a)
    ends(chain, 64, tmp_path)


@pytest.mark.parametrize("last", ["Softmax", "LogSoftmax", "Softmax and Log", "Sigmoid", "Tanh", "nothing"])
def test_the_last_layer_says_what_the_output_is(last: str, tmp_path: Path) -> None:
    chain = Chain(6)
    chain.gemm(6, 4)
    for op in last.replace("nothing", "Identity").split(" and "):
        chain.add(op)
    imported = assert_imports(chain, tmp_path)
    wanted = {
        "Softmax": Output("classes", "softmax"),
        "Sigmoid": Output("sigmoid"),
        "Tanh": Output("values"),
        "nothing": Output("classes", "raw"),
    }
    assert imported.network.output == wanted.get(last, Output("classes", "log_softmax"))
    assert any("raw scores" in note for note in imported.notes) == (last == "nothing")
    told = import_network(chain.save(tmp_path), options=ImportOptions(output_kind="values"))
    assert told.network.output == Output("values") and told.comparison.passed


@pytest.mark.parametrize("last", ["Sigmoid", "nothing"])
def test_a_table_is_values_and_a_row_of_it_classes(last: str, tmp_path: Path) -> None:
    for rows, kind in ((1, "sigmoid" if last == "Sigmoid" else "classes"), (3, "values")):
        chain = Chain(rows, 6)
        chain.add("MatMul", chain.weight(6, 4))
        if last == "Sigmoid":
            chain.add("Sigmoid")
        assert assert_imports(chain, tmp_path).network.output.kind == kind


def test_one_output_and_as_many_as_inputs_are_values(tmp_path: Path) -> None:
    chain = Chain(6)
    chain.gemm(6, 1)
    network = assert_imports(chain, tmp_path).network
    assert network.output == Output("values") and network.labels == ()
    chain = Chain(6)
    chain.gemm(6, 2)
    chain.gemm(2, 6)
    assert assert_imports(chain, tmp_path).network.output == Output("values")


def test_a_single_chance_with_two_labels(tmp_path: Path) -> None:
    chain = Chain(4)
    chain.gemm(4, 1)
    chain.add("Sigmoid")
    path = chain.save(tmp_path)
    assert import_network(path).network.output == Output("sigmoid")
    named = import_network(path, labels=("healthy",)).network
    assert named.output == Output("sigmoid") and named.labels == ("healthy",)
    imported = import_network(path, labels=("ill", "healthy"))
    network = imported.network
    assert network.output == Output("classes", "softmax") and network.outputs == 2
    x = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    chance = run_onnx(path, x)
    given = run_network(network, imported.tensors, x).probabilities
    np.testing.assert_allclose(given, np.concatenate([1 - chance, chance], axis=1), atol=1e-6)
    with pytest.raises(ModelError, match="3 labels"):
        import_network(path, labels=("a", "b", "c"))


def test_softmax_over_channels_before_the_flatten(tmp_path: Path) -> None:
    chain = Chain(3, 4, 4)
    chain.conv((3, 5))
    chain.add("GlobalAveragePool")
    chain.add("Softmax", axis=1)
    chain.add("Flatten")
    assert kinds(assert_imports(chain, tmp_path)) == [Conv2d, Pool, Flatten, Softmax]


def test_one_of_several_outputs(tmp_path: Path) -> None:
    chain = Chain(6)
    chain.gemm(6, 4)
    hidden = chain.add("Relu")
    chain.gemm(4, 3)
    scores = chain.value
    model = chain.model()
    model.graph.output.append(helper.make_tensor_value_info(hidden, TensorProto.FLOAT, None))
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    both = import_network(path)
    assert [(named.name, named.output.kind) for named in both.network.named_outputs] == [
        (scores, "classes"), (hidden, "values"),
    ]  # fmt: skip
    assert both.comparison.passed and not both.comparison.skipped
    for name, count in ((scores, 3), (hidden, 4), ("value0", 4)):
        imported = import_network(path, options=ImportOptions((name,)))
        assert imported.network.outputs == count
        assert imported.comparison.passed and not imported.comparison.skipped
    with pytest.raises(ValueError, match="it has no value 'elsewhere'; its outputs are"):
        import_network(path, options=ImportOptions(("elsewhere",)))


def test_indices_and_labels_are_cut_off(tmp_path: Path) -> None:
    chain = Chain(6)
    chain.gemm(6, 4)
    scores = chain.value
    label = chain.add("ArgMax", axis=1, keepdims=0)
    model = chain.model()
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    alone = import_network(path)
    assert any("is cut off: the answer is what goes into it" in note for note in alone.notes)
    model.graph.output.append(helper.make_tensor_value_info(scores, TensorProto.FLOAT, None))
    path.write_bytes(model.SerializeToString())
    both = import_network(path)
    assert any(f"of its 2 outputs, '{label}' are left out" in note for note in both.notes)
    for imported in (alone, both):
        assert kinds(imported) == [Dense] and imported.comparison.passed and not imported.comparison.skipped
    assert label not in both.network.to_json()


def test_sides_that_the_file_leaves_open(tmp_path: Path) -> None:
    chain = Chain(3, "height", "width")
    chain.conv((3, 4), pads=[1] * 4)
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    path = chain.save(tmp_path)
    imported = import_network(path, PreprocessingOptions(size=(12, 10)))
    assert imported.network.input.shape == (3, 12, 10)
    assert imported.comparison.passed and not imported.comparison.skipped
    fixed = Chain(3, 8, 8)
    fixed.conv((3, 4))
    with pytest.raises(ValueError, match="is fixed at 8, not 12; leave --input-size out"):
        import_network(fixed.save(tmp_path), PreprocessingOptions(size=(12, 8)))


@pytest.mark.parametrize(("numbers", "range_"), [(127.5, (0, 255)), (0.5, (0, 1))])
def test_pixels_are_not_normalised_twice(numbers: float, range_: tuple[int, int], tmp_path: Path) -> None:
    chain = Chain(3, 8, 8)
    chain.add("Sub", chain.constant(numbers))
    chain.conv((3, 4))
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    imported = assert_imports(chain, tmp_path)
    source = imported.network.input
    assert f"the network's first steps take pixels of 0 to {range_[1]} (--input-range)" in imported.assumed
    assert source.mean == (0.0,) * 3 and source.std == pytest.approx((1 / (range_[1] - range_[0]),) * 3)


@pytest.mark.parametrize("opset", [7, 9, 11, 13, 18, 21, 22])
def test_opsets(opset: int, tmp_path: Path) -> None:
    """What moved from attributes to inputs over the years."""
    chain = Chain(4, 6, 6)
    chain.conv((4, 4), (1, 1))
    if opset < 11:
        chain.add("Clip", min=0.0, max=6.0)
        chain.add("Pad", pads=[0, 0, 1, 1, 0, 0, 1, 1])
    else:
        chain.add("Clip", chain.constant(0.0), chain.constant(6.0))
        chain.add("Pad", chain.constant([0, 0, 1, 1, 0, 0, 1, 1]))
    if opset < 10:
        chain.add("Slice", starts=[0], ends=[3], axes=[1])
    else:
        chain.add("Slice", chain.constant([0]), chain.constant([3]), chain.constant([1]))
    if opset < 18:
        chain.add("ReduceMean", axes=[2, 3], keepdims=1)
    else:
        chain.add("ReduceMean", chain.constant([2, 3]), keepdims=1)
    if opset < 13:
        chain.add("Squeeze", axes=[2, 3])
    else:
        chain.add("Squeeze", chain.constant([2, 3]))
    chain.add("Dropout")
    chain.gemm(3, 5)
    chain.add("Softmax", axis=1)
    assert_imports(chain, tmp_path, opset)


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


@pytest.mark.parametrize(("axis", "square"), [(-1, "Pow"), (1, "Mul")])
def test_layer_normalisation_that_is_spelled_out(axis: int, square: str, tmp_path: Path) -> None:
    """Over the channels: the last axis, as PyTorch wrote it before opset 17, or the first."""
    chain = Chain(5, 4, 3)
    chain.conv((5, 6), (1, 1))
    if axis == -1:
        chain.add("Transpose", perm=[0, 2, 3, 1])
    x = chain.value
    mean = chain.add("ReduceMean", axes=[axis], keepdims=1)
    centred = chain.add("Sub", mean, first=x)
    chain.add("Pow", chain.constant(2.0)) if square == "Pow" else chain.add("Mul", centred)
    chain.add("ReduceMean", axes=[axis], keepdims=1)
    chain.add("Add", chain.constant(1e-3))
    root = chain.add("Sqrt")
    chain.add("Div", root, first=centred)
    shape = (6,) if axis == -1 else (6, 1, 1)
    chain.add("Mul", chain.weight(*shape))
    chain.add("Add", chain.weight(*shape))
    chain.add("Flatten")
    chain.gemm(72, 4)
    assert kinds(assert_imports(chain, tmp_path, 13))[:2] == [Conv2d, LayerNorm]


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_flatten_at_any_axis(axis: int, tmp_path: Path) -> None:
    chain = Chain(3, 4, 5)
    chain.inputs[0].type.tensor_type.shape.dim[0].dim_value = 1
    chain.add("Relu")
    chain.add("Flatten", axis=axis)
    checked(chain.model(), tmp_path)


def test_the_batch_may_be_moved_and_come_back(tmp_path: Path) -> None:
    """As recurrent text readers lie: time first, [T, batch, features]."""
    chain = Chain(1, 8, 12)
    chain.conv((1, 5))
    chain.add("ReduceMean", chain.constant([2]), keepdims=0)
    chain.add("Transpose", perm=[2, 0, 1])
    chain.add("MatMul", chain.weight(5, 4))
    time_first = chain.add("Add", chain.weight(4))
    batch_first = chain.add("Transpose", perm=[1, 0, 2])
    imported = checked(chain.model(outputs=[time_first, batch_first]), tmp_path)
    assert [named.shape for named in imported.network.named_outputs] == [(10, 1, 4), (10, 4)]


def test_a_batch_that_the_file_fixes_is_not_moved(tmp_path: Path) -> None:
    chain = Chain(3, 4)
    chain.inputs[0].type.tensor_type.shape.dim[0].dim_value = 2
    chain.add("Transpose", perm=[1, 0, 2])
    with pytest.raises(ValueError, match="mixes the 2 inputs of the batch that the file fixes"):
        import_network(chain.save(tmp_path))


@pytest.mark.parametrize("shape", [(1, 2, 3, 3), (1, 5, 3, 3)])
@pytest.mark.parametrize("first", [False, True])
def test_numbers_beside_data(shape: tuple[int, ...], first: bool, tmp_path: Path) -> None:
    """BlazeFace puts channels of zeros beside those of an image."""
    chain = Chain(3, 5, 5)
    chain.conv((3, 4))
    x = chain.value
    numbers = chain.constant(np.zeros(shape) if first else np.random.default_rng(0).standard_normal(shape))
    chain.add("Concat", x if first else numbers, first=numbers if first else x, axis=1)
    ends(chain, (4 + shape[1]) * 9, tmp_path, batch=1)


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("LpPool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("LpPool", {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "p": 1}),
        ("LpPool", {"kernel_shape": [2, 3], "dilations": [2, 1], "p": 3}),
        ("LpPool", {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER"}),
        ("GlobalLpPool", {"p": 2}),
    ],
)
def test_pools_of_norms(op: str, attributes: dict, tmp_path: Path) -> None:
    chain = Chain(3, 7, 8)
    chain.conv((3, 2))
    chain.add(op, **attributes)
    sizes = {"LpPool": {(2, 2): 12, (3, 2): 60, (2, 3): 24, (3, 3): 60}, "GlobalLpPool": {(): 2}}
    ends(chain, sizes[op][tuple(attributes.get("kernel_shape", ()))], tmp_path)


def test_images_out_of_a_network_may_be_large(tmp_path: Path) -> None:
    chain = Chain(3, 160, 160)
    chain.conv((3, 3), pads=[1] * 4)
    chain.add("Tanh")
    imported = checked(chain.model(), tmp_path)
    assert imported.network.outputs == 76_800 and imported.network.output.kind == "values"


def test_a_row_without_a_batch(tmp_path: Path) -> None:
    chain = Chain(1)
    chain.inputs[0] = helper.make_tensor_value_info("x", TensorProto.FLOAT, [6])
    chain.add("MatMul", chain.weight(6, 4))
    chain.add("Add", chain.weight(4))
    chain.add("Softmax", axis=0)
    assert checked(chain.model(), tmp_path).network.outputs == 4


@pytest.mark.parametrize(("shape", "times"), [((3, 4, 5), [1, 2, 1, 3]), ((6,), [1, 4]), ((1, 4, 5), [1, 3, 2, 1])])
def test_tiles(shape: tuple[int, ...], times: list[int], tmp_path: Path) -> None:
    chain = Chain(*shape)
    chain.add("Relu")
    chain.add("Tile", chain.constant(times))
    checked(chain.model(), tmp_path)


@pytest.mark.parametrize("axes", [None, [0, 1, 2, 3], [0]])
@pytest.mark.parametrize("keep", [0, 1])
def test_means_over_the_batch_too(axes: list[int] | None, keep: int, tmp_path: Path) -> None:
    """Each input is a batch of its own."""
    chain = Chain(3, 4, 5)
    x = chain.add("Relu")
    chain.add("ReduceMean", *([chain.constant(axes)] if axes else []), keepdims=keep)
    if keep:
        chain.add("Sub", chain.value, first=x)
    imported = checked(chain.model(), tmp_path)
    assert any("mixes the inputs of a batch: each is computed as a batch of its own" in note for note in imported.notes)


def test_the_mean_of_a_long_row(tmp_path: Path) -> None:
    chain = Chain(20_000)
    x = chain.value
    mean = chain.add("ReduceMean")
    chain.add("Sub", mean, first=x)
    checked(chain.model(), tmp_path)
