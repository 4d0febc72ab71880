"""Lowering rules for transposes: of the input (performed by the host), between pixels and channels, and of any other
kind."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ...kernels.arrangement import are_matrices
from ...kernels.attention_operation import PixelTranspose, ReshapePixels
from ...kernels.program import Convolution, PixelShuffle, Rearrange
from ...models.checks import INPUT, Shape
from ...models.layers import Concat, Flatten, Reshape, Transpose
from ...simulator.machine.chip import PARTITIONS, PSUM_BANK_BYTES
from ..builder import GraphBuilder, lowers
from ..graph.graph import Node
from ..graph.lazy import LazyArray
from .splitting import can_split, some_channels
from .views import keep

# maximum number of interleaved phases of pixels if the alternative is to copy features one by one through HBM
MOST_PHASES = 16
MOST_TRANSPOSED = 1024  # maximum number of channels, or of pixels, that the Tensor Engine transposes
MOST_IN_BANK = PSUM_BANK_BYTES // 4  # maximum number of float32 numbers of a partition in a bank
MOST_PIXEL_AXES = 4  # axes of an access pattern, in addition to the partitions
MOST_COMPARED = 1 << 22  # maximum number of elements of a transpose whose permutation is analysed


@lowers(Transpose)
def transpose(builder: GraphBuilder, layer: Transpose) -> None:
    """Append a transpose.

    If the layer transposes an input that is read only once, the host does it. Channels that become pixels, as in a
    transposed convolution or a pixel shuffle, are computed as separate values whose rows and columns are interleaved.
    Pixels that become channels are extracted by a convolution with a permutation matrix.
    """
    if builder.is_whole and layer.inputs == (INPUT,) and builder.is_read_once(INPUT):
        keep(builder, layer)
        return
    before, after = builder.shapes[layer.inputs[0]], _image(layer)
    pixels = _order_of_pixels(layer, before, after)
    if pixels is not None:
        builder.add_by_channel(ReshapePixels, layer, after, split=pixels[0], order=pixels[1])
        return
    origin = None if _is_returned(builder, layer) else _origin(layer)
    heads = 0 if origin is None else _exchanged_heads(origin, before, after)
    if heads:
        builder.make_plain(layer.inputs[0])
        builder.add(PixelTranspose, layer.name, layer.inputs, after, kind=layer.kind, heads=heads)
        return
    if origin is not None:
        image = _image_of_tokens(origin, before, after)
        if image is not None:
            tokens = replace(layer, name=builder.inner(layer.name))
            builder.add_by_channel(ReshapePixels, tokens, image)
            layer, before = replace(layer, inputs=(tokens.name,)), image
        if _exchange_pixels(builder, layer, origin, before, after):
            return
    builder.make_plain(layer.inputs[0])
    builder.add(Rearrange, layer.name, layer.inputs, after, kind=layer.kind, split=layer.split, order=layer.order)


def _is_returned(builder: GraphBuilder, layer: Transpose) -> bool:
    """True if a layer transposes matrices that are then only reshaped, concatenated and returned.

    Such matrices are written to HBM in any case.
    """
    network = builder.model.network
    if not builder.is_whole or network.output.is_labelled or not are_matrices(layer.split, layer.order):
        return False
    names = [layer.name]
    for name in names:
        readers = [reader for reader in network.layers if name in reader.inputs]
        if not all(isinstance(reader, Flatten | Reshape | Concat) for reader in readers):
            return False
        names += [reader.name for reader in readers if reader.name not in names]
    return True


def _exchanged_heads(origin: np.ndarray, before: Shape, after: Shape) -> int:
    """Return the number of equal parts of the channels within which a transpose exchanges channels and pixels.

    Return 0 if the transpose is of another kind, or if the Tensor Engine cannot perform it.
    """
    channels, pixels = before[0], before[1] * before[2]
    heads, left = divmod(after[0], pixels)
    if left or channels % heads or max(channels, after[0]) > MOST_TRANSPOSED:
        return 0
    head_channels = channels // heads
    if min(head_channels, pixels) == 1 or (after[1] > 1 and head_channels > MOST_IN_BANK):
        return 0
    # avoids a single 16-bit column
    if heads > 1 and (head_channels > MOST_IN_BANK or after[0] % PARTITIONS == 1):
        return 0
    by_head = np.arange(origin.size).reshape(heads, head_channels, pixels).transpose(0, 2, 1)
    return heads if (origin.reshape(by_head.shape) == by_head).all() else 0


def _image_of_tokens(origin: np.ndarray, before: Shape, after: Shape) -> Shape | None:
    """Return the image shape to which tokens must first be reshaped so that its pixels become channels, or None if
    there is none."""
    if not before[1] == 1 < after[1]:
        return None
    for image in _images_of(before, after):
        if _taps(origin.reshape(after), image, after, (image[1] // after[1], image[2] // after[2])) is not None:
            return image
    return None


def _exchange_pixels(builder: GraphBuilder, layer: Transpose, origin: np.ndarray, before: Shape, after: Shape) -> bool:
    """Append a transpose between channels and pixels. Return False if the layer is not of this kind."""
    for image in _larger(before) if len(layer.shape) == 1 else [after]:
        phases = _phases(origin.reshape(image), before, image)
        if phases is not None:
            _interleave(builder, layer, phases, image)
            return True
    strides = (before[1] // after[1], before[2] // after[2])
    taps = _taps(origin.reshape(after), before, after, strides)
    if taps is None:
        return False
    _take_apart(builder, layer, taps, after, strides)
    return True


def _order_of_pixels(layer: Transpose, before: Shape, after: Shape) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the axes of the pixels and their permutation, if a transpose leaves each channel in place, or None
    otherwise."""
    channels, first = before[0], 0
    while math.prod(layer.split[:first]) < channels:
        first += 1
    rest, left = divmod(math.prod(layer.split[:first]), channels)
    if left or layer.order[:first] != tuple(range(first)) or after[0] != channels or len(layer.shape) != 3:
        return None
    split = (rest, *layer.split[first:])  # axes of the pixels; the first axis may also include channels
    runs: list[list[int]] = []  # runs of axes that remain adjacent
    for axis in (axis for axis in (0, *(axis - first + 1 for axis in layer.order[first:])) if split[axis] > 1):
        if runs and axis > runs[-1][-1] and math.prod(split[runs[-1][-1] + 1 : axis]) == 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    if not 1 < len(runs) <= MOST_PIXEL_AXES:
        return None
    positions = sorted(runs)
    return tuple(math.prod(split[axis] for axis in run) for run in positions), tuple(map(positions.index, runs))


