"""Sums and means over axes, values that are repeated along axes, and entries chosen from them, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx_chain import Chain, assert_imports, ends, kinds
from trninfer.models import Conv2d, Dense
from trninfer.models.errors import ModelError
from trninfer.models.importing import import_network

REDUCTIONS = ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare")
FILES = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


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
    if last:  # the axes lie otherwise in memory than the graph has them
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


@FILES
@given(
    op=st.sampled_from(["Add", "Sub", "Mul", "Div", "Max"]),
    shape=st.tuples(*[st.integers(1, 5)] * 3),
    pooled=st.sets(st.integers(1, 3), min_size=1),
    others=st.sets(st.integers(1, 3)),
    turned=st.booleans(),
)
def test_one_value_is_repeated_over_another(op, shape, pooled, others, turned: bool, tmp_path: Path) -> None:
    chain = Chain(*shape)
    chain.add("Add", chain.constant(1.5))
    x = chain.add("Abs")
    small = chain.add("ReduceMean", chain.constant(sorted(pooled)), first=x)
    large = chain.add("ReduceMax", chain.constant(sorted(others)), first=x) if others else x
    small = chain.add("Add", chain.constant(0.3), first=small)  # nothing near zero is divided by
    large = chain.add("Add", chain.constant(0.2), first=large)
    pair = (small, large) if turned else (large, small)
    chain.add(op, pair[1], first=pair[0])
    kept = [1 if axis in pooled & others else size for axis, size in enumerate(shape, 1)]
    ends(chain, int(np.prod(kept)), tmp_path)


def test_one_feature_is_repeated_over_others(tmp_path: Path) -> None:
    """A duelling network: the value of a state, and what each action adds to the mean of all."""
    chain = Chain(7)
    chain.gemm(7, 5)
    advantages = chain.value
    mean = chain.add("ReduceMean", chain.constant([1]), first=advantages)
    centred = chain.add("Sub", mean, first=advantages)
    chain.value = "x"
    chain.gemm(7, 1)
    chain.add("Add", centred)
    assert assert_imports(chain, tmp_path).network.outputs == 5


@pytest.mark.parametrize("op", ["Expand", "Tile"])
def test_axes_of_one_are_repeated(op: str, tmp_path: Path) -> None:
    chain = Chain(3, 4, 5)
    mean = chain.add("ReduceMean", chain.constant([1, 3]))
    chain.add(op, chain.constant([1, 3, 1, 5]), first=mean)
    ends(chain, 60, tmp_path)


def test_embeddings_of_length_one_are_values(tmp_path: Path) -> None:
    chain = Chain(3, 9, 9)
    chain.conv((3, 8), strides=[2, 2])
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    chain.gemm(8, 16)
    embedding = chain.value
    norm = chain.add("ReduceL2", chain.constant([1]), keepdims=1)
    chain.add("Clip", chain.constant(1e-12), first=norm)
    chain.add("Expand", chain.constant([1, 16]))
    chain.add("Div", chain.value, first=embedding)
    assert assert_imports(chain, tmp_path).network.output.kind == "values"
    chain = Chain(12)
    chain.add("LpNormalization", axis=-1, p=2)
    chain.gemm(12, 3)
    assert_imports(chain, tmp_path)


@pytest.mark.parametrize("exponent", [-1.0, 1.0, 2.0, 3.0, 4.0, 0.5, 1 / 3, -1.5])
def test_powers_and_reciprocals(exponent: float, tmp_path: Path) -> None:
    chain = Chain(3, 4, 4)
    chain.add("Abs")
    chain.add("Add", chain.constant(0.5))
    chain.add("Pow", chain.constant(exponent))
    ends(chain, 48, tmp_path)
    chain = Chain(6)
    chain.add("Abs")
    chain.add("Add", chain.constant(0.5))
    power = chain.value
    chain.add("Reciprocal")
    chain.add("Log")
    chain.add("Div", power, first=chain.constant(3.0))
    chain.gemm(6, 2)
    assert_imports(chain, tmp_path)


def test_entries_in_any_order(tmp_path: Path) -> None:
    """Blue, green and red for red, green and blue, by Gather, and by Slice from the last to the first."""
    chain = Chain(3, 6, 5)
    chain.add("Gather", chain.constant([2, 1, 0]), axis=1)
    chain.add("Slice", *(chain.constant([n]) for n in (2, -4, 1, -1)))
    chain.add("Slice", *(chain.constant([n]) for n in (0, 3, 1, 2)))
    chain.add("Gather", chain.constant([4, 0, 4, -2]), axis=3)
    chain.add("Flatten")
    chain.add("Gather", chain.constant([5, 47, 0]), axis=1)
    chain.gemm(3, 4)
    assert_imports(chain, tmp_path)


def test_slopes_for_every_element(tmp_path: Path) -> None:
    chain = Chain(6, 5, 3)
    chain.add("PRelu", chain.weight(6, 5, 3))
    ends(chain, 90, tmp_path)


def test_long_filters_of_sounds(tmp_path: Path) -> None:
    chain = Chain(1, 2000)
    chain.add("Conv", chain.weight(4, 1, 80), strides=[16])
    chain.add("Conv", chain.weight(4, 1, 64), group=4, pads=[31, 31])
    chain.add("GlobalAveragePool")
    ends(chain, 4, tmp_path)
    chain = Chain(1, 80, 80)
    chain.conv((1, 2), (65, 65))
    with pytest.raises(ModelError, match="filters of 65x65 are too large; 1024 a side and 4096 in all are the most"):
        import_network(chain.save(tmp_path))


def test_what_is_repeated_anyway_is_not_repeated_first(tmp_path: Path) -> None:
    """x * gate.expand_as(x)."""
    chain = Chain(4, 9, 8)
    x = chain.value
    chain.add("GlobalAveragePool")
    chain.add("Sigmoid")
    chain.add("Expand", chain.constant([1, 4, 9, 8]))
    chain.add("Mul", chain.value, first=x)
    imported = ends(chain, 288, tmp_path)
    assert not [layer.name for layer in imported.network.layers if layer.name.startswith("repeat")]
    chain.nodes[-3].op_type = "Max"  # which may be read by something else, or not
    assert Conv2d in kinds(assert_imports(chain, tmp_path))
