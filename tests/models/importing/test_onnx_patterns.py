"""Operations that exporters spell out in several nodes are recognised, and similar ones are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_chain import Chain, assert_imports, checked, kinds
from trninfer.models import Conv2d
from trninfer.models.importing.onnx_file import Node
from trninfer.models.importing.onnx_patterns import NORM_OVER_AXIS, join_patterns
from trninfer.models.layers import LayerNorm


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


@pytest.mark.parametrize(("factor", "joined"), [(0.70710678, True), (0.5, False)])
def test_a_gelu_of_keras_by_tf2onnx(factor: float, joined: bool, tmp_path: Path) -> None:
    chain = Chain(6)
    chain.gemm(6, 8)
    x = chain.value
    half = chain.add("Mul", x, first=chain.constant(0.5))
    chain.add("Neg", first=x)
    chain.add("Mul", chain.constant(factor))
    chain.add("Erfc")
    chain.add("Mul", chain.value, first=half)
    chain.gemm(8, 3)
    activations = [layer.activation for layer in checked(chain.model(15), tmp_path).network.layers]
    assert ("gelu" in activations) is joined and ("erf" in activations) is not joined


def test_pattern_similar_to_a_gelu_is_computed_step_by_step(tmp_path: Path) -> None:
    chain = Chain(6)
    x = chain.value
    chain.add("Div", chain.constant(1.5))
    chain.add("Erf")
    plus = chain.add("Add", chain.constant(1.0))
    chain.add("Mul", plus, first=x)
    chain.add("Mul", chain.constant(0.5))
    activations = [getattr(layer, "activation", "") for layer in assert_imports(chain, tmp_path).network.layers]
    assert "erf" in activations and "gelu" not in activations


def test_softplus_as_pytorch_spells_it_out(tmp_path: Path) -> None:
    chain = Chain(6)
    chain.gemm(6, 4)
    x = chain.value
    soft = chain.add("Softplus")
    large = chain.add("Greater", chain.constant(20.0), first=x)
    chain.add("Where", x, soft, first=large)
    (layer,) = assert_imports(chain, tmp_path).network.layers
    assert (layer.kind, layer.activation) == ("dense", "softplus")


@pytest.mark.parametrize(("axis", "square"), [(-1, "Pow"), (1, "Mul")])
def test_layer_normalisation_that_is_spelled_out(axis: int, square: str, tmp_path: Path) -> None:
    """Over the channels: the last axis, as PyTorch exported it before opset 17, or the first."""
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


def gelu(**changes: str) -> list[Node]:
    """(x * (1 + erf(x / sqrt 2))) * 0.5."""
    steps = {
        "scaled": "Div x root",
        "erf": "Erf scaled",
        "plus": "Add one erf",
        "times": "Mul x plus",
        "y": "Mul half times",
    }
    return [
        Node(op, name, tuple(inputs), (name,), {})
        for name, (op, *inputs) in ((n, s.split()) for n, s in {**steps, **changes}.items())
    ]


NUMBERS = {name: np.array(value, np.float32) for name, value in (("root", 2**0.5), ("one", 1.0), ("half", 0.5))}


def test_a_group_becomes_one_node_in_the_place_of_its_last() -> None:
    nodes = [Node("Neg", "before", ("z",), ("x",), {}), *gelu(), Node("Relu", "after", ("y",), ("end",), {})]
    assert [(node.op, node.inputs, node.outputs) for node in join_patterns(nodes, NUMBERS)] == [
        ("Neg", ("z",), ("x",)), ("Gelu", ("x",), ("y",)), ("Relu", ("y",), ("end",)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {"y": "Mul one times"},
        {"plus": "Add half erf"},
        {"scaled": "Div root x"},
        {"scaled": "Div z root"},  # of a different value
        {"times": "Mul z plus"},
        {"plus": "Sub one erf"},
    ],
)
def test_other_numbers_and_other_values_are_no_gelu(changes: dict[str, str]) -> None:
    nodes = gelu(**changes)
    assert join_patterns(nodes, NUMBERS) == nodes


def test_a_pattern_is_kept_if_another_node_reads_its_values() -> None:
    nodes = gelu()
    assert join_patterns(nodes, NUMBERS, outputs=["plus"]) == nodes
    more = [*nodes, Node("Relu", "aside", ("times",), ("aside",), {})]
    assert join_patterns(more, NUMBERS) == more
    assert len(join_patterns(nodes, NUMBERS, outputs=["y"])) == 1


@pytest.mark.parametrize(("limit", "joined"), [(20.0, True), (17.0, True), (16.0, False)])
def test_a_softplus_is_one_node_where_it_is_x_beyond_the_limit(limit: float, joined: bool) -> None:
    nodes = [
        Node("Softplus", "a", ("x",), ("soft",), {}),
        Node("Greater", "b", ("x", "limit"), ("large",), {}),
        Node("Where", "c", ("large", "x", "soft"), ("y",), {}),
    ]
    made = join_patterns(nodes, {"limit": np.array(limit)})
    assert [node.op for node in made] == (["Softplus"] if joined else ["Softplus", "Greater", "Where"])
    swapped = [*nodes[:2], Node("Where", "c", ("large", "soft", "x"), ("y",), {})]
    assert join_patterns(swapped, {"limit": np.array(limit)}) == swapped


NORM = {
    "mean": ("ReduceMean x", {"axes": (-1,)}),
    "centred": ("Sub x mean", {}),
    "squares": ("Pow centred two", {}),
    "variance": ("ReduceMean squares", {"axes": (-1,)}),
    "plus": ("Add variance epsilon", {}),
    "root": ("Sqrt plus", {}),
    "divided": ("Div centred root", {}),
    "product": ("Mul scale divided", {}),
    "y": ("Add product shift", {}),
}
NORM_NUMBERS = {
    "two": np.array(2.0), "three": np.array(3.0), "epsilon": np.array([1e-5]), "axes": np.array([-1]),
    "scale": np.ones(4), "shift": np.zeros(4),
}  # fmt: skip


def norm(**changes: tuple[str, dict]) -> list[Node]:
    """(x - mean) / sqrt(mean of squares + epsilon) * scale + shift."""
    made = []
    for name, (words, attributes) in {**NORM, **changes}.items():
        op, *inputs = words.split()
        made.append(Node(op, name, tuple(inputs), (name,), attributes))
    return made


@pytest.mark.parametrize("changes", [{}, {"squares": ("Mul centred centred", {})}, {"mean": ("ReduceMean x axes", {})}])
def test_a_norm_is_one_node_over_its_axis(changes: dict) -> None:
    (node,) = join_patterns(norm(**changes), NORM_NUMBERS)
    assert (node.op, node.inputs, node.outputs) == (NORM_OVER_AXIS, ("x", "scale", "shift"), ("y",))
    assert node.attributes == {"axis": -1, "epsilon": 1e-5}


@pytest.mark.parametrize(
    "changes",
    [
        {"variance": ("ReduceMean squares", {"axes": (1,)})},  # over a different axis than the mean
        {"variance": ("ReduceMean squares", {"axes": (-1,), "keepdims": 0})},
        {"mean": ("ReduceMean x", {"axes": (1, 2)}), "variance": ("ReduceMean squares", {"axes": (1, 2)})},
        {"mean": ("ReduceMean z", {"axes": (-1,)})},  # of a different value
        {"squares": ("Pow centred three", {})},
        {"squares": ("Mul centred x", {})},
        {"divided": ("Div x root", {})},
        {"product": ("Mul root divided", {})},
        {"plus": ("Add variance scale", {})},
        {"y": ("Sub product shift", {})},
    ],
)
def test_pattern_similar_to_a_norm_is_kept(changes: dict) -> None:
    nodes = norm(**changes)
    assert join_patterns(nodes, NORM_NUMBERS) == nodes
