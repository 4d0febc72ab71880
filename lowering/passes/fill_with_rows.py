"""Fill the partitions with rows of an image if it has very few channels: 16 rows of 8 channels, or 8 rows of 16.

Values are packed as in pack_rows.py, with more rows per group. The number of rows per group is a power of two, and
channels are padded with zeros to a power of two. If a value is pooled, its number of rows is a multiple of the rows per
group. Other values have rows of zeros above and below the image, which begin at partitions where engines can write. A
max pool of 2x2 compares the two halves of the partitions: the convolution before it computes all even rows of a group
in the first half and all odd rows in the second. A pool of 4x4 is computed as two pools. A pool either leaves half of
the partitions empty or collects two groups. In the second case, its first group may begin half a group above the image.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...kernels.program import NO_SIDES, MaxPool, Memory
from ...simulator.machine.chip import PARTITIONS
from ..decisions import Choice, Decisions, Kind
from ..graph.graph import Graph, Node, NodeId
from .base import SwitchedPass
from .lanes import HALF, QUARTER
from .pack_rows import FEWEST_GROUPS, best_packing, can_read, is_plain
from .pad_channels import NOT_OF_ZERO, pad_channels
from .row_packing import RowPacking
from .split_pools import POOLED, split_pools

OTHERWISE = 4  # number of rows that pack_rows.py packs


class FillWithRows(SwitchedPass):
    """Packs as many rows as fit along the partitions."""

    name = "fill_with_rows"
    needs = ("load_input", "pad_channels")
    kinds = (Kind.FILL_WITH_ROWS,)

    def offers(self, graph: Graph, decisions: Decisions, pictures: int) -> Sequence[Choice]:
        """See `Pass`."""
        return [] if decisions.value(Kind.PAD_CHANNELS) else [Choice(Kind.FILL_WITH_ROWS)]

    def change(self, graph: Graph, decisions: Decisions) -> Graph | None:
        """See `SwitchedPass`."""
        return fill_with_rows(graph)


def fill_with_rows(graph: Graph) -> Graph | None:
    """Pack as many rows as fit; return None if no value would have more rows per group than with pack_rows.py."""
    if not any(_most_rows(node, divides=False) > OTHERWISE for node in graph.nodes):
        return None
    padded = pad_channels(graph, _zeros) or graph
    pooled = {node.id for node in padded.nodes if _is_split(node)}
    while True:
        separated = _with_pools_apart(padded, pooled)
        packing = _packing(separated)
        used = {separated.nodes[n].id for n in packing.rows}
        unused = {each for each in pooled if each.part("convolution") not in used}
        if not unused:
            break
        pooled -= unused
    return best_packing(packing) if any(each > OTHERWISE for each in packing.rows.values()) else None


def _with_pools_apart(graph: Graph, pooled: Collection[NodeId]) -> Graph:
    return split_pools(graph, lambda node: node.id in pooled)


def _zeros(channels: int) -> int:
    """Return the number of zeros that pad channels to a power of two."""
    return (1 << (channels - 1).bit_length()) - channels if 1 < channels < QUARTER else 0


def _most_rows(node: Node, divides: bool) -> int:
    """Return the largest number of rows that is a power of two and fits along the partitions with a node's channels.

    If `divides`, the result also divides the number of rows of the node.
    """
    channels, rows, most = node.operation.channels, node.operation.rows, 1
    if channels > HALF:
        return 1
    while 2 * most * channels <= PARTITIONS and rows >= FEWEST_GROUPS * 2 * most:
        if divides and rows % (2 * most) > 0:
            break
        most *= 2
    return most


def _whole_or_zeroed(node: Node, each: int) -> int:
    """Return the largest number of rows per group, up to `each`, that divides a node's number of rows, or for which the
    rows outside the image can be set to zero."""
    while node.operation.rows % each > 0 and each <= OTHERWISE and node.operation.channels % QUARTER > 0:
        each //= 2
    return each


def _is_split(node: Node) -> bool:
    """True if a node with pooling can be split into a convolution and a pool, or into two pools."""
    operation, pool = node.operation, node.operation.folded
    if operation.convolved is not None:
        return operation.convolved.pool_size == POOLED and operation.channels <= HALF and is_plain(node)
    is_alone = len(node.sources[0]) == 1
    return is_alone and isinstance(pool, MaxPool) and pool.kernel == (2 * POOLED,) * 2 and _is_without_overlap(pool)


def _is_without_overlap(pool: MaxPool) -> bool:
    return pool.kernel == pool.stride and pool.padding == NO_SIDES and pool.dilation == (1, 1) and not pool.ceil_mode


def _packing(graph: Graph) -> RowPacking:
    """Return the rows per group of each node that can be packed and whose consumers support it, and the pools that
    follow it."""
    rows = {n: each for n, node in enumerate(graph.nodes) if (each := _first_rows(graph, n)) > 1}
    while True:
        halvings = _halvings(graph, rows)
        kept = {n: least for n in rows if (least := _fitting(graph, rows, halvings, n)) > 1}
        if kept == rows:
            return RowPacking(graph, rows, halvings)
        rows = kept


def _first_rows(graph: Graph, number: int) -> int:
    """Return the largest number of rows per group in which a node can be packed, or 1 if it cannot be packed."""
    node = graph.nodes[number]
    pool = node.operation.folded
    plain = is_plain(node) and node.convolution.pool_size == 1
    if not plain and not (isinstance(pool, MaxPool) and pool.kernel == (POOLED,) * 2 and _is_without_overlap(pool)):
        return 1
    if node.memory is not Memory.SBUF or node.output is not None or len(node.sources[0]) > 1 or _is_infinite(node):
        return 1
    is_pooled = any(graph.nodes[reader].operation.folded is not None for reader, _ in graph.readers(number))
    return _most_rows(node, divides=is_pooled or pool is not None)


def _is_infinite(node: Node) -> bool:
    """True if the zeros that fill up a group of 33 to 63 channels become infinite.

    In that case, the consumer would multiply infinity by 0.
    """
    channels, convolution = node.operation.channels, node.operation.convolved
    is_filled = channels > QUARTER and channels & (channels - 1) > 0
    return is_filled and convolution is not None and convolution.activation.name in NOT_OF_ZERO


def _halvings(graph: Graph, rows: dict[int, int]) -> dict[int, int]:
    """Return the number of consecutive pools that follow each packed node."""
    halvings = dict.fromkeys(rows, 0)
    for n in sorted(rows, reverse=True):
        pools = [reader for reader, _ in graph.readers(n) if reader in rows and graph.nodes[reader].operation.folded]
        halvings[n] = max((1 + halvings[reader] for reader in pools), default=0)
    return halvings


def _fitting(graph: Graph, rows: dict[int, int], halvings: dict[int, int], number: int) -> int:
    """Return the largest number of rows per group that a node's sources and consumers allow."""
    node, each = graph.nodes[number], rows[number]
    source, *addends = (parts[0] for parts in node.sources)
    is_pool = node.operation.folded is not None
    if not graph.readers(number) or (source not in rows and (is_pool or node.convolution.groups > 1)):
        return 1
    if is_pool:
        half = rows[source] // 2
        leaves_rows = graph.nodes[source].operation.rows != POOLED * node.operation.rows
        if leaves_rows or half * node.operation.channels % QUARTER:
            return 1
        each = min(each, half if halvings[number] else rows[source])
    for addend in addends:
        if halvings.get(addend) != halvings[number]:
            return 1
        each = min(each, rows[addend])
    read = (_read_by(graph, rows, halvings, number, reader) for reader, _ in graph.readers(number))
    return _whole_or_zeroed(node, min([each, *read]))


def _read_by(graph: Graph, rows: dict[int, int], halvings: dict[int, int], number: int, reader: int) -> int:
    """Return the largest number of rows per group with which one of a node's consumers can read the node's value."""
    operation = graph.nodes[reader].operation
    if operation.folded is not None:
        return 2 * rows[reader] if reader in rows and halvings[number] == halvings[reader] + 1 else 1
    if reader not in rows:
        is_alone = len(operation.sources[0]) == 1
        return rows[number] if is_alone and can_read(graph, rows, reader, number) else 1
    read = rows[reader] * (1 if (number,) in operation.sources[1:] else graph.nodes[reader].convolution.stride[0])
    return read & -read  # sizes are powers of two, and each group of the consumer begins with a group of its input
