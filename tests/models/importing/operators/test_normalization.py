"""Normalization by an image's own statistics and softmaxes, as written by exporters, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from import_steps import importer_of, numbers, value_of
from onnx_chain import Chain, assert_imports, ends, kinds
from trninfer.models import Dense, Softmax
from trninfer.models.errors import ModelError
from trninfer.models.importing import import_network
from trninfer.models.importing.onnx_file import Node
from trninfer.models.importing.onnx_patterns import NORM_OVER_AXIS
from trninfer.models.importing.operators.normalization import OPERATORS
from trninfer.models.layers import Affine, Flatten, GroupNorm
from trninfer.models.outputs import Output


@pytest.mark.parametrize("last", [False, True])
def test_instance_norm(last: bool, tmp_path: Path) -> None:
    chain = Chain(*((5, 4, 6) if last else (6, 5, 4)))
    if last:
        chain.add("Transpose", perm=[0, 3, 1, 2])
    chain.add("InstanceNormalization", chain.weight(6), chain.weight(6), epsilon=1e-3)
    assert GroupNorm in kinds(ends(chain, 120, tmp_path))
    chain = Chain(6, 9)
    chain.add("InstanceNormalization", chain.weight(6), chain.weight(6))
    ends(chain, 54, tmp_path)


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_group_norm_as_pytorch_writes_it(groups: int, tmp_path: Path) -> None:
    chain = Chain(6, 5, 4)
    chain.add("Reshape", chain.constant([0, groups, -1]))
    chain.add("InstanceNormalization", chain.constant([1.0] * groups), chain.constant([0.0] * groups))
    chain.add("Reshape", chain.constant([-1, 6, 5, 4]))
    chain.add("Mul", chain.weight(6, 1, 1))
    chain.add("Add", chain.weight(6, 1, 1))
    imported = ends(chain, 120, tmp_path)
    assert kinds(imported) == [GroupNorm, Flatten, Dense]  # it has a scale and shift for each channel
    (norm,) = (layer for layer in imported.network.layers if isinstance(layer, GroupNorm))
    assert (norm.channels, norm.groups) == (6, groups)


@pytest.mark.parametrize("opset", [18, 21])
def test_group_norm_as_one_operator(opset: int, tmp_path: Path) -> None:
    chain = Chain(6, 5, 4)
    count = 3 if opset < 21 else 6  # one number for each group, then one for each channel
    chain.add("GroupNormalization", chain.weight(count), chain.weight(count), num_groups=3, epsilon=1e-2)
    ends(chain, 120, tmp_path, opset=opset)


def test_layer_norm_over_a_whole_image(tmp_path: Path) -> None:
    chain = Chain(3, 5, 4)
    chain.add("LayerNormalization", chain.weight(3, 5, 4), chain.weight(3, 5, 4), axis=1)
    assert {GroupNorm, Affine} <= set(kinds(ends(chain, 60, tmp_path)))


def test_numbers_that_do_not_fit(tmp_path: Path) -> None:
    chain = Chain(6, 5, 4)
    chain.add("InstanceNormalization", chain.weight(4), chain.weight(4))
    with pytest.raises(ModelError, match=r"cannot normalise \[batch, 6, 5, 4\] in 4 groups with 4 scales"):
        import_network(chain.save(tmp_path))
    for fields, says in (((6, 4), "6 channels cannot be divided into 4 groups"), ((6, 2, 0.0), "epsilon is 0.0")):
        with pytest.raises(ModelError, match=says):
            GroupNorm("n", *fields)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize(("axis", "opset"), [(1, 13), (2, 13), (-1, 13), (2, 12)])
def test_softmaxes_over_a_part_of_an_image(op: str, axis: int, opset: int, tmp_path: Path) -> None:
    chain = Chain(5, 4, 6)
    chain.add(op, axis=axis)
    chain.add("Flatten")
    imported = assert_imports(chain, tmp_path, opset)
    assert imported.network.output.kind == "values"


def test_a_softmax_as_a_gate_is_spelled_out_and_one_at_the_end_is_not(tmp_path: Path) -> None:
    chain = Chain(3, 8, 8)
    chain.conv((3, 6))
    image = chain.value
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    chain.gemm(6, 6)
    chain.add("Softmax")
    gate = chain.add("Reshape", chain.constant([-1, 6, 1, 1]))
    chain.add("Mul", gate, first=image)
    chain.add("GlobalMaxPool")
    chain.add("Flatten")
    chain.add("Softmax")
    imported = assert_imports(chain, tmp_path)
    assert kinds(imported).count(Softmax) == 1 and kinds(imported)[-1] is Softmax
    assert imported.network.output == Output("classes", "softmax")


def test_experts_weighted_by_a_softmax(tmp_path: Path) -> None:
    chain = Chain(7)
    chain.gemm(7, 3)
    chain.add("LogSoftmax")
    parts = [chain.add("Slice", *(chain.constant([n]) for n in (i, i + 1, 1)), first="value1") for i in range(3)]
    scaled = []
    for part in parts:
        chain.add("Gemm", chain.weight(7, 4), chain.weight(4), first="x")
        scaled.append(chain.add("Mul", part))
    chain.add("Sum", *scaled[1:], first=scaled[0])
    imported = assert_imports(chain, tmp_path)
    assert Softmax not in kinds(imported)


@pytest.mark.parametrize("groups", [2, 4])
def test_keras_spells_group_normalisation_out_with_five_axes(groups: int, tmp_path: Path) -> None:
    chain = Chain(5, 6, 8)
    chain.add("Transpose", perm=[0, 3, 1, 2])
    chain.conv((8, 8), pads=[1] * 4)
    chain.add("Transpose", perm=[0, 2, 3, 1])
    each = 8 // groups
    split = chain.add("Reshape", chain.constant([-1, 5, 6, groups, each]))
    axes = chain.constant([1, 2, 4])
    mean = chain.add("ReduceMean", axes, first=split)
    less = chain.add("Sub", mean, first=split)
    chain.add("Mul", less, first=less)
    chain.add("ReduceMean", axes)
    chain.add("Add", chain.constant(1e-3))
    chain.add("Sqrt")
    chain.add("Reciprocal")
    scale = chain.add("Mul", chain.weight(1, 1, 1, groups, each))  # more axes than the other operand
    left = chain.add("Mul", scale, first=split)
    shift = chain.add("Mul", scale, first=mean)
    right = chain.add("Sub", shift, first=chain.weight(1, 1, 1, groups, each))
    chain.add("Add", right, first=left)
    chain.add("Reshape", chain.constant([-1, 5, 6, 8]))
    chain.add("ReduceMean", chain.constant([1, 2]), keepdims=0)
    assert_imports(chain, tmp_path)


def normalized(x: np.ndarray, axis: int, epsilon: float) -> np.ndarray:
    return (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + epsilon)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0)])
def test_a_layer_norm_over_any_axis_of_an_image(axis: int, order: tuple[int, ...]) -> None:
    """On an untransposed and a transposed image, with numbers along the axis, compared with NumPy."""
    importer, x = importer_of(5, 3, 4), numbers(5, 3, 4)
    importer.views["x"] = importer.views["x"].permuted(order)
    array = x.transpose(0, *(place + 1 for place in order))
    scale = np.arange(1.0, 1 + array.shape[1 + axis]).reshape(-1, *(1,) * (2 - axis))
    importer.constants |= {"scale": scale, "shift": scale - 1.5}
    node = Node(NORM_OVER_AXIS, "n", ("x", "scale", "shift"), ("y",), {"axis": axis + 1, "epsilon": 0.1})
    OPERATORS[NORM_OVER_AXIS](importer, node)
    expected = normalized(array, axis + 1, 0.1) * scale + scale - 1.5
    np.testing.assert_allclose(value_of(importer, importer.views["y"], x), expected, rtol=1e-3, atol=1e-4)


def test_a_layer_norm_of_rows() -> None:
    importer, x = importer_of(6, 1, 3), numbers(6, 1, 3)
    importer.views["x"] = importer.views["x"].reshaped((6, 3), True)
    importer.constants |= {"scale": np.arange(3.0), "shift": np.ones(3)}
    OPERATORS["LayerNormalization"](importer, Node("LayerNormalization", "n", ("x", "scale", "shift"), ("y",), {}))
    expected = normalized(x[:, :, 0], 2, 1e-5) * np.arange(3) + 1
    np.testing.assert_allclose(value_of(importer, importer.views["y"], x), expected, rtol=1e-3, atol=1e-4)


def test_a_layer_norm_of_features() -> None:
    importer, x = importer_of(7), numbers(7)
    importer.constants["scale"] = np.arange(7.0)
    OPERATORS["LayerNormalization"](importer, Node("LayerNormalization", "n", ("x", "scale"), ("y",), {}))
    expected = normalized(x, 1, 1e-5) * np.arange(7)
    np.testing.assert_allclose(value_of(importer, importer.views["y"], x), expected, rtol=1e-4, atol=1e-5)
    assert [layer.kind for layer in importer.builder.layers.values()] == ["layer_norm"]


@pytest.mark.parametrize(
    ("op", "attributes", "outputs", "says"),
    [
        ("BatchNormalization", {"training_mode": 1}, ("y",), "export the network after model.eval"),
        ("BatchNormalization", {"spatial": 0}, ("y",), "export the network after model.eval"),
        ("LayerNormalization", {}, ("y", "mean"), "its outputs for the mean and the deviation are not supported"),
        (
            "LayerNormalization",
            {"axis": 2},
            ("y",),
            "its axes are not supported; normalise over the channels of each pixel",
        ),
        ("GroupNormalization", {"num_groups": 0}, ("y",), r"cannot normalise \[batch, 4, 3, 2\] in 0 groups with 4"),
    ],
)
def test_norms_that_are_not_supported(op: str, attributes: dict, outputs: tuple[str, ...], says: str) -> None:
    importer = importer_of(4, 3, 2)
    importer.constants["four"] = np.ones(4, np.float32)
    with pytest.raises(ModelError, match=says):
        OPERATORS[op](importer, Node(op, "n", ("x", *["four"] * 4), outputs, attributes))
