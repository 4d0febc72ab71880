"""About how many bytes of an SBUF partition a program takes: candidates are pruned by it before they are walked."""

from __future__ import annotations

from functools import cached_property

from ..kernels.attention_operation import Attention
from ..kernels.convolution.forms import Form, combined_elements
from ..kernels.program import (
    Affine,
    Answers,
    Combine,
    Convolution,
    Memory,
    Operation,
    Room,
    Scores,
    Slope,
    Stage,
    Store,
)
from ..kernels.tiling.packing import ceil_div
from ..simulator.instructions.checks import MAX_STRIDE
from ..simulator.machine.chip import PARTITIONS, PSUM_BANK_BYTES, PSUM_BANK_FLOATS
from .emit import Emitted
from .graph import Graph, Node
from .passes.add_margins import outputs_of
from .weights import WeightLayout, bias_numbers

UNREACHABLE = 1 << 40  # bytes: of images that are further apart than instructions can step
SCRATCH_BYTES = 12 * 1024  # for sums on their way from PSUM, and what else is there briefly
GROUPED_TILES = 3  # of a depthwise convolution's input and output in groups of rows: one loaded ahead, one left behind
ATTENTION_BYTES = 32 * 1024  # of attention's turned weights, its turned values or its bias at most
FILTERING_BYTES = 16 * 1024  # for sums of minimal filtering on their way to the output


