"""Pack rows of an image along the partitions where channels are few: two rows of 64 channels, four of 32 and less.

A value of C channels and H rows is held as F C channels and H / F rows, groups: group r has the rows from F r - o to F
r - o + F - 1, o being its offset, 0 to F - 1. A convolution of such values is again a convolution, whose filters take
groups of rows to groups of rows: 3x3 filters become two rows of taps instead of three where the offset changes from
input to output, and compute F rows of outputs at once. A depthwise filter becomes a full one: what is zero costs
nothing that was not idle. The Tensor Engine then has all its rows and columns in use, which also keeps its clock up,
and the engines that finish the sums have all their lanes.

Rows above and below the image, which groups of an offset have, are blanked: they are padding for the readers.
"""

from __future__ import annotations

from dataclasses import replace

from ...kernels.program import (
    AveragePool,
    Combine,
    Convolution,
    MaxPool,
    Memory,
)
from ...simulator.chip import PARTITIONS
from ..graph import Graph, Node
from .row_packing import HALF, QUARTER, Offsets, RowPacking, is_squeezed, rows_of

FEWEST_GROUPS = 2  # of rows, below which there is little to gain
MOST_COMBINATIONS = 64  # of offsets that are tried


def pack_rows(graph: Graph) -> Graph:
    """Pack rows wherever nodes can take them, by the offsets that take the fewest columns of matmuls."""
    apart = _split_pools(graph)
    packed = _candidates(apart)
    if not packed:
        return graph
    packing = RowPacking(apart, packed)
    combinations: list[Offsets] = [{}]
    for n in sorted(packed):
        rows = rows_of(apart.nodes[n])
        if not packing.follows(n) and len(combinations) * rows <= MOST_COMBINATIONS:
            combinations = [{**chosen, n: offset} for chosen in combinations for offset in range(rows)]
    choices = [packing.offsets(chosen) for chosen in combinations]
    depending = [n for n, node in enumerate(apart.nodes) if n in packed or node.sources[0][0] in packed]
    fewest = min(choices, key=lambda offsets: sum(packing.columns(offsets, n) for n in depending))
    return apart.with_nodes(packing.packed(fewest, n) for n in range(len(apart.nodes)))


def has_packed_rows(graph: Graph) -> bool:
    """True if the rows of any convolution are packed."""
    operations = [node.operation for node in graph.nodes]
    return any(isinstance(each, Convolution) and each.row_groups.count > 1 for each in operations)


def _split_pools(graph: Graph) -> Graph:
    """Split convolutions of few channels that pool into a convolution and a pool of the same name."""
    apart: list[Node] = []
    place: dict[int, int] = {}
    for n, node in enumerate(graph.nodes):
        node = node.changed(sources=tuple(tuple(place.get(part, part) for part in parts) for parts in node.sources))
        operation = node.operation
        pools = isinstance(operation, Convolution) and operation.pool_size == 2
        if pools and _is_plain(node) and operation.channels == HALF and _is_positive(node):
            between = (operation.channels, 2 * operation.rows, 2 * operation.columns)
            convolution = node.changed(pool_size=1, rows=between[1], columns=between[2])
            apart.append(replace(convolution, memory=Memory.SBUF, output=None))
            pool = MaxPool(
                name=node.name,
                sources=((len(apart) - 1,),),
                channels=operation.channels,
                rows=operation.rows,
                columns=operation.columns,
                kernel=(2, 2),
                stride=(2, 2),
            )
            node = replace(node, operation=pool, before=between, filters=None, numbers=())
        apart.append(node)
        place[n] = len(apart) - 1
    return graph.with_nodes(apart)


def _is_plain(node: Node) -> bool:
    """True if it is a convolution whose rows a change of its filters can pack."""
    operation = node.operation
    if not isinstance(operation, Convolution):
        return False
    return operation.dilation[0] == 1 and all(len(parts) == 1 for parts in operation.sources) and _is_large(node)


def _is_large(node: Node) -> bool:
    return node.operation.rows >= FEWEST_GROUPS * rows_of(node)


def _is_positive(node: Node) -> bool:
    """True if its value is never below 0, so that a blank row is no maximum."""
    operation = node.operation
    return isinstance(operation, MaxPool) or (
        isinstance(operation, Convolution) and operation.activation.name == "relu"
    )


