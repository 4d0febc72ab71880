"""The layers of a program that are drawn so far, and what drawing the next one asks of them and adds to them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...models.checks import INPUT, Shape
from ...models.files import Model
from ...models.layers import Layer
from .channels import Channels
from .layout import heights_of, tile_heights
from .program import DoesNotFit, Planned

MOST_SCORES = 2048  # float32 numbers of half of PSUM's banks, so that two blocks of images are under way
MOST_COLUMNS = 4096  # of float32 numbers for each element, 16 KiB of a partition
MOST_GATHERED = 2048  # channels that are laid out anew: filters of 8 MiB in 16 bits


@dataclass
class Drawn:
    """The layers so far: which channels of them a name stands for, and its shape as an image."""

    model: Model
    dtype: np.dtype[Any]
    places: dict[str, Channels]
    shapes: dict[str, Shape]
    planned: list[Planned]

    def add_identity(self, name: str, source: str, softmax: str) -> None:
        """The last layer where none is dense: what comes in, with images on the partitions."""
        channels, *window = self.shapes[source]
        count = math.prod(self.shapes[source])
        if count > MOST_SCORES:
            raise DoesNotFit(f"layer {name!r} gives {count} numbers, more than the {MOST_SCORES} of a last layer")
        filters = np.eye(count, dtype=np.float32).reshape(count, channels, *window)
        self.append(
            "scores",
            name,
            (source,),
            (count, 1, 1),
            filters=self.places[source].filters(filters),
            numbers=(np.zeros(count, np.float32),),
            kernel=tuple(window),
            softmax=softmax,
        )

    def is_last(self, name: str) -> bool:
        """Whether a name stands for just what the last layer gives."""
        place = self.places.get(name)
        return place is not None and place.parts == (len(self.planned) - 1,) and place.are_plain

    def append(self, kind: str, name: str, reads: tuple[str, ...], after: Shape, **fields: Any) -> None:
        """A layer that gives `after`, a channel for each that it names."""
        first = self.places[reads[0]]
        before = self.shapes[reads[0]]
        fields = {"shown": kind, "before": (first.total, *before[1:]), "after": after, **fields}
        sources = tuple(self.places[read].parts for read in reads)
        self.places[name], self.shapes[name] = Channels.of(len(self.planned), after[0]), after
        self.planned.append(Planned(kind, name, sources, after[0], told=(before, after), **fields))

    def append_by_channel(
        self, kind: str, name: str, reads: tuple[str, ...], after: Shape, each: int = 1, **fields: Any
    ) -> None:
        """A layer that gives `each` channels for every one that its parts have, as they lie there."""
        source = self.places[reads[0]]
        self.append(kind, name, reads, (source.total * each, *after[1:]), **fields)
        self.planned[-1] = replace(self.planned[-1], told=(self.planned[-1].told[0], after))
        self.places[name], self.shapes[name] = source.given_by(len(self.planned) - 1, each), after

    def gather(self, name: str) -> None:
        """Let channels lie as they are named, by a 1x1 convolution by ones, whose sums have one number each."""
        shape = self.shapes[name]
        count = shape[0]
        if count > MOST_GATHERED:
            raise DoesNotFit(f"{count} channels of layer {name!r} are too many to be laid out anew")
        kinds = {layer.name: layer.kind for layer in self.model.network.layers}
        has_row = any(layer.name == name for layer in self.planned)
        label, shown = (f"{name}.gather", "gather") if has_row else (name, kinds[name])
        ones = self.places[name].filters(np.eye(count, dtype=np.float32).reshape(count, count, 1, 1))
        self.append("conv2d", label, (name,), shape, shown=shown, filters=ones, numbers=(np.zeros(count, np.float32),))
        self.places[name] = self.places[label]

    def heights(self, place: Channels) -> list[int]:
        """Channels of each tile."""
        return heights_of(self.planned, place.parts, self.shapes[INPUT][0], 1)

    def is_gathered(self, name: str) -> bool:
        """Whether channels lie as a convolution gives them."""
        place = self.places[name]
        return place.are_plain and self.heights(place) == tile_heights(place.total)

    def move_to_end(self, place: int) -> None:
        """Let a layer that nothing reads yet be the last one: all numbers after it become one less."""
        number = {-1: -1, **{n: n - (n > place) for n in range(len(self.planned))}, place: len(self.planned) - 1}
        order = [*self.planned[:place], *self.planned[place + 1 :], self.planned[place]]
        self.planned[:] = [
            replace(layer, sources=tuple(tuple(number[part] for part in parts) for parts in layer.sources))
            for layer in order
        ]
        self.places.update({name: channels.renumbered(number) for name, channels in self.places.items()})

    def numbers_of(self, layer: Layer, name: str, fill: float) -> np.ndarray:
        """A tensor of a layer as the channels lie that it reads: [channels], or [channels, rows, columns] where each
        element has a number."""
        source = layer.inputs[0]
        channels, *window = self.shapes[source]
        numbers = self.model.tensors[f"{layer.name}.{name}"].astype(np.float32)
        if numbers.size > channels:
            numbers = numbers.reshape(channels, *window)
            columns = math.prod(window) * len(self.heights(self.places[source]))
            if columns > MOST_COLUMNS:
                raise DoesNotFit(f"layer {layer.name!r} ({layer.kind}) has {numbers.size} numbers, too many for SBUF")
        else:
            numbers = numbers.reshape(channels)
        return self.places[source].spread(numbers, fill)
