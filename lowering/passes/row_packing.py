"""Convert operations to packed rows (pack_rows.py): the filters of convolutions, pools and gates."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ...kernels.program import (
    LAUNCH_INPUT,
    RowFold,
    RowFoldPool,
)
from ...kernels.tiling.packing import ceil_div, filter_steps, taps_in_partitions
from ...simulator.machine.chip import PARTITIONS
from ..graph.filters import ungrouped
from ..graph.graph import Graph, Node
from ..graph.lazy import LazyArray
from .lanes import HALF, QUARTER, Lanes

Offsets = dict[int, int]  # offset of each node whose rows are packed


def rows_of(node: Node) -> int:
    """Return the number of rows of a node's value that would be packed, or 1 if none would be."""
    channels = node.operation.channels
    if channels == HALF:
        return 2
    return 4 if channels <= QUARTER else 1


def is_sum(node: Node) -> bool:
    """True if a node adds two values of the same shape and maps rows of zeros to zero."""
    operation = node.operation
    alone = all(len(parts) == 1 and parts[0] >= 0 for parts in operation.sources)
    return operation.adds and operation.shape == node.before and alone


def _groups(rows: int, each: int, offset: int) -> int:
    return ceil_div(rows + offset, each)


def _span(node: Node, rows: int, taken: int, each: int, offset: int) -> tuple[int, int]:
    """Return the (first, last) input group that the first group of outputs reads; input groups have `rows` rows and
    offset `taken`.

    Output groups have `each` rows and offset `offset`.
    """
    operation = node.convolution
    stride = operation.stride[0]
    start = taken - stride * offset - operation.padding[0]  # first input row that the first output group reads
    return start // rows, (start + (each - 1) * stride + operation.kernel[0] - 1) // rows


