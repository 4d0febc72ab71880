"""A network as one launch: the program, the weights and the biases that `kernels.run_network` reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..kernels.packing import PARTITIONS, ceil_div, taps_in_partitions
from ..models.files import Model
from ..models.layout import pack_side_by_side
from ..models.network import INPUT, Conv2d, Dense, Flatten, Layer, Pool, Shape, Softmax

SBUF_BYTES = 176 * 1024 - 264  # of a partition that tiles may take on trn1, the smallest (kernels/tiles.py)
WEIGHT_BYTES = 88 * 1024  # of them, at most, for the weights of all layers
MAX_TOGETHER = 16  # images side by side
PSUM_COLUMNS = 512  # float32 numbers of a PSUM bank


@dataclass(frozen=True)
class Planned:
    """One layer of the program, by the names of `kernels.network.Layer`'s fields; filters are [Cout, Cin, kh, kw]."""

    kind: str
    name: str
    source: int
    channels: int
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    pool_size: int = 1
    activation: str = "identity"
    parameters: tuple[float, ...] = ()
    weights: int = 0
    constants: int = 0
    taps: tuple[int, int, int] = (1, 1, 1)
    together: int = 1
    margin: tuple[int, int, int, int] = (0, 0, 0, 0)
    count_include_pad: bool = False
    ceil_mode: bool = False
    softmax: bool = False
    shown: str = ""  # the kind as the table has it
    before: Shape = ()
    after: Shape = ()
    filters: np.ndarray | None = None
    bias: np.ndarray | None = None

    def fields(self) -> tuple[Any, ...]:
        """What the kernel is told."""
        return (
            self.kind,
            self.name,
            self.source,
            self.channels,
            self.kernel,
            self.stride,
            self.dilation,
            self.padding,
            self.pool_size,
            self.activation,
            self.parameters,
            self.weights,
            self.constants,
            self.taps,
            self.together,
            self.margin,
            self.count_include_pad,
            self.ceil_mode,
            self.softmax,
        )


@dataclass(frozen=True)
class NetworkLaunch:
    """What `run_network` takes beside x, and the layers of its program."""

    weights: np.ndarray
    constants: np.ndarray
    program: tuple[tuple[Any, ...], ...]
    together: int
    images_at_once: int


class DoesNotFit(ValueError):  # noqa: N818 (a finding, after which the network runs layer by layer)
    """Why a network is not one launch; the message is a clause for the user."""


class NetworkPlan:
    """What a network's launches have in common, whatever their batch."""

    def __init__(self, model: Model, dtype: np.dtype[Any]) -> None:
        """DoesNotFit where the network cannot be one launch."""
        self._dtype = dtype
        self.image = _image(model)  # the input as the kernel takes it
        self.layers = tuple(_layers(model, dtype, self.image))
        self._laid_out: dict[int, tuple[list[Planned], np.ndarray, np.ndarray]] = {}
        self.launch(1)

    def launch(self, batch: int) -> NetworkLaunch:
        """The launch for a batch of that size."""
        together = _together(self.layers, self.image, batch)
        while True:
            try:
                return self._launch(together, batch)
            except DoesNotFit:
                if together == 1:
                    raise
                together //= 2

    def _launch(self, together: int, batch: int) -> NetworkLaunch:
        if together not in self._laid_out:
            self._laid_out[together] = _lay_out(self.layers, together, self._dtype)
        layers, weights, constants = self._laid_out[together]
        images = ceil_div(batch, together)
        at_once = _images_at_once(layers, together, self._dtype.itemsize, images)
        program = tuple(layer.fields() for layer in layers)
        return NetworkLaunch(weights, constants, program, together, at_once)


def _pads_evenly(layer: Conv2d) -> bool:
    """Whether each side has the padding of the one opposite: the network kernel's blocks are laid out for that."""
    top, left, bottom, right = layer.padding
    return (top, left) == (bottom, right)


def _image(model: Model) -> Shape:
    """The input as (C, H, W): features, or an image of which nothing but its flattened form is read, are (F, 1, 1)."""
    network = model.network
    shape = network.input.shape
    readers = [layer for layer in network.layers if INPUT in layer.inputs]
    if len(shape) == 3 and not all(isinstance(layer, Flatten) for layer in readers):
        return shape
    return (math.prod(shape), 1, 1)


def _layers(model: Model, dtype: np.dtype[Any], image: Shape) -> list[Planned]:
    """The layers in order, their filters in `dtype`; flattening is in the window of the dense layer after it."""
    drawn = _Drawing(model, dtype, {INPUT: -1}, {INPUT: image}, [])
    for layer in model.network.layers:
        drawn.add(layer)
    last = drawn.planned[-1] if drawn.planned else None
    if last is not None and _gives_scores(last):
        drawn.planned[-1] = replace(last, kind="scores")
    elif last is None or last.kind != "scores":
        drawn.add_identity("scores", model.network.layers[-1].name, False)
    return drawn.planned


