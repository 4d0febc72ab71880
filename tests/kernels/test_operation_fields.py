"""Borders of padded values, compared with NumPy's padding modes; fields are replaced as in dataclasses."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Literal

import numpy as np
import pytest
from trninfer.kernels.operation import Operation
from trninfer.kernels.operation_fields import Border, WeightsAt, with_fields
from trninfer.kernels.program import Convolution
from trninfer.lowering.graph.graph import Node


@pytest.mark.parametrize(
    ("border", "mode"), [(Border.EDGE, "edge"), (Border.REFLECT, "reflect"), (Border.WRAP, "wrap")]
)
@pytest.mark.parametrize("extent", [2, 3, 7])
def test_positions_are_those_of_numpy(border: Border, mode: Literal["edge", "reflect", "wrap"], extent: int) -> None:
    """Up to the extent minus one on either side; a wider reflection would be reflected again."""
    most = extent - 1
    expected = np.pad(np.arange(extent), most, mode=mode)
    found = [border.position(outside, extent) for outside in range(-most, extent + most)]
    around = [*range(most), *range(extent + most, extent + 2 * most)]
    assert [found[at] for at in around] == [expected[at] for at in around]


def test_one_row_is_all_around_itself() -> None:
    for border in (Border.EDGE, Border.WRAP):
        assert [border.position(outside, 1) for outside in (-3, -1, 1, 2)] == [0] * 4


def test_fields_are_replaced_as_by_dataclasses() -> None:
    operation = Convolution(name="a", channels=2, rows=3, columns=4, sources=((0,),), weights=WeightsAt())
    changed = with_fields(operation, rows=5, name="b")
    assert changed == replace(operation, rows=5, name="b") and hash(changed) != hash(operation)
    assert (operation.rows, operation.name) == (3, "a")
    with pytest.raises(TypeError, match="Convolution does not have all of the fields height"):
        with_fields(operation, height=5)


def _kinds(kind: type) -> Iterator[type]:
    yield kind
    for each in kind.__subclasses__():
        yield from _kinds(each)


def test_operations_and_nodes_are_fields_alone() -> None:
    """Nothing is computed at construction or cached before fields are replaced."""
    for kind in (*_kinds(Operation), Node):
        assert not hasattr(kind, "__post_init__")
        assert not any(isinstance(value, cached_property) for value in vars(kind).values())
