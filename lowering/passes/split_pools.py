"""Separate pools from the convolutions that they are merged into, as packed rows require (pack_rows.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...kernels.program import MaxPool, Memory
from ..graph.graph import Graph, Node

POOLED = 2  # rows and columns of the windows of pools that are split off


def split_pools(graph: Graph, is_split: Callable[[Node], bool]) -> Graph:
    """Split pooled convolutions into a convolution and a pool of the same name, and pools of 4x4 into two pools."""
    new_nodes: list[Node] = []
    new_number: dict[int, int] = {}
    window = (POOLED, POOLED)
    for n, node in enumerate(graph.nodes):
        node = node.changed(
            sources=tuple(tuple(new_number.get(part, part) for part in parts) for parts in node.sources)
        )
        if is_split(node):
            operation = node.operation
            between = (operation.channels, POOLED * operation.rows, POOLED * operation.columns)
            fields = {"kernel": window, "stride": window} if operation.convolved is None else {"pool_size": 1}
            first = node.changed(rows=between[1], columns=between[2], **fields)
            new_nodes.append(replace(first, memory=Memory.SBUF, output=None, id=node.id.part("convolution")))
            pool = MaxPool(
                name=node.name,
                sources=((len(new_nodes) - 1,),),
                channels=operation.channels,
                rows=operation.rows,
                columns=operation.columns,
                is_fp8=operation.is_fp8,
                kernel=window,
                stride=window,
            )
            node = replace(node, operation=pool, before=between, filters=None, numbers=())
        new_nodes.append(node)
        new_number[n] = len(new_nodes) - 1
    return graph.with_nodes(new_nodes)
