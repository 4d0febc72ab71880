"""Operations whose rows are packed: the filters of groups of rows, and pools and gates of them (pack_rows.py)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from ...kernels.program import (
    LAUNCH_INPUT,
    AveragePool,
    Combine,
    Convolution,
    MaxPool,
    RowGroups,
    RowGroupsPool,
    Scores,
)
from ...kernels.tiling.packing import ceil_div, filter_steps, taps_in_partitions
from ...simulator.chip import PARTITIONS
from ..filters import ungrouped
from ..graph import Graph, Node
from ..lazy import LazyArray

HALF = PARTITIONS // 2  # channels of which two rows fill the partitions
QUARTER = PARTITIONS // 4  # and four

Offsets = dict[int, int]  # of the nodes whose rows are packed


def rows_of(node: Node) -> int:
    """Return how many rows of a node's value would be packed; 1 for none."""
    channels = node.operation.channels
    if channels == HALF:
        return 2
    return 4 if channels <= QUARTER else 1


def is_squeezed(node: Node) -> bool:
    """True if it is a convolution of a number for each channel."""
    operation = node.operation
    if isinstance(operation, Convolution):
        plain = operation.groups == operation.pool_size == 1 and not any(operation.padding)
    else:
        plain = isinstance(operation, Scores)
    return plain and node.before[1:] == (1, 1) and len(operation.sources) == len(operation.sources[0]) == 1


def _groups(rows: int, each: int, offset: int) -> int:
    return ceil_div(rows + offset, each)


def _span(node: Node, rows: int, taken: int, each: int, offset: int) -> tuple[int, int]:
    """Return (first, last) group, of `rows` with the offset `taken`, that the first group of outputs reads.

    The group of outputs has `each` rows and an offset.
    """
    operation = node.operation
    assert isinstance(operation, Convolution)
    stride = operation.stride[0]
    start = taken - stride * offset - operation.padding[0]  # row of group 0 of the first tap of the first output
    return start // rows, (start + (each - 1) * stride + operation.kernel[0] - 1) // rows


