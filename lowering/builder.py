"""The graph under construction, with the methods that lowering rules use to query and extend it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from ..kernels.program import LAUNCH_INPUT, ClassifierHead, Convolution, DenseHead, Ending, Operation, Rearrange
from ..models.checks import INPUT, Shape
from ..models.files import Model
from ..models.layers import Layer
from .graph.channels import Channels, joined
from .graph.graph import Graph, Node, Unsupported
from .graph.lazy import LazyArray

MOST_COLUMNS = 4096  # maximum number of per-element float32 constants in a partition: 16 KiB
MOST_GATHERED = 2048  # maximum number of channels that a matmul rearranges: 8 MiB of 16-bit filters
MOST_RUNS = 64  # maximum number of contiguous runs that are rearranged if there are more channels than MOST_GATHERED
MOST_SCORES = 2048  # float32 numbers in half of PSUM's banks, so that two blocks of images are in flight
MOST_ANSWERS = 8192  # maximum number of values of an image that are searched together (kernels/argmax.py)


@dataclass
class GraphBuilder:
    """The nodes added so far and, for each name, the channels that it denotes and its shape as an image.

    A name is either the name of a layer or an `inner` name, which denotes an intermediate value of a layer.
    """

    model: Model
    dtype: np.dtype[Any]
    inputs: tuple[Shape, ...]  # the (C, H, W) of each input
    places: dict[str, Channels]
    shapes: dict[str, Shape]
    nodes: list[Node] = field(default_factory=list)
    is_whole: bool = True  # whether the nodes form a whole network, so that the host may rearrange its input
    is_quantized: bool = False  # whether some values are stored in 8 bits, with scales for the values of the layers
    owners: dict[str, str] = field(default_factory=dict)  # the layer of each inner name

    @staticmethod
    def start(model: Model, dtype: np.dtype[Any], image: Shape) -> GraphBuilder:
        """Return a builder that contains only the input, an image (C, H, W)."""
        places = {INPUT: Channels.of(LAUNCH_INPUT, image[0])}
        return GraphBuilder(model, dtype, (image,), places, {INPUT: image})

    def inner(self, layer: str) -> str:
        """Return a unique name, different from all layer names, for an intermediate value of a layer."""
        name = f"{layer}'"
        while name in self.owners or name in self.layers:
            name += "'"
        self.owners[name] = self.owners.get(layer, layer)
        return name

    @cached_property
    def layers(self) -> dict[str, Layer]:
        """The layers of the network, keyed by name."""
        return {layer.name: layer for layer in self.model.network.layers}

    def row_of(self, name: str) -> str | None:
        """Return the layer whose row in tables includes the node that a name denotes, or None for the input."""
        last = self.places[name].parts[-1]
        return None if last < 0 else self.nodes[last].name

    def add(self, operation: type[Operation], layer: str, reads: tuple[str, ...], after: Shape, **fields: Any) -> None:
        """Append an operation; the name `layer` then denotes its value, which has the shape `after`.

        `fields`: the fields of the operation, and the node's `kind`, `filters`, `numbers` and `shown`.
        """
        first = self.places[reads[0]]
        before = self.shapes[reads[0]]
        node = {name: fields.pop(name) for name in ("kind", "filters", "numbers", "shown") if name in fields}
        sources = tuple(self.places[read].parts for read in reads)
        row = self.owners.get(layer, layer)
        operation_of_layer = operation(
            name=row, sources=sources, channels=after[0], rows=after[1], columns=after[2], **fields
        )
        self.places[layer], self.shapes[layer] = Channels.of(len(self.nodes), after[0]), after
        shapes: dict[str, Any] = {"before": (first.total, *before[1:]), "shown": (before, after)}
        self.nodes.append(Node(operation_of_layer, **(shapes | node)))

    def add_by_channel(
        self, operation: type[Operation], layer: Layer, after: Shape, each: int = 1, **fields: Any
    ) -> None:
        """Append an operation that computes `each` output channels per channel of its parts, in their stored order."""
        read = layer.inputs[0]
        source, before = self.places[read], self.shapes[read]
        number = len(self.nodes)
        fields.setdefault("kind", layer.kind)
        full_shape = (source.total * each, *after[1:])
        self.add(operation, layer.name, layer.inputs, full_shape, shown=(before, after), **fields)
        self.places[layer.name], self.shapes[layer.name] = source.given_by(number, each), after

    def add_scores(self, name: str, source: str, ending: Ending) -> None:
        """Append a head that computes the scores of a network that does not end in a dense layer.

        The head copies the value with images on the partitions.
        """
        channels, *window = self.shapes[source]
        count = math.prod(self.shapes[source])
        if count > MOST_ANSWERS:
            raise Unsupported(
                f"layer {name!r} outputs {count} numbers, but a last layer can have at most {MOST_ANSWERS}"
            )
        if count > MOST_SCORES:
            self.make_plain(source)
            self.add(ClassifierHead, name, (source,), (count, 1, 1), kind="scores", ending=ending)
            return
        shape = (count, channels, *window)
        identity = LazyArray(shape, lambda: np.eye(count, dtype=np.float32).reshape(shape))
        self.add(
            DenseHead,
            name,
            (source,),
            (count, 1, 1),
            kind="scores",
            filters=self.places[source].filters(identity),
            numbers=(np.zeros(count, np.float32),),
            kernel=tuple(window),
            ending=ending,
        )

    def mark_output(self, name: str, number: int) -> None:
        """Mark the value that a name denotes as an output of the launch."""
        last = self.places[name].parts[0]
        self.nodes[last] = replace(self.nodes[last], output=number)

    def is_last(self, name: str) -> bool:
        """True if the channels that a name denotes are exactly the value of the last node."""
        channel_map = self.places.get(name)
        return (
            bool(self.nodes)
            and channel_map is not None
            and channel_map.parts == (len(self.nodes) - 1,)
            and channel_map.are_plain
        )

    def is_read_once(self, name: str) -> bool:
        """True if exactly one layer reads a value and the network does not return it. Such a value may be replaced."""
        network = self.model.network
        return network.readers()[name] == 1 and all(output.layer != name for output in network.named_outputs)

    def is_alone(self, name: str) -> bool:
        """True if a name denotes exactly the value of one node, and that value is read only once, counting reads under
        all of its names."""
        node = self.node_of(name)
        if node is None or node.output is not None:
            return False
        (part,) = self.places[name].parts
        return all(self.is_read_once(other) for other, channel_map in self.places.items() if part in channel_map.parts)

    def node_of(self, name: str) -> Node | None:
        """Return the node whose value is exactly the channels that a name denotes, or None if there is no such node."""
        channel_map = self.places[name]
        is_whole = len(channel_map.parts) == 1 and channel_map.parts[0] >= 0 and channel_map.are_plain
        return self.nodes[channel_map.parts[0]] if is_whole else None

    def gather(self, name: str) -> None:
        """Rearrange channels into the order of their layer with a 1x1 convolution whose filters are a permutation
        matrix. Each sum has a single non-zero term. A value is instead copied through HBM if it has many channels in
        contiguous runs, or if it was copied through HBM before."""
        shape = self.shapes[name]
        count = shape[0]
        has_row = any(node.name == name for node in self.nodes)
        layer = None if has_row else self.layers.get(name)
        label, kind = self.inner(name) if has_row else name, "gather" if layer is None else layer.kind
        channel_map = self.places[name]
        if count > MOST_GATHERED or (
            len(channel_map.parts) > 1 and channel_map.are_plain and self.are_moved(channel_map)
        ):
            self._gather_in_hbm(label, name, kind)
            return
        identity = LazyArray((count, count, 1, 1), lambda: np.eye(count, dtype=np.float32).reshape(count, count, 1, 1))
        filters, zeros = self.places[name].filters(identity), (np.zeros(count, np.float32),)
        self.add(Convolution, label, (name,), shape, kind=kind, filters=filters, numbers=zeros)
        self.places[name] = self.places[label]

    def _gather_in_hbm(self, label: str, name: str, kind: str) -> None:
        """Rearrange channels into the order of their layer by copying each contiguous run through HBM."""
        channel_map, shape = self.places[name], self.shapes[name]
        runs = channel_map.runs()
        if len(runs) > MOST_RUNS:
            raise Unsupported(f"layer {name!r} has too many channels to be rearranged ({len(channel_map.order)})")
        if not channel_map.are_plain:
            pieces = []
            for number, (start, end) in enumerate(runs):
                piece = f"{label}.{number}"
                self.places[piece] = channel_map.picked(np.arange(start, end))
                self.shapes[piece] = (end - start, *shape[1:])
                self.cut(piece, piece, self.shapes[piece], kind)
                pieces.append(self.places[piece])
            self.places[name] = joined(pieces)
        if channel_map.are_plain or len(self.places[name].parts) > 1:  # a single input or output is also copied
            self.cut(label, name, shape, kind)
            self.places[name] = self.places[label]

    def cut(self, label: str, name: str, after: Shape, kind: str) -> None:
        """Append a copy of `name` through HBM with the shape `after`.

        The channels of `name` must form a contiguous run, or be all the channels of several parts.
        """
        if self._moves(name):
            number = self.places[name].parts[0]
            channels, rows, columns = after
            self.nodes[number] = self.nodes[number].changed(channels=channels, rows=rows, columns=columns)
            self.places[label], self.shapes[label] = Channels.of(number, channels), after
            return
        if self.places[name].run is None:
            self.make_plain(name)
        first = self.places[name].run or 0
        first *= math.prod(self.shapes[name][1:])
        self.add(Rearrange, label, (name,), after, kind=kind, split=(math.prod(after),), order=(0,), first=first)

    def _moves(self, name: str) -> bool:
        """True if a name denotes a value that is copied through HBM and read once.

        Such a value may be reshaped.
        """
        return self.are_moved(self.places[name]) and self.is_alone(name)

    def are_moved(self, place: Channels) -> bool:
        """True if all parts are copied through HBM."""
        return all(part >= 0 and self.nodes[part].operation.moves_numbers for part in place.parts)

    def make_plain(self, name: str) -> None:
        """Rearrange channels into the order of their layer, unless they are already in that order."""
        if not self.places[name].are_plain:
            self.gather(name)

    def add_node(self, node: Node, name: str) -> None:
        """Append a node; the new name `name` then denotes its channels."""
        channels = node.operation.channels
        self.places[name], self.shapes[name] = Channels.of(len(self.nodes), channels), node.operation.shape
        self.nodes.append(node)

    def heights(self, place: Channels) -> list[int]:
        """Return the number of partitions in each tile of the channels."""
        return self._graph().heights(place.parts)

    def is_gathered(self, name: str) -> bool:
        """True if channels are stored in the order and in the tiles that a convolution would produce."""
        channel_map = self.places[name]
        return channel_map.are_plain and self.heights(channel_map) == channel_map.tile_sizes()

    def move_to_end(self, place: int) -> None:
        """Move a node, which no other node reads yet, to the end. The numbers of the nodes that followed it decrease by
        one."""
        last = len(self.nodes) - 1
        number = {**{n: n - (n > place) for n in range(last + 1)}, place: last}
        order = [*self.nodes[:place], *self.nodes[place + 1 :], self.nodes[place]]
        self.nodes[:] = [
            node.changed(sources=tuple(tuple(number.get(part, part) for part in parts) for parts in node.sources))
            for node in order
        ]
        self.places.update({name: channels.renumbered(number) for name, channels in self.places.items()})

    def numbers(self, layer: Layer, name: str, fill: float, source: str | None = None) -> np.ndarray:
        """Return a tensor of a layer in the channel order of its input, or of `source`.

        The shape is [channels], or [channels, rows, columns] if each element has a number.
        """
        source = source or layer.inputs[0]
        channels, *window = self.shapes[source]
        numbers = self.tensor(layer, name)
        if numbers.size > channels:
            numbers = numbers.reshape(channels, *window)
            if not self.fits_columns(source):
                raise Unsupported(
                    f"layer {layer.name!r} ({layer.kind}) has {numbers.size} numbers, which do not fit in SBUF"
                )
        else:
            numbers = numbers.reshape(channels)
        return self.places[source].spread(numbers, fill)

    def fits_columns(self, source: str) -> bool:
        """True if SBUF can hold one number per element of a value."""
        return math.prod(self.shapes[source][1:]) * len(self.heights(self.places[source])) <= MOST_COLUMNS

    def filters(self, layer: Layer) -> LazyArray:
        """Return the weights of a layer as stored in the model."""
        return LazyArray(layer.tensors()["weight"], lambda: self.model.tensors[f"{layer.name}.weight"])

    def tensor(self, layer: Layer, name: str) -> np.ndarray:
        """Return a tensor of a layer in float32."""
        return self.model.tensors[f"{layer.name}.{name}"].astype(np.float32)

    def _graph(self) -> Graph:
        image, *more = self.inputs
        return Graph(tuple(self.nodes), image, self.dtype.itemsize, more_inputs=tuple(more))


Rule = Callable[[GraphBuilder, Any], None]
RULES: dict[type[Layer], Rule] = {}

_Layer = TypeVar("_Layer", bound=Layer)


def lowers(*kinds: type[_Layer]) -> Callable[[Callable[[GraphBuilder, _Layer], None]], Rule]:
    """Register a function as the lowering rule of the given kinds of layer.

    A rule appends the nodes that compute a layer to a builder.
    """

    def register(rule: Callable[[GraphBuilder, _Layer], None]) -> Rule:
        for kind in kinds:
            RULES[kind] = rule
        return rule

    return register
