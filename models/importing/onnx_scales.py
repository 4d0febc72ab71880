"""Scales and zero points of integer inputs and outputs of a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import ModelError
from .onnx_file import Node

# Positions of the inputs: (data, its scale, its zero point), and (scale, zero point) of the output.
_DATA = {
    "DequantizeLinear": ((0, 1, 2),),
    "QLinearConv": ((0, 1, 2),),
    "QLinearMatMul": ((0, 1, 2), (3, 4, 5)),
    "QGemm": ((0, 1, 2),),
    "QLinearAdd": ((0, 1, 2), (3, 4, 5)),
    "QLinearMul": ((0, 1, 2), (3, 4, 5)),
    "QLinearAveragePool": ((0, 1, 2),),
    "QLinearGlobalAveragePool": ((0, 1, 2),),
    "QLinearSigmoid": ((0, 1, 2),),
    "QLinearLeakyRelu": ((0, 1, 2),),
    "QLinearSoftmax": ((0, 1, 2),),
    "QLinearConcat": tuple((place, place + 1, place + 2) for place in range(2, 50, 3)),
}
_OUTPUT = {
    "QuantizeLinear": (1, 2),
    "QLinearConv": (6, 7),
    "QLinearMatMul": (6, 7),
    "QGemm": (7, 8),
    "QLinearAdd": (6, 7),
    "QLinearMul": (6, 7),
    "QLinearAveragePool": (3, 4),
    "QLinearGlobalAveragePool": (3, 4),
    "QLinearSigmoid": (3, 4),
    "QLinearLeakyRelu": (3, 4),
    "QLinearSoftmax": (3, 4),
    "QLinearConcat": (0, 1),
}

# Operators that do not change the values of integers.
_HANDING_ON = (
    "Identity",
    "Reshape",
    "Transpose",
    "Squeeze",
    "Unsqueeze",
    "Flatten",
    "Slice",
    "MaxPool",
    "Concat",
    "Pad",
)


@dataclass(frozen=True)
class Scale:
    """Integers x that represent (x - zero) * scale."""

    scale: float
    zero: int

    def dequantize(self, x: np.ndarray) -> np.ndarray:
        """Return the numbers represented by x as float32."""
        return (x.astype(np.float32) - np.float32(self.zero)) * np.float32(self.scale)


def input_scale(nodes: Sequence[Node], constants: Mapping[str, np.ndarray], name: str) -> Scale | None:
    """Return the scale of an integer input from the first node that specifies it, or None if there is none."""
    names = {name}
    for node in nodes:
        read = [position for position, given in enumerate(node.inputs) if given in names]
        if not read:
            continue
        if node.op in _HANDING_ON:
            names.update(node.outputs)
        for data, scale, zero in _DATA.get(_plain(node), ()):
            if data in read:
                return _scale(node, constants, scale, zero)
    return None


def output_scale(nodes: Sequence[Node], constants: Mapping[str, np.ndarray], name: str) -> Scale | None:
    """Return the scale of an integer output, or None if no node specifies it."""
    producers = {output: node for node in nodes for output in node.outputs}
    for _ in range(len(nodes)):
        node = producers.get(name)
        if node is None:
            return None
        if _plain(node) in _OUTPUT:
            return _scale(node, constants, *_OUTPUT[_plain(node)])
        if node.op not in _HANDING_ON:
            return None
        name = node.inputs[0]
    return None


def _plain(node: Node) -> str:
    return node.op.removeprefix("com.microsoft.")


def _scale(node: Node, constants: Mapping[str, np.ndarray], scale: int, zero: int) -> Scale:
    arguments = [
        constants.get(node.inputs[position]) if position < len(node.inputs) else None for position in (scale, zero)
    ]
    if arguments[0] is None or arguments[0].size != 1 or (arguments[1] is not None and arguments[1].size != 1):
        raise ModelError(f"{node}: its scale or zero point is not a constant scalar")
    return Scale(float(arguments[0].ravel()[0]), 0 if arguments[1] is None else int(arguments[1].ravel()[0]))
