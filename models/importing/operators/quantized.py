"""Quantised networks, which are imported as the floating-point networks that they represent.

Weights are dequantised. Activations are not rounded but clipped to the range of their integer type, because exporters
omit a ReLU that the zero point implies.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...errors import ModelError
from ...layers import Softmax
from ..importer import Importer
from ..onnx_file import Node
from ..steps import affine_view, clip, combine_views
from ..view import View
from . import activations, normalization, pooling, rearranging
from .convolution import convolve, dense


def _omit_rounding(importer: Importer) -> None:
    importer.is_quantized = True
    importer.note("the int8 network is dequantised and computed in floating point, without its integer rounding")


def _range(importer: Importer, view: View, scale: np.ndarray | None, zero: np.ndarray | None) -> View:
    """Return a view clipped to the range that its integer type represents with the given scale and zero point."""
    _omit_rounding(importer)
    if scale is None or scale.size != 1 or (zero is not None and zero.size != 1):
        raise ModelError("an activation with one scale per channel is not supported")
    kind = np.dtype(np.uint8) if zero is None else zero.dtype
    if kind.kind not in "iu":
        raise ModelError(f"quantised values of type {kind} are not supported")
    least, most = np.iinfo(kind).min, np.iinfo(kind).max
    shift = 0 if zero is None else int(zero.ravel()[0])
    step = float(scale.ravel()[0])
    if not step > 0:
        raise ModelError("its scale is not positive")
    if isinstance(importer.builder.layers.get(view.layer), Softmax):
        return view  # probabilities are always within this range
    return clip(importer, view, (least - shift) * step, (most - shift) * step)


def _quantize(importer: Importer, node: Node) -> None:
    importer.give(node, _range(importer, importer.data(node), importer.constant(node, 1), importer.constant(node, 2)))


def _dequantize(importer: Importer, node: Node) -> None:
    importer.give(node, importer.data(node))


def _weights(importer: Importer, node: Node, position: int, axis: int) -> np.ndarray:
    """Dequantise weights to float32; three consecutive inputs contain the integers, the scale and the zero point."""
    x, scale, zero = (importer.constant(node, index) for index in range(position, position + 3))
    if x is None or scale is None:
        raise ModelError("its weights or their scale are missing")
    shape = [-1 if index == axis else 1 for index in range(x.ndim)]
    try:
        shift = np.float32(0) if zero is None else zero.astype(np.float32).reshape(shape if zero.size > 1 else ())
        return (x.astype(np.float32) - shift) * scale.astype(np.float32).reshape(shape if scale.size > 1 else ())
    except ValueError:
        raise ModelError("the shapes of its weights and their scales do not match") from None


def _bias(importer: Importer, node: Node, position: int) -> np.ndarray | None:
    """Dequantise a bias, whose scale is the product of the data's scale and the weights' scales."""
    scales = [importer.constant(node, index) for index in (1, 4)]
    if scales[0] is None or scales[1] is None:
        raise ModelError("its scales are missing")
    constant = importer.constant(node, position)
    if constant is None:
        return None
    product = scales[0].astype(np.float64) * scales[1].astype(np.float64)
    return constant.astype(np.float32).reshape(-1) * product.astype(np.float32).reshape(-1)


def _conv(importer: Importer, node: Node) -> None:
    weight = _weights(importer, node, 3, 0)
    bias = _bias(importer, node, 8)
    data, last = importer.image(node), _channels_last(node)
    view = convolve(importer, node, _channels_moved(data, -1, 0) if last else data, weight, bias)
    view = _channels_moved(view, 0, -1) if last else view
    importer.give(node, _range(importer, view, importer.constant(node, 6), importer.constant(node, 7)))


def _channels_last(node: Node) -> bool:
    return bool(node.attributes.get("channels_last", 0))


def _channels_moved(view: View, before: int, after: int) -> View:
    """Move the axis at position `before` to position `after`; neither position counts the batch axis."""
    order = list(range(len(view.axes)))
    order.insert(after % len(order), order.pop(before))
    return view.permuted(tuple(order))


def _matmul(importer: Importer, node: Node) -> None:
    weight = _weights(importer, node, 3, 1)
    view = dense(importer, importer.data(node), weight, None)
    importer.give(node, _range(importer, view, importer.constant(node, 6), importer.constant(node, 7)))


def _gemm(importer: Importer, node: Node) -> None:
    transposed = bool(node.attributes.get("transB", 0))
    weight = _weights(importer, node, 3, 0 if transposed else 1)
    bias = _bias(importer, node, 6)
    view = dense(importer, importer.data(node), weight.T if transposed else weight, bias)
    if importer.constant(node, 7) is not None:
        view = _range(importer, view, importer.constant(node, 7), importer.constant(node, 8))
    importer.give(node, view)


def _combining(operation: str) -> Callable[[Importer, Node], None]:
    """Return an operator that combines two values, each with a scale and a zero point; one of the values may be a
    weight."""

    def operator(importer: Importer, node: Node) -> None:
        weights = [index for index in (0, 3) if node.inputs[index] in importer.constants]
        if weights:
            values = _weights(importer, node, weights[0], 0).astype(np.float64)
            data = importer.data(node, 3 - weights[0])
            numbers = (np.ones(1), values) if operation == "add" else (values, np.zeros(1))
            view = affine_view(importer, data, *numbers)
        else:
            view = combine_views(importer, operation, importer.data(node, 0), importer.data(node, 3))
        importer.give(node, _range(importer, view, importer.constant(node, 6), importer.constant(node, 7)))

    return operator


def _as_floats(operator: str) -> Callable[[Importer, Node], None]:
    """Return an operator whose inputs are x, its scale and zero point, and the scale and zero point of the output."""
    plain = {**pooling.OPERATORS, **activations.OPERATORS, **normalization.OPERATORS}[operator]

    def apply(importer: Importer, node: Node) -> None:
        last = _channels_last(node)
        if last:
            importer.views[node.inputs[0]] = _channels_moved(importer.image(node), -1, 0)
        plain(importer, Node(node.op, node.name, node.inputs[:1], node.outputs, node.attributes))
        result = importer.views[node.outputs[0]]
        if last:
            importer.views[node.inputs[0]] = _channels_moved(importer.views[node.inputs[0]], 0, -1)
            result = _channels_moved(result, 0, -1)
        importer.give(node, _range(importer, result, importer.constant(node, 3), importer.constant(node, 4)))

    return apply


def _concat(importer: Importer, node: Node) -> None:
    """Convert a concatenation, whose inputs are the scale and zero point of the output, then three for each part."""
    parts = Node(node.op, node.name, node.inputs[2::3], node.outputs, node.attributes)
    rearranging.OPERATORS["Concat"](importer, parts)
    result = importer.views[node.outputs[0]]
    importer.give(node, _range(importer, result, importer.constant(node, 0), importer.constant(node, 1)))


def _dynamic(importer: Importer, node: Node) -> None:
    """Convert dynamic quantisation by returning the data unchanged, with scale 1 and zero point 0."""
    _omit_rounding(importer)
    importer.give(node, importer.data(node))
    importer.give(node, np.float32(1).reshape(()), 1)
    importer.give(node, np.uint8(0).reshape(()), 2)


def _whole_weights(importer: Importer, node: Node) -> np.ndarray:
    weight = importer.constant(node, 1)
    if weight is None or weight.dtype.kind not in "iu":
        raise ModelError("its weights are missing, or are not integers")
    zero = importer.constant(node, 3)
    shift = np.float32(0) if zero is None else zero.astype(np.float32)
    if shift.size > 1:
        raise ModelError("zero points per channel are not supported")
    return weight.astype(np.float32) - shift.reshape(())


def _matmul_integer(importer: Importer, node: Node) -> None:
    importer.give(node, dense(importer, importer.data(node), _whole_weights(importer, node), None))


def _conv_integer(importer: Importer, node: Node) -> None:
    importer.give(node, convolve(importer, node, importer.image(node), _whole_weights(importer, node), None))


OPERATORS = {
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "com.microsoft.QuantizeLinear": _quantize,
    "com.microsoft.DequantizeLinear": _dequantize,
    "QLinearConv": _conv,
    "QLinearMatMul": _matmul,
    "com.microsoft.QGemm": _gemm,
    "com.microsoft.QLinearAdd": _combining("add"),
    "com.microsoft.QLinearMul": _combining("multiply"),
    "com.microsoft.QLinearConv": _conv,
    "com.microsoft.QLinearConcat": _concat,
    "com.microsoft.QLinearAveragePool": _as_floats("AveragePool"),
    "com.microsoft.QLinearGlobalAveragePool": _as_floats("GlobalAveragePool"),
    "com.microsoft.QLinearSigmoid": _as_floats("Sigmoid"),
    "com.microsoft.QLinearLeakyRelu": _as_floats("LeakyRelu"),
    "com.microsoft.QLinearSoftmax": _as_floats("Softmax"),
    "DynamicQuantizeLinear": _dynamic,
    "MatMulInteger": _matmul_integer,
    "ConvInteger": _conv_integer,
}
