"""Inputs of a graph: several, of sizes that are not fixed, and of other ranks and types."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import TensorProto, helper
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


@pytest.mark.parametrize("opset", [10, 13, 18])
def test_channels_that_are_padded_before_the_first_weights_are_not_counted(opset: int, tmp_path: Path) -> None:
    chain = Chain("channels", 8, 8)
    if opset == 10:
        chain.add("Pad", pads=[0, 1, 0, 0, 0, 2, 0, 0])
    elif opset == 13:
        chain.add("Pad", chain.constant([0, 1, 1, 1, 0, 2, 1, 1]))
    else:
        chain.add("Pad", chain.constant([1, 0, 2, 0]), "", chain.constant([-3, 3]))
    chain.conv((6, 4), pads=[1] * 4)
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    assert checked(chain.model(opset), tmp_path).network.input.shape == (3, 8, 8)


@pytest.mark.parametrize("kind", ["conv", "norm", "keras", "shape first", "pad"])
def test_channels_that_are_not_fixed_follow_from_the_first_weights(kind: str, tmp_path: Path) -> None:
    """Hugging Face's exporter names the axes batch_size, num_channels, height, width. ViT reads the batch size before
    the picture."""
    chain = Chain("num_channels", "height", "width")
    shape = chain.add("Shape", end=1) if kind == "shape first" else ""
    chain.value = "x"
    if kind == "keras":
        chain.inputs[0] = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", "h", "w", "c"])
        chain.add("Transpose", perm=[0, 3, 1, 2])
    if kind == "norm":
        chain.batch_norm(3)
    if kind == "pad":
        chain.add("Pad", chain.constant([0, 0, 0, 0, 0, 0, 1, 1]))
    chain.conv((3, 4))
    pooled = chain.add("GlobalAveragePool")
    if shape:
        chain.add("Reshape", chain.add("Concat", chain.constant([-1]), first=shape, axis=0), first=pooled)
    else:
        chain.add("Flatten")
    path = tmp_path / "m.onnx"
    path.write_bytes(chain.model().SerializeToString())
    with pytest.raises(ModelError, match="variable sizes; set them with --input-size HxW"):
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
        return  # Gemm requires matrices
    assert checked(chain.model(), tmp_path).network.input == FeatureInput(6)


def test_text_is_no_input(tmp_path: Path) -> None:
    chain = Chain(3)
    chain.inputs[0] = helper.make_tensor_value_info("x", TensorProto.STRING, ["b", 3])
    chain.add("Identity")
    path = tmp_path / "m.onnx"
    path.write_bytes(chain.model().SerializeToString())
    with pytest.raises(
        ModelError, match="its input 'x' is of type string; integers and floats of 8 to 64 bits are supported"
    ):
        import_network(path)


def test_too_many_inputs_and_dimensions(tmp_path: Path) -> None:
    chain = Chain(4)
    names = [chain.input(f"x{number}", "batch", 4) for number in range(17)]
    for name in names:
        chain.add("Add", name)
    path = tmp_path / "m.onnx"
    path.write_bytes(chain.model().SerializeToString())
    with pytest.raises(ModelError, match="the network has 18 inputs; at most 16 are allowed"):
        import_network(path)
    deep = Chain(1, 2, 3, 8, 5)
    deep.add("Relu")
    path.write_bytes(deep.model().SerializeToString())
    with pytest.raises(ModelError, match="has 6 dimensions; up to 5 are supported"):
        import_network(path)
