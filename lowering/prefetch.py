"""Loads of weights that come before earlier operations than the one that multiplies them.

SBUF is given to what a program has in the order of the program. Where a load comes just before its own operation, it
waits until there is room for the values of all operations before it, whose turn may be long after. So loads come as
early in the program as SBUF has room for what they bring, beside what each operation until then needs.
"""

from __future__ import annotations

from dataclasses import replace

from ..kernels.program import Operation, OpId, Prefetch, Stage
from .emit import LoweredProgram
from .footprint import Footprint
from .weights import WeightLayout, itemsize_of_weights


def with_prefetches(emitted: LoweredProgram, layout: WeightLayout, budget_bytes: int) -> LoweredProgram:
    """Return a program whose weight loads are issued as early as values and weights fit into `budget_bytes` of a
    partition. Resident weights, and those of the first operation of a stage that has any, are loaded as before."""
    footprint = Footprint(emitted, layout)
    stages, first = [], 0
    for stage in emitted.program.stages:
        nodes = emitted.nodes[first : first + len(stage.operations)]
        held = [footprint.beside_weights(first + n) for n in range(len(nodes))]
        stages.append(replace(stage, prefetches=_early(stage, first, nodes, layout, held, budget_bytes)))
        first += len(nodes)
    return replace(emitted, program=replace(emitted.program, stages=tuple(stages)))


def _early(
    stage: Stage, first: int, nodes: tuple[int, ...], layout: WeightLayout, held: list[int], budget_bytes: int
) -> tuple[tuple[Prefetch, ...], ...]:
    """Return the loads that come before each operation of a stage, the first of which has the number `first`.

    `held`: bytes that each has beside its weights.
    """
    loading = [n for n, operation in enumerate(stage.operations) if _is_loading(operation)]
    early: list[list[Prefetch]] = [[] for _ in nodes]
    earliest = loading[0] + 1 if loading else 0
    for number in loading[1:]:
        operation, node = stage.operations[number], layout.graph.nodes[nodes[number]]
        assert operation.filtered is not None
        itemsize = itemsize_of_weights(layout.graph, node)
        for n, load in enumerate(operation.filtered.weights.loads):
            size = load.elements * itemsize
            place = number
            while place > earliest and held[place - 1] + size <= budget_bytes:
                place -= 1
            earliest = place
            held[place : number + 1] = [each + size for each in held[place : number + 1]]
            if place < number:
                early[place].append(Prefetch(OpId(first + number), n))
    return tuple(tuple(loads) for loads in early) if any(early) else ()


def _is_loading(operation: Operation) -> bool:
    return operation.filtered is not None and not operation.filtered.weights.are_resident