@dataclass(frozen=True)
class RowPacking:
    """A graph, and the nodes whose rows are packed."""

    graph: Graph
    rows: dict[int, int]  # rows per group, for the nodes whose rows are packed
    halvings: Mapping[int, int] = field(default_factory=dict)  # pools after a node, if rows fill the partitions

    def lanes(self, number: int) -> Lanes:
        """Return the partitions of a node's value."""
        channels = self.graph.nodes[number].operation.channels
        return Lanes(self.rows[number], channels, self.halvings.get(number, 0))

    def possible(self, number: int) -> Sequence[int]:
        """Return the possible offsets of a node.

        If rows fill the partitions, the rows below the image must begin at a partition where engines can write zeros,
        and pools must begin at the first row.
        """
        rows = self.rows[number]
        if number not in self.halvings:
            return range(rows)
        source, channels = self.graph.nodes[number].sources[0][0], self.graph.nodes[number].operation.channels
        are_few = rows <= PARTITIONS // QUARTER and channels % QUARTER > 0  # `_in_groups` zeroes no rows of these
        if self.halvings[number] or are_few or (self.is_halved(number) and self.rows[source] > rows):
            return range(1)
        if self.is_halved(number):
            return range(0, rows, rows // 2)
        high, apart = self.graph.nodes[number].operation.rows, QUARTER // math.gcd(QUARTER, channels)
        return [offset for offset in range(rows) if (high + offset) % rows % apart == 0]

    def is_halved(self, number: int) -> bool:
        """True if a node is a pool that compares the two halves of the partitions."""
        node = self.graph.nodes[number]
        return node.operation.folded is not None and self.halvings.get(node.sources[0][0], 0) > 0

    def follows(self, number: int) -> bool:
        """True if the offset of a node is determined by its input."""
        node = self.graph.nodes[number]
        if self._first_alike[number] != number:
            return True
        is_pool = node.operation.folded is not None
        return not is_pool and (node.sources[0][0] in self.rows or len(node.sources) > 1)

    def offsets(self, chosen: Offsets) -> Offsets:
        """Return the offsets of all nodes, given the offsets that are chosen."""
        offsets: Offsets = {}
        for n in sorted(self.rows):
            node = self.graph.nodes[n]
            if self._first_alike[n] != n:
                offsets[n] = offsets[self._first_alike[n]]
            elif n in chosen or not self.follows(n):
                offsets[n] = chosen.get(n, self.possible(n)[0])
            else:  # a group of outputs reads as few groups as possible
                source = node.sources[0][0]
                taken, rows, each = offsets[source], self.rows[source], self.rows[n]
                spans = {offset: _span(node, rows, taken, each, offset) for offset in self.possible(n)}
                offsets[n] = min(spans, key=lambda offset: spans[offset][1] - spans[offset][0])
        return offsets

    @cached_property
    def _first_alike(self) -> dict[int, int]:
        """Map each packed node to the first node that must have the same offset. Combined values, and the parts of an
        operand, require equal offsets."""
        first = {n: n for n in self.rows}
        for n in range(len(self.graph.nodes)):
            node = self.graph.nodes[n]
            groups = [[part for part in node.sources[0] if part in first]]
            if n in first and is_sum(node):
                groups.append([n, *(parts[0] for parts in node.sources)])
            elif n in first and len(node.sources) > 1:
                groups.append([n, node.sources[node.operation.convolved is not None][0]])
            for alike in groups:
                joined = {first[each] for each in alike}
                first.update({each: min(joined) for each in first if first[each] in joined})
        return first

    def columns(self, offsets: Offsets, number: int) -> int:
        """Return the number of columns that a node moves through the Tensor Engine."""
        node = self.packed(offsets, number)
        operation = node.operation.convolved
        if operation is None:
            return 0
        steps = operation.kernel[0] * operation.kernel[1]
        if operation.sources[0] == (LAUNCH_INPUT,):
            steps = len(
                filter_steps(operation.kernel, taps_in_partitions(node.before[0], operation.kernel, PARTITIONS))
            )
        outputs = ceil_div(operation.channels, PARTITIONS) * operation.rows * operation.columns
        return steps * ceil_div(node.before[0] // operation.groups, PARTITIONS) * outputs * operation.pool_size**2

    def packed(self, offsets: Offsets, number: int) -> Node:
        """Return the version of a node that reads and computes groups of rows, or single rows."""
        node = self.graph.nodes[number]
        operation = node.operation
        given, source = offsets.get(number), node.sources[0][0]
        if operation.folded is not None and source in offsets:
            return (
                self._pack_halves(number, given) if self.is_halved(number) else _pack_pool(node, offsets[source], given)
            )
        if (is_sum(node) or operation.is_product or operation.is_mean) and source in offsets:
            return _pack_values(node, self.lanes(source), offsets[source])
        if node.is_squeezed:
            return self._pack_squeezed(offsets, number)
        if operation.convolved is None or (given is None and source not in offsets):
            return node
        if source not in offsets:
            return _from_rows(node, self.lanes(number), given or 0)
        given_lanes = None if given is None else self.lanes(number)
        if node.is_depthwise() and self.lanes(source).blocks > 1:
            return _each_from_groups(node, self.lanes(source), offsets[source], given or 0)
        lanes = [self.lanes(part) for part in node.sources[0]]
        return _from_groups(_dense(node), lanes, offsets[source], given_lanes, given or 0)

    def _pack_halves(self, number: int, given: int | None) -> Node:
        """Return a pool that compares the two halves of the partitions, each of which becomes a row of many
        channels."""
        node = self.graph.nodes[number]
        source, rows = node.sources[0][0], self.rows.get(number, 1)
        half = self.rows[source] // 2
        channels, count = node.operation.channels * half, node.operation.rows // half
        before = (channels, 2 * count, node.before[2])
        wide = replace(node.changed(channels=channels, rows=count), before=before)
        offset = None if given is None or rows == half else given // half
        return _pack_pool(wide, 0, offset)

    def _pack_squeezed(self, offsets: Offsets, number: int) -> Node:
        """Return a convolution that averages the means of packed rows, or one that computes gates for packed rows."""
        node = self.graph.nodes[number]
        pool_number = node.sources[0][0]
        pool = self.graph.nodes[pool_number] if pool_number >= 0 else node
        source = pool.sources[0][0]
        mean = pool.operation.averaged
        if mean is not None and source in offsets:
            lanes, high = self.lanes(source), pool.before[1]
            share = 1.0 if mean.is_sum else _groups(high, lanes.rows, offsets[source]) / high
            node = replace(node, before=(lanes.count, 1, 1), filters=_tiled(node.filters, lanes, 1, share))
        gated = [n for n in offsets if self.graph.nodes[n].sources[1:] == ((number,),)]
        if gated and self.graph.nodes[gated[0]].operation.is_product:
            lanes = Lanes(self.rows[gated[0]], node.operation.channels)
            node = replace(
                node,
                filters=_tiled(node.filters, lanes, 0),
                numbers=tuple(lanes.ordered(np.tile(numbers, lanes.rows), 0) for numbers in node.numbers),
            ).changed(channels=lanes.count)
        return node


def _dense(node: Node) -> Node:
    """Return a convolution with a single group that is equivalent to a grouped convolution."""
    operation = node.convolution
    assert node.filters is not None
    return replace(node, filters=ungrouped(node.filters, operation.groups)).changed(groups=1)


def _tiled(filters: LazyArray | None, lanes: Lanes, axis: int, scale: float = 1.0) -> LazyArray:
    """Repeat filters for each row of a group along a channel axis, multiplied by a constant."""
    assert filters is not None
    shape = tuple(lanes.count if n == axis else size for n, size in enumerate(filters.shape))
    times = tuple(lanes.rows if n == axis else 1 for n in range(len(shape)))

    def tile(array: np.ndarray) -> np.ndarray:
        return lanes.ordered(np.tile(array if scale == 1 else array * np.float32(scale), times), axis)

    return filters.changed(shape, tile)


def _in_groups(node: Node, lanes: Lanes, offset: int) -> Node:
    """Return a node whose outputs are in groups."""
    operation, each = node.operation, lanes.rows
    groups = _groups(operation.rows, each, offset)
    blanked = lanes.block % QUARTER == 0 or each > PARTITIONS // QUARTER
    below = groups * each - offset - operation.rows
    row_fold = RowFold(each, offset, below) if blanked else RowFold(each)
    numbers = tuple(lanes.ordered(np.tile(numbers, each), 0) for numbers in node.numbers)
    return replace(node, numbers=numbers).changed(channels=lanes.count, rows=groups, row_fold=row_fold)


def _from_rows(node: Node, lanes: Lanes, given: int) -> Node:
    """Return a convolution from single rows to groups.

    Its stride is one group of outputs, and the filters are shifted down once for each row of the group.
    """
    operation = node.convolution
    each, stride, (height, width) = lanes.rows, operation.stride[0], operation.kernel
    tall = height + (each - 1) * stride
    top = operation.padding[0] + stride * given
    bottom = each * stride * (_groups(operation.rows, each, given) - 1) - top + tall - node.before[1]
    assert node.filters is not None
    outputs, inputs = node.filters.shape[:2]

    def spread(array: np.ndarray) -> np.ndarray:
        whole = np.zeros((each, outputs, inputs, tall, width), array.dtype)
        for row in range(each):
            whole[row, :, :, row * stride : row * stride + height] = array
        return lanes.ordered(whole.reshape(each * outputs, inputs, tall, width), 0)

    filters = node.filters.changed((lanes.count, inputs, tall, width), spread)
    return replace(_in_groups(node, lanes, given), filters=filters).changed(
        kernel=(tall, width),
        stride=(each * stride, operation.stride[1]),
        padding=(top, operation.padding[1], max(0, bottom), operation.padding[3]),
    )


def _from_groups(node: Node, lanes: Sequence[Lanes], taken: int, given_lanes: Lanes | None, given: int) -> Node:
    """Return a convolution from groups to groups or, if `given_lanes` is None, to single rows.

    For single rows, the filters are repeated for each output row to which a group of inputs contributes. `lanes`: the
    lanes of each part of the input.
    """
    operation = node.convolution
    rows, stride, (height, width) = lanes[0].rows, operation.stride[0], operation.kernel
    rows_at_once = max(1, rows // stride) if given_lanes is None and operation.rows > 1 else 1
    each, offset = (rows_at_once, 0) if given_lanes is None else (given_lanes.rows, given)
    outputs_at_once = each * operation.channels if given_lanes is None else given_lanes.count
    first, last = _span(node, rows, taken, each, offset)
    start = taken - stride * offset - operation.padding[0]
    stride_in_groups = max(1, each * stride // rows)
    steps = _groups(operation.rows * operation.pool_size, each, offset)
    bottom = stride_in_groups * (steps - 1) + last - (_groups(node.before[1], rows, taken) - 1)
    assert node.filters is not None
    outputs, tall = node.filters.shape[0], last - first + 1
    ends = list(itertools.accumulate(part.channels for part in lanes))
    count = sum(part.count for part in lanes)

    def spread_part(array: np.ndarray, part: Lanes) -> np.ndarray:
        whole = np.zeros((each, outputs, rows, part.channels, tall, width), array.dtype)
        for output, side, down in itertools.product(range(each), range(rows), range(tall)):
            tap = rows * (first + down) + side - start - stride * output
            if 0 <= tap < height:
                whole[output, :, side, :, down] = array[:, :, tap]
        return part.ordered(whole.reshape(each * outputs, rows * part.channels, tall, width), 1)

    def spread(array: np.ndarray) -> np.ndarray:
        parts = [spread_part(array[:, end - part.channels : end], part) for part, end in zip(lanes, ends, strict=True)]
        whole = np.concatenate(parts, 1)
        return whole if given_lanes is None else given_lanes.ordered(whole, 0)

    filters = node.filters.changed((outputs_at_once, count, tall, width), spread)
    _, high, columns = node.before
    packed = replace(
        node if given_lanes is None else _in_groups(node, given_lanes, given),
        before=(count, _groups(high, rows, taken), columns),
        filters=filters,
    )
    return packed.changed(
        kernel=(last - first + 1, width),
        stride=(stride_in_groups, operation.stride[1]),
        padding=(-first, operation.padding[1], max(0, bottom), operation.padding[3]),
        rows_at_once=rows_at_once,
    )


def _each_from_groups(node: Node, lanes: Lanes, taken: int, given: int) -> Node:
    """Return a depthwise convolution from the groups of an expansion to groups: each block is a group of channels."""
    operation = node.convolution
    assert node.filters is not None
    one = node.filters.changed((1, 1, *node.filters.shape[2:]), lambda array: array[:1])
    of_one = replace(node, before=(1, *node.before[1:]), filters=one, numbers=()).changed(channels=1, groups=1)
    single = _from_groups(of_one, [Lanes(lanes.rows, 1)], taken, Lanes(lanes.rows, 1), given)
    kernel = single.convolution.kernel
    first, _ = _span(node, lanes.rows, taken, lanes.rows, given)
    start = taken - operation.stride[0] * given - operation.padding[0]

    def spread(array: np.ndarray) -> np.ndarray:
        padded = np.zeros((lanes.blocks * lanes.block, *array.shape[2:]), array.dtype)
        padded[: lanes.channels] = array[:, 0]
        apart = padded.reshape(lanes.blocks, lanes.block, *array.shape[2:])
        whole = np.zeros(
            (lanes.blocks, lanes.rows, lanes.block, lanes.rows, lanes.block, *kernel),
            array.dtype,
        )
        own = np.arange(lanes.block)
        for output, side, down in itertools.product(range(lanes.rows), range(lanes.rows), range(kernel[0])):
            tap = lanes.rows * (first + down) + side - start - operation.stride[0] * output
            if 0 <= tap < array.shape[2]:
                for block in range(lanes.blocks):
                    whole[block, output, own, side, own, down] = apart[block, :, tap]
        return whole.reshape(lanes.count, lanes.rows * lanes.block, *kernel)

    filters = node.filters.changed((lanes.count, lanes.rows * lanes.block, *kernel), spread)
    return replace(_in_groups(node, lanes, given), before=(lanes.count, *single.before[1:]), filters=filters).changed(
        groups=lanes.blocks, kernel=kernel, stride=single.convolution.stride, padding=single.convolution.padding
    )


def _pack_values(node: Node, lanes: Lanes, taken: int) -> Node:
    """Return a sum, a product with per-channel numbers, or the means of each row of the groups."""
    _, high, columns = node.before
    before = (lanes.count, _groups(high, lanes.rows, taken), columns)
    packed = replace(node, before=before)
    if node.operation.combines:
        return packed.changed(channels=before[0], rows=before[1], columns=before[2])
    return packed.changed(channels=before[0], kernel=before[1:])


def _pack_pool(node: Node, taken: int, given: int | None) -> Node:
    """Return a pool over groups of two rows; its padding is counted in groups."""
    operation = node.operation.folded
    assert operation is not None
    start = taken - operation.padding[0]
    groups = _groups(node.before[1], 2, taken)
    bottom = operation.rows - 1 + (start + operation.kernel[0] - 1) // 2 - (groups - 1)
    pool = RowFoldPool(
        name=operation.name,
        sources=operation.sources,
        channels=operation.channels,
        rows=operation.rows,
        columns=operation.columns,
        is_fp8=operation.is_fp8,
        kernel=operation.kernel,
        stride=operation.stride,
        dilation=operation.dilation,
        padding=(-(start // 2), operation.padding[1], max(0, bottom), operation.padding[3]),
        start=start,
        offset=-1 if given is None else given,
        image_rows=operation.rows,
    )
    packed = replace(node, operation=pool, before=(2 * node.before[0], groups, node.before[2]))
    return packed if given is None else _in_groups(packed, Lanes(2, operation.channels), given)
