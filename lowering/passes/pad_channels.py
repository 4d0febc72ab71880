"""Zero-pad values with few channels to a quarter or half of the partitions, so that rows of an image can be packed.

Engines can only write tiles that begin at a multiple of a quarter of the partitions. A second row that begins at such a
partition does not fit after a row of 40 channels, but it does after a row padded to 64 channels. The zeros are computed
on rows and columns of the Tensor Engine that would otherwise be idle. Values that are added are padded in the same way;
filters that read concatenated values have zeros between the channels of the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ..decisions import PADDED, Choice, Decisions, Kind
from ..graph.graph import Graph, Node
from .base import SwitchedPass
from .lanes import HALF, QUARTER
from .row_packing import is_sum

ALL, ALONE = PADDED
FEWEST_CHANNELS = 9  # with fewer channels, more than four rows would have to be packed
NOT_OF_ZERO = ("log", "reciprocal", "power")  # may be infinite at 0, which zero weights do not cancel


class PadChannels(SwitchedPass):
    """Pads channels so that rows can be packed."""

    name = "pad_channels"
    needs = ("load_input",)
    kinds = (Kind.PAD_CHANNELS,)

    def offers(self, graph: Graph, decisions: Decisions, pictures: int) -> Sequence[Choice]:
        """See `Pass`."""
        wide = {which: _wide(graph, _zeros, which) for which in PADDED}
        if wide[ALL] == wide[ALONE]:
            del wide[ALONE]
        return [Choice(Kind.PAD_CHANNELS, value=which) for which, nodes in wide.items() if nodes]

    def change(self, graph: Graph, decisions: Decisions) -> Graph | None:
        """See `SwitchedPass`."""
        return pad_channels(graph, which=decisions.value(Kind.PAD_CHANNELS))


def pad_channels(graph: Graph, zeros: Callable[[int], int] | None = None, which: str = ALL) -> Graph | None:
    """Pad the channels of nodes whose consumers all support more channels; return None if there are no such nodes.

    `zeros` returns the number of zeros for a number of channels; by default, up to a quarter or half of the partitions.
    `which`: ALL values, or values that are neither added nor stacked (ALONE).
    """
    zeros = zeros or _zeros
    wide = _wide(graph, zeros, which)
    if not wide:
        return None
    padded: list[Node] = []
    for n, node in enumerate(graph.nodes):
        parts = [(graph.shape_of(part)[0], part in wide) for part in node.sources[0]]
        more_in = [(channels, zeros(channels) if is_wide else 0) for channels, is_wide in parts]
        padded.append(_with_zeros(node, more_in, zeros(node.operation.channels) if n in wide else 0))
    return graph.with_nodes(padded)


def _wide(graph: Graph, zeros: Callable[[int], int], which: str) -> set[int]:
    wide = {n for n, node in enumerate(graph.nodes) if zeros(node.operation.channels) > 0 and _may(node)}
    if which == ALONE:
        wide = {n for n in wide if not _is_combined(graph, n)}
    wide -= set(graph.outputs)
    while True:
        kept = {n for n in wide if _fits(graph, wide, n)}
        if kept == wide:
            return wide
        wide = kept


def _is_combined(graph: Graph, number: int) -> bool:
    """True if a node is a sum or reads stacked values, or if its value is added or stacked."""
    readers = [(graph.nodes[n], operand) for n, operand in graph.readers(number)]
    node = graph.nodes[number]
    return (
        is_sum(node)
        or len(node.sources[0]) > 1
        or any(is_sum(reader) or len(reader.sources[operand]) > 1 for reader, operand in readers)
    )


def _zeros(channels: int) -> int:
    """Return the number of zeros with which channels are padded."""
    if FEWEST_CHANNELS <= channels <= QUARTER:
        return QUARTER - channels
    return HALF - channels if QUARTER < channels <= HALF else 0


def _may(node: Node) -> bool:
    """True if a node's channels may include zeros."""
    operation = node.operation
    convolution = operation.convolved
    if convolution is not None:
        full = convolution.groups == 1 or (node.is_depthwise() and len(operation.sources[0]) == 1)
        return full and convolution.activation.name not in NOT_OF_ZERO
    alone = all(len(parts) == 1 for parts in operation.sources)
    return alone and (operation.is_mean or operation.folded is not None or is_sum(node))


def _fits(graph: Graph, wide: set[int], number: int) -> bool:
    """True if all operands that a node combines elementwise have the same number of channels, and its consumers support
    additional channels."""
    node = graph.nodes[number]
    mixes = node.operation.convolved is not None and not node.is_depthwise()
    as_it_is = node.sources[1:] if mixes else node.sources
    if not all(len(parts) == 1 and parts[0] in wide for parts in as_it_is):
        return False
    return all(n in wide or _can_read(graph.nodes[n], number) for n, _ in graph.readers(number))


def _can_read(node: Node, number: int) -> bool:
    """True if a node can read additional channels by means of zeros in its filters."""
    operation = node.operation
    plain = operation.filtered is not None and operation.filtered.filter_groups == 1
    return plain and all(number not in parts for parts in operation.sources[1:])


def _with_zeros(node: Node, parts: Sequence[tuple[int, int]], more_out: int) -> Node:
    """Return a node that reads and computes more channels, which are zero; `parts`: the channels of each part of its
    first operand, and the zeros that follow them."""
    operation = node.operation
    grouped = node.is_depthwise()
    more_in = sum(zeros for _, zeros in parts)
    filters = node.filters
    if filters is not None:
        outputs, inputs, *window = filters.shape
        shape = (outputs + more_out, inputs + (0 if grouped else more_in), *window)
        filters = filters.changed(shape, lambda array: _spread(array, [(inputs, 0)] if grouped else parts, more_out))
    padded = replace(
        node,
        before=(node.before[0] + more_in, *node.before[1:]),
        filters=filters,
        numbers=tuple(np.pad(numbers, (0, more_out)) for numbers in node.numbers),
    )
    fields = {"groups": operation.channels + more_out} if grouped else {}
    return padded.changed(channels=operation.channels + more_out, **fields)


def _spread(filters: np.ndarray, parts: Sequence[tuple[int, int]], more_out: int) -> np.ndarray:
    """Return filters with zeros after the input channels of each part, and after the output channels."""
    ends = np.cumsum([channels for channels, _ in parts])
    filters_of_parts = np.split(filters, ends[:-1], axis=1)
    rest = [(0, 0)] * (filters.ndim - 2)
    padded = [
        np.pad(own, [(0, more_out), (0, zeros), *rest]) for own, (_, zeros) in zip(filters_of_parts, parts, strict=True)
    ]
    return np.concatenate(padded, axis=1)
