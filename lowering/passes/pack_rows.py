"""Pack rows of an image along the partitions if it has few channels: two rows of 64 channels, or four rows of up to 32.

A value with C channels and H rows is stored as F C channels and H / F groups of F rows. Group r contains the rows from
F r - o to F r - o + F - 1, where o, the offset, is between 0 and F - 1. For example, an image of 9 rows and 32 channels
has three groups of F = 4 rows if the offset is 1; rows -1, 9 and 10 are zero:

    partitions  0 to 31  32 to 63  64 to 95  96 to 127
    group 0        -1        0         1         2
    group 1         3        4         5         6
    group 2         7        8         9        10

A convolution of such values is again a convolution, whose filters map groups of rows to groups of rows. 3x3 filters
compute F rows of outputs together, and require two rows of taps instead of three if the offset changes from input to
output: if the outputs have offset 0, their group 0 (rows 0 to 3) reads rows -1 to 4, which are in groups 0 and 1. A
depthwise filter becomes a dense filter; the added zeros occupy only hardware that would otherwise be idle. All rows and
columns of the Tensor Engine are then in use, which also keeps its clock at full rate, and the engines that finish the
sums use all their lanes.

An expansion is a convolution of a packed value whose only consumer is a depthwise convolution. It may be packed too,
together with the depthwise convolution and its gate. It then has one tile per 32 (or 64) channels, and each tile holds
four (or two) rows.

Values that are added, and values of 32 or 64 channels that are concatenated, may also be packed, with a common offset.

Rows above and below the image, which occur in groups with an offset, are set to zero: they are padding for the
consumers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ...kernels.program import NO_SIDES, Memory
from ...kernels.tiling.packing import ceil_div
from ...simulator.machine.chip import PARTITIONS
from ..decisions import PACKED, Choice, Decisions, Kind
from ..graph.graph import Graph, Node
from .base import SwitchedPass
from .lanes import HALF, QUARTER
from .pad_channels import NOT_OF_ZERO
from .row_packing import Offsets, RowPacking, is_sum, rows_of
from .split_partial_tiles import split_partial_tiles
from .split_pools import POOLED, split_pools

EXPANSIONS, FEW_CHANNELS = PACKED
FEWEST_GROUPS = 2  # with fewer groups of rows, there would be little to gain
MOST_FILLED = 1.125  # maximum ratio of rows in groups to rows of the image if a consumer computes single rows
MOST_COMBINATIONS = 64  # maximum number of combinations of offsets that are tried


class PackRows(SwitchedPass):
    """Packs rows, including those of expansions if that is chosen."""

    name = "pack_rows"
    needs = ("load_input", "pad_channels", "fill_with_rows")
    kinds = (Kind.PACK_ROWS,)

    def offers(self, graph: Graph, decisions: Decisions, pictures: int) -> Sequence[Choice]:
        """See `Pass`."""
        return [] if decisions.value(Kind.FILL_WITH_ROWS) else [Choice(Kind.PACK_ROWS, value=which) for which in PACKED]

    def worthwhile(self, graphs: Mapping[Decisions, Graph]) -> Sequence[Decisions]:
        """See `Pass`. Fewer matmuls are needed if the rows of expansions are packed too."""
        useful = [decisions for decisions, graph in graphs.items() if _is_useful(decisions, graph)]
        if any(decisions.value(Kind.PACK_ROWS) == EXPANSIONS for decisions in useful):
            return [decisions for decisions in useful if decisions.value(Kind.PACK_ROWS) != FEW_CHANNELS]
        return useful

    def change(self, graph: Graph, decisions: Decisions) -> Graph | None:
        """See `SwitchedPass`."""
        return pack_rows(graph, decisions.value(Kind.PACK_ROWS) == EXPANSIONS)


def _is_useful(decisions: Decisions, graph: Graph) -> bool:
    """True if choices have an effect on a graph: rows are packed, and channels are padded only if they are."""
    which = decisions.value(Kind.PACK_ROWS)
    if not which:
        return not decisions.value(Kind.PAD_CHANNELS)
    return has_packed_expansions(graph) if which == EXPANSIONS else has_packed_rows(graph)


def pack_rows(graph: Graph, with_expansions: bool = False) -> Graph:
    """Pack rows wherever nodes support it, with the offsets that require the fewest columns of matmuls."""
    expanded: set[str] = set()
    if with_expansions:
        graph, expanded = _split_others(graph)
    separated = split_pools(graph, _is_split)
    packed = _candidates(separated, expanded)
    if not packed:
        return graph
    return best_packing(RowPacking(separated, packed))


def best_packing(packing: RowPacking) -> Graph:
    """Return the packed graph with the offsets that require the fewest columns of matmuls."""
    graph, packed = packing.graph, packing.rows
    combinations: list[Offsets] = [{}]
    for n in sorted(packed):
        possible = packing.possible(n)
        if not packing.follows(n) and len(combinations) * len(possible) <= MOST_COMBINATIONS:
            combinations = [{**chosen, n: offset} for chosen in combinations for offset in possible]
    choices = [packing.offsets(chosen) for chosen in combinations]
    read = {n: node.sources[0][0] for n, node in enumerate(graph.nodes)}
    depending = [n for n in read if n in packed or read[n] in packed]
    known: dict[tuple[int, int | None, int | None], int] = {}  # keyed by node, offset and offset of the input

    def columns(offsets: Offsets, n: int) -> int:
        key = n, offsets.get(n), offsets.get(read[n])
        if key not in known:
            known[key] = packing.columns(offsets, n)
        return known[key]

    fewest = min(choices, key=lambda offsets: sum(columns(offsets, n) for n in depending))
    return graph.with_nodes(packing.packed(fewest, n) for n in range(len(graph.nodes)))


def has_packed_rows(graph: Graph) -> bool:
    """True if the rows of any convolution are packed."""
    operations = [node.operation.convolved for node in graph.nodes]
    return any(each.row_fold.count > 1 for each in operations if each is not None)


def has_packed_expansions(graph: Graph) -> bool:
    """True if the rows of any expansion are packed."""
    operations = [node.operation.convolved for node in graph.nodes]
    return any(each.row_fold.count > 1 < each.groups for each in operations if each is not None)


def _is_split(node: Node) -> bool:
    """True if a node is a pooled convolution with few channels, which becomes a convolution and a pool."""
    convolution = node.operation.convolved
    return (
        convolution is not None
        and convolution.pool_size == POOLED
        and is_plain(node)
        and _is_large(node, rows_of(node))
        and convolution.channels == HALF
        and _is_positive(node)
    )


def is_plain(node: Node) -> bool:
    """True if a node is a convolution whose rows can be packed by changing its filters."""
    operation = node.operation.convolved
    if operation is None:
        return False
    return operation.dilation[0] == 1 and all(len(parts) == 1 for parts in operation.sources)


def _is_large(node: Node, rows: int) -> bool:
    return node.operation.rows >= FEWEST_GROUPS * rows


def _is_positive(node: Node) -> bool:
    """True if a node's value is never negative, so that a blank row cannot be a maximum."""
    convolution = node.operation.convolved
    return node.operation.folded is not None or (convolution is not None and convolution.activation.name == "relu")


