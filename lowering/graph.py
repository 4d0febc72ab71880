"""The graph that passes take and return: the operations of a launch before their weights have places."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np

from ..kernels.program import (
    Convolution,
    Memory,
    Operation,
    Parts,
    WeightsAt,
)
from ..kernels.tiling.packing import tile_sizes
from ..models.checks import Shape
from ..models.errors import TrninferError
from ..simulator.machine.chip import PARTITIONS
from .arrangement import AS_GIVEN, Arrangement
from .lazy import LazyArray


class Unsupported(TrninferError, ValueError):  # noqa: N818 (a finding, after which the network runs layer by layer)
    """Reason why a network is not one launch; the message is a clause for the user."""


class OutOfSbuf(Unsupported):
    """A launch needs more on-chip memory than there is; with fewer images, more bands or spilled values it may fit."""


@dataclass(frozen=True, order=True)
class NodeId:
    """Stable name of a node: its number before any pass or, of one that a pass made, that of the node it was made from,
    and the parts that it is of."""

    number: int
    parts: tuple[str, ...] = ()

    def part(self, name: str) -> NodeId:
        """Return the id of a node that is made from this one."""
        return NodeId(self.number, (*self.parts, name))

    def __str__(self) -> str:
        return ".".join((str(self.number), *self.parts))


@dataclass(frozen=True)
class Node:
    """An operation, and what the host knows of it.

    `kind`: the kind of layer, as tables show it. `before`: (channels, rows, columns) of its first operand, channels of
    all parts, read or not. `shown`: shapes of its input and output, as tables show them. `filters`: [Cout, Cin /
    groups, kh, kw]. `numbers`: the bias of a convolution; scale and shift of an affine. `memory`: where its value is.
    `in_bands`: its value is put together from bands of rows. `output`: which output of the launch its value is, None
    for none. `largest`: the largest magnitude of its value, of one that is in 8 bits or, `may_be_fp8`, can be where
    that is quicker. `may_have_fp8_weights`: in 8 bits, where its first operand is. `direct`: the operation before it
    was given another form, None where it was not.
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
        """The layer that it belongs to."""
        return self.operation.name

    @property
    def sources(self) -> tuple[Parts, ...]:
        """The parts of each operand."""
        return self.operation.sources

    @property
    def convolution(self) -> Convolution:
        """Its operation, of a node that is a convolution."""
        assert self.operation.convolved is not None
        return self.operation.convolved

    def changed(self, **fields: Any) -> Node:
        """Return the node with other fields of its operation."""
        return replace(self, operation=replace(self.operation, **fields))

    @property
    def has_fp8_weights(self) -> bool:
        """True if its weights are in 8 bits."""
        filtered = self.operation.filtered
        return filtered is not None and filtered.weights.is_fp8

    def is_depthwise(self) -> bool:
        """True if it is a convolution by one filter or more for each channel."""
        filtered = self.operation.filtered
        return filtered is not None and filtered.filter_groups == filtered.channels == self.before[0] > 1


