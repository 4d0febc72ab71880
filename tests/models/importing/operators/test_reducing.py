"""Sums, means, extremes and norms over axes, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from import_steps import importer_of, numbers, value_of
from onnx_chain import Chain, assert_imports, checked, ends, kinds
from trninfer.models import Conv2d, Dense, Flatten, run_network
from trninfer.models.importing.onnx_file import Node
from trninfer.models.importing.operators.reducing import OPERATORS, softmax_over
from trninfer.models.layers import Pool, Reshape, Transpose

REDUCTIONS = ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare")


FILES = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("features", [1, 2, 9])
def test_the_norm_of_a_row_moves_nothing(features: int, tmp_path: Path) -> None:
    chain = Chain(7)
    chain.gemm(7, features)
    chain.add("LpNormalization", axis=1)
    assert not {Pool, Reshape, Transpose} & set(kinds(assert_imports(chain, tmp_path)))


@pytest.mark.parametrize("op", ["ReduceLogSum", "ReduceLogSumExp"])
@pytest.mark.parametrize("keep", [0, 1])
def test_logarithms_of_sums(op: str, keep: int, tmp_path: Path) -> None:
    chain = Chain(3, 4, 5)
    chain.add("Exp")
    chain.add(op, chain.constant([2]), keepdims=keep)
    checked(chain.model(), tmp_path)


@pytest.mark.parametrize("axes", [None, [0, 1, 2, 3], [0]])
@pytest.mark.parametrize("keep", [0, 1])
def test_means_over_the_batch_too(axes: list[int] | None, keep: int, tmp_path: Path) -> None:
    """Each input is a batch of one."""
    chain = Chain(3, 4, 5)
    x = chain.add("Relu")
    chain.add("ReduceMean", *([chain.constant(axes)] if axes else []), keepdims=keep)
    if keep:
        chain.add("Add", chain.value, first=x)
    imported = checked(chain.model(), tmp_path)
    assert any(
        "mixes the inputs of a batch; each input is computed as a separate batch" in note for note in imported.notes
    )


@pytest.mark.parametrize("axes", [[1], [2], [1, 3], [-1]])
@pytest.mark.parametrize("keep", [0, 1])
def test_products_over_axes(axes: list[int], keep: int, tmp_path: Path) -> None:
    chain = Chain(3, 4, 5)
    chain.conv((3, 6), pads=[1] * 4)
    chain.add("ReduceProd", chain.constant(axes), keepdims=keep)
    chain.add("Tanh")
    checked(chain.model(), tmp_path)


def test_the_mean_of_a_long_row(tmp_path: Path) -> None:
    chain = Chain(20_000)
    x = chain.value
    mean = chain.add("ReduceMean")
    chain.add("Sub", mean, first=x)
    checked(chain.model(), tmp_path)


def test_means_over_height_and_width_are_a_global_pool(tmp_path: Path) -> None:
    chain = Chain(1, 6, 5)
    chain.conv((1, 3))
    chain.add("ReduceMean", chain.constant([-1, 2]), keepdims=0)
    chain.gemm(3, 2)
    assert kinds(assert_imports(chain, tmp_path)) == [Conv2d, Pool, Flatten, Dense]


@FILES
@given(
    op=st.sampled_from(REDUCTIONS),
    shape=st.tuples(*[st.integers(1, 6)] * 3),
    axes=st.sets(st.integers(1, 3), min_size=1),
    keep=st.integers(0, 1),
    last=st.booleans(),
)
def test_reductions_over_any_axes(op, shape, axes, keep, last: bool, tmp_path: Path) -> None:
    chain = Chain(*shape)
    if last:  # the memory order of the axes differs from the graph's order
        chain.add("Transpose", perm=[0, 2, 3, 1])
        shape = (shape[1], shape[2], shape[0])
    chain.add(op, chain.constant(sorted(axes)), keepdims=keep)
    left = [size for axis, size in enumerate(shape, 1) if axis not in axes]
    if keep or left:
        ends(chain, int(np.prod(left)), tmp_path)


def test_a_mean_of_channels_moves_nothing(tmp_path: Path) -> None:
    chain = Chain(6, 5, 4)
    chain.add("ReduceMean", chain.constant([1]))
    imported = ends(chain, 20, tmp_path)
    assert kinds(imported)[0] is Conv2d
    chain = Chain(6)
    chain.add("ReduceMean", chain.constant([1]))
    assert kinds(ends(chain, 1, tmp_path)) == [Dense, Dense]


FUNCTIONS = {
    "ReduceMean": np.mean,
    "ReduceMax": np.max,
    "ReduceMin": np.min,
    "ReduceSum": np.sum,
    "ReduceL1": lambda x, **how: np.abs(x).sum(**how),
    "ReduceL2": lambda x, **how: np.sqrt((x * x).sum(**how)),
    "ReduceSumSquare": lambda x, **how: (x * x).sum(**how),
    "ReduceLogSumExp": lambda x, **how: np.log(np.exp(x).sum(**how)),
}


@pytest.mark.parametrize("op", FUNCTIONS)
@pytest.mark.parametrize("axes", [(1,), (3,), (1, 2), (2, 3), (1, 2, 3)])
@pytest.mark.parametrize("keep", [0, 1])
def test_reductions_of_an_image_that_lies_turned(op: str, axes: tuple[int, ...], keep: int) -> None:
    """Compared with NumPy, for a batch of two, with axes as attributes (before opset 18)."""
    importer, x = importer_of(3, 4, 5), numbers(3, 4, 5)
    importer.views["x"] = importer.views["x"].permuted((1, 2, 0))
    OPERATORS[op](importer, Node(op, "n", ("x",), ("y",), {"axes": axes, "keepdims": keep}))
    expected = FUNCTIONS[op](x.transpose(0, 2, 3, 1), axis=axes, keepdims=bool(keep))
    np.testing.assert_allclose(value_of(importer, importer.views["y"], x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (1, 2), (0, 2), (0, 1)])
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 1, 0)])
@pytest.mark.parametrize("log", [False, True])
def test_a_softmax_over_some_axes(axes: tuple[int, ...], order: tuple[int, ...], log: bool) -> None:
    importer, x = importer_of(3, 4, 5), 40 * numbers(3, 4, 5)  # their exponentials overflow float32
    made = softmax_over(importer, importer.views["x"].permuted(order), axes, log)
    turned = x.transpose(0, *(axis + 1 for axis in order))
    own = tuple(axis + 1 for axis in axes)
    powers = np.exp(turned.astype(np.float64) - turned.max(axis=own, keepdims=True))
    expected = powers / powers.sum(axis=own, keepdims=True)
    expected = np.log(np.maximum(expected, 1e-300)) if log else expected
    np.testing.assert_allclose(value_of(importer, made, x), expected, rtol=2e-4, atol=1e-5)


@settings(max_examples=40)
@given(
    shape=st.lists(st.integers(1, 5), min_size=2, max_size=5),
    split=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    draw=st.data(),
)
def test_a_softmax_of_channels_in_groups(shape: list[int], split: list[int], draw: st.DataObject) -> None:
    """Channels viewed as several axes, in any order with the pixel axes, and a softmax over any of them."""
    channels, height, width = int(np.prod(split)), shape[0], shape[1]
    importer, x = importer_of(channels, height, width), 10 * numbers(channels, height, width)
    view = importer.views["x"].reshaped((*split, height * width), True)
    order = tuple(draw.draw(st.permutations(range(len(split) + 1))))
    axis = draw.draw(st.integers(0, len(split)))
    made = softmax_over(importer, view.permuted(order), (axis,), False)
    turned = x.reshape(2, *split, height * width).transpose(0, *(each + 1 for each in order))
    powers = np.exp(turned.astype(np.float64) - turned.max(axis=axis + 1, keepdims=True))
    expected = powers / powers.sum(axis=axis + 1, keepdims=True)
    np.testing.assert_allclose(value_of(importer, made, x), expected, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize(("shape", "axis"), [((5,), -1), ((3, 4, 5), 1), ((3, 4, 5), 3)])
def test_a_view_over_its_norm(power: int, shape: tuple[int, ...], axis: int, tmp_path: Path) -> None:
    chain = Chain(*shape)
    chain.add("LpNormalization", p=power, axis=axis)
    chain.add("Mul", chain.weight(*shape))
    assert_imports(chain, tmp_path)


@pytest.mark.parametrize("power", [1, 2])
def test_a_row_of_zeros_over_its_norm_is_zero(power: int, tmp_path: Path) -> None:
    chain = Chain(4)
    chain.add("Relu")
    chain.add("LpNormalization", p=power, axis=1)
    imported = checked(chain.model(), tmp_path)
    scores = run_network(imported.network, imported.tensors, np.array([[-1, -2, -3, 0], [1, 0, 0, -1]])).scores
    np.testing.assert_array_equal(scores, [[0, 0, 0, 0], [1, 0, 0, 0]])


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("keep", [0, 1])
def test_extremes_of_stacked_images_need_no_transpose(op: str, axis: int, keep: int, tmp_path: Path) -> None:
    chain = Chain(3, 6, 5)
    parts = []
    for _ in range(3):
        chain.value = "x"
        chain.conv((3, 4), (1, 1))
        parts.append(chain.add("Unsqueeze", chain.constant([axis])))
    chain.add("Concat", *parts[1:], first=parts[0], axis=axis)
    chain.add(op, chain.constant([axis]), keepdims=keep)
    if keep:
        chain.add("Squeeze", chain.constant([axis]))
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    imported = checked(chain.model(), tmp_path)
    assert not any(isinstance(layer, Transpose) for layer in imported.network.layers)


@pytest.mark.parametrize("axes", [[0], [1], [0, 1]])
@pytest.mark.parametrize("op", ["ReduceMax", "ReduceSum", "ReduceL2"])
def test_a_batch_on_the_last_axis_moves_with_the_axes_that_are_left(op: str, axes: list[int], tmp_path: Path) -> None:
    chain = Chain(6, 4)
    chain.add("Transpose", perm=[1, 2, 0])
    chain.add(op, chain.constant(axes), keepdims=0)
    rank = 3 - len(axes)
    chain.add("Transpose", perm=[rank - 1, *range(rank - 1)])
    model = chain.model()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    checked(model, tmp_path)
