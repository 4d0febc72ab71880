"""Evaluation of the nodes of an ONNX graph that do not depend on the data, such as transformations of weights and
shape arithmetic."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import ModelError
from .onnx_attributes import integer, integers, listed, number
from .onnx_file import Node
from .onnx_reference import REFERENCE_OPS, evaluate_by_reference

MAX_MADE = 1 << 24  # maximum number of elements stored while folding, or twice that of the file if larger
MAX_WORK = 24  # total elements computed, in multiples of that limit; standardising weights takes a dozen steps


class Folder:
    """Evaluator of nodes with constant inputs, within a memory budget that depends on the size of the file."""

    def __init__(self, numbers: int, opset: int = 20) -> None:
        self._opset = opset
        self._left = max(MAX_MADE, 2 * numbers)
        self._work_left = MAX_WORK * self._left
        self._sizes: dict[str, int] = {}  # number of stored elements, by the name of the computed value

    def evaluate(self, node: Node, inputs: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
        """Return the outputs of a node; raise ModelError if its operator is not supported or the budget is exceeded."""
        if node.op in REFERENCE_OPS and node.op not in CONSTANT_OPS:
            found = evaluate_by_reference(node, inputs, self._opset, self._left)
            size = sum(value.size for value in found)
            self._spend(size)
            self._sizes[next(filter(None, node.outputs))] = size
            return tuple(found)
        if node.op not in CONSTANT_OPS:
            raise ModelError("its inputs are all constants, but import cannot evaluate this operator on constants")
        try:
            with np.errstate(all="ignore"):
                size = _size(node, inputs)
                self._spend(size)
                made = CONSTANT_OPS[node.op](node, inputs)
                self._sizes[next(filter(None, node.outputs))] = size
        except ModelError:
            raise
        except (ValueError, IndexError, TypeError, OverflowError, AttributeError, ZeroDivisionError):
            raise ModelError("its inputs have incompatible shapes or types") from None
        return made if isinstance(made, tuple) else (np.asarray(made),)

    def release(self, name: str) -> None:
        """Record that a computed value is no longer stored."""
        self._left += self._sizes.pop(name, 0)

    def _spend(self, numbers: int) -> None:
        self._left -= numbers
        self._work_left -= numbers
        if min(self._left, self._work_left) < 0:
            raise ModelError("the file's constants are too large to evaluate")


def _size(node: Node, inputs: Sequence[np.ndarray | None]) -> int:
    """Return the number of elements that a node will produce, without computing it."""
    known = [value for value in inputs if value is not None]
    if node.op in _SIZES:
        return _SIZES[node.op](node, known)
    if node.op in _BINARY or node.op in ("Where", "Mod", "Max", "Min"):
        return math.prod(np.broadcast_shapes(*(value.shape for value in known)))
    if node.op in _VIEWS and (node.op not in ("Reshape", "Flatten") or known[0].flags.c_contiguous):
        return 0
    return sum(value.size for value in known)


def _size_of_shape(node: Node, known: Sequence[np.ndarray]) -> int:
    shape = known[-1].ravel()[:16].tolist()
    if min(shape, default=0) < 0 and node.op == "ConstantOfShape":
        raise ModelError("its shape has negative sizes")
    return math.prod(max(1, abs(int(size))) for size in shape) * (known[0].size if node.op == "Expand" else 1)


def _size_of_range(node: Node, known: Sequence[np.ndarray]) -> int:
    start, limit, step = (float(value.ravel()[0]) for value in known)
    return max(0, math.ceil((limit - start) / step)) if step else MAX_MADE * 2


def _size_of_tiles(node: Node, known: Sequence[np.ndarray]) -> int:
    return known[0].size * math.prod(max(0, int(times)) for times in known[1].ravel()[:16])


def _size_of_entries(node: Node, known: Sequence[np.ndarray]) -> int:
    return known[0].size // max(1, known[0].shape[integer(node, "axis", 0)]) * known[1].size


_SIZES: dict[str, Callable[[Node, Sequence[np.ndarray]], int]] = {
    "ConstantOfShape": _size_of_shape,
    "Expand": _size_of_shape,
    "Range": _size_of_range,
    "Tile": _size_of_tiles,
    "Gather": _size_of_entries,
}


def _constant(node: Node, inputs: Any) -> np.ndarray:
    for name, value in node.attributes.items():
        if name in ("value", "value_int", "value_ints", "value_float", "value_floats") and not isinstance(value, str):
            return np.asarray(value)
    raise ModelError(f"its value comes from {', '.join(node.attributes) or 'no attribute'}, which is not supported")


def _constant_of_shape(node: Node, inputs: Any) -> np.ndarray:
    value = np.asarray(node.attributes.get("value", np.zeros(1, np.float32)))
    return np.full(tuple(map(int, inputs[0].ravel())), value.ravel()[0])


def _reshape(node: Node, inputs: Any) -> np.ndarray:
    data, shape = inputs
    zero = integer(node, "allowzero", 0)
    target = [
        data.shape[axis] if size == 0 and not zero else int(size) for axis, size in enumerate(shape.ravel().tolist())
    ]
    return data.reshape(target)


def _slice(node: Node, inputs: Any) -> np.ndarray:
    data = inputs[0]
    starts, ends, axes, steps = slice_parts(node, inputs, data.ndim)
    index = [slice(None)] * data.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps):
        index[axis] = slice(start, end, step)
    return data[tuple(index)]


def slice_parts(node: Node, inputs: Sequence[np.ndarray | None], rank: int) -> tuple[list[int], ...]:
    """Return (starts, ends, nonnegative axes, steps) of a Slice, from inputs or, before opset 10, attributes."""
    given = [
        value.ravel().tolist() if value is not None else None for value in (*inputs[1:], *(None,) * (5 - len(inputs)))
    ]
    starts = given[0] if given[0] is not None else list(listed(node, "starts"))
    ends = given[1] if given[1] is not None else list(listed(node, "ends"))
    axes = given[2] if given[2] is not None else list(listed(node, "axes", tuple(range(len(starts)))))
    steps = given[3] if given[3] is not None else [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or any(not -rank <= axis < rank for axis in axes):
        raise ModelError("its starts, ends, axes and steps are inconsistent")
    return [list(map(int, part)) for part in (starts, ends, [axis % rank for axis in axes], steps)]  # type: ignore[return-value]


def _split(node: Node, inputs: Any) -> tuple[np.ndarray, ...]:
    axis = integer(node, "axis", 0)
    sizes = split_sizes(node, inputs, inputs[0].shape[axis])
    return tuple(np.split(inputs[0], np.cumsum(sizes)[:-1], axis))


def split_sizes(node: Node, inputs: Sequence[np.ndarray | None], extent: int) -> list[int]:
    """Return the sizes into which a Split divides an axis of `extent`."""
    if len(inputs) > 1 and inputs[1] is not None:
        sizes = [int(size) for size in inputs[1].ravel()]
    elif "split" in node.attributes:
        sizes = list(listed(node, "split"))
    else:
        count = integer(node, "num_outputs", len(node.outputs))
        if not 1 <= count <= extent:
            raise ModelError(f"{extent} cannot be split into {count}")
        each = -(-extent // count)
        sizes = [each] * (count - 1) + [extent - each * (count - 1)]
    if sum(sizes) != extent or min(sizes, default=0) < 1 or len(sizes) != len(node.outputs):
        raise ModelError(f"{extent} cannot be split into {sizes[:8]}")
    return sizes


def axes_of(node: Node, inputs: Sequence[np.ndarray | None]) -> tuple[int, ...] | None:
    """Return the axes given by the second input (newer opsets) or an attribute, or None if there are none."""
    if len(inputs) > 1 and inputs[1] is not None:
        return tuple(int(axis) for axis in inputs[1].ravel()[:16])
    return listed(node, "axes") if "axes" in node.attributes else None


def _squeeze(node: Node, inputs: Any) -> np.ndarray:
    return np.squeeze(inputs[0], axes_of(node, inputs))


def _unsqueeze(node: Node, inputs: Any) -> np.ndarray:
    return np.expand_dims(inputs[0], axes_of(node, inputs) or ())


def _transpose(node: Node, inputs: Any) -> np.ndarray:
    rank = inputs[0].ndim
    return inputs[0].transpose(integers(node, "perm", rank, tuple(range(rank))[::-1]))


def _flatten(node: Node, inputs: Any) -> np.ndarray:
    axis, shape = integer(node, "axis", 1), inputs[0].shape
    if not -len(shape) <= axis <= len(shape):
        raise ModelError(f"axis {axis} is out of bounds for an input of shape {list(shape)}")
    return inputs[0].reshape(math.prod(shape[:axis]), math.prod(shape[axis:]))


_CAST = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16, 11: np.float64, 2: np.uint8, 3: np.int8}


def _cast(node: Node, inputs: Any) -> np.ndarray:
    to = integer(node, "to", 1)
    if to not in _CAST:
        raise ModelError(f"casts to ONNX type {to}, which is not supported")
    return inputs[0].astype(_CAST[to])


def _reduce(reduction: Callable[..., np.ndarray]) -> Callable[[Node, Any], np.ndarray]:
    def reduce(node: Node, inputs: Any) -> np.ndarray:
        none = () if integer(node, "noop_with_empty_axes", 0) else None  # None: all axes
        return reduction(inputs[0], axis=axes_of(node, inputs) or none, keepdims=bool(integer(node, "keepdims", 1)))

    return reduce


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind not in "iu":
        return a / b
    return (a - np.fmod(a, b)) // b  # round towards zero, as in C


def _remainder(node: Node, inputs: Any) -> np.ndarray:
    return np.fmod(*inputs) if integer(node, "fmod", 0) else np.mod(*inputs)


def _extreme(choose: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[[Node, Any], np.ndarray]:
    """Return a function that computes the maximum or minimum of any number of inputs."""
    return lambda node, inputs: functools.reduce(choose, inputs)


def dequantize(node: Node, inputs: Sequence[np.ndarray | None]) -> np.ndarray:
    """Return (x - zero point) * scale as float32; both parameters are per tensor or per entry of one axis."""
    x, scale = inputs[0], inputs[1]
    zero = inputs[2] if len(inputs) > 2 else None
    if x is None or scale is None:
        raise ModelError("its values or their scale are missing")
    if integer(node, "block_size", 0):
        raise ModelError("block-wise quantised weights are not supported")
    shape = [1] * x.ndim
    if scale.size > 1:
        shape[integer(node, "axis", 1)] = scale.size
    shift = np.float32(0) if zero is None else zero.astype(np.float32).reshape(shape if zero.size > 1 else ())
    return (x.astype(np.float32) - shift) * scale.astype(np.float32).reshape(shape if scale.size > 1 else ())


def _batch_normalization(node: Node, inputs: Any) -> np.ndarray:
    """Normalise constants, such as standardised weights, with given statistics or those of each channel."""
    x, scale, shift = inputs[0].astype(np.float64), inputs[1], inputs[2]
    axes = tuple(axis for axis in range(x.ndim) if axis != 1)
    extents = (-1, *(1,) * (x.ndim - 2))
    if integer(node, "training_mode", 0):
        mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    else:
        mean, variance = (values.astype(np.float64).reshape(extents) for values in inputs[3:5])
    deviation = np.sqrt(variance + number(node, "epsilon", 1e-5))
    made = (x - mean) / deviation * scale.reshape(extents) + shift.reshape(extents)
    return made.astype(inputs[0].dtype)


_BINARY: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": _divide,
    "Pow": np.power,
    "Equal": np.equal,
    "Greater": np.greater,
    "Less": np.less,
    "And": np.logical_and,
    "Or": np.logical_or,
}

_UNARY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "Neg": np.negative,
    "Sqrt": np.sqrt,
    "Exp": np.exp,
    "Log": np.log,
    "Abs": np.abs,
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Not": np.logical_not,
    "Reciprocal": np.reciprocal,
    "Sign": np.sign,
    "Round": np.rint,
    "Sin": np.sin,
    "Cos": np.cos,
    "Tanh": np.tanh,
    "Relu": lambda x: np.maximum(x, 0),
}

_VIEWS = ("Constant", "Identity", "Transpose", "Unsqueeze", "Squeeze", "Flatten", "Slice", "Split", "Shape", "Reshape")

CONSTANT_OPS: dict[str, Callable[[Node, Any], np.ndarray | tuple[np.ndarray, ...]]] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Identity": lambda node, inputs: inputs[0],
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Flatten": _flatten,
    "Reshape": _reshape,
    "Slice": _slice,
    "Split": _split,
    "Shape": lambda node, inputs: np.array(
        inputs[0].shape[integer(node, "start", 0) : integer(node, "end", 1 << 30)], np.int64
    ),
    "Gather": lambda node, inputs: np.take(inputs[0], inputs[1].astype(np.int64), integer(node, "axis", 0)),
    "Concat": lambda node, inputs: np.concatenate(inputs, integer(node, "axis", 0)),
    "Expand": lambda node, inputs: np.broadcast_to(
        inputs[0], np.broadcast_shapes(inputs[0].shape, tuple(map(int, inputs[1].ravel())))
    ),
    "Tile": lambda node, inputs: np.tile(inputs[0], tuple(map(int, inputs[1].ravel()))),
    "Range": lambda node, inputs: np.arange(*(value.ravel()[0] for value in inputs)),
    "Where": lambda node, inputs: np.where(*inputs),
    "Mod": _remainder,
    "Max": _extreme(np.maximum),
    "Min": _extreme(np.minimum),
    "Cast": _cast,
    "CastLike": lambda node, inputs: inputs[0].astype(inputs[1].dtype),
    "DequantizeLinear": dequantize,
    "BatchNormalization": _batch_normalization,
    "ReduceMean": _reduce(np.mean),
    "ReduceSum": _reduce(np.sum),
    "ReduceProd": _reduce(np.prod),
    "ReduceMax": _reduce(np.max),
    "ReduceMin": _reduce(np.min),
    "ReduceL1": _reduce(lambda x, **how: np.abs(x).sum(**how)),
    "ReduceL2": _reduce(lambda x, **how: np.sqrt((x * x).sum(**how))),
    "ReduceSumSquare": _reduce(lambda x, **how: (x * x).sum(**how)),
    "Clip": lambda node, inputs: np.clip(
        inputs[0],
        number(node, "min", -np.inf) if len(inputs) < 2 else inputs[1],
        number(node, "max", np.inf) if len(inputs) < 3 else inputs[2],
    ),
    **{name: lambda node, inputs, do=do: do(*inputs) for name, do in _BINARY.items()},  # type: ignore[misc]
    **{name: lambda node, inputs, do=do: do(inputs[0]) for name, do in _UNARY.items()},  # type: ignore[misc]
}
