"""Estimate how many bytes per SBUF partition a program needs, to prune candidates before they are timed."""

from __future__ import annotations

from functools import cached_property

from ...kernels.program import (
    Memory,
    Operation,
    Stage,
    Surroundings,
)
from ...kernels.tiling.packing import ceil_div
from ...simulator.instructions.checks import MAX_STRIDE
from ...simulator.machine.chip import PARTITIONS, PSUM_BANK_BYTES
from ..emission.emit import LoweredProgram
from ..emission.weights import WeightLayout

UNREACHABLE = 1 << 40  # bytes charged if the distance between images exceeds the largest stride of an instruction
SCRATCH_BYTES = 12 * 1024  # bytes for sums copied from PSUM and other short-lived tiles


class Footprint:
    """The memory that each operation of a program requires."""

    def __init__(self, emitted: LoweredProgram, layout: WeightLayout) -> None:
        self._emitted, self._layout, self._graph = emitted, layout, layout.graph
        self._operations = emitted.program.operations
        self._stages = [stage for stage in emitted.program.stages for _ in stage.operations]
        self._resident_weights = {id(stage): self._resident_bytes(stage) for stage in emitted.program.stages}
        self._last = {
            part: number
            for number, operation in enumerate(self._operations)
            for parts in operation.sources
            for part in parts
        }
        for number, operation in enumerate(self._operations):  # a buffer is live until its last write and read
            if operation.into is not None:
                self._last[operation.into.buffer] = max(number, self._last.get(operation.into.buffer, 0))

    @cached_property
    def peak(self) -> tuple[int, int]:
        """The largest footprint in bytes, and the operation at which it occurs."""
        return self._fullest[:2]

    @cached_property
    def values_at_peak(self) -> dict[int, int]:
        """Bytes per partition of each value that is live at the peak, keyed by operation."""
        return self._fullest[2]

    @cached_property
    def _fullest(self) -> tuple[int, int, dict[int, int]]:
        alive: dict[int, int] = {}
        fullest: tuple[int, int, dict[int, int]] = (0, 0, {})
        for number in range(len(self._operations)):
            alive[number] = self.value(number)
            total = sum(alive.values()) + self._scratch(number) + 4 * self._layout.columns + self._weights(number)
            if (total, number) > fullest[:2]:
                fullest = (total, number, dict(alive))
            alive = {n: size for n, size in alive.items() if self._last.get(n, -1) > number}
        return fullest

    def node_of(self, number: int) -> int:
        """Return the node that an operation was emitted for."""
        return self._emitted.nodes[number]

    def value(self, number: int) -> int:
        """Return the bytes per partition of an operation's value."""
        operation = self._operations[number]
        if operation.has_answers or operation.into is not None:
            return 0
        if operation.buffer is not None and operation.buffer.memory is not Memory.SBUF:
            return 0
        top, _, bottom, _ = operation.margin
        tiles = len(self._graph.heights((self.node_of(number),)))
        elements = (operation.rows + top + bottom) * operation.columns_held
        images = self._images(number, operation)
        together = 2 if operation.is_fp8 and tiles > 1 else 1  # the rows of the tiles are interleaved
        if images > 1 and together * elements > MAX_STRIDE:
            return UNREACHABLE
        return tiles * images * elements * (1 if operation.is_fp8 else self._graph.itemsize)

    def _images(self, number: int, operation: Operation) -> int:
        """Return the number of images along the free axis of an operation's value."""
        program = self._emitted.program
        if operation.buffer is not None and operation.buffer.whole_batch:
            return ceil_div(program.pictures, operation.packed)
        return self._stages[number].at_once * (program.packed // operation.packed)

    def _weights(self, number: int) -> int:
        operation = self._operations[number]
        resident_weights = self._resident_weights[id(self._stages[number])]
        if operation.filtered is None or operation.filtered.weights.are_resident:
            return resident_weights
        total, needed = self._layout.bytes_of(self.node_of(number))
        convolution = operation.convolved
        in_groups = convolution is not None and (convolution.group_bytes > 0 or convolution.rows_at_once > 1)
        return resident_weights + (total if in_groups else needed)

    def _resident_bytes(self, stage: Stage) -> int:
        """Return the bytes per partition of a stage's resident weights."""
        offsets = {
            operation.filtered.weights: node
            for operation, node, stage_of_node in zip(self._operations, self._emitted.nodes, self._stages)
            if stage_of_node is stage and operation.filtered is not None and operation.filtered.weights.are_resident
        }
        return sum(self._layout.bytes_of(node)[0] for node in offsets.values())

    def _scratch(self, number: int) -> int:
        """Return the bytes per partition that an operation requires in addition to its value and its weights."""
        operation, node = self._operations[number], self._graph.nodes[self.node_of(number)]
        if not operation.sources:
            return SCRATCH_BYTES
        at_once = self._stages[number].at_once
        surroundings = Surroundings(
            images=self._images(number, operation),
            images_read=at_once * self._graph.free_images(node),
            at_once=at_once,
            tiles=len(self._graph.heights(node.sources[0])),
            operands=(node.before, *(self._graph.shape_of(parts[0]) for parts in node.sources[1:])),
            reads_hbm=self._reads_hbm(operation),
            itemsize=self._graph.itemsize,
            partitions=PARTITIONS,
            bank_bytes=PSUM_BANK_BYTES,
        )
        return SCRATCH_BYTES + operation.scratch_bytes(surroundings)

    def _reads_hbm(self, operation: Operation) -> bool:
        part = operation.sources[0][0]
        if part < 0:
            return True
        buffer = self._operations[part].buffer
        return buffer is not None and buffer.memory is not Memory.SBUF