def _candidates(graph: Graph) -> set[int]:
    """Return the nodes whose rows can be packed, and all of whose readers can read them."""
    found = {
        n
        for n, node in enumerate(graph.nodes)
        if rows_of(node) > 1
        and node.memory is Memory.SBUF
        and node.output is None
        and (
            (_is_plain(node) and getattr(node.operation, "pool_size", 1) == 1)
            or (_is_large(node) and (_is_row_pool(node) or _is_gated(graph, n)))
        )
    }
    while True:
        kept = {n for n in found if _can_compute(graph, found, n) and _can_be_read(graph, found, n)}
        if kept == found:
            return found
        found = kept


def _is_row_pool(node: Node) -> bool:
    """True if it is a pool that can read groups of two rows."""
    operation = node.operation
    if not isinstance(operation, MaxPool) or operation.dilation[0] > 1 or operation.ceil_mode:
        return False
    moves = operation.kernel[0] in (2, 3) and operation.stride[0] == 2
    return moves and len(operation.sources[0]) == 1 and operation.channels == HALF


def _can_compute(graph: Graph, packed: set[int], number: int) -> bool:
    node = graph.nodes[number]
    operation = node.operation
    if isinstance(operation, (MaxPool, Combine)) or getattr(operation, "groups", 1) > 1:
        return operation.sources[0][0] in packed
    return all(parts[0] in packed for parts in operation.sources[1:])


def _can_be_read(graph: Graph, packed: set[int], number: int) -> bool:
    readers = [n for n, _ in graph.readers(number)]
    blanks = graph.nodes[number].operation.channels in (QUARTER, HALF)  # each row begins where engines write

    def is_one_row(n: int) -> bool:
        return getattr(graph.nodes[n].operation, "kernel", (1, 1))[0] == 1

    def can_read(n: int) -> bool:
        return (blanks or is_one_row(n)) and _can_read(graph, n in packed, n, number)

    return bool(readers) and all(map(can_read, readers))


def _is_gated(graph: Graph, number: int) -> bool:
    """True if it is a channel-wise scale (squeeze-and-excite gate) by a convolution with no other reader."""
    operation = graph.nodes[number].operation
    if not isinstance(operation, Combine) or operation.arithmetic != "multiply":
        return False
    if any(len(parts) > 1 for parts in operation.sources):
        return False
    gate = operation.sources[1][0]
    if gate < 0 or len(graph.readers(gate)) > 1:
        return False
    node = graph.nodes[gate]
    return is_squeezed(node) and isinstance(node.operation, Convolution) and node.memory is Memory.SBUF


def _is_mean(graph: Graph, number: int) -> bool:
    """True if it is the mean of a whole image, and only convolutions of it read it."""
    node = graph.nodes[number]
    operation = node.operation
    if not isinstance(operation, AveragePool) or operation.kernel != node.before[1:] or any(operation.padding):
        return False
    return all(is_squeezed(graph.nodes[n]) for n, _ in graph.readers(number))


def _can_read(graph: Graph, is_packed: bool, reader: int, number: int) -> bool:
    """True if a node can read groups of rows, and compute them or, where not packed, single rows."""
    node, source = graph.nodes[reader], graph.nodes[number]
    operation = node.operation
    if _is_row_pool(node):
        return _is_positive(source)
    if isinstance(operation, Combine):
        return is_packed and operation.sources[0] == (number,)
    if isinstance(operation, AveragePool):
        return operation.sources == ((number,),) and _is_mean(graph, reader)
    if not isinstance(operation, Convolution) or operation.dilation[0] > 1:
        return False
    if any(len(parts) > 1 for parts in operation.sources):
        return False
    rows, stride = rows_of(source), operation.stride[0]
    if is_packed:
        return stride * rows_of(node) % rows == 0
    if operation.groups > 1 or any(parts == (number,) for parts in operation.sources[1:]):
        return False
    if stride % rows == 0:
        return True
    whole_tiles = operation.channels <= PARTITIONS or operation.channels % PARTITIONS == 0
    single = operation.pool_size == 1 and len(operation.sources) == 1 and node.memory is Memory.SBUF
    return rows % stride == 0 and whole_tiles and single and operation.rows % (rows // stride) == 0
