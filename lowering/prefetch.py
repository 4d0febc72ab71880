"""Prefetch weights: issue each load one or more operations before the operation that uses the weights.

SBUF is allocated in program order. A load that directly precedes its operation waits until the values of all earlier
operations fit, although these may be written much later. Therefore each load is issued as early in the program as SBUF
can hold its weights in addition to the memory of every operation in between.
"""

from __future__ import annotations

from dataclasses import replace

from ..kernels.program import OpId, Prefetch, Stage
from .emit import LoweredProgram
from .footprint import Footprint
from .graph import Graph
from .weights import WeightLayout, itemsize_of_weights


def with_prefetches(emitted: LoweredProgram, layout: WeightLayout, budget_bytes: int) -> LoweredProgram:
    """Return a program whose weight loads are issued as early as `budget_bytes` of a partition allow.

    Resident weights are loaded as before, as are the weights of the first operation that loads any in each stage.
    """
    footprint = Footprint(emitted, layout)
    stages, first = [], 0
    for stage in emitted.program.stages:
        nodes = emitted.nodes[first : first + len(stage.operations)]
        held = [footprint.beside_weights(first + n) for n in range(len(nodes))]
        stages.append(replace(stage, prefetches=_early(stage, first, nodes, layout.graph, held, budget_bytes)))
        first += len(nodes)
    return replace(emitted, program=replace(emitted.program, stages=tuple(stages)))


def _early(
    stage: Stage, first: int, nodes: tuple[int, ...], graph: Graph, held: list[int], budget_bytes: int
) -> tuple[tuple[Prefetch, ...], ...]:
    """Return the loads to issue before each operation of a stage; `first` is the number of the stage's first operation.

    `held`: the bytes that each operation requires in addition to its weights; updated with the prefetched weights.
    """
    early: list[list[Prefetch]] = [[] for _ in nodes]
    loads = _loads(stage)
    earliest = loads[0][0] + 1 if loads else 0
    for number, index, elements in [load for load in loads if load[0] >= earliest]:
        size = elements * itemsize_of_weights(graph, graph.nodes[nodes[number]])
        place = number
        while place > earliest and held[place - 1] + size <= budget_bytes:
            place -= 1
        earliest = place
        held[place : number + 1] = [each + size for each in held[place : number + 1]]
        if place < number:
            early[place].append(Prefetch(OpId(first + number), index))
    return tuple(tuple(each) for each in early) if any(early) else ()


def _loads(stage: Stage) -> list[tuple[int, int, int]]:
    """Return (operation, index among its loads, elements per partition) of each load of weights that are not
    resident."""
    return [
        (number, index, load.elements)
        for number, operation in enumerate(stage.operations)
        if operation.filtered is not None and not operation.filtered.weights.are_resident
        for index, load in enumerate(operation.filtered.weights.loads)
    ]