def _images_of(before: Shape, after: Shape) -> Iterator[Shape]:
    """Yield the possible images of tokens whose pixels become the channels of `after`."""
    phases, left = divmod(after[0], before[0])
    for down in range(1, phases + 1):
        if left == 0 and phases % down == 0 and before[2] == after[1] * after[2] * phases:
            yield before[0], after[1] * down, after[2] * (phases // down)


def _image(layer: Transpose) -> Shape:
    """Return the shape of the value as an image; for features, the axes are in the order of the transpose."""
    if len(layer.shape) == 3:
        return layer.shape
    axes = [layer.split[axis] for axis in layer.order]
    channels, rows = axes[0], axes[1] if len(axes) > 2 else 1
    return channels, rows, math.prod(axes) // (channels * rows)


def _larger(before: Shape) -> Iterator[Shape]:
    """Yield the image shapes that result if channels become pixels, with at most MOST_PHASES phases."""
    channels, rows, columns = before
    for down in range(1, channels + 1):
        for across in range(1, channels // down + 1):
            if channels % (down * across) == 0 and 1 < down * across <= MOST_PHASES:
                yield channels // (down * across), rows * down, columns * across


def _origin(layer: Transpose) -> np.ndarray | None:
    """For each element of the value, return its index in the source. Return None if there are too many elements."""
    count = math.prod(layer.split)
    if count > MOST_COMPARED:
        return None
    return np.arange(count, dtype=np.int32).reshape(layer.split).transpose(layer.order).ravel()


def _phases(origin: np.ndarray, before: Shape, after: Shape) -> list[np.ndarray] | None:
    """Return the source channels of each phase of rows and columns, or None if the value does not consist of such
    phases."""
    channels, rows, columns = before
    if after[1] % rows or after[2] % columns or after[1:] == before[1:]:
        return None
    down, across = after[1] // rows, after[2] // columns
    if after[0] * down * across != channels:
        return None
    pixels = np.arange(rows * columns).reshape(rows, columns)
    phases = []
    for row in range(down):
        for column in range(across):
            phase = origin[:, row::down, column::across]
            first = phase[:, 0, 0] // (rows * columns)
            if not (phase == first[:, None, None] * rows * columns + pixels).all():
                return None
            phases.append(first)
    return phases


def _interleave(builder: GraphBuilder, layer: Transpose, phases: list[np.ndarray], after: Shape) -> None:
    """Append one value for each phase, and interleave the rows and columns of the values.

    If these values are the only consumers of a convolution, the convolution is split so that each phase has separate
    filters.
    """
    source = layer.inputs[0]
    channel_map, shape = builder.places[source], builder.shapes[source]
    node = builder.nodes[channel_map.parts[0]] if channel_map.parts[0] >= 0 else None
    alone = node is not None and node.name == source and builder.is_read_once(source)
    names = [builder.inner(layer.name) for _ in phases]
    is_split = node is not None and all(can_split(node, channels) for channels in phases)
    if alone and node is not None and is_split and channel_map.are_plain and builder.is_last(source):
        builder.nodes.pop()
        for name, channels in zip(names, phases):
            builder.add_node(_without_zeros(some_channels(node, channels)), name)
    else:
        for name, channels in zip(names, phases):
            builder.places[name], builder.shapes[name] = channel_map.picked(channels), (len(channels), *shape[1:])
            builder.gather(name)
    step = (after[1] // shape[1], after[2] // shape[2])
    builder.add(PixelShuffle, layer.name, tuple(names), after, kind=layer.kind, shown=(shape, after), step=step)


def _without_zeros(node: Node) -> Node:
    """Return a convolution without the outer rows and columns of its filters that are zero in all filters.

    The padding of the result may be negative, which means that it does not read all of its input.
    """
    operation, filters = node.convolution, node.filters
    assert filters is not None
    array = filters.make()
    nonzero = [np.flatnonzero(array.any(axis=axes)) for axes in ((0, 1, 3), (0, 1, 2))]
    if not all(map(len, nonzero)):
        return node
    (top, bottom), (left, right) = ((int(taps[0]), int(taps[-1]) + 1) for taps in nonzero)
    cropped = array[:, :, top:bottom, left:right]
    if cropped.shape == array.shape:
        return node
    rest = (top, left, array.shape[2] - bottom, array.shape[3] - right)
    padding = tuple(side - taps * step for side, taps, step in zip(operation.padding, rest, operation.dilation * 2))
    return replace(node, filters=LazyArray.of(cropped)).changed(kernel=cropped.shape[2:], padding=padding)


def _taps(
    origin: np.ndarray, before: Shape, after: Shape, strides: tuple[int, int]
) -> list[tuple[int, int, int]] | None:
    """Return the (channel, row, column) of the source at which each channel of the value begins.

    Further pixels follow at distances of `strides`. None if the value is not of this kind.
    """
    channels, rows, columns = before
    down, across = strides
    if min(strides) < 1 or rows % down or columns % across or after[0] != channels * down * across:
        return None
    if (after[1], after[2]) != (rows // down, columns // across):
        return None
    moves = np.arange(rows)[::down, None] * columns + np.arange(columns)[::across]
    first = origin[:, 0, 0]
    if not (origin == first[:, None, None] + moves).all():
        return None
    return [(n // (rows * columns), n // columns % rows, n % columns) for n in first.tolist()]


def _take_apart(
    builder: GraphBuilder, layer: Transpose, taps: list[tuple[int, int, int]], after: Shape, strides: tuple[int, int]
) -> None:
    """Append a convolution with a permutation matrix that extracts each channel from a different pixel."""
    source = layer.inputs[0]
    shape = (after[0], builder.shapes[source][0], *strides)

    def make() -> np.ndarray:
        filters = np.zeros(shape, np.float32)
        for output, (channel, row, column) in enumerate(taps):
            filters[output, channel, row, column] = 1
        return filters

    builder.add(
        Convolution,
        layer.name,
        layer.inputs,
        after,
        kind=layer.kind,
        filters=builder.places[source].filters(LazyArray(shape, make)),
        numbers=(np.zeros(after[0], np.float32),),
        kernel=strides,
        stride=strides,
    )
