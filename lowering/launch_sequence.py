"""Lower a network to as few launches as possible.

The network is split only if SBUF or the instruction budget requires it.
"""

from __future__ import annotations

import contextlib
import logging
import traceback
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..kernels.tiling.packing import ceil_div
from ..models.checks import Shape
from ..models.files import Model
from . import rules  # noqa: F401 (registers them)
from .builder import RULES, GraphBuilder
from .config import LoweringConfig
from .eight_bits import EightBits, layers_with_weights, quantize_graph
from .graph.arrangement import image_of
from .graph.copies import copies_first
from .graph.gates import find_gates, sum_means
from .graph.graph import Graph, Node, Unsupported
from .graph.tables import spare_tables
from .launch_plan import LaunchPlanner
from .rules.ends import end
from .show import ShownLaunch

_LOG = logging.getLogger(__name__)

LISTED = 4  # layer names listed in a message


def describe_fault(fault: Exception) -> str:
    """Return an exception in one line, with the file and line that raised it."""
    message = " ".join(f"{type(fault).__name__}: {fault}".split()).removesuffix(":")
    frames = traceback.extract_tb(fault.__traceback__)
    return f"{message} at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else message


def lower_layers(model: Model, dtype: np.dtype[Any], eight_bits: EightBits | None = None) -> Graph:
    """Return the graph of a network, with one or a few operations per layer. Raise Unsupported if a layer has no rule.

    Additions are fused into the convolutions that feed them; concatenations, slices and shuffles are folded into the
    operations that read them. `eight_bits`: the tensors that are stored in 8 bits, or None.
    """
    image = image_of(model).shape
    builder = GraphBuilder.start(model, dtype, image)
    builder.is_quantized = eight_bits is not None
    rows: list[tuple[str, str]] = []
    for layer in model.network.layers:
        if type(layer) not in RULES:
            raise Unsupported(f"layer {layer.name!r} ({layer.kind}) has no lowering rule")
        RULES[type(layer)](builder, layer)
        row = builder.row_of(layer.name)
        if row is not None:
            rows.append((layer.name, row))
    known = {node.name for node in builder.nodes}  # a later layer may compute this layer's value in addition to its own
    rows = [(layer, row if row in known else builder.row_of(layer) or row) for layer, row in rows]
    end(builder)
    graph = find_gates(spare_tables(Graph(tuple(builder.nodes), image, dtype.itemsize, layers=tuple(rows))))
    if eight_bits is None:
        return copies_first(graph if dtype == np.float16 else sum_means(graph))
    places = ((layer.name, builder.places[layer.name]) for layer in model.network.layers)
    layers = {
        channel_map.parts[0]: name
        for name, channel_map in places
        if len(channel_map.parts) == 1 and channel_map.are_all
    }
    return copies_first(quantize_graph(graph, model.network, layers, eight_bits))