def attention_bytes(operation: Attention, node: Node, graph: Graph) -> int:
    """Return about the bytes of a partition that attention takes beside its value: scores, weights, turned weights and
    values, queries among zeros, and the bias."""
    keys = graph.nodes[node.sources[1][0]].operation
    tokens = keys.columns if operation.by_rows else keys.rows * keys.columns
    tiles, itemsize = ceil_div(tokens, PARTITIONS), graph.itemsize
    turned = min(max(PSUM_BANK_FLOATS * tiles * itemsize, PSUM_BANK_BYTES), ATTENTION_BYTES)
    values = min(tiles * PARTITIONS * operation.heads * itemsize, ATTENTION_BYTES)
    bias = min(ATTENTION_BYTES, itemsize * bias_numbers(node) // PARTITIONS)
    return 2 * turned + values + bias + 2 * max(PSUM_BANK_FLOATS, tokens) * (itemsize + 4)


class Footprint:
    """The memory of a program, operation by operation."""

    def __init__(self, emitted: Emitted, layout: WeightLayout) -> None:
        self._emitted, self._layout, self._graph = emitted, layout, layout.graph
        self._operations = emitted.program.operations
        self._stages = [stage for stage in emitted.program.stages for _ in stage.operations]
        self._beside: list[int] = []  # of each operation, once the peak is known
        self._staying = {id(stage): self._staying_in(stage) for stage in emitted.program.stages}
        self._last = {
            part: number
            for number, operation in enumerate(self._operations)
            for parts in operation.sources
            for part in parts
        }
        for number, operation in enumerate(self._operations):  # a room is there until it is written and read
            if operation.into is not None:
                self._last[operation.into.room] = max(number, self._last.get(operation.into.room, 0))

    @cached_property
    def peak(self) -> tuple[int, int]:
        """(bytes, operation) where SBUF is fullest."""
        return self._fullest[:2]

    @cached_property
    def values_at_peak(self) -> dict[int, int]:
        """Bytes of a partition of the values that are there at the peak, by their operations."""
        return self._fullest[2]

    @cached_property
    def _fullest(self) -> tuple[int, int, dict[int, int]]:
        alive: dict[int, int] = {}
        fullest: tuple[int, int, dict[int, int]] = (0, 0, {})
        for number in range(len(self._operations)):
            alive[number] = self.value(number)
            beside = sum(alive.values()) + self._scratch(number) + 4 * self._layout.columns
            self._beside.append(beside)
            total = beside + self._weights(number)
            if (total, number) > fullest[:2]:
                fullest = (total, number, dict(alive))
            alive = {n: size for n, size in alive.items() if self._last.get(n, -1) > number}
        return fullest

    def beside_weights(self, number: int) -> int:
        """Return the bytes of a partition that are taken during an operation, without weights that do not stay."""
        _ = self.peak
        return self._beside[number] + self._staying[id(self._stages[number])]

    def node_of(self, number: int) -> int:
        """Return the node that an operation is for."""
        return self._emitted.nodes[number]

    def value(self, number: int) -> int:
        """Return the bytes of a partition that an operation's own value takes."""
        operation = self._operations[number]
        if isinstance(operation, (Answers, Store)) or operation.into is not None:
            return 0
        if isinstance(operation, Room) and operation.memory is not Memory.SBUF:
            return 0
        top, _, bottom, _ = operation.margin
        tiles = len(self._graph.heights((self.node_of(number),)))
        elements = (operation.rows + top + bottom) * operation.columns_held
        images = self._images(number, operation)
        together = 2 if operation.narrow and tiles > 1 else 1  # tiles whose rows take turns
        if images > 1 and together * elements > MAX_STRIDE:
            return UNREACHABLE
        return tiles * images * elements * self._itemsize(number)

    def _itemsize(self, number: int) -> int:
        return 1 if self._operations[number].narrow else self._graph.itemsize

    def _images(self, number: int, operation: Operation) -> int:
        """Return the images along the free axis of an operation's value."""
        program = self._emitted.program
        if isinstance(operation, Room) and operation.whole_batch:
            return ceil_div(program.pictures, operation.packed)
        return self._stages[number].at_once * (program.packed // operation.packed)

    def _weights(self, number: int) -> int:
        operation = self._operations[number]
        staying = self._staying[id(self._stages[number])]
        if operation.filtered is None or operation.filtered.weights.stay:
            return staying
        whole, needed = self._layout.bytes_of(self.node_of(number))
        in_groups = isinstance(operation, Convolution) and (operation.group_bytes > 0 or operation.rows_at_once > 1)
        return staying + (whole if in_groups else needed)

    def _staying_in(self, stage: Stage) -> int:
        """Return the bytes of a partition of the weights that stay in a stage."""
        offsets = {
            operation.filtered.weights: node
            for operation, node, own in zip(self._operations, self._emitted.nodes, self._stages)
            if own is stage and operation.filtered is not None and operation.filtered.weights.stay
        }
        return sum(self._layout.bytes_of(node)[0] for node in offsets.values())

    def _scratch(self, number: int) -> int:
        operation = self._operations[number]
        if isinstance(operation, Convolution):
            filtering = FILTERING_BYTES if operation.form.is_minimal else 0
            if operation.form is Form.MADE:
                made = operation.kernel[0] * operation.kernel[1] * PARTITIONS * self._graph.itemsize
                return SCRATCH_BYTES + 2 * made
            if operation.form.rows > 1:
                return SCRATCH_BYTES + self._grouped(number, operation)
            if self._reads_hbm(operation):
                return SCRATCH_BYTES + filtering + (operation.group_bytes or self._loaded(number))
            return SCRATCH_BYTES + filtering + (2 * self._combined(number, operation) if filtering else 0)
        if isinstance(operation, Attention):
            return SCRATCH_BYTES + attention_bytes(operation, self._graph.nodes[self.node_of(number)], self._graph)
        if isinstance(operation, Scores):
            return SCRATCH_BYTES + (self._loaded(number) if self._reads_hbm(operation) else 0)
        if isinstance(operation, Answers):  # what is loaded, in float32, and what is stored
            return SCRATCH_BYTES + operation.channels * (4 + 2 * self._graph.itemsize)
        if isinstance(operation, (Affine, Combine, Slope)):  # products in float32
            return SCRATCH_BYTES + 8 * self.value(number) // self._itemsize(number)
        return SCRATCH_BYTES

    def _reads_hbm(self, operation: Operation) -> bool:
        part = operation.sources[0][0]
        if part < 0:
            return True
        source = self._operations[part]
        return isinstance(source, Room) and source.memory is not Memory.SBUF

    def _combined(self, number: int, operation: Convolution) -> int:
        node = self._graph.nodes[self.node_of(number)]
        tiles = len(self._graph.heights(node.sources[0]))
        packed = self._graph.packed_in(node)
        images = self._stages[number].at_once * (self._graph.packed // packed)
        elements = combined_elements(operation.form, outputs_of(operation), operation.kernel[0])
        return min(operation.group_bytes, tiles * images * elements * self._graph.itemsize)

    def _grouped(self, number: int, operation: Convolution) -> int:
        """Return the bytes of the tiles of groups of rows that are there at a time."""
        geometry, columns = operation.row_blocks(PARTITIONS), self._graph.nodes[self.node_of(number)].before[2]
        inputs = geometry.in_groups * (columns + operation.padding[1] + operation.padding[3])
        outputs = geometry.out_groups * operation.columns
        return GROUPED_TILES * self._images(number, operation) * (inputs + outputs) * self._graph.itemsize

    def _loaded(self, number: int) -> int:
        operation = self._operations[number]
        node = self._graph.nodes[self.node_of(number)]
        padding = getattr(operation, "padding", (0, 0, 0, 0))
        tiles = len(self._graph.heights(node.sources[0]))
        high, wide = node.before[1] + padding[0] + padding[2], node.before[2] + padding[1] + padding[3]
        return tiles * self._stages[number].at_once * high * wide * self._graph.itemsize