@dataclass(frozen=True)
class RowPacking:
    """A graph some of whose nodes have their rows packed."""

    graph: Graph
    nodes: set[int]

    def follows(self, number: int) -> bool:
        """True if a node's offset comes from its input."""
        node = self.graph.nodes[number]
        is_pool = isinstance(node.operation, MaxPool)
        return not is_pool and (node.sources[0][0] in self.nodes or len(node.sources) > 1)

    def offsets(self, chosen: Offsets) -> Offsets:
        """Return the offsets of all nodes for those that are chosen."""
        offsets: Offsets = {}
        for n in sorted(self.nodes):
            node = self.graph.nodes[n]
            if n in chosen or not self.follows(n):
                offsets[n] = chosen.get(n, 0)
            elif len(node.sources) > 1:
                offsets[n] = offsets[node.sources[isinstance(node.operation, Convolution)][0]]
            else:  # so that a group of outputs reads as few groups as it can
                source = node.sources[0][0]
                taken, rows = offsets[source], rows_of(self.graph.nodes[source])
                spans = [_span(node, rows, taken, rows_of(node), offset) for offset in range(rows_of(node))]
                offsets[n] = min(range(len(spans)), key=lambda offset: spans[offset][1] - spans[offset][0])
        return offsets

    def columns(self, offsets: Offsets, number: int) -> int:
        """Return the columns that a node moves through the Tensor Engine."""
        node = self.packed(offsets, number)
        operation = node.operation
        if not isinstance(operation, Convolution):
            return 0
        steps = operation.kernel[0] * operation.kernel[1]
        if operation.sources[0] == (LAUNCH_INPUT,):
            steps = len(
                filter_steps(operation.kernel, taps_in_partitions(node.before[0], operation.kernel, PARTITIONS))
            )
        outputs = ceil_div(operation.channels, PARTITIONS) * operation.rows * operation.columns
        return steps * ceil_div(node.before[0], PARTITIONS) * outputs * operation.pool_size**2

    def packed(self, offsets: Offsets, number: int) -> Node:
        """Return a node as it reads and computes groups of rows, or single ones."""
        node = self.graph.nodes[number]
        operation = node.operation
        given, source = offsets.get(number), node.sources[0][0]
        if isinstance(operation, MaxPool) and source in offsets:
            return _pack_pool(node, offsets[source], given)
        if isinstance(operation, (Combine, AveragePool)) and source in offsets:
            return _pack_values(node, rows_of(self.graph.nodes[source]), offsets[source])
        if is_squeezed(node):
            return self._pack_squeezed(offsets, number)
        if not isinstance(operation, Convolution) or (given is None and source not in offsets):
            return node
        if source not in offsets:
            return _from_rows(node, given or 0)
        return _from_groups(_dense(node), rows_of(self.graph.nodes[source]), offsets[source], given)

    def _pack_squeezed(self, offsets: Offsets, number: int) -> Node:
        """Return a convolution of the means of packed rows, each of which it takes its share of, or one whose gates are
        for packed rows."""
        node = self.graph.nodes[number]
        pool_number = node.sources[0][0]
        pool = self.graph.nodes[pool_number] if pool_number >= 0 else node
        source = pool.sources[0][0]
        if isinstance(pool.operation, AveragePool) and source in offsets:
            rows, high = rows_of(self.graph.nodes[source]), pool.before[1]
            share = _groups(high, rows, offsets[source]) / high
            filters = _tiled(node.filters, (1, rows, 1, 1), share)
            node = replace(node, before=(rows * node.before[0], 1, 1), filters=filters)
        gated = [self.graph.nodes[n] for n in offsets if self.graph.nodes[n].sources[1:] == ((number,),)]
        if gated and isinstance(gated[0].operation, Combine):
            rows = rows_of(gated[0])
            node = replace(
                node,
                filters=_tiled(node.filters, (rows, 1, 1, 1)),
                numbers=tuple(np.tile(numbers, rows) for numbers in node.numbers),
            ).changed(channels=rows * node.operation.channels)
        return node


def _dense(node: Node) -> Node:
    """Return a convolution of groups of channels as one of all of them."""
    operation = node.operation
    assert isinstance(operation, Convolution)
    assert node.filters is not None
    return replace(node, filters=ungrouped(node.filters, operation.groups)).changed(groups=1)


def _tiled(filters: LazyArray | None, times: tuple[int, int, int, int], scale: float = 1.0) -> LazyArray:
    """Return filters several times over, along each axis, times a number."""
    assert filters is not None
    shape = tuple(size * count for size, count in zip(filters.shape, times))
    return filters.changed(shape, lambda array: np.tile(array if scale == 1 else array * np.float32(scale), times))


def _in_groups(node: Node, offset: int) -> Node:
    """Return a node whose outputs are in groups."""
    operation = node.operation
    each = rows_of(node)
    groups = _groups(operation.rows, each, offset)
    blanked = operation.channels % QUARTER == 0
    below = groups * each - offset - operation.rows
    row_groups = RowGroups(each, offset, below) if blanked else RowGroups(each)
    return replace(node, numbers=tuple(np.tile(numbers, each) for numbers in node.numbers)).changed(
        channels=each * operation.channels, rows=groups, row_groups=row_groups
    )