def _split_others(graph: Graph) -> tuple[Graph, set[str]]:
    """Split off the tails of expansions that cannot be packed.

    Tails that no consumer supports are split off first, because others may then be packed. Return the graph, and the
    layers of the depthwise convolutions that can be packed.
    """
    names = {graph.nodes[n].name for n in _wide_depthwise(graph)}
    while True:
        possible = _packable_alone(graph, names)
        unread = {
            graph.nodes[n].name
            for n in _wide_depthwise(graph, names)
            if n not in possible or not _can_be_read(graph, possible, n, is_expanded=True)
        }
        if not unread:
            packed = _candidates(graph, names)
            unread = {graph.nodes[n].name for n in _wide_depthwise(graph, names) if n not in packed}
            return split_partial_tiles(graph, _wide_depthwise(graph, unread)), names - unread
        names -= unread
        graph = split_partial_tiles(graph, _wide_depthwise(graph, unread))


def _wide_depthwise(graph: Graph, names: Collection[str] | None = None) -> list[int]:
    """Return the depthwise nodes of the named layers that have more channels than a value with packed rows may have."""
    each = [n for n, node in enumerate(graph.nodes) if node.is_depthwise() and rows_of(node) == 1]
    return [n for n in each if names is None or graph.nodes[n].name in names]


def _candidates(graph: Graph, names: Collection[str]) -> dict[int, int]:
    """Return the rows per group of each node whose rows can be packed and whose consumers all support packed rows.

    `names`: the depthwise layers with more channels that may be included.
    """
    possible = _packable_alone(graph, names)
    expanded = {n for n in possible if rows_of(graph.nodes[n]) == 1}
    while True:
        kept = {
            n: each
            for n, each in possible.items()
            if _can_compute(graph, possible, n, n in expanded) and _can_be_read(graph, possible, n, n in expanded)
        }
        if kept == possible:
            return possible
        possible = kept


