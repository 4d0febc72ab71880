"""Lay out the weights of a launch as the kernel loads them: all loads in one array; biases, scales and shifts as
columns."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...kernels.convolution.forms import Form, matrices
from ...kernels.operation_fields import with_fields
from ...kernels.program import FilterOperation, WeightLoad
from ...kernels.tiling.packing import filter_steps
from ...models.checks import Shape
from ...models.layout import pack_images
from ...simulator.machine.chip import PARTITIONS
from ..eight_bits import FP8, scaled, scales_of_weights
from ..graph.filters import by_pixels, combined, ungroup
from ..graph.graph import Graph, Node
from ..graph.row_blocks import multiplied
from .weight_loads import SHARED_BYTES, placed, tiles_read, weight_loads


@dataclass(frozen=True)
class WeightLayout:
    """A graph whose operations specify how their weights are loaded and where their constants are.

    Arrays are copied only when they are requested.

    `numbers`: the number of weights that are not in 8 bits. `columns`: the number of columns of constants.
    `fp8_numbers`: the number of weights in 8 bits.
    """

    graph: Graph
    numbers: int
    columns: int
    fp8_numbers: int = 0

    @property
    def sizes(self) -> Sizes:
        """The sizes of the kernel's operands other than its inputs."""
        return Sizes(self.numbers, self.columns, self.fp8_numbers)

    @property
    def loaded_numbers(self) -> float:
        """The number of weights of the graph's element size that would occupy as many bytes as all weights do."""
        return self.numbers + self.fp8_numbers / self.graph.itemsize

    @property
    def arrangement(self) -> Hashable:
        """A key for the arrays: layouts of the same nodes with equal keys have equal arrays."""
        return self.graph.packed, tuple(_arrangement(node) for node in self.graph.nodes)

    def operands(self, dtype: np.dtype[Any]) -> dict[str, np.ndarray]:
        """Return the operands of `run_network` other than its inputs, keyed by name; empty ones are omitted."""
        makers: dict[str, Callable[[], np.ndarray]] = {
            "weights": lambda: self.weights(dtype),
            "channel_constants": self.constants,
            "weights_fp8": lambda: self._filled(FP8, is_fp8=True).view(np.uint8),
        }
        with np.errstate(all="ignore"):  # non-finite results are rejected when they are returned
            return {name: makers[name]() for name in self.sizes.specs(dtype)}

    def weights(self, dtype: np.dtype[Any]) -> np.ndarray:
        """Return the weights that are not in 8 bits, load by load."""
        return self._filled(dtype, is_fp8=False)

    def _filled(self, dtype: np.dtype[Any], *, is_fp8: bool) -> np.ndarray:
        whole = np.zeros(self.fp8_numbers if is_fp8 else self.numbers, dtype)
        for node in self.graph.nodes:
            if node.operation.filtered is not None and node.has_fp8_weights == is_fp8:
                _FilterCopier(self.graph, node).fill(whole, loads_at(node))
            attended = node.operation.attended
            if attended is not None and node.filters is not None and not is_fp8:
                whole[attended.bias_at : attended.bias_at + node.filters.size] = node.filters.make().ravel()
        return whole

    def constants(self) -> np.ndarray:
        """Return the columns of constants: [128, columns] float32."""
        whole = np.zeros((PARTITIONS, self.columns), np.float32)
        for node in self.graph.nodes:
            for number, column in enumerate(_constants(self.graph, node)):
                whole[: len(column), _first_column(node) + number] = column
        return whole

    def bytes_of(self, number: int) -> tuple[int, int]:
        """Return the bytes per partition that a node's weights occupy: in total, and for the largest output tile."""
        by_tile: dict[int, int] = {}
        for load in loads_at(self.graph.nodes[number]):
            by_tile[load.out_tile] = by_tile.get(load.out_tile, 0) + load.elements
        itemsize = itemsize_of_weights(self.graph, self.graph.nodes[number])
        return itemsize * sum(by_tile.values()), itemsize * max(by_tile.values(), default=0)


