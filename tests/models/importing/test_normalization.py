"""Normalisation by an image's own statistics, as exporters write it, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx_chain import Chain, ends, kinds
from trninfer.models import Dense
from trninfer.models.errors import ModelError
from trninfer.models.importing import import_network
from trninfer.models.layers import Affine, Flatten, GroupNorm


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
    assert kinds(imported) == [GroupNorm, Flatten, Dense]  # its numbers are those of the channels
    (norm,) = (layer for layer in imported.network.layers if isinstance(layer, GroupNorm))
    assert (norm.channels, norm.groups) == (6, groups)


@pytest.mark.parametrize("opset", [18, 21])
def test_group_norm_as_one_operator(opset: int, tmp_path: Path) -> None:
    chain = Chain(6, 5, 4)
    count = 3 if opset < 21 else 6  # numbers of groups, then of channels
    chain.add("GroupNormalization", chain.weight(count), chain.weight(count), num_groups=3, epsilon=1e-2)
    ends(chain, 120, tmp_path, opset=opset)


def test_layer_norm_over_a_whole_image(tmp_path: Path) -> None:
    chain = Chain(3, 5, 4)
    chain.add("LayerNormalization", chain.weight(3, 5, 4), chain.weight(3, 5, 4), axis=1)
    assert {GroupNorm, Affine} <= set(kinds(ends(chain, 60, tmp_path)))


def test_numbers_that_do_not_fit(tmp_path: Path) -> None:
    chain = Chain(6, 5, 4)
    chain.add("InstanceNormalization", chain.weight(4), chain.weight(4))
    with pytest.raises(ModelError, match=r"normalises \[batch, 6, 5, 4\] in 4 groups by 4 numbers"):
        import_network(chain.save(tmp_path))
    for fields, says in (((6, 4), "4 groups do not divide 6 channels"), ((6, 2, 0.0), "epsilon is 0.0")):
        with pytest.raises(ModelError, match=says):
            GroupNorm("n", *fields)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_local_response_as_pytorch_spells_it(size: int, tmp_path: Path) -> None:
    chain = Chain(6, 5, 4)
    source = chain.add("Relu")
    chain.add("Mul", source)
    chain.add("Reshape", chain.constant([0, 1, 6, 5, -1]))
    chain.add("Pad", chain.constant([0, 0, size // 2, 0, 0, 0, 0, (size - 1) // 2, 0, 0]))
    chain.add("AveragePool", kernel_shape=[size, 1, 1], strides=[1, 1, 1], count_include_pad=1)
    chain.add("Squeeze", chain.constant([1]))
    chain.add("Mul", chain.constant(0.5))
    chain.add("Add", chain.constant(2.0))
    chain.add("Pow", chain.constant(0.75))
    chain.add("Div", chain.value, first=source)
    ends(chain, 120, tmp_path)


@pytest.mark.parametrize("how", [{"kernel_shape": [2, 1, 2]}, {"kernel_shape": [2, 1, 1], "strides": [2, 1, 1]}])
def test_windows_over_several_of_three_sides_are_refused(how: dict[str, list[int]], tmp_path: Path) -> None:
    chain = Chain(6, 5, 4)
    chain.add("Unsqueeze", chain.constant([1]))
    chain.add("AveragePool", **how)
    chain.add("Flatten")
    with pytest.raises(ModelError, match="windows of one side are supported"):
        import_network(chain.save(tmp_path))