def _packable_alone(graph: Graph, names: Collection[str]) -> dict[int, int]:
    """Return the rows per group of each node whose rows can be packed, provided that the rows of its sources and
    consumers can be packed too."""
    rows = {n: rows_of(node) for n, node in enumerate(graph.nodes) if rows_of(node) > 1}
    expanded = _expansions(graph, rows, names)
    packable: dict[int, int] = {}
    for n, each in sorted({**rows, **expanded}.items()):
        node = graph.nodes[n]
        if node.memory is not Memory.SBUF or node.output is not None or not _is_large(node, each):
            continue
        plain = _is_packable(node) and getattr(node.operation, "pool_size", 1) == 1
        if names and node.operation.convolved is not None:
            plain = _can_compute_groups(node, packable, each)
        if names and _is_one_of_parts(graph, n):
            continue
        is_packable = plain or _is_row_pool(node) or _is_gated(graph, n) or is_sum(node)
        if is_packable and not _reads_larger_groups(node, packable, each):
            packable[n] = each
    return packable


def _is_packable(node: Node) -> bool:
    """True if a node is a plain convolution, whose first operand may have several parts."""
    operation = node.operation.convolved
    if operation is None or operation.dilation[0] > 1:
        return False
    parts, *addends = operation.sources
    return (len(parts) == 1 or operation.groups == 1) and all(len(addend) == 1 for addend in addends)


def _reads_larger_groups(node: Node, found: dict[int, int], each: int) -> bool:
    """True if a convolution of several parts cannot compute groups of `each` rows from the groups of its parts.

    It then computes single rows, and its parts remain packed.
    """
    operation = node.operation.convolved
    parts = node.sources[0]
    if operation is None or len(parts) == 1:
        return False
    return all(part in found for part in parts) and operation.stride[0] * each % found[parts[0]] > 0


def _is_one_of_parts(graph: Graph, number: int) -> bool:
    """True if a node's value is read as one operand together with other values."""
    return any(len(graph.nodes[n].sources[operand]) > 1 for n, operand in graph.readers(number))


def _can_compute_groups(node: Node, found: dict[int, int], each: int) -> bool:
    """True if a convolution can compute groups of rows although only some of its inputs are in groups.

    Otherwise, it reads groups and computes single rows.
    """
    operation, parts = node.convolution, node.sources[0]
    read = [part for part in parts if part in found]
    if operation.pool_size > 1 or (len(parts) > 1 and read) or (operation.groups > 1 and not read):
        return False
    if not _is_packable(node):
        return False
    return operation.stride[0] * each % found.get(parts[0], 1) == 0


def _expansions(graph: Graph, rows: dict[int, int], names: Collection[str]) -> dict[int, int]:
    """Return the rows per group of expansions (convolutions of packed values that feed depthwise convolutions), of the
    depthwise convolutions, and of their gates. All of these have more channels than other values with packed rows may
    have."""
    packable: dict[int, int] = {}
    for n, node in enumerate(graph.nodes):
        operation, source = node.operation, node.sources[0][0]
        if operation.is_product and source in packable and _is_gated(graph, n):
            packable[n] = packable[source]
        if node.name not in names or not node.is_depthwise() or n in rows or source < 0:
            continue
        feeding = graph.nodes[source].operation.convolved
        if feeding is None:
            continue
        if (
            feeding.groups > 1
            or len(feeding.sources) > 1
            or feeding.sources[0][0] not in rows
            or graph.readers(source) != [(n, 0)]
        ):
            continue
        if not {feeding.activation.name, node.convolution.activation.name} & set(NOT_OF_ZERO):
            packable[source] = packable[n] = rows[feeding.sources[0][0]]
    return packable


def _is_row_pool(node: Node) -> bool:
    """True if a node is a pool that can read groups of two rows."""
    operation = node.operation.folded
    if operation is None or operation.dilation[0] > 1 or getattr(operation, "ceil_mode", False):
        return False
    moves = operation.kernel[0] in (2, 3) and operation.stride[0] == 2
    return moves and len(operation.sources[0]) == 1 and operation.channels == HALF


