"""Optimize squeeze-and-excite gates and network heads, which compute only one number per channel but require many slow
instructions.

A mean over a whole image is replaced with a sum if it is read only by 1x1 convolutions of 1x1 images: their filters are
divided by the number of pixels instead. Gates are marked so that all channels can be computed at once
(kernels/operations/gates.py).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...kernels.program import Memory
from .graph import Graph, Node


def find_gates(graph: Graph) -> Graph:
    """Mark convolutions as per-channel gates if their output is a single pixel and only elementwise combinations with
    larger values read it."""
    return graph.with_nodes(
        node.changed(is_gate=True) if _is_gate(graph, number) else node for number, node in enumerate(graph.nodes)
    )


def sum_means(graph: Graph) -> Graph:
    """Replace means over whole images with sums if this changes only the filters of their consumers.

    Not used in float16, in which sums may overflow.
    """
    nodes = list(graph.nodes)
    for number, node in enumerate(graph.nodes):
        if _is_divided_later(graph, number):
            nodes[number] = node.changed(is_sum=True)
            for reader, _ in graph.readers(number):
                nodes[reader] = _divided(nodes[reader], node.before[1] * node.before[2])
    return graph.with_nodes(nodes)


def _is_gate(graph: Graph, number: int) -> bool:
    node = graph.nodes[number]
    operation = node.operation.convolved
    if operation is None or node.memory is not Memory.SBUF or node.output is not None:
        return False
    if (operation.rows, operation.columns) != (1, 1) or not graph.readers(number):
        return False
    return all(_is_by_channel(graph.nodes[reader], number, operand) for reader, operand in graph.readers(number))


def _is_by_channel(reader: Node, number: int, operand: int) -> bool:
    """True if a node combines its first operand with per-channel numbers, which are the value of node `number`."""
    operation = reader.operation
    if not operation.combines or operand != 1 or operation.sources[1] != (number,):
        return False
    return operation.rows * operation.columns > 1


def _is_divided_later(graph: Graph, number: int) -> bool:
    node = graph.nodes[number]
    operation = node.operation
    if not operation.is_mean or not operation.folds_all((node.before[1], node.before[2])):
        return False
    readers = [graph.nodes[reader] for reader, _ in graph.readers(number)]
    is_read_alone = bool(readers) and all(
        each.is_squeezed and each.operation.sources == ((number,),) for each in readers
    )
    return is_read_alone and node.output is None and (operation.rows, operation.columns) == (1, 1)


def _divided(node: Node, elements: int) -> Node:
    assert node.filters is not None
    share = np.float32(1 / elements)
    return replace(node, filters=node.filters.times(share))