@dataclass
class _Drawing:
    """The layers so far: which of them gives what a name stands for, and its shape as an image."""

    model: Model
    dtype: np.dtype[Any]
    places: dict[str, int]
    shapes: dict[str, Shape]
    planned: list[Planned]

    def add(self, layer: Layer) -> None:
        """The next layer of the network; DoesNotFit where the kernel has no body for it."""
        name, (source, *others) = layer.name, layer.inputs
        if others:
            raise DoesNotFit(f"layer {name!r} ({layer.kind}) reads several layers")
        if isinstance(layer, Flatten):
            self.places[name], self.shapes[name] = self.places[source], self.shapes[source]
        elif isinstance(layer, Conv2d) and layer.groups == 1 and _pads_evenly(layer):
            self._convolution(layer)
        elif isinstance(layer, Dense):
            self._dense(layer)
        elif isinstance(layer, Pool) and layer.dilation == (1, 1):
            self._pooling(layer)
        elif isinstance(layer, Softmax) and not layer.log:
            self._softmax(layer)
        else:
            raise DoesNotFit(f"there is no body for layer {name!r} ({layer.kind})")

    def add_identity(self, name: str, source: str, softmax: bool) -> None:
        """The last layer where none is dense: what comes in, with images on the partitions."""
        channels, *window = self.shapes[source]
        count = math.prod(self.shapes[source])
        filters = np.eye(count, dtype=self.dtype).reshape(count, channels, *window)
        bias = np.zeros(count, np.float32)
        self._append(
            "scores", name, source, filters.shape[0], (1, 1), filters, bias, kernel=tuple(window), softmax=softmax
        )

    def _append(
        self, kind: str, name: str, source: str, channels: int, sides: tuple[int, int], *own: Any, **fields: Any
    ) -> None:
        before, after = self.shapes[source], (channels, *sides)
        filters, bias = own or (None, None)
        fields = {"shown": kind, "before": before, "after": after, "filters": filters, "bias": bias, **fields}
        planned = Planned(kind, name, self.places[source], channels, **fields)
        self.places[name], self.shapes[name] = len(self.planned), after
        self.planned.append(planned)

    def _convolution(self, layer: Conv2d) -> None:
        _, *sides = layer.output_shape(self.shapes[layer.inputs[0]])
        self._append(
            "conv2d",
            layer.name,
            layer.inputs[0],
            layer.out_channels,
            (sides[0], sides[1]),
            self.model.tensors[f"{layer.name}.weight"].astype(self.dtype),
            self.model.tensors[f"{layer.name}.bias"].astype(np.float32),
            kernel=layer.kernel_size,
            stride=layer.stride,
            dilation=layer.dilation,
            padding=layer.padding,
            pool_size=layer.pool_size,
            activation=layer.activation,
            parameters=layer.activation_parameters,
        )

    def _dense(self, layer: Dense) -> None:
        channels, *window = self.shapes[layer.inputs[0]]
        weight = self.model.tensors[f"{layer.name}.weight"].astype(self.dtype)
        self._append(
            "conv2d",
            layer.name,
            layer.inputs[0],
            layer.out_features,
            (1, 1),
            np.ascontiguousarray(weight.T).reshape(layer.out_features, channels, *window),
            self.model.tensors[f"{layer.name}.bias"].astype(np.float32),
            shown="dense",
            kernel=tuple(window),
            activation=layer.activation,
            parameters=layer.activation_parameters,
        )

    def _pooling(self, layer: Pool) -> None:
        channels, *sides = layer.output_shape(self.shapes[layer.inputs[0]])
        self._append(
            f"{layer.method}_pool",
            layer.name,
            layer.inputs[0],
            channels,
            (sides[0], sides[1]),
            kernel=layer.window,
            stride=layer.stride,
            padding=layer.padding,
            count_include_pad=layer.count_include_pad,
            ceil_mode=layer.ceil_mode,
        )

    def _softmax(self, layer: Softmax) -> None:
        source = self.places[layer.inputs[0]]
        dense = self.planned[source] if source >= 0 else None
        if (
            dense is not None
            and dense.kind == "conv2d"
            and dense.after[1:] == (1, 1)
            and dense.activation == "identity"
        ):
            self.planned[source] = replace(dense, kind="scores", softmax=True)
        else:
            self.add_identity(layer.name, layer.inputs[0], True)


def _gives_scores(layer: Planned) -> bool:
    """Whether the last layer's body can compute it: what it gives is one number a channel."""
    return layer.kind == "conv2d" and layer.after[1:] == (1, 1) and layer.pool_size == 1 and not any(layer.padding)


def _together(layers: Sequence[Planned], image: Shape, batch: int) -> int:
    """Images side by side in the input: as many as give the first layer work for all lanes. Features are transposed."""
    together = 1
    if image[1:] == (1, 1):
        return together
    while 2 * together <= min(batch, MAX_TOGETHER) and _goes(layers, image[0], 2 * together):
        together *= 2
    return together


