"""Load the input with a separate operation.

For a small image, the columns of the filter become channels; other inputs are loaded unchanged.

A convolution of C channels with filters that are kw columns wide is equivalent to a convolution of kw * C channels (the
image and its copies, each shifted left by one more column) with filters of one column. The copies require no memory in
HBM: because the host adds the zero padding, a DMA can read the same rows again starting at the next column, in
contiguous runs as long as an image. A single DMA thus loads everything that a row of the filter reads.
"""

from __future__ import annotations

from dataclasses import replace

from ...kernels.program import LAUNCH_INPUT, NO_SIDES, Load, TapsLoad
from ...simulator.machine.chip import PARTITIONS
from ..decisions import Ask, Decisions
from ..graph.arrangement import Arrangement
from ..graph.graph import Graph, Node, prepend
from .base import Pass
from .stream_input import WHOLE_BYTES

FEWEST_CHANNELS = 8  # this many channels are always allowed; at most 16 images are packed


class LoadInput(Pass):
    """Adds a separate load for an input that no convolution loads."""

    name = "load_input"

    def apply(self, graph: Graph, decisions: Decisions, ask: Ask) -> Graph:
        """See `Pass`."""
        return load_input(graph)


class LoadTaps(Pass):
    """Loads a small image with few channels, with the columns of the filter as channels."""

    name = "load_taps"
    needs = ("load_input", "pad_channels", "pack_rows", "split_phases", "split_means")

    def apply(self, graph: Graph, decisions: Decisions, ask: Ask) -> Graph:
        """See `Pass`."""
        return load_taps(graph)


def load_input(graph: Graph) -> Graph:
    """Load an input unchanged.

    No load is added if the input is only the first operand of one convolution or is split in HBM.
    """
    readers = graph.readers(LAUNCH_INPUT)
    if all(graph.nodes[number].operation.moves_numbers for number, _ in readers):
        return graph
    if len(readers) == 1 and readers[0][1] == 0:
        reader = graph.nodes[readers[0][0]]
        if (reader.operation.reads_hbm or reader.operation.is_load) and reader.sources[0] == (LAUNCH_INPUT,):
            return graph
    channels, rows, columns = graph.image
    load = Load(name=graph.nodes[0].name, sources=((LAUNCH_INPUT,),), channels=channels, rows=rows, columns=columns)
    node_id = graph.nodes[0].id.part("load")
    return graph.with_nodes(
        prepend(Node(load, "load", graph.image, (graph.image, graph.image), id=node_id), graph.nodes)
    )


def load_taps(graph: Graph) -> Graph:
    """Load a small image with few channels, with the columns of the filter as channels."""
    first = graph.nodes[0]
    operation = first.operation.convolved
    if operation is None or not graph.from_host or graph.readers(LAUNCH_INPUT) != [(0, 0)]:
        return graph
    channels = operation.kernel[1] * graph.image[0]
    top, left, bottom, right = operation.padding
    image = (graph.image[0], graph.image[1] + top + bottom, graph.image[2] + left + right)
    few = channels <= max(FEWEST_CHANNELS, operation.channels) and channels <= PARTITIONS
    small = image[1] * image[2] * graph.itemsize <= WHOLE_BYTES
    if operation.groups > 1 or operation.sources[0] != (LAUNCH_INPUT,) or operation.kernel[1] == 1:
        return graph
    if not few or not small:
        return graph
    assert first.filters is not None
    loaded = (channels, *image[1:])
    load = TapsLoad(
        name=first.name,
        sources=((LAUNCH_INPUT,),),
        channels=channels,
        rows=image[1],
        columns=image[2],
        kernel_columns=operation.kernel[1],
        dilation=operation.dilation[1],
    )
    shape = (len(first.filters), channels, operation.kernel[0], 1)
    filters = first.filters.changed(shape, lambda array: array.transpose(0, 3, 1, 2).reshape(shape))
    convolution = replace(first, before=loaded, filters=filters).changed(
        kernel=(operation.kernel[0], 1), padding=NO_SIDES
    )
    arrangement = Arrangement(operation.padding) if any(operation.padding) else graph.arrangement
    return replace(
        graph,
        nodes=tuple(
            prepend(
                Node(load, "load", image, (image, loaded), id=first.id.part("load")), (convolution, *graph.nodes[1:])
            )
        ),
        image=image,
        arrangement=arrangement,
    )
