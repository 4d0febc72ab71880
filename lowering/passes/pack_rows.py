"""Pack rows of an image along the partitions if it has few channels: two rows of 64 channels, or four rows of up to 32.

A value with C channels and H rows is stored as F C channels and H / F groups of F rows. Group r contains the rows from
F r - o to F r - o + F - 1, where o, the offset, is between 0 and F - 1. A convolution of such values is again a
convolution, whose filters map groups of rows to groups of rows. 3x3 filters compute F rows of outputs together, and
require two rows of taps instead of three if the offset changes from input to output. A depthwise filter becomes a dense
filter; the added zeros occupy only hardware that would otherwise be idle. All rows and columns of the Tensor Engine are
then in use, which also keeps its clock at full rate, and the engines that finish the sums use all their lanes.

An expansion is a convolution of a packed value whose only consumer is a depthwise convolution. It may be packed too,
together with the depthwise convolution and its gate. It then has one tile per 32 (or 64) channels, and each tile holds
four (or two) rows.

Values that are added, and values of 32 or 64 channels that are concatenated, may also be packed, with a common offset.

Rows above and below the image, which occur in groups with an offset, are set to zero: they are padding for the
consumers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from ..decisions import PACKED, Choice, Decisions, Kind
from ..graph.graph import Graph, Node
from .base import SwitchedPass
from .fill_with_rows import fill_with_rows
from .lanes import HALF
from .packable_rows import can_be_read, is_large, is_plain, is_positive, packable_rows, possible_rows
from .pad_channels import ALL, ALONE, pad_channels
from .row_packing import RowPacking, rows_of
from .split_partial_tiles import split_partial_tiles
from .split_pools import POOLED, split_pools


class PackRows(SwitchedPass):
    """Packs rows of an image along the partitions, in one of the ways below."""

    name = "pack_rows"
    needs = ("load_input",)
    kinds = (Kind.PACK_ROWS,)

    def offers(self, graph: Graph, decisions: Decisions, pictures: int) -> Sequence[Choice]:
        """See `Pass`."""
        return [Choice(Kind.PACK_ROWS, value=way) for way in PACKED]

    def change(self, graph: Graph, decisions: Decisions) -> Graph | None:
        """See `SwitchedPass`."""
        return WAYS[decisions.value(Kind.PACK_ROWS)](graph)


def pack_rows(graph: Graph) -> Graph:
    """Pack rows wherever nodes support it, with the offsets that require the fewest columns of matmuls."""
    separated, expanded = _split_others(graph)
    separated = split_pools(separated if expanded else graph, _is_split)
    packed = packable_rows(separated, expanded)
    return RowPacking(separated, packed).fastest() if packed else graph


def _pad_and_pack(which: str, graph: Graph) -> Graph | None:
    """Return a graph with wider values and packed rows, or None if no rows of wider values can be packed."""
    padded = pad_channels(graph, which=which)
    packed = None if padded is None else pack_rows(padded)
    return None if packed is padded else packed


def _fill(graph: Graph) -> Graph | None:
    """Return a graph whose partitions are filled with rows, or None if packing rows of expansions saves more
    matmuls."""
    _, expanded = _split_others(graph)
    return None if expanded else fill_with_rows(graph)


WAYS: dict[str, Callable[[Graph], Graph | None]] = dict(
    zip(PACKED, (partial(_pad_and_pack, ALL), partial(_pad_and_pack, ALONE), _fill, pack_rows), strict=True)
)


def _is_split(node: Node) -> bool:
    """True if a node is a pooled convolution of few channels, which becomes a convolution and a pool."""
    convolution = node.operation.convolved
    return (
        convolution is not None
        and convolution.pool_size == POOLED
        and is_plain(node)
        and is_large(node, rows_of(node))
        and convolution.channels == HALF
        and is_positive(node)
    )


def _split_others(graph: Graph) -> tuple[Graph, set[str]]:
    """Split off the tails of expansions that cannot be packed.

    Tails that no consumer supports are split off first, because others may then be packed. Return the graph, and the
    layers of the depthwise convolutions that can be packed.
    """
    names = {graph.nodes[n].name for n in _each(graph)}
    while True:
        possible = possible_rows(graph, names)
        unread = {
            graph.nodes[n].name
            for n in _each(graph, names)
            if n not in possible or not can_be_read(graph, possible, n, is_expanded=True)
        }
        if not unread:
            packed = packable_rows(graph, names)
            unread = {graph.nodes[n].name for n in _each(graph, names) if n not in packed}
            return split_partial_tiles(graph, _each(graph, unread)), names - unread
        names -= unread
        graph = split_partial_tiles(graph, _each(graph, unread))


def _each(graph: Graph, names: Collection[str] | None = None) -> list[int]:
    """Return the depthwise nodes of the named layers that have more channels than a value with packed rows may have."""
    each = [n for n, node in enumerate(graph.nodes) if node.is_depthwise() and rows_of(node) == 1]
    return [n for n in each if names is None or graph.nodes[n].name in names]
