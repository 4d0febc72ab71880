"""Split each pool of a whole image into a pool over columns and a pool over rows. The first can run in bands of rows.

A squeeze-and-excite gate reads the mean of a whole image, which may not fit in SBUF.
"""

from __future__ import annotations

from dataclasses import replace

from ..decisions import Decisions, Kind
from ..graph.graph import Graph, Node
from .base import SwitchedPass


class SplitMeans(SwitchedPass):
    """Splits pools of whole images in two, so that a region of bands can include the first part."""

    name = "split_means"
    needs = ("pack_rows",)
    kinds = (Kind.SPLIT_MEANS,)

    def change(self, graph: Graph, decisions: Decisions) -> Graph | None:
        """See `SwitchedPass`."""
        return split_means(graph)


def split_means(graph: Graph) -> Graph:
    """Split each pool of a whole image into two nodes of the same name."""
    new_nodes: list[Node] = []
    places: dict[int, int] = {}
    for n, node in enumerate(graph.nodes):
        node = node.changed(sources=tuple(tuple(places.get(part, part) for part in parts) for parts in node.sources))
        if is_of_whole_image(node):
            rows, columns = node.before[1:]
            across = node.changed(kernel=(1, columns), stride=(1, 1), rows=rows)
            new_nodes.append(replace(across, output=None, id=node.id.part("across")))
            node = replace(node, before=(node.before[0], rows, 1)).changed(
                kernel=(rows, 1), stride=(1, 1), sources=((len(new_nodes) - 1,),)
            )
        new_nodes.append(node)
        places[n] = len(new_nodes) - 1
    return graph.with_nodes(new_nodes)


def is_of_whole_image(node: Node) -> bool:
    """True if a node is the mean or the maximum of an image with several rows and columns."""
    window = (node.before[1], node.before[2])
    return node.operation.folds_all(window) and min(window) > 1