@dataclass(frozen=True)
class Graph:
    """The operations of a launch in their order, and its input.

    `image`: (C, H, W) of the input as the launch is given it, `arrangement` how the host makes it, `packed` images of
    it on the partitions. `from_host`: the input comes from the host, which may arrange it. `itemsize`: bytes of a
    number. `more_inputs`: the images of others beside it. `is_whole`: it is all of a network. `layers`: (layer, the
    layer whose nodes do its work) of each layer of the network that takes any.
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
        """(C, H, W) of each input, `image` the first."""
        return (self.image, *self.more_inputs)

    @property
    def outputs(self) -> tuple[int, ...]:
        """The nodes whose values the launch returns, in the order of its outputs."""
        found = [(node.output, number) for number, node in enumerate(self.nodes) if node.output is not None]
        return tuple(number for _, number in sorted(found))

    def with_nodes(self, nodes: Iterable[Node]) -> Graph:
        """Return the graph with other nodes."""
        return replace(self, nodes=tuple(nodes))

    def replacing(self, changed: Mapping[int, Node]) -> Graph:
        """Return the graph with other nodes in place of some, by number."""
        if not changed:
            return self
        nodes = list(self.nodes)
        for number, node in changed.items():
            nodes[number] = node
        return self.with_nodes(nodes)

    def with_ids(self) -> Graph:
        """Return the graph with nodes that are named by their numbers, before any pass."""
        return self.with_nodes(replace(node, id=NodeId(number)) for number, node in enumerate(self.nodes))

    @cached_property
    def numbers(self) -> dict[NodeId, int]:
        """The number of each node by its id."""
        return {node.id: number for number, node in enumerate(self.nodes)}

    def readers(self, number: int) -> list[tuple[int, int]]:
        """Return (node, operand) of each operand that a node, or the input, is among the parts of."""
        return self._readers.get(number, [])

    @cached_property
    def _readers(self) -> dict[int, list[tuple[int, int]]]:
        found: dict[int, list[tuple[int, int]]] = {}
        for n, node in enumerate(self.nodes):
            for operand, parts in enumerate(node.sources):
                for part in dict.fromkeys(parts):
                    found.setdefault(part, []).append((n, operand))
        return found

    def last_readers(self) -> dict[int, int]:
        """Return the last node that reads each node that is read."""
        return {part: n for n, node in enumerate(self.nodes) for parts in node.sources for part in parts}

    def shape_of(self, part: int) -> Shape:
        """Return (channels, rows, columns) of a node's value, or of an input."""
        return self.inputs[-1 - part] if part < 0 else self.nodes[part].operation.shape

    def packed_of(self, part: int) -> int:
        """Return the images on the partitions of a node's value, or of the input."""
        return self.packed if part < 0 else self.nodes[part].operation.packed

    def packed_in(self, node: Node) -> int:
        """Return the images on the partitions of a node's first operand."""
        return self.packed_of(node.sources[0][0])

    def is_from_hbm(self, node: Node) -> bool:
        """True if an operation that can (with filters, or finding classes) reads its first operand from HBM: a value
        that is all of it."""
        parts = node.sources[0]
        reads = node.operation.filtered is not None or node.operation.reads_hbm
        return reads and len(parts) == 1 and self.is_in_hbm(parts[0])

    def is_in_hbm(self, part: int) -> bool:
        """True if a node's value, or the input, is in HBM."""
        return part < 0 or self.nodes[part].memory is not Memory.SBUF

    def heights(self, parts: Parts) -> list[int]:
        """Return the partitions of each tile of an operand."""
        return [size for part in parts for size in self._heights(part)]

    def _heights(self, part: int) -> list[int]:
        if part < 0:
            return tile_sizes(self.inputs[-1 - part][0] * self.packed, PARTITIONS)
        operation = self.nodes[part].operation
        if self._is_cut_anew(part):
            return tile_sizes(operation.channels * operation.packed, PARTITIONS)
        return self.heights(operation.sources[0])

    def _is_cut_anew(self, part: int) -> bool:
        """True if a node's value has tiles of its own: what is in HBM is read in tiles of all channels."""
        return self.nodes[part].operation.cuts_channels or self.is_in_hbm(part)

    def pieces(self, parts: Parts) -> list[int]:
        """Return the channels of each piece of an operand that has tiles of its own, with all packed images."""
        found: list[int] = []
        for part in parts:
            if part < 0:
                found.append(self.inputs[-1 - part][0])
            elif self._is_cut_anew(part):
                found.append(self.nodes[part].operation.channels)
            else:
                found += self.pieces(self.nodes[part].sources[0])
        return found

    def lines(self) -> list[str]:
        """Return a line for each node, as `--show-lowering` prints them; with its id, where that is not its number."""
        ids = [str(node.id) if node.id.number >= 0 else str(n) for n, node in enumerate(self.nodes)]
        own = ["" if each == str(n) else f" ({each})" for n, each in enumerate(ids)]
        return [f"{n:4d}  {_described(node)}{own[n]}" for n, node in enumerate(self.nodes)]


def matches(operation: Operation, kind: type[Operation], **fields: Any) -> bool:
    """True if an operation is of a kind and has these values of its fields."""
    return isinstance(operation, kind) and all(getattr(operation, name) == value for name, value in fields.items())


def prepend(first: Node, nodes: Sequence[Node]) -> list[Node]:
    """Return nodes that read the value of one more node in place of the input."""
    moved = [tuple(tuple(part + 1 for part in parts) for parts in node.sources) for node in nodes]
    return [first, *(node.changed(sources=sources) for node, sources in zip(nodes, moved, strict=True))]


def _described(node: Node) -> str:
    operation = node.operation
    shown = ("name", "channels", "rows", "columns")
    own = {name: value for name, value in vars(operation).items() if name not in shown}
    defaults = {name: field.default for name, field in type(operation).__dataclass_fields__.items()}
    told = [f"{name}={_short(value)}" for name, value in own.items() if name != "sources" and value != defaults[name]]
    named = [[f"x{-1 - part}" if part < 0 else f"%{part}" for part in parts] for parts in node.sources]
    sources = " + ".join(map(",".join, named))
    shape = "x".join(map(str, operation.shape))
    where = "" if node.memory is Memory.SBUF else f" in {node.memory.value}"
    return f"{type(operation).__name__}({sources}) -> {shape}{where}  {' '.join(told)}  # {node.name}"


def _short(value: Any) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, WeightsAt):
        flags = "".join(f" {name}" for name in ("are_resident", "is_fp8") if getattr(value, name))
        return f"{len(value.loads)} loads from {value.loads[0].offset}{flags}" if value.loads else flags.strip()
    fields = getattr(value, "__dataclass_fields__", None)
    if fields is None:
        return str(value).replace(" ", "")
    return "(" + ",".join(_short(getattr(value, name)) for name in fields) + ")"