@dataclass(frozen=True)
class Sizes:
    """The numbers of weights, constant columns, and 8-bit weights in a launch."""

    numbers: int
    columns: int
    fp8_numbers: int = 0

    def specs(self, dtype: np.dtype[Any]) -> dict[str, tuple[Shape, np.dtype[Any]]]:
        """Return the shapes and dtypes of the operands of `run_network` other than its inputs, by name; empty ones are
        omitted.

        `dtype`: the dtype of the inputs.
        """
        every: dict[str, tuple[Shape, np.dtype[Any]]] = {
            "weights": ((self.numbers,), dtype),
            "channel_constants": ((PARTITIONS, self.columns), np.dtype(np.float32)),
            "weights_fp8": ((self.fp8_numbers,), np.dtype(np.uint8)),
        }
        return {name: spec for name, spec in every.items() if 0 not in spec[0]}


def lay_out_weights(graph: Graph) -> WeightLayout:
    """Assign each operation its positions in the array of weights and among the constants."""
    nodes: list[Node] = []
    every = [loads_of(graph, node) for node in graph.nodes]
    numbers, columns = {False: 0, True: 0}, 0  # weight counts, keyed by whether the weights are in 8 bits
    for number, loads in _placed_loads(graph, every).items():
        is_fp8 = graph.nodes[number].has_fp8_weights
        every[number] = loads
        numbers[is_fp8] = max(numbers[is_fp8], loads[-1].run.end)
    for node, loads in zip(graph.nodes, every):
        operation, filtered = node.operation, node.operation.filtered
        if filtered is not None:
            node = node.changed(weights=with_fields(filtered.weights, loads=tuple(loads)), bias=columns)
        elif operation.numbered is not None:
            node = node.changed(constants=columns)
        elif operation.attended is not None:
            node = node.changed(bias_at=numbers[False])
            numbers[False] += bias_numbers(node)
        nodes.append(node)
        columns += columns_of(graph, node)
    return WeightLayout(graph.with_nodes(nodes), numbers[False], columns, numbers[True])