def _from_rows(node: Node, given: int) -> Node:
    """Return a convolution of single rows into groups: its filters move on by a group of outputs, and compute each row
    of it further down."""
    operation = node.operation
    assert isinstance(operation, Convolution)
    each, stride, (height, width) = rows_of(node), operation.stride[0], operation.kernel
    tall = height + (each - 1) * stride
    top = operation.padding[0] + stride * given
    bottom = each * stride * (_groups(operation.rows, each, given) - 1) - top + tall - node.before[1]
    assert node.filters is not None
    outputs, inputs = node.filters.shape[:2]

    def spread(array: np.ndarray) -> np.ndarray:
        whole = np.zeros((each, outputs, inputs, tall, width), array.dtype)
        for row in range(each):
            whole[row, :, :, row * stride : row * stride + height] = array
        return whole.reshape(each * outputs, inputs, tall, width)

    filters = node.filters.changed((each * outputs, inputs, tall, width), spread)
    return replace(_in_groups(node, given), filters=filters).changed(
        kernel=(tall, width),
        stride=(each * stride, operation.stride[1]),
        padding=(top, operation.padding[1], max(0, bottom), operation.padding[3]),
    )


def _from_groups(node: Node, rows: int, taken: int, given: int | None) -> Node:
    """Return a convolution of groups into groups, or single rows where `given` is None: the filters then come again for
    each row that a group of inputs gives."""
    operation = node.operation
    assert isinstance(operation, Convolution)
    stride, (height, width) = operation.stride[0], operation.kernel
    rows_at_once = max(1, rows // stride) if given is None else 1
    each, offset = (rows_at_once, 0) if given is None else (rows_of(node), given)
    first, last = _span(node, rows, taken, each, offset)
    start = taken - stride * offset - operation.padding[0]
    moved = each * stride // rows
    steps = _groups(operation.rows * operation.pool_size, each, offset)
    bottom = moved * (steps - 1) + last - (_groups(node.before[1], rows, taken) - 1)
    assert node.filters is not None
    (outputs, inputs), tall = node.filters.shape[:2], last - first + 1

    def spread(array: np.ndarray) -> np.ndarray:
        whole = np.zeros((each, outputs, rows, inputs, tall, width), array.dtype)
        for output, side, down in itertools.product(range(each), range(rows), range(tall)):
            tap = rows * (first + down) + side - start - stride * output
            if 0 <= tap < height:
                whole[output, :, side, :, down] = array[:, :, tap]
        return whole.reshape(each * outputs, rows * inputs, tall, width)

    filters = node.filters.changed((each * outputs, rows * inputs, tall, width), spread)
    channels, high, columns = node.before
    packed = replace(
        node if given is None else _in_groups(node, given),
        before=(rows * channels, _groups(high, rows, taken), columns),
        filters=filters,
    )
    return packed.changed(
        kernel=(last - first + 1, width),
        stride=(moved, operation.stride[1]),
        padding=(-first, operation.padding[1], max(0, bottom), operation.padding[3]),
        rows_at_once=rows_at_once,
    )


def _pack_values(node: Node, rows: int, taken: int) -> Node:
    """Return a product with a number for each channel, or the mean of each row of the groups."""
    channels, high, columns = node.before
    before = (rows * channels, _groups(high, rows, taken), columns)
    packed = replace(node, before=before)
    if isinstance(node.operation, Combine):
        return packed.changed(channels=before[0], rows=before[1], columns=before[2])
    return packed.changed(channels=before[0], kernel=before[1:])


def _pack_pool(node: Node, taken: int, given: int | None) -> Node:
    """Return a pool of groups of two; the rows of its padding count groups."""
    operation = node.operation
    assert isinstance(operation, MaxPool)
    start = taken - operation.padding[0]
    groups = _groups(node.before[1], 2, taken)
    bottom = operation.rows - 1 + (start + operation.kernel[0] - 1) // 2 - (groups - 1)
    pool = RowGroupsPool(
        name=operation.name,
        sources=operation.sources,
        channels=operation.channels,
        rows=operation.rows,
        columns=operation.columns,
        kernel=operation.kernel,
        stride=operation.stride,
        dilation=operation.dilation,
        padding=(-(start // 2), operation.padding[1], max(0, bottom), operation.padding[3]),
        start=start,
        offset=-1 if given is None else given,
        image_rows=operation.rows,
    )
    packed = replace(node, operation=pool, before=(2 * node.before[0], groups, node.before[2]))
    return packed if given is None else _in_groups(packed, given)
