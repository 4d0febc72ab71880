"""Upsampling and downsampling of images.

Rows and columns are each multiplied by a matrix. Each row of the matrix contains the weights of the old pixels in one
new pixel: ones and zeros if pixels are repeated, fractions if they are interpolated. For an integer factor, the product
is a depthwise convolution of the image after edge padding. In upsampling, the output channels of this convolution are
rearranged as pixels, as for a transposed convolution (see transposed.py). Other matrices are applied to one axis after
the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...errors import ModelError
from ...layers import Pad
from ..importer import Importer
from ..interpolation import Resized, interpolation
from ..onnx_adaptive import WEIGHTED_PIXELS
from ..onnx_attributes import integer, integers, listed, number, numbers, text
from ..onnx_file import Node
from ..steps import affine_view
from ..view import View
from .convolution import Movement, add_convolution
from .rearranging import MAX_SELECTED, mix_entries, reshaped

MAX_TIMES = 64  # maximum number of phases of rows and columns in one convolution
MAX_MIXED = 512  # maximum number of old or new pixels for which one product mixes all pixels
SMALLEST_SHARE = 1e-5  # smaller weights of pixels are treated as rounding errors of float32 positions


def _mode(node: Node) -> str:
    """Return how Resize interpolates; raise ModelError if that is not supported."""
    way = text(node, "mode", "nearest")
    if way not in ("nearest", "linear", "cubic"):
        raise ModelError(f"its mode {way!r} is not supported; supported modes are nearest, linear and cubic")
    if text(node, "keep_aspect_ratio_policy", "stretch") != "stretch":
        raise ModelError("its keep_aspect_ratio_policy is not supported")
    return way


def _resize(importer: Importer, node: Node) -> None:
    """Convert Resize, and its predecessor Upsample."""
    view = importer.data(node)
    way = _mode(node)
    extents = importer.extents(view)
    matrices: dict[int, np.ndarray] = {}
    regions = _regions(importer, node, len(extents))
    sizes = _sizes(importer, node, extents, regions)
    is_as_large = all(size == extent for extent, (size, _) in zip(extents, sizes))
    for axis, (extent, (size, scale)) in enumerate(zip(extents, sizes)):
        if is_as_large or (size, scale) == (extent, 1):  # ONNX Runtime copies the axis regardless of its region
            continue
        if view.batched and axis == 0:
            raise ModelError("cannot resize the batch axis")
        if not 1 <= size <= MAX_SELECTED or extent > MAX_SELECTED:
            raise ModelError(f"cannot resize {extent} pixels to {size}; sizes must be between 1 and {MAX_SELECTED}")
        resized = Resized(extent, size, scale, regions[axis])
        matrices[axis - view.batched] = interpolation(node, importer.opset < 11, way, resized)
    view = _resized(importer, view, matrices)
    importer.give(node, _fill_outside(importer, view, matrices, number(node, "extrapolation_value", 0.0)))


def _fill_outside(importer: Importer, view: View, matrices: dict[int, np.ndarray], outside: float) -> View:
    """Set the new pixels to which no pixel of the image contributes: their rows in the `matrices` are zero."""
    blank = {axis: np.flatnonzero(~matrix.any(axis=1)) for axis, matrix in matrices.items()}
    if not outside or not any(map(len, blank.values())):
        return view
    shift = np.zeros(view.shape)
    for axis, rows in blank.items():
        np.moveaxis(shift, axis, 0)[rows] = outside
    return affine_view(importer, view, np.ones(1), shift[None] if view.batched else shift)


def _resized(importer: Importer, view: View, matrices: dict[int, np.ndarray]) -> View:
    """Multiply each axis in `matrices` by its matrix."""
    is_plane = len(view.axes) == 3 and bool(matrices) and set(matrices) <= {1, 2}
    down, across = (Scaling.of(matrices.get(axis, np.eye(view.shape[axis]))) if is_plane else None for axis in (1, 2))
    if down and across:
        view = view.with_batch()
        is_small = down.times * across.times <= MAX_TIMES
        for axes in [(down, across)] if is_small else [(down, UNCHANGED), (UNCHANGED, across)]:
            view = _scaled(importer, view, axes)
        return view
    if is_plane and len(matrices) == 2:
        whole = np.kron(matrices[1], matrices[2])
        if max(whole.shape) <= MAX_MIXED:  # the pixels become channels, and one product mixes them
            sizes = [len(matrices[axis]) for axis in (1, 2)]
            view = reshaped(importer, view, (view.shape[0], whole.shape[1]), view.batched)
            return mix_entries(importer, view, 1, whole).reshaped((view.shape[0], *sizes), view.batched)
    for axis, matrix in matrices.items():
        view = mix_entries(importer, view, axis, matrix)
    return view


@dataclass(frozen=True)
class Scaling:
    """Scaling of an axis by `times` / `step`, in which each new entry is a weighted sum of adjacent old entries.

    Entry q * times + p of the result is the sum over t of entry q * step + t - before times `taps`[p, t]. The first and
    the last entry are repeated beyond the ends of the axis.
    """

    times: int
    step: int
    before: int
    taps: np.ndarray

    @staticmethod
    def of(matrix: np.ndarray) -> Scaling | None:
        """Return the filter that is equivalent to a matrix [size, extent]; None if the weights vary along the axis."""
        size, extent = matrix.shape
        times, step = max(1, size // extent), max(1, extent // size)
        if extent * times != size * step or times > MAX_TIMES:
            return None
        count = size // times
        middle = count // 2
        block = matrix[middle * times : (middle + 1) * times]
        columns_used = np.flatnonzero(np.abs(block).max(axis=0) > SMALLEST_SHARE)
        first, last = columns_used[0] - middle * step, columns_used[-1] - middle * step
        taps = block[:, columns_used[0] : columns_used[-1] + 1].astype(np.float32)
        result = np.zeros_like(matrix)
        for offset in range(first, last + 1):
            at = np.clip(np.arange(count) * step + offset, 0, extent - 1)
            for phase in range(times):
                np.add.at(result, (np.arange(count) * times + phase, at), taps[phase, offset - first])
        if not np.allclose(result, matrix, rtol=0, atol=SMALLEST_SHARE):
            return None
        return Scaling(times, step, -int(first), taps)

    def padding(self) -> tuple[int, int]:
        """Return the padding before and after the axis; it is negative if entries at that end are never read."""
        after = self.taps.shape[1] - self.before - self.step
        return self.before, 0 if -self.step < after < 0 else after


UNCHANGED = Scaling(1, 1, 0, np.ones((1, 1), np.float32))


def _scaled(importer: Importer, view: View, axes: tuple[Scaling, Scaling]) -> View:
    """Scale rows and columns by a depthwise convolution whose output channels are rearranged as pixels."""
    down, across = axes
    channels = view.shape[0]
    (top, bottom), (left, right) = down.padding(), across.padding()
    source = importer.planes(view)
    for limit, mode in ((max, "edge"), (min, "constant")):
        sides = limit(0, top), limit(0, left), limit(0, bottom), limit(0, right)
        if any(sides):
            source = importer.add(Pad(importer.name("pad"), sides, mode=mode, inputs=(source,))).layer
    kernel = down.taps[:, None, :, None] * across.taps[None, :, None, :]  # [row, column, taps down, taps across]
    filters = np.tile(kernel.reshape(-1, 1, *kernel.shape[2:]), (channels, 1, 1, 1))
    result = add_convolution(
        importer, source, filters, None, Movement(stride=(down.step, across.step), groups=channels)
    )
    return as_pixels(importer, result, (down.times, across.times))


def as_pixels(importer: Importer, view: View, times: tuple[int, int]) -> View:
    """Move the row and column phases of channels ordered as (channel, row, column) to the rows and columns."""
    if times == (1, 1):
        return view
    channels, high, wide = view.shape[0] // (times[0] * times[1]), *view.shape[1:]
    separated = reshaped(importer, view, (channels, *times, high, wide), True).permuted((0, 3, 1, 4, 2))
    return separated.reshaped((channels, high * times[0], wide * times[1]), True)


Region = tuple[float, float] | None


def _regions(importer: Importer, node: Node, rank: int) -> list[Region]:
    """Return the region of each axis that `tf_crop_and_resize` reads, as fractions of its extent; None for all."""
    regions: list[Region] = [None] * rank
    if text(node, "coordinate_transformation_mode", "half_pixel") != "tf_crop_and_resize":
        return regions
    constant, axes = importer.constant(node, 1), listed(node, "axes", tuple(range(rank)))
    if constant is None or constant.shape != (2 * len(axes),):
        raise ModelError("its region of interest must contain two numbers per axis")
    for axis, start, end in zip(axes, constant[: len(axes)].tolist(), constant[len(axes) :].tolist()):
        if not -1e3 < start <= end < 1e3:
            raise ModelError(f"its region of interest, {start:g} to {end:g} of an axis, extends beyond the axis")
        regions[axis] = (start, end)
    return regions


def _sizes(importer: Importer, node: Node, extents: tuple[int, ...], regions: list[Region]) -> list[tuple[int, float]]:
    """Return the new size and the scale of each axis."""
    scales = importer.constant(node, 1 if importer.opset < 11 else 2)  # input 1 is the region since opset 11
    if "scales" in node.attributes:  # Upsample in opset 7
        scales = np.asarray(numbers(node, "scales"), np.float64)
    sizes = importer.constant(node, 3)
    axes = listed(node, "axes", tuple(range(len(extents))))
    values = sizes if sizes is not None and sizes.size else scales
    if values is None or values.ndim != 1 or values.size != len(axes):
        raise ModelError("its scales or sizes must contain one number per axis")
    result = [(extent, 1.0) for extent in extents]
    for axis, value in zip(axes, values.tolist()):
        extent = extents[axis]
        if not 0 < value < 1 << 20:
            raise ModelError(f"cannot resize {extent} pixels by {value:g}")
        start, end = regions[axis] or (0.0, 1.0)
        result[axis] = (value, value / extent) if values is sizes else (_scaled_size(extent, end - start, value), value)
    return result


def _scaled_size(extent: int, share: float, scale: float) -> int:
    """Return the size of an axis, rounded down in float32 as ONNX Runtime does."""
    return math.floor(np.float32(extent) * np.float32(share) * np.float32(scale))


def _weighted_pixels(importer: Importer, node: Node) -> None:
    """Convert adaptive average pooling, which computes weighted sums of rows and columns."""
    view = importer.image(node)
    for axis, name in ((1, "row"), (2, "column")):
        places, shares = (np.asarray(node.attributes[name + kind]) for kind in ("s", "_shares"))
        extent = importer.image(node).shape[axis]
        if not (places >= -extent).all() or not (places < extent).all() or max(extent, len(places)) > MAX_SELECTED:
            raise ModelError(
                f"cannot select {name}s that {importer.describe(view)} does not have, or more than {MAX_SELECTED}"
            )
        matrix = np.zeros((len(places), extent))
        np.add.at(matrix, (np.arange(len(places))[:, None], places), shares)
        view = mix_entries(importer, view, axis, matrix)
    importer.give(node, view)


def _depth_to_space(importer: Importer, node: Node) -> None:
    view, block = _image_and_block(importer, node)
    channels, height, width = view.shape
    if channels % block**2:
        raise ModelError(
            f"cannot rearrange an input of {importer.describe(view)} into blocks of {block}x{block} pixels"
        )
    rest = channels // block**2
    if text(node, "mode", "DCR") == "CRD":
        split, order = (rest, block, block, height, width), (0, 3, 1, 4, 2)
    else:
        split, order = (block, block, rest, height, width), (2, 3, 0, 4, 1)
    result = reshaped(importer, view, split, True).permuted(order)
    importer.give(node, result.reshaped((rest, height * block, width * block), True))


def _space_to_depth(importer: Importer, node: Node) -> None:
    view, block = _image_and_block(importer, node)
    channels, height, width = view.shape
    if height % block or width % block:
        raise ModelError(
            f"cannot rearrange blocks of {block}x{block} pixels of {importer.describe(view)} into channels"
        )
    split = (channels, height // block, block, width // block, block)
    result = reshaped(importer, view, split, True).permuted((2, 4, 0, 1, 3))
    importer.give(node, result.reshaped((channels * block**2, height // block, width // block), True))


def _fold(importer: Importer, node: Node) -> None:
    """Convert Col2Im of non-overlapping blocks [batch, channels * block, blocks]; the rest of the image is 0."""
    view = importer.data(node).with_batch()
    sides, block = (_whole_numbers(importer, node, index) for index in (1, 2))
    strides = integers(node, "strides", 2, (1, 1)) if len(block) == 2 else ()
    plain = not any(integers(node, "pads", 4, (0,) * 4)) and integers(node, "dilations", 2, (1, 1)) == (1, 1)
    if len(sides) != 2 or strides != block or not plain:
        raise ModelError("only adjacent 2-D blocks without padding or dilation are supported")
    counts = (sides[0] // block[0], sides[1] // block[1])
    if len(view.axes) != 2 or view.shape[0] % math.prod(block) or view.shape[1] != math.prod(counts):
        raise ModelError(f"cannot build an image of {list(sides)} from {importer.describe(view)}")
    channels = view.shape[0] // math.prod(block)
    result = reshaped(importer, view, (channels, *block, *counts), True).permuted((0, 3, 1, 4, 2))
    result = result.reshaped((channels, counts[0] * block[0], counts[1] * block[1]), True)
    rest = (sides[0] % block[0], sides[1] % block[1])
    if any(rest):
        result = importer.add(Pad(importer.name("pad"), (0, 0, *rest), inputs=(importer.planes(result),)))
    importer.give(node, result)


def _whole_numbers(importer: Importer, node: Node, place: int) -> tuple[int, ...]:
    values = importer.constant(node, place)
    if values is None or values.dtype.kind != "i" or values.min(initial=1) < 1:
        raise ModelError(f"its input number {place + 1} is not a list of sizes")
    return tuple(int(value) for value in values.ravel())


def _image_and_block(importer: Importer, node: Node) -> tuple[View, int]:
    view, block = importer.image(node), integer(node, "blocksize", 0)
    if len(view.axes) != 3 or block < 1:
        raise ModelError(f"expects images and a blocksize of at least 1, but its input is {importer.describe(view)}")
    return view, block


OPERATORS = {
    WEIGHTED_PIXELS: _weighted_pixels,
    "Resize": _resize,
    "Upsample": _resize,
    "Col2Im": _fold,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
}
