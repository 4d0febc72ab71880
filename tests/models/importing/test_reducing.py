"""Softmaxes over a part of the axes or before the end, norms, and numbers wider than what they meet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from onnx_chain import Chain, assert_imports, checked, kinds
from trninfer.models import Softmax
from trninfer.models.importing import import_network
from trninfer.models.layers import Pool, Reshape, Transpose
from trninfer.models.outputs import Output


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


@pytest.mark.parametrize("features", [1, 2, 9])
def test_the_norm_of_a_row_moves_nothing(features: int, tmp_path: Path) -> None:
    chain = Chain(7)
    chain.gemm(7, features)
    chain.add("LpNormalization", axis=1)
    assert not {Pool, Reshape, Transpose} & set(kinds(assert_imports(chain, tmp_path)))


@pytest.mark.parametrize("count", [1, 3])
def test_the_mean_of_values(count: int, tmp_path: Path) -> None:
    chain = Chain(3, 4, 5)
    others = [chain.add("Mul", chain.weight(3, 1, 1), first="x") for _ in range(count)]
    chain.add("Mean", *others[1:], first=others[0])
    chain.add("Flatten")
    assert_imports(chain, tmp_path)


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
    scale = chain.add("Mul", chain.weight(1, 1, 1, groups, each))  # wider than what it meets
    left = chain.add("Mul", scale, first=split)
    shift = chain.add("Mul", scale, first=mean)
    right = chain.add("Sub", shift, first=chain.weight(1, 1, 1, groups, each))
    chain.add("Add", right, first=left)
    chain.add("Reshape", chain.constant([-1, 5, 6, 8]))
    chain.add("ReduceMean", chain.constant([1, 2]), keepdims=0)
    assert_imports(chain, tmp_path)


@pytest.mark.parametrize("norm", ["L1", "L2"])
def test_features_that_are_chosen_and_normalised(norm: str, tmp_path: Path) -> None:
    chain = Chain(6)
    ml = {"domain": "ai.onnx.ml"}
    chain.add("ArrayFeatureExtractor", chain.constant([4, 0, 0, 3]), **ml)
    chain.add("Normalizer", norm=norm, **ml)
    model = chain.model()
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    comparison = import_network(path).comparison
    assert comparison.passed and not comparison.skipped


@pytest.mark.parametrize("alpha", [0.3, 1.0, 2.5])
def test_celu(alpha: float, tmp_path: Path) -> None:
    chain = Chain(3, 5, 4)
    chain.add("Celu", alpha=alpha)
    chain.add("Flatten")
    assert_imports(chain, tmp_path)


def test_softplus_as_pytorch_spells_it_out(tmp_path: Path) -> None:
    chain = Chain(6)
    chain.gemm(6, 4)
    x = chain.value
    soft = chain.add("Softplus")
    large = chain.add("Greater", chain.constant(20.0), first=x)
    chain.add("Where", x, soft, first=large)
    imported = assert_imports(chain, tmp_path)
    assert [layer.kind for layer in imported.network.layers] == ["dense"] or len(imported.network.layers) <= 2


def test_weights_that_are_standardised_in_the_graph(tmp_path: Path) -> None:
    chain = Chain(3, 6, 6)
    filters = chain.weight(4, 3, 3, 3)
    chain.add("Reshape", chain.constant([1, 4, -1]), first=filters)
    numbers = [chain.constant(np.full(4, value)) for value in (1.5, 0.0, 0.0, 1.0)]
    chain.add("BatchNormalization", *numbers, outputs=3, training_mode=1, epsilon=1e-6)
    weight = chain.add("Reshape", chain.constant([4, 3, 3, 3]), first=f"value{len(chain.nodes) - 1}")
    chain.add("Conv", weight, first="x")
    chain.add("Flatten")
    assert_imports(chain, tmp_path)


@pytest.mark.parametrize("op", ["ReduceLogSum", "ReduceLogSumExp"])
@pytest.mark.parametrize("keep", [0, 1])
def test_logarithms_of_sums(op: str, keep: int, tmp_path: Path) -> None:
    chain = Chain(3, 4, 5)
    chain.add("Exp")
    chain.add(op, chain.constant([2]), keepdims=keep)
    checked(chain.model(), tmp_path)
