"""Reorder nodes so that copies through HBM run as early as possible, while other nodes compute."""

from __future__ import annotations

from .graph import Graph


def copies_first(graph: Graph) -> Graph:
    """Return a graph in which every copy through HBM precedes all nodes that it does not depend on."""
    order = list(range(len(graph.nodes)))
    for number in (n for n, node in enumerate(graph.nodes) if node.operation.moves_numbers):
        needed, left = {number}, [number]
        while left:
            parts = [part for parts in graph.nodes[left.pop()].sources for part in parts]
            left += [part for part in parts if part >= 0 and part not in needed]
            needed.update(left)
        end = order.index(number) + 1
        before = order[:end]
        order[:end] = [n for n in before if n in needed] + [n for n in before if n not in needed]
    if order == sorted(order):
        return graph
    places = {number: position for position, number in enumerate(order)}
    reordered = [
        graph.nodes[n].changed(
            sources=tuple(tuple(places.get(part, part) for part in parts) for parts in graph.nodes[n].sources)
        )
        for n in order
    ]
    return graph.with_nodes(reordered)
