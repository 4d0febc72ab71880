"""Pack images along the partitions: filters become block-diagonal, and outputs of all images are computed together.

As the number of channels grows, fewer images fit; a tile of outputs then contains every r-th image (`OutputOrder`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...kernels.program import Packing
from ...simulator.machine.chip import PARTITIONS, PSUM_BANK_FLOATS
from ..decisions import Ask, Choice, Decisions, Kind
from ..graph.filters import ungrouped
from ..graph.graph import Graph, Node
from .base import Pass

MOST_IMAGES = 16
FEWEST_PICTURES = 4  # smaller batches may be padded with blank pictures to keep the Tensor Engine's clock rate high


class PackImages(Pass):
    """Packs several images along the partitions."""

    name = "pack_images"
    needs = ("load_taps",)
    kinds = (Kind.PACK_IMAGES,)

    def apply(self, graph: Graph, decisions: Decisions, ask: Ask) -> Graph:
        """See `Pass`."""
        return pack_images(graph, decisions.value(Kind.PACK_IMAGES, default=1))

    def offers(self, graph: Graph, decisions: Decisions, pictures: int) -> Sequence[Choice]:
        """See `Pass`."""
        if decisions.value(Kind.FILL_WITH_ROWS):
            return []
        return [Choice(Kind.PACK_IMAGES, value=images) for images in choices_of(graph, pictures)]


def choices_of(graph: Graph, batch: int) -> list[int]:
    """Return the numbers of images greater than 1 that may be packed in the input.

    Features are transposed instead of packed. Values that another launch left in HBM cannot be padded with blank
    pictures.
    """
    if graph.image[1:] == (1, 1):
        return []
    choices = [2**n for n in range(1, MOST_IMAGES.bit_length()) if 2**n < 4 * max(batch, FEWEST_PICTURES)]
    choices = [images for images in choices if graph.from_host or batch % images == 0]
    return [images for images in choices if _can_pack(graph, images)]


def pack_images(graph: Graph, images: int) -> Graph:
    """Pack `images` images in the input, and as many of them as fit in the value of each node."""
    if images == 1:
        return graph
    packed = replace(graph, packed=images).with_nodes(
        node.changed(packed=count) for node, count in zip(graph.nodes, _packed_values(graph, images))
    )
    return packed.with_nodes(_ungrouped(packed, node) for node in packed.nodes)


def _ungrouped(graph: Graph, node: Node) -> Node:
    """Return a convolution of packed images whose filters are zero for the channels of other groups: the diagonal
    blocks of its filters correspond to images instead of groups."""
    filtered = node.operation.filtered
    if filtered is None or filtered.filter_groups == 1 or graph.packed_in(node) == 1:
        return node
    assert node.filters is not None
    return replace(node, filters=ungrouped(node.filters, filtered.filter_groups)).changed(groups=1)


def _can_pack(graph: Graph, images: int) -> bool:
    """True if this number of images fits in the input, and in the value of each node."""
    if images * max(graph.image[0], graph.nodes[0].operation.channels) > PARTITIONS:
        return False
    packed = _packed_values(graph, images)
    if any(packed[n] > 1 and len(graph.pieces((n,))) > 1 for n in graph.outputs):
        return False  # in HBM, the channels of an image are contiguous
    count = {**dict.fromkeys(range(-len(graph.inputs), 0), images), **dict(enumerate(packed))}
    return all(
        _can_read(graph, node, packed_images, [{count[part] for part in parts} for parts in node.sources])
        for node, packed_images in zip(graph.nodes, packed)
    )


def _can_read(graph: Graph, node: Node, own: int, of_operands: Sequence[set[int]]) -> bool:
    """True if a node with `own` images packed in its value can read operands with the given numbers of packed
    images."""
    operation = node.operation
    if len(of_operands[0]) > 1 or any(each != {own} for each in of_operands[operation.filtered is not None :]):
        return False
    (of_input,) = of_operands[0]
    if operation.filtered is not None and operation.filtered.output_tiles(of_input, PARTITIONS)[0] > PSUM_BANK_FLOATS:
        return False
    if of_input == 1:
        return True
    whole_tiles = operation.channels <= PARTITIONS or operation.channels % PARTITIONS == 0
    in_pieces = operation.packing is Packing.IN_ONE_PIECE and len(graph.pieces(operation.sources[0])) > 1
    return operation.packing is not Packing.NONE and whole_tiles and not in_pieces


def _packed_values(graph: Graph, images: int) -> list[int]:
    """Return the number of images packed in the value of each node: at most the number in its input, and equal for all
    nodes whose channels are concatenated."""
    most = [images] * len(graph.nodes)
    while True:
        packed = _at_most(graph, images, most)
        most = _equal_in_parts(graph, images, packed)
        if most == packed:
            return packed


def _equal_in_parts(graph: Graph, images: int, packed: Sequence[int]) -> list[int]:
    """Return the numbers of packed images, reduced to the smallest of the parts of each operand."""
    fewest = list(packed)
    several = [parts for node in graph.nodes for parts in node.sources if len(parts) > 1]
    for parts in several:
        least = min(images if part < 0 else fewest[part] for part in parts)
        fewest = [least if number in parts else count for number, count in enumerate(fewest)]
    return fewest


def _at_most(graph: Graph, images: int, most: Sequence[int]) -> list[int]:
    packed: list[int] = []
    for node, own in zip(graph.nodes, most):
        part = node.sources[0][0]
        own = min(own, images if part < 0 else packed[part])
        while not node.operation.has_answers and own > 1 and own * node.operation.channels > PARTITIONS:
            own //= 2
        packed.append(own)
    return packed