class LaunchSequence:
    """A network divided into segments, each of which runs as one launch of at most `most` instructions if possible.

    Raises Unsupported if the network cannot be lowered. `batch`: the typical batch size.
    """

    def __init__(self, model: Model, dtype: np.dtype[Any], config: LoweringConfig, most: int, batch: int = 1) -> None:
        self._config, self._network = config, model.network
        self.image = image_of(model)
        self._counts: dict[int, int] = {}  # instruction counts, keyed by number of images
        self._faults: dict[int, str] = {}  # why planning failed, keyed by number of images
        self.graph = lower_layers(model, dtype, config.eight_bits)
        self.most = most
        self.segments = self._whole(batch) or self._cut()
        self.note = self._note()

    def images(self, batch: int) -> int:
        """Return how many images of a batch one launch can process within the instruction budget."""
        launches, fitting = 1, batch
        while fitting > 1 and (count := self._count(fitting)) > self.most:
            launches = max(launches + 1, launches * count // self.most)
            fitting = ceil_div(batch, launches)
        while fitting > 1 and batch % fitting and self._count(batch % fitting) > self.most:
            fitting = next(size for size in range(fitting - 1, 0, -1) if batch % size == 0)
        return fitting

    def _count(self, images: int) -> int:
        """Return the number of instructions of the longest segment.

        If planning fails for this number of images but a plan exists for a single image, return twice `most`.
        """
        if images not in self._counts:
            try:
                self._counts[images] = self._most_instructions(images)
            except Exception as fault:
                if images == 1 or isinstance(fault, Unsupported):
                    raise
                _LOG.exception("%s: no plan for %d images at a time", self._network.name, images)
                self._faults[images] = describe_fault(fault)
                self._counts[images] = 2 * self.most
        return self._counts[images]

    def _most_instructions(self, images: int) -> int:
        """Return the number of instructions of the longest segment."""
        return max(segment.plan(images).instructions for segment in self.segments)

    def note_of(self, batch: int) -> str | None:
        """Return a note about the launches that a batch requires, or None if there is only one."""
        notes = [] if self.note is None else [self.note]
        fitting = self.images(batch)
        if fitting < batch:
            launches = ceil_div(batch, fitting)
            reasons = [f"more images would exceed {self.most} instructions"]
            if batch in self._faults:
                reasons = [f"the plan of one launch failed ({self._faults[batch]})"]
            elif failed := [images for images in self._faults if images < batch]:
                reasons.append(f"the plan for {max(failed)} images failed ({self._faults[max(failed)]})")
            notes.append(f"a batch of {batch} runs as {launches} launches of up to {fitting}; {'; '.join(reasons)}")
        return "; ".join(notes) or None

    def eight_bits_note(self, source: str) -> str:
        """Describe which layers are stored in 8 bits. `source`: where the scales of values come from."""
        with_weights = layers_with_weights(self._network)
        narrow = self._names(lambda node: node.has_fp8_weights)
        maybe = self._names(lambda node: node.may_have_fp8_weights)
        values = self._names(lambda node: node.operation.is_fp8)
        more_values = self._names(lambda node: node.may_be_fp8)
        if not narrow and not maybe:
            return "no layer has weights in 8 bits; all are in bfloat16, like the first and the last layer"
        others = [name for name in with_weights if name not in narrow | maybe]
        note = f"weights of {len(narrow)} of {len(with_weights)} layers are in 8 bits"
        if others:
            note += f" (in bfloat16: {_listed(others)})"
        if values:
            note += f", and outputs of {_counted(values)}"
        if more_values:
            note += f"; if faster, also weights of {len(maybe)} more and outputs of {_counted(more_values)}"
        return f"{note}; scales from {source}" if values or more_values else note

    def _names(self, is_meant: Callable[[Node], bool]) -> set[str]:
        return {node.name for node in self.graph.nodes if is_meant(node)}

    def show(self, batch: int) -> list[ShownLaunch]:
        """Return the launches that a batch requires, one of each kind, with their graphs after each pass."""
        step = self.images(batch)
        sizes = dict.fromkeys(min(step, batch - first) for first in range(0, batch, step))
        return [segment.show(size) for size in sizes for segment in self.segments]

    def _whole(self, batch: int) -> tuple[LaunchPlanner, ...]:
        """Return the network as one segment if a launch can process several images of a batch.

        A single image then fits too, so no plan for it is needed. Otherwise, or if planning fails, return no segments.
        """
        if batch == 1:
            return ()
        self.segments = (self._planner(0, len(self.graph.nodes), self.graph.image),)
        with contextlib.suppress(Unsupported):
            if self.images(batch) > 1:
                return self.segments
        self._counts.clear()
        self._faults.clear()
        return ()

    def _cut(self) -> tuple[LaunchPlanner, ...]:
        """Divide the network into as few segments as the instruction budget and SBUF allow.

        Each segment ends at the last feasible border.
        """
        nodes = self.graph.nodes
        segments: list[LaunchPlanner] = []
        borders = [n + 1 for n in range(len(nodes)) if _is_border(nodes, n)]
        first, image = 0, self.graph.image
        while first < len(nodes):
            segment, first = self._longest(first, [border for border in borders if border > first], image)
            segments.append(segment)
            image = segment.output
        return tuple(segments)

    def _longest(self, first: int, borders: Sequence[int], image: Shape) -> tuple[LaunchPlanner, int]:
        """Return the longest segment that begins at node `first`, and its end.

        `borders`: the possible ends; a segment that ends at the first of these may exceed the instruction budget.
        """
        reason = Unsupported("no part of it fits")
        for last in reversed(borders):
            try:
                planner = self._planner(first, last, image)
                count = planner.plan(1).instructions
            except Unsupported as why:
                reason = why
                continue
            if count <= self.most or last == borders[0]:
                return planner, last
        raise reason

    def _planner(self, first: int, last: int, image: Shape) -> LaunchPlanner:
        """Return a planner for nodes [first, last), which receive `image`."""
        nodes = self.graph.nodes
        is_whole = (first, last) == (0, len(nodes))
        part = _part(nodes, first, last)
        graph = Graph(part, image, self.graph.itemsize, from_host=first == 0, is_whole=is_whole)
        return LaunchPlanner(graph, self._config, self.most)

    def _note(self) -> str | None:
        if len(self.segments) == 1:
            return None
        ends = [segment.last for segment in self.segments[:-1]]
        largest = self._most_instructions(1)
        over = "" if largest <= self.most else f" if possible ({largest} in the largest)"
        return f"{len(self.segments)} launches of at most {self.most} instructions{over}: cut after {', '.join(ends)}"


def _counted(names: Collection[str]) -> str:
    return "1 layer" if len(names) == 1 else f"{len(names)} layers"


def _listed(names: Sequence[str]) -> str:
    listed = ", ".join(names[:LISTED])
    return listed if len(names) <= LISTED else f"{listed} and {len(names) - LISTED} more"


def _is_border(nodes: Sequence[Node], number: int) -> bool:
    """True if this node's value is the only one that later nodes read from this node and the nodes before it."""
    later = [parts for node in nodes[number + 1 :] for parts in node.sources]
    alone = all(parts == (number,) or min(parts) > number for parts in later)
    alone = alone and (number == len(nodes) - 1 or all(node.output is None for node in nodes[: number + 1]))
    return alone and (number == len(nodes) - 1 or not nodes[number].operation.has_answers)


def _part(nodes: Sequence[Node], first: int, last: int) -> tuple[Node, ...]:
    """Return nodes [first, last) with their sources renumbered.

    The last node becomes an output in HBM unless it is the last node of the network.
    """
    part = [
        node.changed(sources=tuple(tuple(max(-1, n - first) for n in parts) for parts in node.sources))
        for node in nodes[first:last]
    ]
    if last < len(nodes):
        part[-1] = replace(part[-1], output=0, may_be_fp8=False).changed(is_fp8=False)
    return tuple(part)
