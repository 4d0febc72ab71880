"""Whole graphs with several operators, layouts and outputs, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import TensorProto, helper
from onnx_chain import Chain, assert_imports, checked, kinds
from trninfer.models import Conv2d, Dense, Flatten, Pool, Softmax
from trninfer.models.importing import ImportOptions, PreprocessingOptions, import_network
from trninfer.models.inputs import FeatureInput
from trninfer.models.layers import LayerNorm, Transpose


def test_keras_puts_channels_last(tmp_path: Path) -> None:
    """As tf2onnx converts a small Keras network: all Transposes are removed, and channel-wise factors are folded into
    the weights."""
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
    assert kinds(imported) == [Conv2d, Flatten, Dense]
    convolution = imported.network.layers[0]
    assert isinstance(convolution, Conv2d) and (convolution.activation, convolution.pool_size) == ("relu", 2)
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
    with pytest.raises(ValueError, match="the graph has no value 'elsewhere'; its outputs are"):
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
    assert any("is removed, because its input contains the scores" in note for note in alone.notes)
    model.graph.output.append(helper.make_tensor_value_info(scores, TensorProto.FLOAT, None))
    path.write_bytes(model.SerializeToString())
    both = import_network(path)
    assert any(f"of the 2 outputs, '{label}' are ignored" in note for note in both.notes)
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
    with pytest.raises(ValueError, match="is fixed at 8, not 12; omit --input-size"):
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
    assert any(f"expect pixel values from 0 to {range_[1]} (--input-range)" in note for note in imported.assumed)
    assert source.mean == (0.0,) * 3 and source.std == pytest.approx((1 / (range_[1] - range_[0]),) * 3)


@pytest.mark.parametrize("opset", [7, 9, 11, 13, 18, 21, 22])
def test_opsets(opset: int, tmp_path: Path) -> None:
    """Parameters that changed from attributes to inputs in later opsets."""
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
