"""Filters of row groups: computed group by group in NumPy, they give the same result as the layers' own filters do row
by row."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trninfer.kernels.program import AveragePool, Combine, Convolution, MaxPool, Operation, RowFold, RowFoldPool
from trninfer.lowering.graph.graph import Graph, Node
from trninfer.lowering.graph.lazy import LazyArray
from trninfer.lowering.passes.lanes import Lanes
from trninfer.lowering.passes.row_packing import RowPacking, rows_of


def test_lanes_are_blocks_of_rows_of_channels() -> None:
    lanes = Lanes(4, 40)
    assert (lanes.block, lanes.blocks, lanes.count) == (32, 2, 256)
    ordered = lanes.ordered(np.arange(1, 161), 0).reshape(2, 4, 32)
    for row, channel in itertools.product(range(4), range(64)):
        found = ordered[channel // 32, row, channel % 32]
        assert found == (row * 40 + channel + 1 if channel < 40 else 0)
    few = np.arange(96)
    assert Lanes(4, 24).ordered(few, 0) is few


@pytest.mark.parametrize(
    ("rows", "channels", "block", "blocks"),
    [(4, 1, 1, 1), (4, 32, 32, 1), (4, 33, 32, 2), (2, 32, 32, 1), (2, 64, 64, 1), (2, 65, 64, 2), (4, 129, 32, 5)],
)
def test_rows_of_many_channels_begin_where_engines_write(rows: int, channels: int, block: int, blocks: int) -> None:
    lanes = Lanes(rows, channels)
    assert (lanes.block, lanes.blocks, lanes.count) == (block, blocks, blocks * rows * block)


def test_lanes_order_any_axis() -> None:
    lanes, array = Lanes(2, 65), np.arange(3 * 130 * 2).reshape(3, 130, 2)
    by_axis = lanes.ordered(array, 1)
    assert by_axis.shape == (3, 256, 2)
    for n, k in itertools.product(range(3), range(2)):
        np.testing.assert_array_equal(by_axis[n, :, k], lanes.ordered(array[n, :, k], 0))


def node(operation: Operation, before: tuple[int, int, int], filters: np.ndarray | None = None) -> Node:
    """Return a node; if it has filters, its bias is 1, 2, 3 and so on."""
    numbers = () if filters is None else (np.arange(1, operation.channels + 1, dtype=np.float32),)
    lazy = None if filters is None else LazyArray.of(filters)
    return Node(operation, "conv2d", before, (before, operation.shape), lazy, numbers)


def convolution(
    before: tuple[int, int, int],
    after: int,
    kernel: tuple[int, int] = (3, 3),
    stride: int = 1,
    padding: tuple[int, int] = (1, 1),
    *,
    groups: int = 1,
    reads: int = -1,
) -> Node:
    """Return a convolution with integer filters; `padding`: (top, bottom)."""
    channels, high, wide = before
    rows = (high + sum(padding) - kernel[0]) // stride + 1
    filters = np.random.default_rng(2).integers(-3, 4, (after, channels // groups, *kernel)).astype(np.float32)
    operation = Convolution(
        name=f"c{reads + 1}",
        sources=((reads,),),
        channels=after,
        rows=rows,
        columns=wide - kernel[1] + 1,
        kernel=kernel,
        stride=(stride, 1),
        padding=(padding[0], 0, padding[1], 0),
        groups=groups,
    )
    return node(operation, before, filters)


def convolved(x: np.ndarray, each: Node) -> np.ndarray:
    """Compute a convolution node on an image [C, H, W], tap by tap."""
    operation = each.operation
    assert isinstance(operation, Convolution) and each.filters is not None
    filters = each.filters.make()
    assert filters.shape == each.filters.shape
    top, left, bottom, right = operation.padding
    padded = np.pad(x, ((0, 0), (max(0, top), bottom), (left, right)))[:, max(0, -top) :]
    (down, across), (high, wide) = operation.stride, operation.kernel
    inputs, outputs = len(x) // operation.groups, len(filters) // operation.groups
    found = np.zeros((len(filters), operation.rows * operation.pool_size, operation.columns), np.float32)
    for row, column in itertools.product(range(found.shape[1]), range(operation.columns)):
        taps = padded[:, row * down : row * down + high, column * across : column * across + wide]
        for group in range(operation.groups):
            own = filters[group * outputs : (group + 1) * outputs]
            of_group = taps[group * inputs : (group + 1) * inputs]
            found[group * outputs : (group + 1) * outputs, row, column] = np.tensordot(own, of_group, 3)
    return found + np.asarray(each.numbers[0])[:, None, None] if each.numbers else found


def grouped(x: np.ndarray, lanes: Lanes, offset: int) -> np.ndarray:
    """Convert an image [C, H, W] to groups of rows, [partitions, groups, W], with zeros above and below."""
    channels, high, wide = x.shape
    groups = -(-(high + offset) // lanes.rows)
    padded = np.pad(x, ((0, 0), (offset, groups * lanes.rows - high - offset), (0, 0)))
    rows = padded.reshape(channels, groups, lanes.rows, wide).transpose(2, 0, 1, 3)
    return lanes.ordered(rows.reshape(lanes.rows * channels, groups, wide), 0)


def chain(*nodes: Node) -> Graph:
    return Graph(nodes, nodes[0].before, 4)


def image(shape: tuple[int, int, int]) -> np.ndarray:
    return np.random.default_rng(1).integers(-5, 6, shape).astype(np.float32)


def assert_groups(found: np.ndarray, expected: np.ndarray, lanes: Lanes, offset: int) -> None:
    """Check the rows inside the image; rows outside of it are blanked later or never read."""
    inside = grouped(np.ones_like(expected), lanes, offset) > 0
    np.testing.assert_array_equal(found[inside], grouped(expected, lanes, offset)[inside])


class Shape(NamedTuple):
    """The rows of an image, and a filter that fits in them with its padding."""

    high: int
    kernel: tuple[int, int]
    stride: int
    padding: tuple[int, int]

    @property
    def rows(self) -> int:
        return (self.high + sum(self.padding) - self.kernel[0]) // self.stride + 1


@st.composite
def shapes(draw: st.DrawFn, stride: int, multiple: int = 1) -> Shape:
    """Draw an image of 4 to 13 rows, and a filter with this stride; the output rows are a multiple of `multiple`."""
    kernel = draw(st.sampled_from([(1, 1), (2, 2), (3, 3), (5, 1), (7, 2)]))
    padding = draw(st.tuples(st.integers(0, 3), st.integers(0, 3)))
    possible = [Shape(high, kernel, stride, padding) for high in range(4, 14)]
    return draw(st.sampled_from([shape for shape in possible if shape.rows >= 1 and shape.rows % multiple == 0]))


@settings(max_examples=40)
@given(st.sampled_from([(3, 4, 5), (5, 2, 64), (2, 4, 32)]), st.integers(1, 3), st.data())
def test_a_convolution_of_single_rows_computes_groups(
    channels: tuple[int, int, int], stride: int, data: st.DataObject
) -> None:
    before, each, after = channels
    offset = data.draw(st.integers(0, each - 1))
    high, kernel, stride, padding = data.draw(shapes(stride))
    plain = convolution((before, high, 3), after, kernel, stride, padding)
    packing = RowPacking(chain(plain), {0: each})
    packed = packing.packed({0: offset}, 0)
    x = image((before, high, 3))
    assert_groups(convolved(x, packed), convolved(x, plain), packing.lanes(0), offset)
    assert packed.operation.channels == packing.lanes(0).count and packed.before == plain.before
    assert packed.operation.kernel[0] == kernel[0] + (each - 1) * stride  # type: ignore[attr-defined]


GROUPS = [
    (into, each, stride)
    for into, each in [(4, 4), (2, 2), (4, 2), (2, 4)]
    for stride in (1, 2, 3)
    if stride * each % into == 0
]


@settings(max_examples=40)
@given(st.sampled_from(GROUPS), st.sampled_from([3, 40]), st.data())
def test_a_convolution_of_groups_computes_groups(groups: tuple[int, int, int], after: int, data: st.DataObject) -> None:
    into, each, stride = groups
    taken, offset = data.draw(st.integers(0, into - 1)), data.draw(st.integers(0, each - 1))
    high, kernel, stride, padding = data.draw(shapes(stride))
    first = convolution((1, high, 4), 5, (1, 1), padding=(0, 0))
    plain = convolution((5, high, 4), after, kernel, stride, padding, reads=0)
    packing = RowPacking(chain(first, plain), {0: into, 1: each})
    packed = packing.packed({0: taken, 1: offset}, 1)
    x = image((5, high, 4))
    found = convolved(grouped(x, packing.lanes(0), taken), packed)
    assert_groups(found, convolved(x, plain), packing.lanes(1), offset)


@settings(max_examples=40)
@given(st.sampled_from([(2, 1), (2, 2), (4, 1), (4, 2)]), st.data())
def test_a_convolution_of_groups_computes_single_rows(groups: tuple[int, int], data: st.DataObject) -> None:
    """It computes as many at once as an input group provides; the filters of the other rows follow those of the
    first."""
    into, stride = groups
    at_once, taken = into // stride, data.draw(st.integers(0, into - 1))
    shape = data.draw(shapes(stride, at_once))
    high, rows = shape.high, shape.rows
    first = convolution((1, high, 4), 5, (1, 1), padding=(0, 0))
    plain = convolution((5, high, 4), 3, shape.kernel, stride, shape.padding, reads=0)
    packing = RowPacking(chain(first, plain), {0: into})
    packed = replace(packing.packed({0: taken}, 1), numbers=())
    assert isinstance(packed.operation, Convolution) and packed.operation.rows_at_once == at_once
    x = image((5, high, 4))
    turns = packed.changed(rows=rows // at_once)
    found = convolved(grouped(x, packing.lanes(0), taken), turns)
    found = found.reshape(at_once, 3, rows // at_once, -1).transpose(1, 2, 0, 3).reshape(3, rows, -1)
    np.testing.assert_array_equal(found, convolved(x, replace(plain, numbers=())))


@pytest.mark.parametrize(("channels", "rows"), [(6, 4), (40, 4), (65, 2)])
@pytest.mark.parametrize(("kernel", "stride", "offset"), [(3, 1, 1), (5, 2, 0), (7, 1, 0)])
def test_a_depthwise_convolution_is_one_matrix_for_each_block(
    channels: int, rows: int, kernel: int, stride: int, offset: int
) -> None:
    first = convolution((1, 11, 3), channels, (1, 1), padding=(0, 0))
    pad = (kernel // 2, kernel // 2)
    plain = convolution((channels, 11, 3), channels, (kernel, 3), stride, pad, groups=channels, reads=0)
    packing = RowPacking(chain(first, plain), {0: rows, 1: rows})
    packed = packing.packed({0: 1, 1: offset}, 1)
    x, lanes = image((channels, 11, 3)), packing.lanes(0)
    assert isinstance(packed.operation, Convolution) and packed.operation.groups == lanes.blocks
    assert_groups(convolved(grouped(x, lanes, 1), packed), convolved(x, plain), packing.lanes(1), offset)


@pytest.mark.parametrize(("high", "offset", "below"), [(8, 0, 0), (8, 1, 3), (7, 0, 1), (9, 3, 0), (6, 2, 0)])
def test_rows_beside_the_image_are_blanked_where_channels_fill_a_quarter(high: int, offset: int, below: int) -> None:
    for channels, groups in ((32, RowFold(4, offset, below)), (24, RowFold(4))):
        plain = convolution((3, high, 3), channels)
        packed = RowPacking(chain(plain), {0: 4}).packed({0: offset}, 0)
        assert isinstance(packed.operation, Convolution) and packed.operation.row_fold == groups
        assert packed.operation.rows == -(-(high + offset) // 4)
        np.testing.assert_array_equal(packed.numbers[0], np.tile(plain.numbers[0], 4))


def test_offsets_that_are_not_chosen_let_a_group_read_the_fewest_groups() -> None:
    """A 3x3 filter on groups of four rows with offset 1 reads two groups from any first row except one that makes it
    read three."""
    first = convolution((3, 16, 3), 8)
    second, pool = convolution((8, 16, 3), 8, reads=0), convolution((8, 16, 3), 8, (1, 1), padding=(0, 0), reads=1)
    packing = RowPacking(chain(first, second, pool), {0: 4, 1: 4, 2: 4})
    assert [packing.follows(n) for n in range(3)] == [False, True, True]
    for taken in range(4):
        offsets = packing.offsets({0: taken})
        heights = [packing.packed({0: taken, 1: each}, 1).operation.kernel[0] for each in range(4)]  # type: ignore[attr-defined]
        assert heights[offsets[1]] == min(heights) == 2 and heights.index(2) == offsets[1]
        assert offsets[0] == taken and offsets[2] == offsets[1]  # a 1x1 filter keeps its groups
    assert packing.offsets({}) == packing.offsets({0: 0})


def test_what_is_added_to_a_value_has_its_offset() -> None:
    """A convolution adds a value from its second operand; a gate scales the value of its first."""
    first, second = convolution((3, 16, 3), 8), convolution((8, 16, 3), 8, reads=0)
    added = second.changed(sources=((-1,), (0,)))
    packing = RowPacking(chain(first, added), {0: 4, 1: 4})
    assert packing.follows(1) and packing.offsets({0: 3}) == {0: 3, 1: 3}
    product = Combine(name="g", sources=((0,), (-1,)), channels=8, rows=16, columns=1, arithmetic="multiply")
    packing = RowPacking(chain(first, node(product, (8, 16, 1))), {0: 4, 1: 4})
    assert packing.follows(1) and packing.offsets({0: 2}) == {0: 2, 1: 2}


def test_columns_are_what_the_tensor_engine_moves() -> None:
    """The taps of a filter, times tiles of inputs and outputs, times rows and columns of groups."""
    first = convolution((3, 16, 6), 32, (3, 3))
    second = convolution((32, 16, 4), 32, (3, 3), reads=0)
    packing = RowPacking(chain(first, second), {0: 4, 1: 4})
    assert packing.columns({0: 0, 1: 1}, 1) == 2 * 3 * 5 * 2  # 2x3 taps of five groups of two columns
    assert packing.columns({}, 1) == 3 * 3 * 16 * 2
    assert packing.columns({}, 0) == 16 * 4  # all 27 taps and channels of the input fit on the partitions
    wide = convolution((200, 6, 6), 130, (1, 1), padding=(0, 0))
    assert RowPacking(chain(first, replace(wide.changed(sources=((0,),)))), {}).columns({}, 1) == 2 * 2 * 36


@pytest.mark.parametrize(("channels", "rows"), [(1, 4), (32, 4), (33, 1), (63, 1), (64, 2), (65, 1), (128, 1)])
def test_how_many_rows_fill_the_partitions(channels: int, rows: int) -> None:
    assert rows_of(convolution((3, 8, 8), channels)) == rows


def test_what_is_a_number_for_each_channel() -> None:
    one = convolution((5, 1, 1), 7, (1, 1), padding=(0, 0))
    assert one.is_squeezed
    for field in ({"groups": 5}, {"pool_size": 2}, {"padding": (0, 0, 1, 0)}, {"sources": ((0, 1),)}):
        assert not one.changed(**field).is_squeezed, field
    assert not one.changed(sources=((0,), (1,))).is_squeezed
    assert not convolution((5, 1, 2), 7, (1, 1), padding=(0, 0)).is_squeezed
    pool = MaxPool(name="p", sources=((0,),), channels=5, rows=1, columns=1, kernel=(1, 1))
    assert not node(pool, (5, 1, 1)).is_squeezed


@pytest.mark.parametrize(
    ("kernel", "top", "taken", "given"), [(2, 0, 0, None), (3, 1, 0, 0), (3, 1, 1, 1), (3, 0, 1, 0)]
)
def test_a_pool_reads_groups_of_two_rows(kernel: int, top: int, taken: int, given: int | None) -> None:
    """Window w begins at row 2 w - top of the image, which is row 2 w - top + taken of the groups."""
    first, high = convolution((3, 12, 3), 64), 12
    rows = (high + 2 * top - kernel) // 2 + 1
    pool = MaxPool(
        name="p",
        sources=((0,),),
        channels=64,
        rows=rows,
        columns=2,
        kernel=(kernel, 2),
        stride=(2, 1),
        padding=(top, 0, top, 0),
    )
    offsets = {0: taken} | ({} if given is None else {1: given})
    packing = RowPacking(chain(first, node(pool, (64, high, 3))), {0: 2, **({} if given is None else {1: 2})})
    packed = packing.packed(offsets, 1).operation
    assert isinstance(packed, RowFoldPool)
    assert packed.start == taken - top and packed.image_rows == rows
    assert packed.offset == (-1 if given is None else given)
    groups = -(-(high + taken) // 2)
    above = -((taken - top) // 2)
    last_read = (2 * (rows - 1) + taken - top + kernel - 1) // 2
    assert packed.padding == (above, 0, max(0, last_read - groups + 1), 0)
    assert packed.channels == (64 if given is None else 128)


def test_means_and_gates_of_groups_are_those_of_the_image() -> None:
    """A convolution combines the averages of the groups' rows, weighted by the share of the image that each covers."""
    high, channels = 10, 5
    first = convolution((3, high, 3), channels, (3, 3))
    size = first.operation.rows, first.operation.columns
    mean = node(
        AveragePool(name="m", sources=((0,),), channels=channels, rows=1, columns=1, kernel=size), (channels, *size)
    )
    squeeze = convolution((channels, 1, 1), 3, (1, 1), padding=(0, 0), reads=1)
    excite = convolution((3, 1, 1), channels, (1, 1), padding=(0, 0), reads=2)
    product = Combine(
        name="g", sources=((0,), (3,)), channels=channels, rows=size[0], columns=size[1], arithmetic="multiply"
    )
    gate = node(product, (channels, *size))
    packing = RowPacking(chain(first, mean, squeeze, excite, gate), {0: 4, 4: 4})
    offsets = packing.offsets({0: 1})
    assert offsets == {0: 1, 4: 1}
    x = image((channels, *size))
    groups = grouped(x, packing.lanes(0), 1)
    means = packing.packed(offsets, 1)
    assert means.operation.kernel == groups.shape[1:] and means.operation.channels == 20  # type: ignore[attr-defined]
    of_groups = convolved(groups.mean(axis=(1, 2))[:, None, None], packing.packed(offsets, 2))
    expected = convolved(x.mean(axis=(1, 2))[:, None, None], squeeze)
    np.testing.assert_allclose(of_groups, expected, rtol=1e-5)
    gates = convolved(expected, packing.packed(offsets, 3))
    np.testing.assert_array_equal(gates.reshape(4, channels), np.tile(convolved(expected, excite).reshape(-1), (4, 1)))
    assert packing.packed(offsets, 4).operation.shape == (20, *groups.shape[1:])
