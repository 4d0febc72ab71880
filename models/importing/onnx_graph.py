"""An ONNX graph as layers: a chain of operations walked from the input to the output.

Every operation must be one that a network of ours can compute, with attributes that it can have; all others are refused
by name. What depends on weights and shapes alone is computed on the way.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from ..network import ModelError, Shape
from .builder import NetworkBuilder
from .fold import Affine, batch_norm
from .onnx_constants import CONSTANT_OPS, evaluate, integer, integers, number
from .onnx_file import Graph, Node
from .onnx_gelu import join_gelus

SUPPORTED = (
    "Conv (stride 1, group 1, dilation 1), BatchNormalization, Relu, Gelu, Sigmoid, Tanh, MaxPool (2x2, stride 2), "
    "AveragePool (stride = window), GlobalAveragePool, ReduceMean (over height and width), Flatten, Reshape (to "
    "features), Gemm, MatMul, Add (of a bias), Dropout, Identity, Softmax (at the end)"
)


def build_layers(graph: Graph, builder: NetworkBuilder) -> None:
    """Add the layers of a graph to a builder of its input; ModelError naming the node that cannot be had."""
    _Chain(graph, builder).walk()


class _Chain:
    """The walk: `_current` is the value that the layers so far have computed."""

    def __init__(self, graph: Graph, builder: NetworkBuilder) -> None:
        self._builder = builder
        self._opset = graph.opset
        self._batch = graph.input_shape[0] or 1
        self._output = graph.output
        self._current = graph.input
        self._constants = dict(graph.constants)
        self._shapes: dict[str, Shape] = {graph.input: builder.shape}
        for node in graph.nodes:
            if node.op == "Constant" and not node.inputs:
                self._constants[node.outputs[0]] = _told(node, lambda node: evaluate(node, ()))
        self._nodes = join_gelus(graph.nodes, self._constants)
        self._producers: dict[str, Node] = {}
        self._readers: dict[str, list[Node]] = defaultdict(list)
        for node in self._nodes:
            for name in filter(None, node.inputs):
                self._readers[name].append(node)
            for name in filter(None, node.outputs):
                if name in self._producers or name == graph.input or name in graph.constants:
                    raise ModelError(f"{node}: its output {name!r} is given a second time")
                self._producers[name] = node

    def walk(self) -> None:
        for node in self._nodes:
            if node.op not in _OPERATIONS and node.op not in CONSTANT_OPS and node.op != "Shape":
                raise ModelError(f"{node}: not supported; supported are {SUPPORTED}")
        for node in self._nodes:
            _told(node, self._step)
        if self._current != self._output:
            known = self._output in self._producers or self._output in self._constants
            what = "does not come last" if known else "is given by no node"
            raise ModelError(f"the network's output {self._output!r} {what}")

    def _step(self, node: Node) -> None:
        for name in node.inputs:
            if name and name not in self._constants and name not in self._shapes:
                what = "given by a node after it: the graph is not in order, or a cycle"
                raise ModelError(f"reads {name!r}, which is {what if name in self._producers else 'given by no node'}")
        data = [name for name in node.inputs if name in self._shapes]
        if not data:
            if node.outputs[0] not in self._constants:
                given = [self._constants[name] for name in node.inputs if name]
                self._constants[node.outputs[0]] = evaluate(node, given)
        elif node.op == "Shape":
            first, last = integer(node, "start", 0), integer(node, "end", 1 << 30)
            self._constants[node.outputs[0]] = np.array((self._batch, *self._shapes[data[0]])[first:last], np.int64)
        else:
            self._layer(node, data)

    def _layer(self, node: Node, data: list[str]) -> None:
        readers = [str(reader) for reader in self._readers[data[0]] if reader.op != "Shape"]
        if data[0] == self._output:
            readers.append("the output")
        if len(readers) > 1 or data != [self._current]:
            raise ModelError(
                f"{data[0]!r} is read {len(readers)} times (by {', '.join(readers[:3])}); supported is a plain chain "
                "of layers, in order"
            )
        if node.op not in _OPERATIONS:
            raise ModelError("supported for weights and shapes alone, not for data")
        if node.inputs[0] != self._current and node.op != "Add":
            raise ModelError("its first input is not what the layer before it gives")
        if any(self._readers[name] or name == self._output for name in node.outputs[1:]):
            raise ModelError(f"only its first output is supported, but {node.outputs[1]!r} is used")
        _OPERATIONS[node.op](self, node)
        self._current = node.outputs[0]
        self._shapes[self._current] = self._builder.shape

    # The operations. The first input is the data.

    def _conv(self, node: Node) -> None:
        weight = self._weight(node, 1, (4,))
        kernel = integers(node, "kernel_shape", 2, weight.shape[2:])
        if kernel != weight.shape[2:]:
            raise ModelError(f"its kernel_shape is {list(kernel)}, its weight {list(weight.shape)}")
        for name in ("strides", "dilations"):
            if integers(node, name, 2, (1, 1)) != (1, 1):
                raise ModelError(f"{name} of {list(integers(node, name, 2, (1, 1)))} are not supported, only 1")
        if integer(node, "group", 1) != 1:
            raise ModelError(f"group {integer(node, 'group', 1)} is not supported, only 1")
        self._builder.conv2d(weight, self._optional(node, 2), self._pads(node, kernel))

    def _pads(self, node: Node, kernel: tuple[int, ...]) -> tuple[int, int, int, int]:
        """(top, left, bottom, right) of a convolution of stride 1."""
        way = node.attributes.get("auto_pad", "NOTSET")
        if way == "NOTSET":
            top, left, bottom, right = integers(node, "pads", 4, (0, 0, 0, 0))
            if min(top, left, bottom, right) < 0:
                raise ModelError("pads below 0 are not supported")
            return top, left, bottom, right
        if way == "VALID":
            return 0, 0, 0, 0
        if way not in ("SAME_UPPER", "SAME_LOWER"):
            raise ModelError(f"its auto_pad is {way!r}")
        less = [(side - 1) // 2 for side in kernel]
        more = [side // 2 for side in kernel]
        before, after = (less, more) if way == "SAME_UPPER" else (more, less)
        return before[0], before[1], after[0], after[1]

    def _batch_normalization(self, node: Node) -> None:
        if integer(node, "training_mode", 0) or not integer(node, "spatial", 1):
            raise ModelError("supported for inference, by channel, alone")
        gamma, beta, mean, variance = (self._weight(node, position, (1,)) for position in range(1, 5))
        self._builder.affine(batch_norm(gamma, beta, mean, variance, number(node, "epsilon", 1e-5)))

    def _activation(self, node: Node) -> None:
        if node.attributes.get("approximate", "none") != "none":
            raise ModelError("the approximation by tanh is not supported, only the exact one")
        self._builder.activate(node.op.lower())

    def _max_pool(self, node: Node) -> None:
        kernel, strides = self._window(node)
        if kernel == strides == (1, 1):
            return
        if kernel != (2, 2) or strides != (2, 2):
            raise ModelError(f"windows of {kernel[0]}x{kernel[1]}, stride {list(strides)}: only 2x2, stride 2")
        self._builder.max_pool()

    def _average_pool(self, node: Node) -> None:
        kernel, strides = self._window(node)
        if kernel != strides and kernel != self._builder.shape[1:]:
            raise ModelError(f"windows of {kernel[0]}x{kernel[1]}, stride {list(strides)}: only stride = window")
        self._builder.average_pool(*kernel)

    def _window(self, node: Node) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Windows and strides of a pool without padding."""
        if len(self._builder.shape) != 3:
            raise ModelError(f"takes an image, but {self._builder.shape[0]} features come in")
        kernel, strides = integers(node, "kernel_shape", 2, ()), integers(node, "strides", 2, (1, 1))
        if min(*kernel, *strides) < 1:
            raise ModelError("its kernel_shape or strides are not above 0")
        if integers(node, "dilations", 2, (1, 1)) != (1, 1):
            raise ModelError("dilations are not supported, only 1")
        rest = any((side - size) % step for side, size, step in zip(self._builder.shape[1:], kernel, strides))
        padded = any(integers(node, "pads", 4, (0, 0, 0, 0)))
        same = str(node.attributes.get("auto_pad", "NOTSET")).startswith("SAME")
        if padded or (rest and (same or integer(node, "ceil_mode", 0))):
            raise ModelError(f"padding is not supported (of an image of {'x'.join(map(str, self._builder.shape))})")
        return kernel, strides

    def _global_average_pool(self, node: Node) -> None:
        if len(self._builder.shape) != 3:
            raise ModelError(f"takes an image, but {self._builder.shape[0]} features come in")
        self._builder.average_pool(*self._builder.shape[1:])

    def _reduce_mean(self, node: Node) -> None:
        given = self._constant(node, 1)
        axes = integers(node, "axes", 2, (0, 0)) if given is None else tuple(given.ravel()[:9].tolist())
        rank = 1 + len(self._builder.shape)
        if sorted(axis % rank for axis in axes) != [2, 3]:
            raise ModelError("supported over height and width alone")
        self._global_average_pool(node)
        if not integer(node, "keepdims", 1):
            self._builder.flatten()

    def _flatten(self, node: Node) -> None:
        if integer(node, "axis", 1) not in (1, -len(self._builder.shape)):
            raise ModelError(f"axis {integer(node, 'axis', 1)} is not supported, only 1")
        self._builder.flatten()

    def _reshape(self, node: Node) -> None:
        given = self._constant(node, 1)
        if given is None or given.ndim != 1 or given.dtype.kind != "i":
            raise ModelError("its shape is no list of integers")
        target = given[:9].tolist()
        before = (self._batch, *self._builder.shape)
        if not integer(node, "allowzero", 0):
            target = [before[i] if size == 0 and i < len(before) else size for i, size in enumerate(target)]
        known = math.prod(size for size in target if size != -1)
        if target.count(-1) == 1 and known > 0:
            target[target.index(-1)] = math.prod(before) // known
        features = math.prod(self._builder.shape)
        if target == [self._batch, features]:
            self._builder.flatten()
        elif tuple(target) != before:
            raise ModelError(f"to {target} of {list(before)} is not supported, only to features [batch, {features}]")

    def _gemm(self, node: Node) -> None:
        if integer(node, "transA", 0):
            raise ModelError("transA is not supported")
        weight = self._weight(node, 1, (2,))
        weight = weight.T if integer(node, "transB", 0) else weight
        bias = self._optional(node, 2)
        self._builder.dense(
            np.ascontiguousarray(weight * np.float32(number(node, "alpha", 1.0))),
            None if bias is None else self._row(bias, weight.shape[1]) * np.float32(number(node, "beta", 1.0)),
        )

    def _matmul(self, node: Node) -> None:
        self._builder.dense(np.ascontiguousarray(self._weight(node, 1, (2,))), None)

    def _add(self, node: Node) -> None:
        position = 1 if node.inputs[0] == self._current else 0
        values = self._weight(node, position, range(2 + len(self._builder.shape)))
        if len(self._builder.shape) == 3 and values.size > 1:
            if values.ndim < 3 or values.shape[-2:] != (1, 1):
                raise ModelError(f"adds {list(values.shape)}; supported is one number for each channel")
            values = values[..., 0, 0]
        shift = self._row(values, self._builder.shape[0])
        self._builder.affine(Affine(np.ones(len(shift)), shift.astype(np.float64)))

    def _dropout(self, node: Node) -> None:
        training = self._constant(node, 2)
        if training is not None and training.any():
            raise ModelError("supported for inference alone")

    def _identity(self, node: Node) -> None:
        pass

    def _softmax(self, node: Node) -> None:
        if integer(node, "axis", -1 if self._opset >= 13 else 1) not in (1, -1):
            raise ModelError("supported over the features alone")
        self._builder.softmax()

    def _row(self, values: np.ndarray, size: int) -> np.ndarray:
        """Numbers that are added to each row of [batch, size], as [size]."""
        if values.size not in (1, size) or any(extent != 1 for extent in values.shape[:-1]):
            raise ModelError(f"adds {list(values.shape)}; supported is one number for each of {size} channels")
        return np.ascontiguousarray(np.broadcast_to(values.reshape(-1), (size,)))

    def _optional(self, node: Node, position: int) -> np.ndarray | None:
        return None if self._constant(node, position) is None else self._weight(node, position, range(5))

    def _constant(self, node: Node, position: int) -> np.ndarray | None:
        """A constant input as it is; None where it is left out."""
        return self._constants.get(node.inputs[position]) if position < len(node.inputs) else None

    def _weight(self, node: Node, position: int, ranks: tuple[int, ...] | range) -> np.ndarray:
        """A constant input as float32."""
        values = self._constant(node, position)
        if values is None:
            raise ModelError(f"its input number {position + 1} is missing, or not constant")
        if values.ndim not in ranks or values.dtype.kind in "iub" or not values.size:
            raise ModelError(f"its weight {node.inputs[position]!r} is {values.dtype} of shape {list(values.shape)}")
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused as that
            return values.astype(np.float32, copy=False)


_OPERATIONS: dict[str, Callable[[_Chain, Node], None]] = {
    "Conv": _Chain._conv,
    "BatchNormalization": _Chain._batch_normalization,
    "Relu": _Chain._activation,
    "Gelu": _Chain._activation,
    "Sigmoid": _Chain._activation,
    "Tanh": _Chain._activation,
    "MaxPool": _Chain._max_pool,
    "AveragePool": _Chain._average_pool,
    "GlobalAveragePool": _Chain._global_average_pool,
    "ReduceMean": _Chain._reduce_mean,
    "Flatten": _Chain._flatten,
    "Reshape": _Chain._reshape,
    "Gemm": _Chain._gemm,
    "MatMul": _Chain._matmul,
    "Add": _Chain._add,
    "Dropout": _Chain._dropout,
    "Identity": _Chain._identity,
    "Softmax": _Chain._softmax,
}

_Result = TypeVar("_Result")


def _told(node: Node, step: Callable[[Node], _Result]) -> _Result:
    """What a step gives for a node; its errors name the node."""
    try:
        return step(node)
    except ModelError as error:
        raise ModelError(f"{node}: {error}") from None