def _placed_loads(graph: Graph, every: Sequence[Sequence[WeightLoad]]) -> dict[int, list[WeightLoad]]:
    """Return the weight loads of all nodes, with their positions. Small loads share a DMA, except for loads
    of 8-bit weights and the loads of the first node, which waits for them."""
    placed_loads: dict[int, list[WeightLoad]] = {}
    for is_fp8 in (False, True):
        own = [n for n, loads in enumerate(every) if loads and graph.nodes[n].has_fp8_weights == is_fp8]
        alone = len(own) if is_fp8 else 1
        loads = placed([load for n in own[:alone] for load in every[n]], 0)
        small = [load for n in own[alone:] for load in every[n]]
        left = iter([*loads, *placed(small, numbers_of(loads), SHARED_BYTES // graph.itemsize)])
        placed_loads |= {n: [next(left) for _ in every[n]] for n in own}
    return placed_loads


def numbers_of(loads: Sequence[WeightLoad]) -> int:
    """Return the total number of weights in the given loads."""
    return sum(load.numbers for load in loads)


def loads_at(node: Node) -> tuple[WeightLoad, ...]:
    """Return the weight loads of a node whose weights were laid out, or none if it has no weights."""
    filtered = node.operation.filtered
    return () if filtered is None else filtered.weights.loads


def bias_numbers(node: Node) -> int:
    """Return the size of an attention bias, which the attention kernel loads separately, or 0 for other nodes."""
    return node.filters.size if node.operation.attended is not None and node.filters is not None else 0


def itemsize_of_weights(graph: Graph, node: Node) -> int:
    """Return the bytes per weight of a node."""
    return 1 if node.has_fp8_weights else graph.itemsize


def steps_of(operation: FilterOperation) -> int:
    """Return the number of matmuls per filter for one tile of input channels."""
    return len(filter_steps(operation.kernel, operation.taps))


def loads_of(graph: Graph, node: Node) -> list[WeightLoad]:
    """Return the weight loads of a node, or none if it has no weights."""
    if node.operation.filtered is None:
        return []
    node, rows = multiplied(graph, node)
    operation = node.operation.filtered
    assert operation is not None
    if operation.taps.count > 1:
        rows = [operation.taps.used_partitions(rows[0])]
    columns = operation.output_tiles(graph.packed_in(node), PARTITIONS)
    ends = np.cumsum(columns).tolist()
    channels = (node.before[0], operation.channels)
    reach = _reach_of(graph, node)
    reads = [
        tiles_read(rows, channels, operation.filter_groups, (end - size, end), reach)
        for end, size in zip(ends, columns)
    ]
    itemsize = itemsize_of_weights(graph, node)
    form = operation.filter_form
    made = made_on_chip(form, len(columns))
    count = _pixel_products(node) if form is Form.PRODUCTS else matrices(form, steps_of(operation))
    return weight_loads(rows, columns, reads, count, itemsize, made)


def _reach_of(graph: Graph, node: Node) -> int | None:
    """Return the largest distance between an output channel of a node and an input channel with a non-zero filter, or
    None if it is not known."""
    convolution = node.operation.convolved
    if convolution is None or node.filters is None or graph.packed_in(node) > 1:
        return None
    is_in_order = convolution.taps.count == convolution.rows_at_once == 1 and convolution.form is Form.DIRECT
    return node.filters.reach if is_in_order else None


def _pixel_products(node: Node) -> int:
    """Return the number of pairs of an output pixel and an input pixel of a node."""
    operation = node.convolution
    return operation.rows * operation.columns * node.before[1] * node.before[2]


def made_on_chip(form: Form, tiles: int) -> list[bool]:
    """Return, for each output tile, whether its weights are stored as numbers per channel instead of matrices.

    This is true for two out of three tiles in `Form.MADE`, whose diagonal matrices the chip creates from one number per
    channel and tap, and for all tiles of elementwise forms, which multiply by one number per channel and factor.
    """
    return [form.is_elementwise or (form is Form.MADE and tile % 3 > 0) for tile in range(tiles)]


class _FilterCopier:
    """Copies the filters of a node into the array of weights."""

    def __init__(self, graph: Graph, node: Node) -> None:
        node, heights = multiplied(graph, node)
        operation = node.operation.filtered
        assert operation is not None and node.filters is not None
        self._groups = operation.filter_groups
        filters = node.filters.make()
        if node.has_fp8_weights:
            filters = filters / scales_of_weights(filters).reshape(-1, 1, 1, 1)
        self._filters = combined(filters, operation.filter_form)
        if operation.filter_form is Form.PRODUCTS:
            self._filters = by_pixels(filters, node.convolution, node.before)
        self._starts = np.cumsum([0, *heights])
        self._channels = operation.channels
        columns = operation.output_tiles(graph.packed_in(node), PARTITIONS)
        self._block = columns[0]
        self._tiles: list[np.ndarray] | None = None
        packed_in = graph.packed_in(node)
        if packed_in > 1 or operation.taps.count > 1:
            filters = ungroup(self._filters, self._groups)
            order = operation.output_order(packed_in)
            packed = pack_images(filters, order, operation.taps, self._block)
            width = packed.shape[1] // sum(columns) * self._block
            tiles = [packed[:, first : first + width] for first in range(0, packed.shape[1], width)]
            pieces = graph.pieces(operation.sources[0])
            if len(pieces) > 1:
                order_of_rows = in_pieces(pieces, packed_in)
                tiles = [tile[order_of_rows] for tile in tiles]
            self._tiles = tiles

    def fill(self, whole: np.ndarray, loads: Sequence[WeightLoad]) -> None:
        """Copy the filters to the positions that the loads read."""
        for load in loads:
            run = load.run
            weights_of_run = whole[run.offset : run.end].reshape(run.rows, run.elements)
            target = weights_of_run[: load.rows, load.first : load.first + load.elements]
            for unit in load.units:
                outputs = slice(unit.out_tile * self._block, (unit.out_tile + 1) * self._block)
                first, end = self._starts[unit.in_tile], self._starts[unit.in_tile + 1]
                if self._tiles is not None:
                    filters = self._tiles[unit.out_tile][first : first + load.rows]
                elif unit.is_diagonal:  # numbers of each channel
                    filters = self._filters[outputs, 0].reshape(load.rows, -1)
                else:
                    filters = self._unit(outputs, slice(first, end))
                target[:, unit.first : unit.first + unit.elements] = filters

    def _unit(self, outputs: slice, inputs: slice) -> np.ndarray:
        """Return the filters of some input channels for some output channels: [channels, steps * outputs]."""
        part = self._filters[outputs, inputs] if self._groups == 1 else self._of_channels(outputs, inputs)
        count = part.shape[1]
        return part.reshape(part.shape[0], count, -1).transpose(1, 2, 0).reshape(count, -1)

    def _of_channels(self, outputs: slice, inputs: slice) -> np.ndarray:
        """Return filters [outputs, inputs, kh, kw] of a grouped convolution, with zeros for channels of other
        groups."""
        count, each_in = self._filters.shape[:2]
        each_out = count // self._groups
        last = min(count, outputs.stop)
        shape = (last - outputs.start, inputs.stop - inputs.start, *self._filters.shape[2:])
        part = np.zeros(shape, self._filters.dtype)
        for output in range(outputs.start, last):
            first = output // each_out * each_in
            begin, end = max(first, inputs.start), min(first + each_in, inputs.stop)
            if begin < end:
                part[output - outputs.start, begin - inputs.start : end - inputs.start] = self._filters[
                    output, begin - first : end - first
                ]
        return part


def in_pieces(pieces: Sequence[int], packed: int) -> np.ndarray:
    """Return, for each row (piece, image, channel) of packed images, its index in the order (image, channel)."""
    numbers = np.arange(packed * sum(pieces)).reshape(packed, -1)
    ends = np.cumsum(pieces)
    return np.concatenate([numbers[:, end - size : end].ravel() for end, size in zip(ends, pieces)])


def _arrangement(node: Node) -> Hashable:
    operation = node.operation
    own = (type(operation), operation.channels, operation.packed, node.memory)
    filtered = operation.filtered
    if filtered is None:
        return own
    assert node.filters is not None
    variant = node.has_fp8_weights, operation.is_fp8, getattr(operation, "by_columns", False)
    return *own, filtered.taps, filtered.filter_form, node.filters.shape, *variant


def _first_column(node: Node) -> int:
    filtered, numbered = node.operation.filtered, node.operation.numbered
    if filtered is not None:
        return filtered.bias
    return 0 if numbered is None else numbered.constants


def columns_of(graph: Graph, node: Node) -> int:
    """Return the number of columns of constants that a node requires."""
    operation = node.operation
    if operation.filtered is not None:
        filtered = multiplied(graph, node)[0].operation.filtered
        assert filtered is not None
        return filtered.count_constants(PARTITIONS)
    if operation.numbered is None or not operation.numbered.is_scaled:
        return 0
    tiles = len(graph.heights(operation.sources[0]))
    return tiles * sum(numbers.size // len(numbers) for numbers in node.numbers)


def _constants(graph: Graph, node: Node) -> list[np.ndarray]:
    """Return a node's columns of up to 128 numbers each.

    Biases are stored one per partition, except for the biases of scores, which are stored one per column.
    """
    operation = node.operation
    if operation.filtered is not None:
        numbers = scaled(graph, multiplied(graph, node)[0])
        if not operation.filtered.has_outputs_on_partitions:
            return [np.full(PARTITIONS, number) for number in np.concatenate(numbers)]
        columns = _in_tiles([np.tile(each, operation.packed) for each in numbers])
        return [*columns, np.arange(PARTITIONS, dtype=np.float32)] if operation.has_answers else columns
    if operation.numbered is None or not operation.numbered.is_scaled:
        return []
    return _of_channels(graph, node)


def _in_tiles(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [array[first : first + PARTITIONS] for array in arrays for first in range(0, len(array), PARTITIONS)]


def _of_channels(graph: Graph, node: Node) -> list[np.ndarray]:
    """Return the columns of per-channel or per-element numbers, tile by tile."""
    operation = node.operation
    rows = graph.heights(operation.sources[0])
    order = in_pieces(graph.pieces(operation.sources[0]), operation.packed)
    ends = np.cumsum(rows)
    tiled = [np.tile(numbers.reshape(len(numbers), -1), (operation.packed, 1))[order] for numbers in node.numbers]
    return [column for end, size in zip(ends, rows) for numbers in tiled for column in numbers[end - size : end].T]
