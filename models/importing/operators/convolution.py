"""Convolutions and matrix products."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ...checks import MAX_KERNEL_ELEMENTS, MAX_KERNEL_SIZE, MAX_STRIDE
from ...errors import ModelError
from ...layers import Conv2d, Dense
from ..importer import Importer, without_height
from ..onnx_attributes import integer, integers, number, numbers, pads_of, text
from ..onnx_file import Node
from ..scores import multiply_values, scale_scores
from ..steps import activate, affine_view, combine_views, times, widen
from ..view import View

MAX_IN_PLACE = 64  # maximum number of channel groups that are multiplied in place by the same weights
MAX_VOLUME = 1 << 24  # maximum number of weights of a 3-D convolution after they are expanded for every depth

Pads = tuple[int, int, int, int]
Pair = tuple[int, int]


def geometry(
    node: Node, kernel: tuple[int, ...], sides: tuple[int, ...]
) -> tuple[tuple[int, int], tuple[int, int], Pads]:
    """Return the strides, dilations and pads (top, left, bottom, right) of a window over one or two `sides`."""
    rank = len(sides)
    strides, dilations = (integers(node, name, rank, (1,) * rank) for name in ("strides", "dilations"))
    if min(*strides, *dilations) < 1:
        raise ModelError("its strides and dilations must be at least 1")
    needed = [  # the padding for which there is one output per stride
        max(0, (-(-side // stride) - 1) * stride + (size - 1) * dilation + 1 - side)
        for side, size, stride, dilation in zip(sides, kernel, strides, dilations)
    ]
    before, after = pads_of(node, rank, needed)
    if min(*before, *after) < 0:
        raise ModelError("negative pads are not supported")
    if max(*before, *after, *strides, *dilations) > MAX_STRIDE:
        raise ModelError(f"its strides, dilations and pads must be at most {MAX_STRIDE}")
    if rank == 1:
        return (1, strides[0]), (1, dilations[0]), (0, before[0], 0, after[0])
    return (strides[0], strides[1]), (dilations[0], dilations[1]), (before[0], before[1], after[0], after[1])


def convolve(importer: Importer, node: Node, view: View, weight: np.ndarray, bias: np.ndarray | None) -> View:
    """Convolve a view [batch, C, H, W] or [batch, C, L] with filters of the same rank."""
    rank = len(view.axes)
    if weight.ndim != rank + 1:
        raise ModelError(f"its weight has shape {list(weight.shape)}, but its input is {importer.describe(view)}")
    kernel = integers(node, "kernel_shape", rank - 1, weight.shape[2:])
    if kernel != weight.shape[2:]:
        raise ModelError(f"its kernel_shape is {list(kernel)}, but its weight has shape {list(weight.shape)}")
    if max(kernel) > MAX_KERNEL_SIZE or math.prod(kernel) > MAX_KERNEL_ELEMENTS:
        raise ModelError(
            f"filters of {'x'.join(map(str, kernel))} are too large; at most {MAX_KERNEL_SIZE} per side and "
            f"{MAX_KERNEL_ELEMENTS} elements in all are allowed"
        )
    strides, dilations, pads = geometry(node, kernel, view.shape[1:])
    filters = weight if rank == 3 else weight[:, :, None]
    groups = integer(node, "group", 1)
    if groups < 1 or filters.shape[1] * groups != view.shape[0]:
        raise ModelError(
            f"its weight has shape {list(weight.shape)} with {groups} groups, but its input has {view.shape[0]} "
            "channels; if the channels are last (NHWC), insert a Transpose before this node"
        )
    movement = Movement(pads, strides, dilations, groups)
    if max(kernel) == 1 and movement == Movement(dilation=dilations):
        result = mix_in_place(importer, view, 0, filters[:, :, 0, 0], bias)
        if result is not None:
            return result
    source = importer.planes(view)
    return without_height(add_convolution(importer, source, filters, bias, movement), rank)


def mix_in_place(importer: Importer, view: View, axis: int, weight: np.ndarray, bias: np.ndarray | None) -> View | None:
    """Multiply an axis by weights [F', F] with a grouped convolution that has the same weights in all groups.

    This requires that the entries of the axis are adjacent channels of the layer, like the bins of the box sides in
    YOLO. Return None if they are not adjacent, or if they make up all channels.
    """
    order = view.order()
    ordered, shape = view.permuted(order), importer.shape(view)
    position = order.index(axis)
    outer, inner = (math.prod(ordered.shape[part]) for part in (slice(0, position), slice(position + 1, None)))
    if len(shape) != 3 or ordered.arrangement() is not None or inner != math.prod(shape[1:]):
        return None
    if not 1 < outer <= MAX_IN_PLACE or shape[0] != outer * weight.shape[1]:
        return None
    filters = np.tile(weight, (outer, 1))[:, :, None, None]
    bias = np.zeros(len(weight), np.float32) if bias is None else bias.reshape(-1)
    result = add_convolution(importer, view.layer, filters, np.tile(bias, outer), Movement(groups=outer))
    sides = list(ordered.shape)
    sides[position] = len(weight)
    back = tuple(order.index(axis_number) for axis_number in range(len(order)))
    return result.reshaped(tuple(sides), view.batched).permuted(back)


class Movement(NamedTuple):
    """Parameters of a convolution: padding (top, left, bottom, right), stride and dilation (rows, columns), and the
    number of channel groups."""

    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1


def add_convolution(
    importer: Importer, source: str, filters: np.ndarray, bias: np.ndarray | None, movement: Movement
) -> View:
    """Add a layer that convolves the output image of layer `source` with filters [Cout, Cin / groups, kh, kw]."""
    layer = Conv2d(
        importer.name("conv"),
        filters.shape[1] * movement.groups,
        len(filters),
        (filters.shape[2], filters.shape[3]),
        **movement._asdict(),
        inputs=(source,),
    )
    bias = np.zeros(len(filters), np.float32) if bias is None else bias.reshape(-1)
    return importer.add(layer, {"weight": filters, "bias": bias})


def dense(importer: Importer, view: View, weight: np.ndarray, bias: np.ndarray | None) -> View:
    """Multiply the last axis of a view by weight [F, F'] and add bias [F'].

    For a view of several axes, this is a 1x1 convolution.
    """
    view = view.with_batch()
    if not view.axes or view.shape[-1] != weight.shape[0]:
        raise ModelError(f"multiplies {importer.describe(view)} by {list(weight.shape)}")
    if bias is None:
        bias = np.zeros(weight.shape[1], np.float32)
    if bias.size not in (1, weight.shape[1]) or any(extent != 1 for extent in bias.shape[:-1]):
        raise ModelError(f"cannot add a bias of shape {list(bias.shape)}; expected {weight.shape[1]} values")
    bias = np.broadcast_to(bias.reshape(-1), (weight.shape[1],))
    if len(view.axes) == 1:
        return _dense_row(importer, view, weight, bias)
    last = len(view.axes) - 1
    in_place = mix_in_place(importer, view, last, weight.T, bias)
    if in_place is not None:
        return in_place
    others = view.around(last)
    planes = view.permuted((last, *others))
    sides = planes.shape[1:]
    pixels = (sides[0], sides[1]) if len(sides) == 2 else (1, math.prod(sides))
    source = importer.builder.arrange(planes, (planes.shape[0], *pixels))
    layer = Conv2d(importer.name("conv"), weight.shape[0], weight.shape[1], (1, 1), inputs=(source,))
    result = importer.add(layer, {"weight": np.ascontiguousarray(weight.T)[:, :, None, None], "bias": bias})
    spread = result.reshaped((weight.shape[1], *sides), view.batched)
    back = sorted(range(len(spread.axes)), key=lambda position: (last, *others)[position])
    return spread.permuted(tuple(back))


def dense_by_lead(importer: Importer, view: View, weight: np.ndarray) -> View:
    """Multiply a view [*lead, rows, F] by weights [*lead, F, F'], one matrix per entry of the leading axes.

    The product is computed as a grouped convolution. Leading axes of size 1 are broadcast.
    """
    lead = np.broadcast_shapes(view.shape[:-2], weight.shape[:-2])
    if view.shape[-1] != weight.shape[-2] or len(lead) != len(view.axes) - 2:
        raise ModelError(f"multiplies {importer.describe(view)} by {list(weight.shape)}")
    view = view if lead == view.shape[:-2] else widen(importer, view, (*lead, *view.shape[-2:]))
    features, new = weight.shape[-2:]
    filters = np.broadcast_to(weight, (*lead, features, new)).swapaxes(-1, -2).reshape(-1, features, 1, 1)
    last = len(lead)
    source = importer.builder.arrange(
        view.permuted((*range(last), last + 1, last)), (math.prod(lead) * features, 1, view.shape[-2])
    )
    result = add_convolution(importer, source, np.ascontiguousarray(filters), None, Movement(groups=math.prod(lead)))
    spread = result.reshaped((*lead, new, view.shape[-2]), view.batched)
    return spread.permuted((*range(last), last + 1, last))


def _dense_row(importer: Importer, view: View, weight: np.ndarray, bias: np.ndarray) -> View:
    """Append a dense layer; if the view permutes the features, the rows of the weights are permuted instead."""
    factors = view.axes[0]
    arrangement = view.arrangement()
    if arrangement is not None:
        split, order = arrangement
        shaped = weight.reshape(*(factor.extent for factor in factors), weight.shape[1])
        inverse = tuple(order.index(axis) for axis in range(len(split)))
        weight = shaped.transpose(*inverse, len(split)).reshape(weight.shape)
        view = View.of(view.layer, importer.shape(view))
    source = importer.rows(view)
    layer = Dense(importer.name("dense"), weight.shape[0], weight.shape[1], inputs=(source,))
    return replace(importer.add(layer, {"weight": weight, "bias": bias}), batched=view.batched)


def _conv(importer: Importer, node: Node) -> None:
    weight, bias = importer.weight(node, 1, (3, 4, 5)), importer.optional(node, 2, (1,))
    if weight.ndim == 5:
        importer.give(node, _convolve_volume(importer, node, weight, bias))
        return
    view = importer.data(node).with_batch()
    if not view.batched and len(view.axes) == weight.ndim and min(view.shape[:2]) > 1:
        importer.give(node, _convolve_each(importer, node, view, weight, bias))
        return
    importer.give(node, convolve(importer, node, importer.image(node), weight, bias))


def _convolve_each(importer: Importer, node: Node, view: View, weight: np.ndarray, bias: np.ndarray | None) -> View:
    """Convolve several images [images, C, ...] of one example, such as patches, as channel groups of a single image."""
    images, channels, *sides = view.shape
    if images * weight.size > MAX_VOLUME:
        raise ModelError(f"expects images, but its input is {importer.describe(view)}")
    grouped = replace(node, attributes={**node.attributes, "group": images * integer(node, "group", 1)})
    flat = view.reshaped((images * channels, *sides), True)
    filters = np.tile(weight, (images, *(1,) * (weight.ndim - 1)))
    result = convolve(importer, grouped, flat, filters, None if bias is None else np.tile(bias.reshape(-1), images))
    return result.reshaped((images, len(weight), *result.shape[1:]), False)


def _convolve_volume(importer: Importer, node: Node, weight: np.ndarray, bias: np.ndarray | None) -> View:
    """Convert a 3-D convolution to a 2-D convolution over height and width; channels and depth are merged."""
    view, groups = importer.data(node).with_batch(), integer(node, "group", 1)
    if len(view.axes) != 4 or text(node, "auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise ModelError(
            f"its weight of shape {list(weight.shape)} does not match its input of {importer.describe(view)}, or its "
            "auto_pad is not supported"
        )
    channels, depth, *sides = view.shape
    strides, dilations = (integers(node, name, 3, (1, 1, 1)) for name in ("strides", "dilations"))
    pads = integers(node, "pads", 6, (0,) * 6)
    taps = weight.shape[2]
    if groups < 1 or weight.shape[1] * groups != channels or len(weight) % groups or min(*strides, *dilations) < 1:
        raise ModelError(
            f"its weight has shape {list(weight.shape)} with {groups} groups, but its input has {channels} channels"
        )
    slices = (depth + pads[0] + pads[3] - (taps - 1) * dilations[0] - 1) // strides[0] + 1
    if slices < 1 or weight.size * depth * slices > MAX_VOLUME:
        raise ModelError(f"its depth of {depth} is too large, or its output is empty; use a depth of 1")
    filters = np.zeros((len(weight), slices, weight.shape[1], depth, *weight.shape[3:]), np.float32)
    for depth_slice in range(slices):
        for tap in range(taps):
            read = depth_slice * strides[0] - pads[0] + tap * dilations[0]
            if 0 <= read < depth:
                filters[:, depth_slice, :, read] = weight[:, :, tap]
    flat = Node(
        "Conv",
        node.name,
        node.inputs,
        node.outputs,
        {"group": groups, "strides": strides[1:], "dilations": dilations[1:], "pads": (*pads[1:3], *pads[4:])},
    )
    wide = filters.reshape(len(weight) * slices, weight.shape[1] * depth, *weight.shape[3:])
    bias = None if bias is None else np.repeat(bias, slices)
    result = convolve(importer, flat, view.reshaped((channels * depth, *sides), True), wide, bias)
    return result.reshaped((len(weight), slices, *result.shape[1:]), True)


def _fused_conv(importer: Importer, node: Node) -> None:
    """Convert the fused convolution of ONNX Runtime, optionally with an added input and an activation."""
    weight = importer.weight(node, 1, (3, 4))
    view = convolve(importer, node, importer.image(node), weight, importer.optional(node, 2, (1,)))
    if len(node.inputs) > 3 and node.inputs[3]:
        view = combine_views(importer, "add", view, importer.data(node, 3))
    importer.give(node, _fused_activation(importer, node, view))


def _fused_activation(importer: Importer, node: Node, view: View) -> View:
    kind = text(node, "activation", "")
    parameters = numbers(node, "activation_params")
    if kind == "LeakyRelu":
        return activate(importer, view, "leaky_relu", (parameters or (number(node, "activation_alpha", 0.01),))[:1])
    if kind == "Clip" and len(parameters) == 2:
        return activate(importer, view, "clip", parameters)
    if kind == "HardSigmoid" and len(parameters) == 2:
        return activate(importer, view, "hardsigmoid", parameters)
    if kind not in ("", "Relu", "Sigmoid", "Tanh"):
        raise ModelError(f"its activation {kind!r} is not supported")
    return activate(importer, view, kind.lower()) if kind else view


def _gemm(importer: Importer, node: Node) -> None:
    if node.inputs[0] not in importer.views:
        importer.give(node, _fused_activation(importer, node, _gemm_from_left(importer, node)))
        return
    view = importer.data(node)
    if integer(node, "transA", 0) and view.rank == 2:
        view = importer.single(view).permuted((1, 0))
    view = view.with_batch()
    if len(view.axes) != (1 if view.batched else 2):
        raise ModelError(f"expects one row of features, but its input is {importer.describe(view)}")
    weight = importer.weight(node, 1, (2,))
    weight = weight.T if integer(node, "transB", 0) else weight
    added = importer.views.get(node.inputs[2]) if len(node.inputs) > 2 else None  # not a bias, but data
    bias = importer.optional(node, 2) if added is None else None
    alpha, beta = (np.float32(number(node, name, 1.0)) for name in ("alpha", "beta"))
    gemm = dense(importer, view, weight * alpha, None if bias is None else bias * beta)
    result = gemm if added is None else combine_views(importer, "add", gemm, times(importer, added.with_batch(), beta))
    importer.give(node, _fused_activation(importer, node, result))


def _gemm_from_left(importer: Importer, node: Node) -> View:
    """Multiply weights by a column of features and add the bias, for a Gemm whose left operand is constant."""
    view = importer.single(importer.data(node, 1))
    weight = importer.weight(node, 0, (2,))
    weight = weight.T if integer(node, "transA", 0) else weight
    if len(view.axes) != 2:
        raise ModelError(f"expects a column of features, but its input is {importer.describe(view)}")
    view = view.permuted((1, 0)) if integer(node, "transB", 0) else view
    result = _times_left(importer, view, weight * np.float32(number(node, "alpha", 1.0)))
    bias = importer.optional(node, 2)
    if bias is None:
        return result
    return affine_view(importer, result, np.ones(1), bias * np.float32(number(node, "beta", 1.0)))


def _times_left(importer: Importer, view: View, weight: np.ndarray) -> View:
    """Multiply weights [F', F] by a view [..., F, columns], or by a view [F] without a batch axis."""
    if len(view.axes) == 1 and not view.batched:
        return dense(importer, view, weight.T, None)
    if len(view.axes) < 2 and importer.batch == 1:
        view = importer.single(view)
    if len(view.axes) < 2:
        raise ModelError(
            f"cannot multiply weights {list(weight.shape)} by {importer.describe(view)}, because its rows are the "
            f"examples of the batch"
        )
    order = (*range(len(view.axes) - 2), len(view.axes) - 1, len(view.axes) - 2)
    result = dense(importer, view.permuted(order), weight.T, None)
    return (result if result.batched == view.batched else importer.single(result)).permuted(order)


def _matmul_from_right(importer: Importer, view: View, weight: np.ndarray, turned: bool) -> View:
    """Multiply data by weights [in, out], or [out, in] if `turned`, or by a vector, which removes the last axis."""
    if weight.ndim == 1:
        result = dense(importer, view, weight[:, None], None)
        return replace(result, axes=result.axes[:-1])
    return dense(importer, view, weight.T if turned else weight, None)


def _matmul(importer: Importer, node: Node) -> None:
    left = node.inputs[0] not in importer.views  # the left operand is constant: (x.T @ weights.T).T
    if not left and len(node.inputs) > 1 and node.inputs[1] in importer.views:
        importer.give(node, _matmul_of_values(importer, node))
        return
    if any(integer(node, name, 0) for name in ("transA", "transBatchA", "transBatchB")):
        raise ModelError("its transA or transBatch is not supported")
    view = importer.data(node, int(left))
    view = view if left else view.with_batch()
    weight = importer.weight(node, int(not left), (1, 2, 3, 4))
    if weight.ndim > 2 and all(extent == 1 for extent in weight.shape[:-2]):
        weight = weight.reshape(weight.shape[-2:])
    if weight.ndim > 2:
        importer.give(node, _matmul_by_lead(importer, node, view, weight, left))
        return
    alpha = np.float32(number(node, "alpha", 1.0))
    weight = weight if alpha == 1 else weight * alpha  # avoid copying large weights
    is_transposed = bool(integer(node, "transB", 0))
    if not left:
        importer.give(node, _matmul_from_right(importer, view, weight, is_transposed))
        return
    if is_transposed:
        view = importer.single(view)
        view = view.permuted((*range(len(view.axes) - 2), len(view.axes) - 1, len(view.axes) - 2))
    importer.give(node, _times_left(importer, view, weight))


def _matmul_by_lead(importer: Importer, node: Node, view: View, weight: np.ndarray, left: bool) -> View:
    """Multiply data by weights that have leading axes, in either order."""
    if number(node, "alpha", 1.0) != 1 or integer(node, "transB", 0):
        raise ModelError(
            f"its weight has the shape {list(weight.shape)}; a scaled or transposed weight must be a single matrix"
        )
    if weight.ndim == view.rank and view.batched and len(weight) == 1:
        weight = weight[0]
    if not left:
        return dense_by_lead(importer, view, weight)
    last = len(view.axes) - 1
    swapped = (*range(last - 1), last, last - 1)
    return dense_by_lead(importer, view.permuted(swapped), weight.swapaxes(-1, -2)).permuted(swapped)


def _matmul_of_values(importer: Importer, node: Node) -> View:
    if any(integer(node, name, 0) for name in ("transA", "transB", "transBatchA", "transBatchB")):
        raise ModelError("its transA, transB or transBatch is not supported")
    alpha = number(node, "alpha", 1.0)
    product = multiply_values(importer, importer.data(node), importer.data(node, 1))
    if alpha == 1:
        return product
    if product.layer in importer.scores:
        return scale_scores(importer, product, alpha)
    return affine_view(importer, product, np.full(1, alpha), np.zeros(1))


OPERATORS = {
    "Conv": _conv,
    "com.microsoft.FusedConv": _fused_conv,
    "Gemm": _gemm,
    "com.microsoft.FusedGemm": _gemm,
    "MatMul": _matmul,
    "com.microsoft.FusedMatMul": _matmul,
}
