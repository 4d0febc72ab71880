"""The graph that passes transform: the operations of a launch, before their weights are assigned positions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np

from ...kernels.operation_fields import with_fields
from ...kernels.program import (
    Convolution,
    Memory,
    Operation,
    Parts,
    WeightsAt,
)
from ...kernels.tiling.packing import tile_sizes
from ...models.checks import Shape
from ...models.errors import TrninferError
from ...simulator.machine.chip import PARTITIONS
from .arrangement import AS_GIVEN, Arrangement
from .lazy import LazyArray


class Unsupported(TrninferError, ValueError):  # noqa: N818 (a finding, after which the network runs layer by layer)
    """Raised with the reason why a network cannot run as one launch; the message is a clause that is shown to the
    user."""


@dataclass(frozen=True, order=True)
class NodeId:
    """The stable identifier of a node.

    It consists of the node's number before any pass and the names of the parts that passes split off. A node created by
    a pass has the number of the node from which it was created.
    """

    number: int
    parts: tuple[str, ...] = ()

    def part(self, name: str) -> NodeId:
        """Return the id of a node that is created from this one."""
        return NodeId(self.number, (*self.parts, name))

    def __str__(self) -> str:
        return ".".join((str(self.number), *self.parts))


@dataclass(frozen=True)
class Node:
    """An operation of a graph, with the data that the host needs to lower it.

    `kind`: the kind of layer, as shown in tables. `before`: (channels, rows, columns) of the first operand, where
    channels counts all parts, whether read or not. `shown`: the shapes of its input and output, as shown in tables.
    `filters`: [Cout, Cin / groups, kh, kw]. `numbers`: the bias of a convolution; the scale and shift of an affine
    operation. `memory`: the memory that holds its value. `in_bands`: whether its value is assembled from bands of rows.
    `output`: the index of the launch output that holds its value; None if the value is not an output. `largest`: the
    largest magnitude of its value, set if the value is, or may be (`may_be_fp8`), stored in 8 bits.
    `may_have_fp8_weights`: whether its weights may be in 8 bits if its first operand is. `direct`: the operation before
    another form was chosen; None if its form was not changed.
    """

    operation: Operation
    kind: str
    before: Shape
    shown: tuple[Shape, Shape]
    filters: LazyArray | None = None
    numbers: tuple[np.ndarray, ...] = ()
    memory: Memory = Memory.SBUF
    in_bands: bool = False
    output: int | None = None
    largest: LazyArray | None = None
    may_be_fp8: bool = False
    may_have_fp8_weights: bool = False
    direct: Operation | None = None
    id: NodeId = NodeId(-1)

    @property
    def name(self) -> str:
        """The name of the layer to which the node belongs."""
        return self.operation.name

    @property
    def sources(self) -> tuple[Parts, ...]:
        """The parts of each operand."""
        return self.operation.sources

    @property
    def convolution(self) -> Convolution:
        """The operation of a node that is a convolution."""
        assert self.operation.convolved is not None
        return self.operation.convolved

    def changed(self, **fields: Any) -> Node:
        """Return the node with some fields of its operation replaced."""
        return with_fields(self, operation=with_fields(self.operation, **fields))

    @property
    def is_squeezed(self) -> bool:
        """True if it is a convolution of a 1x1 image."""
        operation, convolution = self.operation, self.operation.convolved
        if convolution is None:
            plain = operation.filtered is not None
        else:
            plain = convolution.groups == convolution.pool_size == 1 and not any(convolution.padding)
        return plain and self.before[1:] == (1, 1) and len(operation.sources) == len(operation.sources[0]) == 1

    @property
    def has_fp8_weights(self) -> bool:
        """True if its weights are in 8 bits."""
        filtered = self.operation.filtered
        return filtered is not None and filtered.weights.is_fp8

    def is_depthwise(self) -> bool:
        """True if the node is a convolution with one or more separate filters for each input channel."""
        filtered = self.operation.filtered
        return filtered is not None and filtered.filter_groups == filtered.channels == self.before[0] > 1


@dataclass(frozen=True)
class Graph:
    """The operations of a launch in execution order, and its inputs.

    `image`: (C, H, W) of the input that the launch receives. `itemsize`: bytes per element. `from_host`: whether the
    host provides the input and may therefore rearrange it. `arrangement`: how the host arranges the input. `packed`:
    the number of images packed along the partitions of the input. `more_inputs`: the (C, H, W) of the other inputs.
    `is_whole`: whether the graph is a whole network. `layers`: for each layer of the network that requires computation,
    (layer, the layer whose nodes compute it).
    """

    nodes: tuple[Node, ...]
    image: Shape
    itemsize: int
    from_host: bool = True
    arrangement: Arrangement = AS_GIVEN
    packed: int = 1
    more_inputs: tuple[Shape, ...] = ()
    is_whole: bool = False
    layers: tuple[tuple[str, str], ...] = ()

    @property
    def inputs(self) -> tuple[Shape, ...]:
        """(C, H, W) of each input, beginning with `image`."""
        return (self.image, *self.more_inputs)

    @property
    def outputs(self) -> tuple[int, ...]:
        """The nodes whose values the launch returns, in the order of its outputs."""
        numbered = [(node.output, number) for number, node in enumerate(self.nodes) if node.output is not None]
        return tuple(number for _, number in sorted(numbered))

    def with_nodes(self, nodes: Iterable[Node]) -> Graph:
        """Return the graph with its nodes replaced."""
        return replace(self, nodes=tuple(nodes))

    def replacing(self, changed: Mapping[int, Node]) -> Graph:
        """Return the graph with the nodes in `changed` replaced; keys are node numbers."""
        if not changed:
            return self
        nodes = list(self.nodes)
        for number, node in changed.items():
            nodes[number] = node
        return self.with_nodes(nodes)

    def with_ids(self) -> Graph:
        """Return the graph, before any pass, with the numbers of its nodes as their ids."""
        return self.with_nodes(replace(node, id=NodeId(number)) for number, node in enumerate(self.nodes))

    @cached_property
    def numbers(self) -> dict[NodeId, int]:
        """The number of each node, keyed by its id."""
        return {node.id: number for number, node in enumerate(self.nodes)}

    def readers(self, number: int) -> list[tuple[int, int]]:
        """Return (node, operand) for each operand that has node `number`, or an input, as one of its parts."""
        return self._readers.get(number, [])

    @cached_property
    def _readers(self) -> dict[int, list[tuple[int, int]]]:
        readers: dict[int, list[tuple[int, int]]] = {}
        for n, node in enumerate(self.nodes):
            for operand, parts in enumerate(node.sources):
                for part in dict.fromkeys(parts):
                    readers.setdefault(part, []).append((n, operand))
        return readers

    def last_readers(self) -> dict[int, int]:
        """Return the last consumer of each node that is read."""
        return {part: n for n, node in enumerate(self.nodes) for parts in node.sources for part in parts}

    def shape_of(self, part: int) -> Shape:
        """Return (channels, rows, columns) of the value of a node, or of an input."""
        return self.inputs[-1 - part] if part < 0 else self.nodes[part].operation.shape

    def packed_in(self, node: Node) -> int:
        """Return the number of images packed along the partitions of a node's first operand."""
        part = node.sources[0][0]
        return self.packed if part < 0 else self.nodes[part].operation.packed

    def free_images(self, node: Node) -> int:
        """Return the number of images along the free axis of a node's first operand for each image along the free axis
        of the launch. This is more than one if the operand has fewer images packed along the partitions."""
        return self.packed // self.packed_in(node)

    def is_from_hbm(self, node: Node) -> bool:
        """True if a node reads its first operand from HBM, as a single whole value."""
        parts = node.sources[0]
        return node.operation.reads_hbm and len(parts) == 1 and self.is_in_hbm(parts[0])

    def is_in_hbm(self, part: int) -> bool:
        """True if the value of a node, or the input, is in HBM."""
        return part < 0 or self.nodes[part].memory is not Memory.SBUF

    def heights(self, parts: Parts) -> list[int]:
        """Return the number of partitions in each of an operand's tiles."""
        return [size for part in parts for size in self._heights(part)]

    def _heights(self, part: int) -> list[int]:
        if part < 0:
            return tile_sizes(self.inputs[-1 - part][0] * self.packed, PARTITIONS)
        operation = self.nodes[part].operation
        if self._is_cut_anew(part):
            return tile_sizes(operation.channels * operation.packed, PARTITIONS)
        return self.heights(operation.sources[0])

    def _is_cut_anew(self, part: int) -> bool:
        """True if a node's value is tiled independently of its operand.

        Values in HBM are read in tiles of all channels.
        """
        return self.nodes[part].operation.cuts_channels or self.is_in_hbm(part)

    def pieces(self, parts: Parts) -> list[int]:
        """Return the channels of each piece of an operand; a piece is tiled independently, with all packed images."""
        sizes: list[int] = []
        for part in parts:
            if part < 0:
                sizes.append(self.inputs[-1 - part][0])
            elif self._is_cut_anew(part):
                sizes.append(self.nodes[part].operation.channels)
            else:
                sizes += self.pieces(self.nodes[part].sources[0])
        return sizes

    def lines(self) -> list[str]:
        """Return one line per node, as printed by `--show-lowering`; the node's id is added if it differs from its
        number."""
        ids = [str(node.id) if node.id.number >= 0 else str(n) for n, node in enumerate(self.nodes)]
        suffixes = ["" if each == str(n) else f" ({each})" for n, each in enumerate(ids)]
        return [f"{n:4d}  {_described(node)}{suffixes[n]}" for n, node in enumerate(self.nodes)]


