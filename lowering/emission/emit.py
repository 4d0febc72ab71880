"""Emit the program of a graph, given its schedule: the stages, the bands of rows, and the buffers.

A value has a buffer if several operations write it (bands of rows), if it is in HBM, if a later stage reads it, or if
the launch returns it. Any other value is the result of a single operation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ...kernels.operation_fields import with_fields
from ...kernels.program import (
    Copies,
    Load,
    Memory,
    Operation,
    Parts,
    Program,
    Rows,
    Stage,
    Windows,
    WriteRegion,
)
from ...kernels.tiling.packing import ceil_div
from ..graph.graph import Graph, Node, Unsupported
from .bands import BandPlan, banded, windows_of
from .buffers import buffer_of, outline, store_of
from .schedule import Region, Schedule

BAND_UNIT = 4  # rows per band are a multiple of this: forms compute two rows together, row groups up to four


@dataclass(frozen=True)
class LoweredProgram:
    """A program, and the graph node that each of its operations was emitted for."""

    program: Program
    nodes: tuple[int, ...]


def emit(graph: Graph, pictures: int, schedule: Schedule) -> LoweredProgram:
    """Return the program of a graph for a batch of `pictures`."""
    images = ceil_div(pictures, graph.packed)
    emission = _Emission(graph, schedule)
    stages = []
    first = 0
    for number, stage in enumerate(schedule.stages):
        start = len(emission.operations)
        emission.add_nodes(first, stage.end, number)
        stages.append(Stage(tuple(emission.operations[start:]), min(stage.at_once, images)))
        first = stage.end
    return LoweredProgram(Program(tuple(stages), graph.packed, pictures), tuple(emission.nodes))


def band_rows(rows: int, bands: int) -> Iterator[Rows]:
    """Yield the rows of each band. The number of rows is a multiple of BAND_UNIT, except in the last band."""
    rows_of_band = ceil_div(ceil_div(rows, bands), BAND_UNIT) * BAND_UNIT
    for first in range(0, rows, rows_of_band):
        yield first, min(rows, first + rows_of_band)


class _Emission:
    """The operations emitted so far, and the operation from which each node's value is read."""

    def __init__(self, graph: Graph, schedule: Schedule) -> None:
        self.operations: list[Operation] = []
        self.nodes: list[int] = []
        self._number = 0
        self._graph, self._schedule = graph, schedule
        self._places: dict[int, int] = {}
        self._stage = 0
        self._buffers: dict[int, int] = {}  # buffers of nodes that other nodes write, by node
        self._loaded: dict[int, int] = {}  # for nodes in HBM, the operation of this stage that loads them as a whole

    def add_nodes(self, first: int, end: int, stage: int) -> None:
        """Append the operations of nodes [first, end)."""
        self._stage, self._loaded = stage, {}
        number = first
        while number < end:
            region = self._schedule.region_of(number)
            if region is None:
                self._add(number)
                number += 1
            else:
                self._add_region(region)
                number = region.end

    def _add(self, number: int) -> None:
        """Append a node that computes all rows of its value together."""
        self._number = number
        node = self._graph.nodes[number]
        if number in self._buffers:  # its value was already written by its phases or parts
            self._places[number] = self._buffers[number]
            self._return(number)
            return
        operation = with_fields(node.operation, sources=self._sources(node))
        interleaved = self._interleaved(number)
        if interleaved is not None:
            reader, phase = interleaved
            if reader not in self._buffers:
                self._buffers[reader] = self._add_buffer(reader)
            self._append(with_fields(operation, into=self._region(reader, phase)))
            return
        if self._memory(number) is None:
            self._places[number] = self._append(operation)
        else:
            self._places[number] = self._add_buffer(number)
            self._write(operation, WriteRegion(self._places[number]))
        self._return(number)

    def _region(self, reader: int, part: int) -> WriteRegion:
        """Return the region of a node's buffer written by one part of the node (a phase, or a contiguous run of
        elements)."""
        operation = self._graph.nodes[reader].operation
        if operation.moves_numbers:
            before = operation.sources[0][:part]
            return WriteRegion(self._buffers[reader], number=sum(math.prod(self._graph.shape_of(n)) for n in before))
        step = operation.step_between
        return WriteRegion(self._buffers[reader], divmod(part, step[1]), step)

    def _interleaved(self, number: int) -> tuple[int, int] | None:
        """Return the node whose value contains this node's value as a phase or a contiguous run of elements, and the
        index of that phase or run. Return None if there is no such node."""
        node, readers = self._graph.nodes[number], self._graph.readers(number)
        if len(readers) != 1 or self._memory(number) is not None:
            return None
        reader, phase = readers[0]
        if node.operation.moves_numbers:
            return self._joined(number, reader)
        if node.operation.convolved is None:
            return None
        other = self._graph.nodes[reader].operation
        alike = other.step_between != (1, 1) and other.packed == node.operation.packed
        alike = alike and self._memory(reader) in (None, Memory.SBUF)
        phases = [parts[0] for parts in other.sources] if alike else []
        if not alike or min(phases) < 0 or any(not self._is_phase(part, reader) for part in phases):
            return None
        return reader, phase

    def _joined(self, number: int, reader: int) -> tuple[int, int] | None:
        """Return the node in HBM that concatenates the elements of this node's value and of other values, and the index
        of this part. Return None if there is no such node."""
        operation = self._graph.nodes[reader].operation
        parts = operation.sources[0]
        count = sum(math.prod(self._graph.shape_of(part)) for part in parts)
        is_in_hbm = self._memory(reader) in (Memory.HBM, Memory.OUTPUT) and self._schedule.region_of(reader) is None
        if not is_in_hbm or not operation.moves_numbers or not operation.keeps_numbers(count):
            return None
        if len(set(parts)) < len(parts) or not all(self._is_part(part, reader) for part in parts):
            return None
        return reader, parts.index(number)

    def _is_part(self, number: int, reader: int) -> bool:
        """True if a node moves the elements of its value through HBM and packs the same number of images as its
        consumer."""
        if number < 0 or not self._is_alone(number, reader):
            return False
        operation = self._graph.nodes[number].operation
        return operation.moves_numbers and operation.packed == self._graph.nodes[reader].operation.packed

    def _is_phase(self, number: int, reader: int) -> bool:
        """True if a node is a convolution outside of any region, and its only consumer is in the same stage."""
        return self._is_alone(number, reader) and self._graph.nodes[number].operation.convolved is not None

    def _is_alone(self, number: int, reader: int) -> bool:
        """True if a node is outside of any region, and its only consumer is in the same stage."""
        node = self._graph.nodes[number]
        alone = [other for other, _ in self._graph.readers(number)] == [reader]
        same = self._schedule.stage_of(number) == self._schedule.stage_of(reader)
        free = self._schedule.region_of(number) is None and node.memory is Memory.SBUF
        return alone and same and free and node.output is None

    def _add_region(self, region: Region) -> None:
        """Append nodes that run band by band; the value of the last one is assembled in a buffer."""
        last = region.end - 1
        buffer = self._add_buffer(last)
        for rows in band_rows(self._graph.nodes[last].operation.rows, region.bands):
            self._add_band(region.first, region.end, rows, buffer)
        self._places[last] = buffer
        self._return(last)

    def _add_band(self, first: int, end: int, rows: Rows, buffer: int) -> None:
        """Append nodes [first, end) for the band `rows` of the last node, which writes it to a buffer.

        Weights stay in SBUF between bands.
        """
        plan = BandPlan(self._graph, first, end, rows)
        for number in range(first, end):
            if number not in plan.rows:
                continue
            self._number = number
            node = self._graph.nodes[number]
            operation = with_fields(
                banded(node, plan.rows[number], plan.reaches[number]),
                windows=windows_of(self._graph, number, plan, first),
            )
            if operation.filtered is not None:
                weights = with_fields(operation.filtered.weights, are_resident=True)
                operation = with_fields(operation.filtered, weights=weights)
            operation = self._with_loads(node, operation)
            if number == end - 1:
                self._write(operation, WriteRegion(buffer, (plan.rows[number][0], 0)))
            else:
                self._places[number] = self._append(operation)

    def _return(self, number: int) -> None:
        """Store a value that the launch returns and that later nodes also read."""
        node = self._graph.nodes[number]
        if node.output is None or node.operation.has_answers or self._memory(number) is Memory.OUTPUT:
            return
        value = self._places[number]
        buffer = self._append(buffer_of(node.operation, Memory.OUTPUT), number)
        self._append(store_of(node.operation, value, WriteRegion(buffer)), number)

    def _sources(self, node: Node) -> tuple[Parts, ...]:
        """Return the operations that a node reads. Values in HBM are loaded whole unless a convolution streams them."""
        return tuple(
            tuple(self._place(node, part, operand) for part in parts) for operand, parts in enumerate(node.sources)
        )

    def _place(self, node: Node, part: int, operand: int) -> int:
        if part < 0:
            return part
        if self._reads_hbm(node, part, operand):
            return self._places[part]
        if not self._is_stored(part):
            return self._places[part]
        if part not in self._loaded:
            self._loaded[part] = self._append(self._load(part, None), part)
        return self._loaded[part]

    def _with_loads(self, node: Node, operation: Operation) -> Operation:
        """Return the operation of a band with its sources; the rows that it reads from HBM are loaded first."""
        sources: list[Parts] = []
        windows: list[Windows] = []
        for operand, parts in enumerate(node.sources):
            indices: list[int] = []
            rows = list(operation.windows[operand])
            for n, part in enumerate(parts):
                if self._is_stored(part) and not self._reads_hbm(node, part, operand):
                    indices.append(self._append(self._load(part, rows[n]), part))
                    rows[n] = None
                else:
                    indices.append(part if part < 0 else self._places[part])
            sources.append(tuple(indices))
            windows.append(tuple(rows))
        return with_fields(operation, sources=tuple(sources), windows=tuple(windows))

    def _reads_hbm(self, node: Node, part: int, operand: int) -> bool:
        """True if a node reads a value directly from HBM."""
        return operand == 0 and self._graph.is_from_hbm(node) and self._graph.is_in_hbm(part)

    def _load(self, part: int, window: Rows | None) -> Load:
        value = self._graph.nodes[part].operation
        rows = (0, value.rows) if window is None else window
        margin = value.margin
        return Load(
            **outline(value) | {"rows": rows[1] - rows[0]},
            is_fp8=value.is_fp8,
            margin=(
                margin[0] if rows[0] == 0 else 0,
                margin[1],
                margin[2] if rows[1] == value.rows else 0,
                margin[3],
            ),
            sources=((self._places[part],),),
            windows=((window,),),
        )

    def _memory(self, number: int) -> Memory | None:
        """Return the memory that holds the buffer of a node's value, or None if the value does not require a buffer."""
        node = self._graph.nodes[number]
        is_returned = node.output is not None and not node.operation.has_answers
        if is_returned and (node.memory is Memory.HBM or not self._graph.readers(number)):
            return Memory.OUTPUT
        if node.memory is Memory.HBM:
            return Memory.HBM
        return Memory.SBUF if self._is_shared(number) else None

    def _is_stored(self, part: int) -> bool:
        """True if a node's value is in HBM."""
        return part >= 0 and self._memory(part) in (Memory.HBM, Memory.OUTPUT)

    def _is_shared(self, number: int) -> bool:
        """True if a later stage reads a node's value, or if bands write it."""
        region = self._schedule.region_of(number)
        return self._is_read_later(number) or (region is not None and region.end == number + 1)

    def _is_read_later(self, number: int) -> bool:
        stage = self._schedule.stage_of(number)
        return any(self._schedule.stage_of(reader) > stage for reader, _ in self._graph.readers(number))

    def _add_buffer(self, number: int) -> int:
        operation = self._graph.nodes[number].operation
        memory = self._memory(number) or Memory.SBUF
        if operation.taps_load is not None:
            raise Unsupported("each stage must load the input taps that it reads")
        buffer = with_fields(buffer_of(operation, memory), whole_batch=self._is_read_later(number))
        if memory is Memory.SBUF:
            copies = operation.copies_made or Copies()
            heights = tuple(self._graph.heights((number,)))
            buffer = with_fields(buffer, margin=operation.margin, heights=heights, copies=copies)
        return self._append(buffer, number)

    def _write(self, operation: Operation, place: WriteRegion) -> None:
        """Append an operation that writes to a buffer.

        Convolutions can write to HBM directly; the values of other operations require a separate store.
        """
        buffer = self.operations[place.buffer].buffer
        assert buffer is not None
        if buffer.memory is Memory.SBUF or operation.writes_hbm:
            self._append(with_fields(operation, into=place))
            return
        value = self._append(with_fields(operation, margin=(0, 0, 0, 0)))
        self._append(store_of(operation, value, place))

    def _append(self, operation: Operation, number: int | None = None) -> int:
        self.operations.append(operation)
        self.nodes.append(self._number if number is None else number)
        return len(self.operations) - 1
