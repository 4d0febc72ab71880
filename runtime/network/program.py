"""The layers of a network as the kernel that runs them in one launch takes them, before they are laid out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...kernels.tiling.packing import PARTITIONS
from ...models.files import Model
from ...models.network import (
    INPUT,
    Activation,
    Affine,
    Combine,
    Concat,
    Conv2d,
    Dense,
    Flatten,
    Layer,
    Pool,
    Shape,
    Softmax,
)

Parts = tuple[int, ...]  # layers whose channels stand one after another; -1 is the input

CONVOLUTIONS = ("conv2d", "scores")
SCORES_BYTES = 136 * 1024  # of a partition for the weights of the last layer, which are there all at a time
MOST_SCORES = 2048  # float32 numbers of half of PSUM's banks, so that two blocks of images are under way


@dataclass(frozen=True)
class Planned:
    """One layer of the program, by the names of `kernels.networks.layers.Layer`'s fields.

    Filters are [Cout, Cin / groups, kh, kw], `bias` a number for each output; `columns_of` the numbers of an affine.
    """

    kind: str
    name: str
    sources: tuple[Parts, ...]
    channels: int
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    pool_size: int = 1
    activation: str = "identity"
    parameters: tuple[float, ...] = ()
    groups: int = 1
    operation: str = ""
    weights: int = 0
    constants: int = 0
    taps: tuple[int, int, int] = (1, 1, 1)
    together: int = 1
    margin: tuple[int, int, int, int] = (0, 0, 0, 0)
    count_include_pad: bool = False
    ceil_mode: bool = False
    softmax: str = ""
    in_hbm: bool = False
    stays: bool = False
    group_bytes: int = 0
    blank: tuple[bool, bool] = (False, False)
    unfold: int = 1
    form: str = "direct"
    fold: tuple[int, int, int] = (0, -1, 0)
    copies: tuple[int, int, int] = (1, 0, 0)
    shown: str = ""  # the kind as the table has it
    before: Shape = ()
    after: Shape = ()
    filters: np.ndarray | None = None
    numbers: tuple[np.ndarray, ...] = ()  # the bias of a convolution; scale and shift of an affine

    def fields(self) -> tuple[Any, ...]:
        """What the kernel is told."""
        return (
            self.kind,
            self.name,
            self.sources,
            self.channels,
            self.after[1],
            self.after[2],
            self.kernel,
            self.stride,
            self.dilation,
            self.padding,
            self.pool_size,
            self.activation,
            self.parameters,
            self.groups,
            self.operation,
            self.weights,
            self.constants,
            self.taps,
            self.together,
            self.margin,
            self.count_include_pad,
            self.ceil_mode,
            self.softmax,
            self.in_hbm,
            self.stays,
            self.group_bytes,
            self.blank,
            self.unfold,
            self.form,
            self.fold,
            self.copies,
        )


class DoesNotFit(ValueError):  # noqa: N818 (a finding, after which the network runs layer by layer)
    """Why a network is not one launch; the message is a clause for the user."""


def image_of(model: Model) -> Shape:
    """The input as (C, H, W): features, or an image of which nothing but its flattened form is read, are (F, 1, 1)."""
    network = model.network
    shape = network.input.shape
    readers = [layer for layer in network.layers if INPUT in layer.inputs]
    if len(shape) == 3 and not all(isinstance(layer, Flatten) for layer in readers):
        return shape
    return (math.prod(shape), 1, 1)


def draw(model: Model, dtype: np.dtype[Any], image: Shape) -> list[Planned]:
    """The layers in order, to run in `dtype`; DoesNotFit where the kernel has no body for one.

    Flattening is in the window of the dense layer after it, a concatenation in what reads it, and a sum in the
    convolution that feeds it.
    """
    drawn = _Drawing(model, dtype, {INPUT: (-1,)}, {INPUT: image}, [])
    for layer in model.network.layers:
        drawn.add(layer)
    last = drawn.planned[-1] if drawn.planned else None
    is_last = drawn.places.get(model.network.layers[-1].name) == (len(drawn.planned) - 1,)
    if last is not None and is_last and _gives_scores(last, dtype.itemsize):
        drawn.planned[-1] = replace(last, kind="scores")
    elif last is None or last.kind != "scores":
        drawn.add_identity("scores", model.network.layers[-1].name, "")
    return drawn.planned


@dataclass
class _Drawing:
    """The layers so far: which of them give what a name stands for, and its shape as an image."""

    model: Model
    dtype: np.dtype[Any]
    places: dict[str, Parts]
    shapes: dict[str, Shape]
    planned: list[Planned]

    def add(self, layer: Layer) -> None:
        """The next layer of the network; DoesNotFit where the kernel has no body for it."""
        name, source = layer.name, layer.inputs[0]
        shape = self.shapes[source]
        if isinstance(layer, Flatten):
            self.places[name], self.shapes[name] = self.places[source], shape
        elif isinstance(layer, Conv2d):
            self._convolution(layer)
        elif isinstance(layer, Dense):
            self._dense(layer)
        elif isinstance(layer, Pool) and layer.dilation == (1, 1):
            self._pooling(layer)
        elif isinstance(layer, Softmax):
            self._softmax(layer)
        elif isinstance(layer, Concat):
            self.places[name] = tuple(part for read in layer.inputs for part in self.places[read])
            self.shapes[name] = (sum(self.shapes[read][0] for read in layer.inputs), *shape[1:])
            if -1 in self.places[name] or len({self.shapes[read][1:] for read in layer.inputs}) > 1:
                raise DoesNotFit(f"layer {name!r} ({layer.kind}) joins what has no place side by side")
        elif isinstance(layer, Combine):
            self._combine(layer)
        elif isinstance(layer, (Affine, Activation)) and (isinstance(layer, Activation) or len(layer.shape) == 1):
            self._affine(layer)
        else:
            raise DoesNotFit(f"there is no body for layer {name!r} ({layer.kind})")

    def add_identity(self, name: str, source: str, softmax: str) -> None:
        """The last layer where none is dense: what comes in, with images on the partitions."""
        channels, *window = self.shapes[source]
        count = math.prod(self.shapes[source])
        if count > MOST_SCORES:
            raise DoesNotFit(f"layer {name!r} gives {count} numbers, more than the {MOST_SCORES} of a last layer")
        filters = np.eye(count, dtype=np.float32).reshape(count, channels, *window)
        self._append(
            "scores",
            name,
            (source,),
            (count, 1, 1),
            filters=filters,
            numbers=(np.zeros(count, np.float32),),
            kernel=tuple(window),
            softmax=softmax,
        )

    def _append(self, kind: str, name: str, reads: tuple[str, ...], after: Shape, **fields: Any) -> None:
        sources = tuple(self.places[read] for read in reads)
        fields = {"shown": kind, "before": self.shapes[reads[0]], "after": after, **fields}
        self.places[name], self.shapes[name] = (len(self.planned),), after
        self.planned.append(Planned(kind, name, sources, after[0], **fields))

    def _convolution(self, layer: Conv2d) -> None:
        self._append(
            "conv2d",
            layer.name,
            layer.inputs,
            layer.output_shape(self.shapes[layer.inputs[0]]),
            filters=self.model.tensors[f"{layer.name}.weight"],
            numbers=(self.model.tensors[f"{layer.name}.bias"].astype(np.float32),),
            kernel=layer.kernel_size,
            stride=layer.stride,
            dilation=layer.dilation,
            padding=layer.padding,
            pool_size=layer.pool_size,
            activation=layer.activation,
            parameters=layer.activation_parameters,
            groups=layer.groups,
        )

    def _dense(self, layer: Dense) -> None:
        channels, *window = self.shapes[layer.inputs[0]]
        weight = self.model.tensors[f"{layer.name}.weight"]
        self._append(
            "conv2d",
            layer.name,
            layer.inputs,
            (layer.out_features, 1, 1),
            shown="dense",
            filters=weight.T.reshape(layer.out_features, channels, *window),
            numbers=(self.model.tensors[f"{layer.name}.bias"].astype(np.float32),),
            kernel=tuple(window),
            activation=layer.activation,
            parameters=layer.activation_parameters,
        )

    def _pooling(self, layer: Pool) -> None:
        self._append(
            f"{layer.method}_pool",
            layer.name,
            layer.inputs,
            layer.output_shape(self.shapes[layer.inputs[0]]),
            kernel=layer.window,
            stride=layer.stride,
            padding=layer.padding,
            count_include_pad=layer.count_include_pad,
            ceil_mode=layer.ceil_mode,
        )

    def _combine(self, layer: Combine) -> None:
        """A sum goes into the convolution that feeds it and nothing else: it then runs when both operands are there."""
        function: dict[str, Any] = {"activation": layer.activation, "parameters": layer.activation_parameters}
        for name, other in (layer.inputs, layer.inputs[::-1]):
            if layer.operation == "add" and self._feeds_alone(name, other):
                self._move_to_end(self.places[name][0])
                sources = (*self.planned[-1].sources, self.places[other])
                self.planned[-1] = replace(self.planned[-1], sources=sources, **function)
                self.places[layer.name], self.shapes[layer.name] = (len(self.planned) - 1,), self.shapes[name]
                return
        after = self.shapes[layer.inputs[0]]
        self._append("combine", layer.name, layer.inputs, after, operation=layer.operation, **function)

    def _feeds_alone(self, name: str, other: str) -> bool:
        """Whether a layer is a convolution that can take its sum with another, and nothing else reads it."""
        place = self.places[name]
        fed = self.planned[place[0]] if place[0] >= 0 else None
        if fed is None or (fed.kind, fed.name) != ("conv2d", name) or self.model.network.readers()[name] > 1:
            return False
        plain = (fed.pool_size, fed.activation, len(fed.sources)) == (1, "identity", 1)
        apart = len(self.places[other]) == 1 and place != self.places[other]
        return plain and apart and self.shapes[name] == self.shapes[other]

    def _move_to_end(self, place: int) -> None:
        """Let a layer that nothing reads yet be the last one: all numbers after it become one less."""
        number = {-1: -1, **{n: n - (n > place) for n in range(len(self.planned))}, place: len(self.planned) - 1}
        order = [*self.planned[:place], *self.planned[place + 1 :], self.planned[place]]
        self.planned[:] = [
            replace(layer, sources=tuple(tuple(number[part] for part in parts) for parts in layer.sources))
            for layer in order
        ]
        self.places.update({name: tuple(number[part] for part in parts) for name, parts in self.places.items()})

    def _affine(self, layer: Affine | Activation) -> None:
        channels = self.shapes[layer.inputs[0]][0]
        if isinstance(layer, Affine):
            numbers = tuple(
                self.model.tensors[f"{layer.name}.{name}"].astype(np.float32) for name in ("scale", "shift")
            )
        else:
            numbers = (np.ones(channels, np.float32), np.zeros(channels, np.float32))
        if len(numbers[0]) != channels:
            raise DoesNotFit(f"layer {layer.name!r} ({layer.kind}) has a number for each feature of an image")
        self._append(
            "affine",
            layer.name,
            layer.inputs,
            self.shapes[layer.inputs[0]],
            shown=layer.kind,
            numbers=numbers,
            activation=layer.activation,
            parameters=layer.activation_parameters,
        )

    def _softmax(self, layer: Softmax) -> None:
        place, kind = self.places[layer.inputs[0]], "log_softmax" if layer.log else "softmax"
        last = len(self.planned) - 1
        if (
            last >= 0
            and place == (last,)
            and _gives_scores(self.planned[last], self.dtype.itemsize)
            and self.planned[last].activation == "identity"
        ):
            self.planned[last] = replace(self.planned[last], kind="scores", softmax=kind)
        else:
            self.add_identity(layer.name, layer.inputs[0], kind)


def _gives_scores(layer: Planned, itemsize: int) -> bool:
    """Whether the last layer's body can compute it: what it gives is one number a channel. Larger layers run as others
    do, and the last one only brings their numbers to where the answers are found."""
    return (
        layer.kind == "conv2d"
        and layer.after[1:] == (1, 1)
        and layer.channels <= MOST_SCORES
        and layer.filters is not None
        and layer.filters.size * itemsize <= PARTITIONS * SCORES_BYTES
        and (layer.pool_size, layer.groups, len(layer.sources)) == (1, 1, 1)
        and not any(layer.padding)
    )