def prepend(first: Node, nodes: Sequence[Node]) -> list[Node]:
    """Return `first` followed by the nodes, which then read its value instead of the input."""
    shifted = [tuple(tuple(part + 1 for part in parts) for parts in node.sources) for node in nodes]
    return [first, *(node.changed(sources=sources) for node, sources in zip(nodes, shifted, strict=True))]


def _described(node: Node) -> str:
    operation = node.operation
    omitted = ("name", "channels", "rows", "columns")
    fields = {name: value for name, value in vars(operation).items() if name not in omitted}
    defaults = {name: field.default for name, field in type(operation).__dataclass_fields__.items()}
    shown_fields = [
        f"{name}={_short(value)}" for name, value in fields.items() if name != "sources" and value != defaults[name]
    ]
    operands = [[f"x{-1 - part}" if part < 0 else f"%{part}" for part in parts] for parts in node.sources]
    sources = " + ".join(map(",".join, operands))
    shape = "x".join(map(str, operation.shape))
    where = "" if node.memory is Memory.SBUF else f" in {node.memory.value}"
    return f"{type(operation).__name__}({sources}) -> {shape}{where}  {' '.join(shown_fields)}  # {node.name}"


def _short(value: Any) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, WeightsAt):
        flags = "".join(f" {name}" for name in ("are_resident", "is_fp8") if getattr(value, name))
        return f"{len(value.loads)} loads from {value.loads[0].run.offset}{flags}" if value.loads else flags.strip()
    fields = getattr(value, "__dataclass_fields__", None)
    if fields is None:
        return str(value).replace(" ", "")
    return "(" + ",".join(_short(getattr(value, name)) for name in fields) + ")"
