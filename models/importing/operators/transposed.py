"""Transposed convolutions, converted to convolutions of stride 1 with the phases of larger strides as channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...checks import Shape
from ...errors import ModelError
from ...layers import Pad
from ..importer import Importer, without_height
from ..onnx_attributes import integer, integers, listed, text
from ..onnx_file import Node
from ..view import View
from .convolution import Movement, add_convolution, geometry
from .rearranging import MAX_SELECTED, mix_entries
from .resampling import as_pixels


def _transposed_convolution(importer: Importer, node: Node) -> None:
    view = importer.image(node)
    rank = len(view.axes)
    weight, bias = importer.weight(node, 1, (rank + 1,)), importer.optional(node, 2, (1,))
    groups = integer(node, "group", 1)
    if groups < 1 or weight.shape[0] != view.shape[0] or view.shape[0] % groups:
        raise ModelError(
            f"its weight has shape {list(weight.shape)} with {groups} groups, but its input is "
            f"{importer.describe(view)}"
        )
    node = _with_pads(node, weight.shape[2:], view.shape[1:])
    strides, dilations, pads = geometry(node, weight.shape[2:], view.shape[1:])
    more = integers(node, "output_padding", rank - 1, (0,) * (rank - 1))
    if max(strides) > 1 and max(dilations) == 1:
        importer.give(node, _by_phases(importer, view, (weight, bias), strides, (pads, more), groups))
        return
    for axis, stride in zip(range(1, rank), strides[-(rank - 1) :]):
        view = _spread_out(importer, view, axis, stride)
    filters = weight if rank == 3 else weight[:, :, None]
    reach = [(size - 1) * step for size, step in zip(filters.shape[2:], dilations)]
    ends = (0, *more) if rank == 2 else more
    padding = (reach[0] - pads[0], reach[1] - pads[1], reach[0] - pads[2] + ends[0], reach[1] - pads[3] + ends[1])
    source = importer.planes(view)
    cut = tuple(min(0, side) for side in padding)
    if min(cut) < 0:
        wider = tuple(max(0, side) for side in padding)  # pad first, because cropping could leave nothing
        for sides in (wider, cut):
            source = importer.add(Pad(importer.name("pad"), sides, inputs=(source,))).layer
        padding = (0, 0, 0, 0)
    # [in, out / groups, ...] becomes [out, in / groups, ...], with rows and columns reversed
    split = filters.reshape(groups, -1, *filters.shape[1:]).swapaxes(1, 2)
    flipped = split.reshape(-1, split.shape[2], *filters.shape[2:])[:, :, ::-1, ::-1]
    result = add_convolution(importer, source, flipped, bias, Movement(padding, dilation=dilations, groups=groups))
    importer.give(node, without_height(result, rank))


def _by_phases(
    importer: Importer,
    view: View,
    tensors: tuple[np.ndarray, np.ndarray | None],
    strides: tuple[int, int],
    sides: tuple[tuple[int, int, int, int], tuple[int, ...]],
    groups: int,
) -> View:
    """Add a transposed convolution as a convolution of stride 1 whose channels are the phases of rows and columns.

    Row q * stride + p of the output is the sum over t of row q - t of the input times row p + t * stride of the
    filters. `sides` contains the pads, and the numbers of rows and columns that are added at the end.
    """
    (weight, bias), (pads, more) = tensors, sides
    rank = len(view.axes)
    filters = weight if rank == 3 else weight[:, :, None]
    more = more if rank == 3 else (0, *more)
    steps = [-(-size // stride) for size, stride in zip(filters.shape[2:], strides)]
    remainders = [step * stride - size for size, stride, step in zip(filters.shape[2:], strides, steps)]
    filled = np.pad(filters, ((0, 0), (0, 0), (0, remainders[0]), (0, remainders[1])))
    # [in, out / groups, t, row, u, column] becomes [out, row, column, in / groups, t reversed, u reversed]
    split = filled.reshape(groups, -1, filled.shape[1], steps[0], strides[0], steps[1], strides[1])
    flipped = split.transpose(0, 2, 4, 6, 1, 3, 5)[..., ::-1, ::-1]
    outputs, phases = groups * filled.shape[1], strides[0] * strides[1]
    flipped = flipped.reshape(outputs * phases, -1, *steps)
    # A positive entry is the number of rows or columns at the end that contain only the bias.
    beyond = [extra - pad - blank for extra, pad, blank in zip(more, pads[2:], remainders)]
    ends = [step - 1 + (least > 0) for step, least in zip(steps, beyond)]
    biases = None if bias is None else np.repeat(bias.reshape(-1), phases)
    padding = (steps[0] - 1, steps[1] - 1, ends[0], ends[1])
    result = add_convolution(importer, importer.planes(view), flipped, biases, Movement(padding, groups=groups))
    image = as_pixels(importer, result, strides)
    cut = (-pads[0], -pads[1], *(least - stride * (least > 0) for least, stride in zip(beyond, strides)))
    if any(cut):
        image = importer.add(Pad(importer.name("pad"), cut, inputs=(importer.planes(image),)))
    return without_height(image, rank)


def _check_output_shape(sizes: Sequence[int], sides: Shape, most: list[int]) -> None:
    """Raise ModelError if an output of a transposed convolution is larger than `most`."""
    if any(size > limit for size, limit in zip(sizes, most)):
        raise ModelError(f"its output_shape is {list(sizes)}, but an input of {list(sides)} allows at most {most}")


def _with_pads(node: Node, kernel: Shape, sides: Shape) -> Node:
    """Return a transposed convolution with explicit pads, which are derived from its `output_shape` or `auto_pad`."""
    way, rank = text(node, "auto_pad", "NOTSET"), len(sides)
    has_shape = "output_shape" in node.attributes
    if not has_shape and way in ("NOTSET", "VALID"):
        return node
    strides, dilations = (integers(node, name, rank, (1,) * rank) for name in ("strides", "dilations"))
    more = integers(node, "output_padding", rank, (0,) * rank)
    sizes = listed(node, "output_shape")[-rank:] if has_shape else tuple(n * step for n, step in zip(sides, strides))
    if len(sizes) != rank:
        raise ModelError(f"its output_shape is not {rank} integers")
    full = [  # without pads
        (n - 1) * step + extra + (size - 1) * dilation + 1
        for n, step, extra, size, dilation in zip(sides, strides, more, kernel, dilations)
    ]
    blank = more  # rows and columns at the end that contain only the bias
    if has_shape:
        _check_output_shape(sizes, sides, [most + step - 1 for most, step in zip(full, strides)])
        blank = tuple(extra + max(0, size - most) for extra, size, most in zip(more, sizes, full))
    missing = np.maximum(0, np.subtract(full, sizes))
    small, large = (missing // 2).tolist(), (missing - missing // 2).tolist()
    pads = (*small, *large) if way == "SAME_UPPER" else (*large, *small)
    return replace(node, attributes={**node.attributes, "auto_pad": "NOTSET", "pads": pads, "output_padding": blank})


def _spread_out(importer: Importer, view: View, axis: int, stride: int) -> View:
    """Insert `stride` - 1 zeros between adjacent entries of an axis."""
    extent = view.shape[axis]
    size = (extent - 1) * stride + 1
    if size == extent:
        return view
    if size > MAX_SELECTED:
        raise ModelError(f"cannot enlarge {extent} pixels to {size}; the limit is {MAX_SELECTED}")
    matrix = np.zeros((size, extent))
    matrix[np.arange(extent) * stride, np.arange(extent)] = 1
    return mix_entries(importer, view, axis, matrix)


OPERATORS = {"ConvTranspose": _transposed_convolution}