def _can_compute(graph: Graph, packed: dict[int, int], number: int, is_expanded: bool) -> bool:
    node = graph.nodes[number]
    operation = node.operation
    is_read_packed = is_expanded or operation.folded is not None or operation.is_product
    is_read_packed = is_read_packed or getattr(operation, "groups", 1) > 1
    if is_read_packed and operation.sources[0][0] not in packed:
        return False
    if is_sum(node):
        return all(packed.get(part) == packed[number] for (part,) in operation.sources)
    addends = operation.sources[1:] if operation.convolved is not None else ()
    alike = len({packed.get(part) for part in operation.sources[0]}) == 1
    return alike and all(packed.get(parts[0]) == packed[number] for parts in addends)


def _can_be_read(graph: Graph, packed: dict[int, int], number: int, is_expanded: bool) -> bool:
    readers = [n for n, _ in graph.readers(number)]
    # each row begins at a partition at which engines can start to write
    blanks = is_expanded or graph.nodes[number].operation.channels in (QUARTER, HALF)

    def is_one_row(n: int) -> bool:
        operation = graph.nodes[n].operation
        top, _, bottom, _ = getattr(operation, "padding", NO_SIDES)
        return top == bottom == 0 and getattr(operation, "kernel", (1, 1))[0] == 1

    def reads(n: int) -> bool:
        return (blanks or is_one_row(n)) and can_read(graph, packed, n, number)

    return bool(readers) and all(map(reads, readers))


def _is_gated(graph: Graph, number: int) -> bool:
    """True if a node multiplies each channel by a squeeze-and-excite gate, a convolution with no other consumer."""
    operation = graph.nodes[number].operation
    if not operation.is_product:
        return False
    if any(len(parts) > 1 for parts in operation.sources):
        return False
    gate = operation.sources[1][0]
    if gate < 0 or len(graph.readers(gate)) > 1:
        return False
    node = graph.nodes[gate]
    return node.is_squeezed and node.operation.convolved is not None and node.memory is Memory.SBUF


def _is_mean(graph: Graph, number: int) -> bool:
    """True if a node is the mean of a whole image and only convolutions read it."""
    node = graph.nodes[number]
    operation = node.operation
    if not operation.is_mean or not operation.folds_all((node.before[1], node.before[2])):
        return False
    return all(graph.nodes[n].is_squeezed for n, _ in graph.readers(number))


def can_read(graph: Graph, packed: dict[int, int], reader: int, number: int) -> bool:
    """True if a node can read groups of rows and compute groups or, if it is not packed, single rows."""
    node = graph.nodes[reader]
    if node.operation.convolved is not None:
        return _can_convolve(graph, packed, reader, number)
    if _is_row_pool(node):
        return _is_positive(graph.nodes[number])
    if is_sum(node):
        return reader in packed
    if node.operation.is_product:
        return reader in packed and node.sources[0] == (number,)
    return node.sources == ((number,),) and _is_mean(graph, reader)


def _can_convolve(graph: Graph, packed: dict[int, int], reader: int, number: int) -> bool:
    """True if a convolution can read groups of rows."""
    node = graph.nodes[reader]
    operation, (parts, *addends) = node.convolution, node.sources
    if operation.dilation[0] > 1 or any(len(addend) > 1 for addend in addends):
        return False
    if len(parts) > 1 and (operation.groups > 1 or not _fill_alike(graph, packed, parts)):
        return False
    rows, stride = packed[number], operation.stride[0]
    if reader in packed:
        return stride * packed[reader] % rows == 0
    if operation.groups > 1 or (number,) in addends:
        return False
    if stride % rows == 0 or operation.rows * operation.pool_size == 1:
        return True
    whole_tiles = operation.channels <= PARTITIONS or operation.channels % PARTITIONS == 0
    single = operation.pool_size == 1 and node.memory is Memory.SBUF
    return rows % stride == 0 and whole_tiles and single and _fills(operation.rows, rows // stride)


def _fill_alike(graph: Graph, packed: dict[int, int], parts: Collection[int]) -> bool:
    """True if all parts are packed alike and fill the partitions; with fewer channels there is little to gain."""
    are_full = all(graph.shape_of(part)[0] in (QUARTER, HALF) for part in parts)
    rows = {packed.get(part) for part in parts}
    return are_full and len(rows) == 1 and None not in rows


def _fills(rows: int, each: int) -> bool:
    """True if nearly all rows of the groups of `each` rows belong to the image."""
    return ceil_div(rows, each) * each <= rows * MOST_FILLED
