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


def _span(node: Node, source: Lanes, given: Lanes) -> tuple[int, int]:
    """Return the (first, last) group of the input that the first group of a convolution's outputs reads."""
    operation = node.convolution
    stride = operation.stride[0]
    first = -stride * given.offset - operation.padding[0]  # the first row that it reads
    last = first + (given.rows - 1) * stride + operation.kernel[0] - 1
    return source.group_of(first), source.group_of(last)


@dataclass(frozen=True)
class RowPacking:
    """A graph, and the nodes whose rows are packed."""

    graph: Graph
    rows: dict[int, int]  # rows per group, for the nodes whose rows are packed
    halvings: Mapping[int, int] = field(default_factory=dict)  # pools after a node, if rows fill the partitions

    def lanes(self, number: int, offset: int = 0) -> Lanes:
        """Return how a node's value is stored, given its offset."""
        channels = self.graph.nodes[number].operation.channels
        return Lanes(self.rows[number], channels, self.halvings.get(number, 0), offset)

    def possible(self, number: int) -> Sequence[int]:
        """Return the possible offsets of a node.

        If rows fill the partitions, the rows below the image must begin at a partition where engines can write zeros,
        and pools must begin at the first row.
        """
        rows = self.rows[number]
        if number not in self.halvings:
            return range(rows)
        source, channels = self.graph.nodes[number].sources[0][0], self.graph.nodes[number].operation.channels
        # in this case, `_in_groups` sets no rows to zero
        are_few = rows <= PARTITIONS // QUARTER and channels % QUARTER > 0
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
                lanes = self.lanes(source, offsets[source])
                spans = {offset: _span(node, lanes, self.lanes(n, offset)) for offset in self.possible(n)}
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
        operation, source = node.operation, node.sources[0][0]
        given = self.lanes(number, offsets[number]) if number in offsets else None
        lanes = [self.lanes(part, offsets[part]) for part in node.sources[0] if part in offsets]
        if operation.folded is not None and source in offsets:
            return self._pack_halves(number, given) if self.is_halved(number) else _pack_pool(node, lanes[0], given)
        if (is_sum(node) or operation.is_product or operation.is_mean) and source in offsets:
            return _pack_values(node, lanes[0])
        if node.is_squeezed:
            return self._pack_squeezed(offsets, number)
        if operation.convolved is None or (given is None and source not in offsets):
            return node
        if source not in offsets:
            assert given is not None
            return _from_rows(node, given)
        if node.is_depthwise() and lanes[0].blocks > 1:
            return _each_from_groups(node, lanes[0], replace(lanes[0], offset=offsets.get(number, 0)))
        return _from_groups(_dense(node), lanes, given)

    def _pack_halves(self, number: int, given: Lanes | None) -> Node:
        """Return a pool that compares the two halves of the partitions, each of which becomes a row of many
        channels."""
        node = self.graph.nodes[number]
        half = self.rows[node.sources[0][0]] // 2
        channels, count = node.operation.channels * half, node.operation.rows // half
        before = (channels, 2 * count, node.before[2])
        wide = replace(node.changed(channels=channels, rows=count), before=before)
        pairs = Lanes(2, channels)
        if given is None or given.rows == half:
            return _pack_pool(wide, pairs, None)
        return _pack_pool(wide, pairs, replace(pairs, offset=given.offset // half))

    def _pack_squeezed(self, offsets: Offsets, number: int) -> Node:
        """Return a convolution that averages the means of packed rows, or one that computes gates for packed rows."""
        node = self.graph.nodes[number]
        pool_number = node.sources[0][0]
        pool = self.graph.nodes[pool_number] if pool_number >= 0 else node
        source = pool.sources[0][0]
        mean = pool.operation.averaged
        if mean is not None and source in offsets:
            lanes, high = self.lanes(source, offsets[source]), pool.before[1]
            share = 1.0 if mean.is_sum else lanes.groups(high) / high
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


def _in_groups(node: Node, lanes: Lanes) -> Node:
    """Return a node whose outputs are in groups."""
    operation, each = node.operation, lanes.rows
    groups = lanes.groups(operation.rows)
    blanked = lanes.block % QUARTER == 0 or each > PARTITIONS // QUARTER
    below = groups * each - lanes.offset - operation.rows
    row_fold = RowFold(each, lanes.offset, below) if blanked else RowFold(each)
    numbers = tuple(lanes.ordered(np.tile(numbers, each), 0) for numbers in node.numbers)
    return replace(node, numbers=numbers).changed(channels=lanes.count, rows=groups, row_fold=row_fold)


def _from_rows(node: Node, lanes: Lanes) -> Node:
    """Return a convolution from single rows to groups.

    Its stride is one group of outputs, and the filters are shifted down once for each row of the group.
    """
    operation = node.convolution
    each, stride, (height, width) = lanes.rows, operation.stride[0], operation.kernel
    tall = height + (each - 1) * stride
    top = operation.padding[0] + stride * lanes.offset
    bottom = each * stride * (lanes.groups(operation.rows) - 1) - top + tall - node.before[1]
    assert node.filters is not None
    outputs, inputs = node.filters.shape[:2]

    def spread(array: np.ndarray) -> np.ndarray:
        whole = np.zeros((each, outputs, inputs, tall, width), array.dtype)
        for row in range(each):
            whole[row, :, :, row * stride : row * stride + height] = array
        return lanes.ordered(whole.reshape(each * outputs, inputs, tall, width), 0)

    filters = node.filters.changed((lanes.count, inputs, tall, width), spread)
    return replace(_in_groups(node, lanes), filters=filters).changed(
        kernel=(tall, width),
        stride=(each * stride, operation.stride[1]),
        padding=(top, operation.padding[1], max(0, bottom), operation.padding[3]),
    )


def _from_groups(node: Node, lanes: Sequence[Lanes], given: Lanes | None) -> Node:
    """Return a convolution from groups to groups or, if `given` is None, to single rows.

    For single rows, the filters are repeated for each output row to which a group of inputs contributes. `lanes`: how
    each part of the input is stored; `given`: how the output is stored.
    """
    operation, source = node.convolution, lanes[0]
    rows, stride, (height, width) = source.rows, operation.stride[0], operation.kernel
    rows_at_once = max(1, rows // stride) if given is None and operation.rows > 1 else 1
    groups = given or Lanes(rows_at_once, operation.channels)
    each, outputs_at_once = groups.rows, given.count if given is not None else rows_at_once * operation.channels
    first, last = _span(node, source, groups)
    start = source.offset - stride * groups.offset - operation.padding[0]
    stride_in_groups = max(1, each * stride // rows)
    steps = groups.groups(operation.rows * operation.pool_size)
    bottom = stride_in_groups * (steps - 1) + last - (source.groups(node.before[1]) - 1)
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
        return whole if given is None else given.ordered(whole, 0)

    filters = node.filters.changed((outputs_at_once, count, tall, width), spread)
    _, high, columns = node.before
    packed = replace(
        node if given is None else _in_groups(node, given),
        before=(count, source.groups(high), columns),
        filters=filters,
    )
    return packed.changed(
        kernel=(last - first + 1, width),
        stride=(stride_in_groups, operation.stride[1]),
        padding=(-first, operation.padding[1], max(0, bottom), operation.padding[3]),
        rows_at_once=rows_at_once,
    )


def _each_from_groups(node: Node, lanes: Lanes, given: Lanes) -> Node:
    """Return a depthwise convolution from the groups of an expansion to groups: each block is a group of channels."""
    operation = node.convolution
    assert node.filters is not None
    one = node.filters.changed((1, 1, *node.filters.shape[2:]), lambda array: array[:1])
    of_one = replace(node, before=(1, *node.before[1:]), filters=one, numbers=()).changed(channels=1, groups=1)
    single = _from_groups(
        of_one, [Lanes(lanes.rows, 1, offset=lanes.offset)], Lanes(lanes.rows, 1, offset=given.offset)
    )
    kernel = single.convolution.kernel
    first, _ = _span(node, lanes, given)
    start = lanes.offset - operation.stride[0] * given.offset - operation.padding[0]

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
    return replace(_in_groups(node, given), before=(lanes.count, *single.before[1:]), filters=filters).changed(
        groups=lanes.blocks, kernel=kernel, stride=single.convolution.stride, padding=single.convolution.padding
    )


def _pack_values(node: Node, lanes: Lanes) -> Node:
    """Return a sum, a product with per-channel numbers, or the means of each row of the groups."""
    _, high, columns = node.before
    before = (lanes.count, lanes.groups(high), columns)
    packed = replace(node, before=before)
    if node.operation.combines:
        return packed.changed(channels=before[0], rows=before[1], columns=before[2])
    return packed.changed(channels=before[0], kernel=before[1:])


def _pack_pool(node: Node, source: Lanes, given: Lanes | None) -> Node:
    """Return a pool over groups of two rows; its padding is counted in groups."""
    operation = node.operation.folded
    assert operation is not None
    start = source.offset - operation.padding[0]
    groups = source.groups(node.before[1])
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
        offset=-1 if given is None else given.offset,
        image_rows=operation.rows,
    )
    packed = replace(node, operation=pool, before=(2 * node.before[0], groups, node.before[2]))
    return packed if given is None else _in_groups(packed, given)
