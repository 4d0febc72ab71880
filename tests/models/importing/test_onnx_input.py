"""What a graph reads: several inputs, sizes that are not fixed, whole numbers, and images of three sides."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_chain import Chain, checked
from trninfer.models.errors import ModelError
from trninfer.models.importing import PreprocessingOptions, import_network
from trninfer.models.inputs import FeatureInput, ImageInput, SeveralInputs


def test_two_pictures_and_features(tmp_path: Path) -> None:
    chain = Chain(3, 8, 8)
    right, more = chain.input("right", "batch", 8, 8, 3), chain.input("more", "batch", 4)
    left = "x"
    turned = chain.add("Transpose", first=right, perm=[0, 3, 1, 2])
    chain.add("Sub", turned, first=left)
    chain.conv((3, 4))
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    chain.add("Concat", more, axis=1)
    chain.gemm(8, 3)
    imported = checked(chain.model(), tmp_path, pictures=PreprocessingOptions(input_range=(-1, 1)))
    spec = imported.network.input
    assert isinstance(spec, SeveralInputs)
    assert [part.name for part in spec.parts] == ["x", "right", "more"]
    kinds = [part.input for part in spec.parts]
    assert [type(kind) for kind in kinds] == [ImageInput, ImageInput, FeatureInput]
    assert kinds[1].layout == "HWC" and kinds[0].std == (0.5,) * 3


@pytest.mark.parametrize("shape", [[1], []])
def test_a_threshold_beside_an_image(shape: list[int], tmp_path: Path) -> None:
    chain = Chain(3, 4, 4)
    limit = chain.input("limit", *shape)
    chain.add("Flatten")
    chain.gemm(48, 5)
    scores = chain.add("Sigmoid")
    chain.add("Greater", limit)
    chain.add("Where", scores, chain.constant(0.0), first=chain.value)
    spec = checked(chain.model(), tmp_path).network.input
    assert isinstance(spec, SeveralInputs) and spec.parts[1].input == FeatureInput(1)


def test_an_input_that_no_output_needs_is_ignored(tmp_path: Path) -> None:
    chain = Chain(4)
    chain.input("unused", "batch", 7)
    chain.gemm(4, 2)
    assert checked(chain.model(), tmp_path).network.input == FeatureInput(4)


@pytest.mark.parametrize("kind", ["conv", "norm", "keras"])
def test_channels_that_are_not_fixed_follow_from_the_first_weights(kind: str, tmp_path: Path) -> None:
    """As Hugging Face's exporter names the axes: batch_size, num_channels, height, width."""
    chain = Chain("num_channels", "height", "width")
    if kind == "keras":
        chain.inputs[0] = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", "h", "w", "c"])
        chain.add("Transpose", perm=[0, 3, 1, 2])
    if kind == "norm":
        chain.batch_norm(3)
    chain.conv((3, 4))
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    path = tmp_path / "m.onnx"
    path.write_bytes(chain.model().SerializeToString())
    with pytest.raises(ModelError, match="sizes that are not fixed: give them with --input-size HxW"):
        import_network(path)
    spec = checked(chain.model(), tmp_path, pictures=PreprocessingOptions(size=(8, 9))).network.input
    assert spec.shape == (3, 8, 9) and spec.layout == ("HWC" if kind == "keras" else "CHW")


@pytest.mark.parametrize("op", ["Gemm", "turned", "MatMul"])
@pytest.mark.parametrize("shape", [["b", "f"], ["f"]])
def test_features_that_are_not_fixed(op: str, shape: list[str], tmp_path: Path) -> None:
    chain = Chain(1)
    chain.inputs[0] = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    if op == "turned":
        chain.gemm(6, 3)
    elif op == "Gemm":
        chain.add("Gemm", chain.weight(6, 3))
    else:
        chain.add("MatMul", chain.weight(6, 3))
    if len(shape) == 1 and op != "MatMul":
        return  # Gemm takes matrices
    assert checked(chain.model(), tmp_path).network.input == FeatureInput(6)


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


def test_text_is_no_input(tmp_path: Path) -> None:
    chain = Chain(3)
    chain.inputs[0] = helper.make_tensor_value_info("x", TensorProto.STRING, ["b", 3])
    chain.add("Identity")
    path = tmp_path / "m.onnx"
    path.write_bytes(chain.model().SerializeToString())
    with pytest.raises(ModelError, match="its input 'x' is of type string; numbers of 8 to 64 bits are read"):
        import_network(path)


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


def test_too_many_inputs_and_dimensions(tmp_path: Path) -> None:
    chain = Chain(4)
    names = [chain.input(f"x{number}", "batch", 4) for number in range(17)]
    for name in names:
        chain.add("Add", name)
    path = tmp_path / "m.onnx"
    path.write_bytes(chain.model().SerializeToString())
    with pytest.raises(ModelError, match="it has 18 inputs; 16 are the most"):
        import_network(path)
    deep = Chain(1, 2, 3, 8, 5)
    deep.add("Relu")
    path.write_bytes(deep.model().SerializeToString())
    with pytest.raises(ModelError, match="has 6 dimensions; up to 5 are supported"):
        import_network(path)