def _goes(layers: Sequence[Planned], channels: int, together: int) -> bool:
    """Whether so many images fit side by side in the input, and in what each layer gives."""
    if together * max(channels, layers[0].channels) > PARTITIONS:
        return False
    given = _togethers(layers, together)
    for layer, of_output in zip(layers, given):
        of_input = together if layer.source < 0 else given[layer.source]
        if of_input > 1 and layer.channels > PARTITIONS and layer.channels % PARTITIONS:
            return False
        if layer.kind == "scores" and of_input * layer.channels > PSUM_COLUMNS:
            return False
        if layer.kind not in ("conv2d", "scores") and of_input != of_output:
            return False
    return True


def _togethers(layers: Sequence[Planned], together: int) -> list[int]:
    """Images side by side in what each layer gives: never more than in what it reads."""
    given: list[int] = []
    for layer in layers:
        most = together if layer.source < 0 else given[layer.source]
        while most > 1 and most * layer.channels > PARTITIONS:
            most //= 2
        given.append(most)
    return given


def _lay_out(
    layers: Sequence[Planned], together: int, dtype: np.dtype[Any]
) -> tuple[list[Planned], np.ndarray, np.ndarray]:
    """The layers with their places, all weights one after the other, all biases side by side."""
    given = _togethers(layers, together)
    laid_out: list[Planned] = []
    weights: list[np.ndarray] = []
    biases: list[np.ndarray] = []
    numbers = columns = held = 0
    for layer, of_output in zip(layers, given):
        of_input = together if layer.source < 0 else given[layer.source]
        planned = replace(layer, together=of_output, margin=_margin(layers, len(laid_out)))
        if layer.filters is not None and layer.bias is not None:
            rows = of_input * layer.before[0]
            taps = taps_in_partitions(rows, *layer.kernel) if layer.source < 0 else (1, 1, rows)
            whole = of_input * layer.channels
            block = whole if layer.kind == "scores" else min(PARTITIONS, of_output * layer.channels)
            packed = pack_side_by_side(layer.filters, of_input, taps, block)
            planned = replace(planned, weights=numbers, constants=columns, taps=taps)
            weights.append(packed.reshape(-1))
            biases.append(_bias_columns(planned))
            numbers += packed.size
            columns += biases[-1].shape[1]
            held += ceil_div(rows, PARTITIONS) * packed.shape[1] * dtype.itemsize
        laid_out.append(planned)
    if held > WEIGHT_BYTES:
        raise DoesNotFit(
            f"its weights take {held // 1024} KiB of a partition of SBUF, {WEIGHT_BYTES // 1024} are there"
        )
    return laid_out, np.concatenate(weights), np.ascontiguousarray(np.concatenate(biases, axis=1))


def _bias_columns(layer: Planned) -> np.ndarray:
    """The biases of a layer as columns of 128: by partition, or of the last layer by column."""
    assert layer.bias is not None
    if layer.kind == "scores":
        return np.tile(layer.bias, (PARTITIONS, 1))
    columns = ceil_div(layer.channels, PARTITIONS)
    by_partition = np.zeros((columns, PARTITIONS), np.float32)
    side_by_side = np.tile(layer.bias, layer.together)
    by_partition.reshape(-1)[: len(side_by_side)] = side_by_side
    return by_partition.T


def _margin(layers: Sequence[Planned], number: int) -> tuple[int, int, int, int]:
    """The zeros that the convolutions which read a layer want around it."""
    readers = [layer for layer in layers if layer.source == number and layer.kind == "conv2d"]
    sides = [max([reader.padding[side] for reader in readers], default=0) for side in range(4)]
    return sides[0], sides[1], sides[2], sides[3]


def _images_at_once(layers: Sequence[Planned], together: int, itemsize: int, images: int) -> int:
    """Images / together that SBUF holds at a time, twice, so that the next ones load behind the present ones."""
    each = 0
    for layer in layers:
        if layer.source < 0:
            each += _elements(layer.before, layer.padding) * ceil_div(together * layer.before[0], PARTITIONS)
        apart = together // layer.together
        each += apart * _elements(layer.after, layer.margin) * ceil_div(layer.together * layer.after[0], PARTITIONS)
        if layer.kind.endswith("_pool"):
            each += (
                2 * apart * _elements(layer.before, layer.padding) * ceil_div(together * layer.before[0], PARTITIONS)
            )
    fitting = (SBUF_BYTES - WEIGHT_BYTES) // (2 * each * itemsize)
    if fitting < 1:
        raise DoesNotFit(f"an image takes {each * itemsize // 1024} KiB of a partition of SBUF on its way")
    return min(images, fitting)


def _elements(shape: Shape, margin: tuple[int, int, int, int]) -> int:
    """Elements of a partition that one channel of an image takes with the zeros around it."""
    return (shape[1] + margin[0] + margin[2]) * (shape[2] + margin[1] + margin[3])
