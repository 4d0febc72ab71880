"""Functions of `nki.language` that require several instructions: selection, rounding, remainders, normalisation.

Each function operates on whole tiles and returns a new tile in SBUF. Intermediate tiles have the dtype float32, the
internal type of the engines.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..instructions.core import active
from ..instructions.dma import dma_copy, dma_transpose
from ..instructions.gather import QUADRANT, nc_n_gather, nc_stream_shuffle
from ..instructions.random_numbers import dropout as isa_dropout
from ..instructions.random_numbers import rng, set_rng_seed
from ..instructions.scalar_engine import activation
from ..instructions.select import tensor_copy_predicated
from ..instructions.tensor_scalar import tensor_scalar
from ..instructions.vector_engine import memset, reciprocal, tensor_copy, tensor_reduce, tensor_tensor
from ..machine.dtypes import lookup
from ..machine.errors import NkiValidationError
from ..machine.memory import PSUM, SBUF, MemoryRegion
from ..tensors.tensor import NkiTensor

# Operators are recognised by name, because NumPy and nki.language use the same function names.
_ADD, _SUBTRACT, _MULTIPLY, _MAXIMUM = np.add, np.subtract, np.multiply, np.maximum
_LESS, _GREATER, _NOT_EQUAL = np.less, np.greater, np.not_equal
_FLOAT32 = "float32"
_INTEGER_LIMIT = 2.0**31  # larger float32 values are already integers and exceed the range of int32
# 2 pi as the sum of two terms. The first has only a few bits, so that its multiples are exact.
_TURN, _TURN_REST = 6.28125, 2 * math.pi - 6.28125


def _tile(shape: tuple[int, ...], dtype: Any) -> NkiTensor:
    return active("a function of nki.language").ndarray(tuple(shape), dtype, SBUF)


def _scalar(data: NkiTensor, op: Any, value: Any, dtype: Any = _FLOAT32, reverse: bool = False, **second: Any) -> Any:
    result = _tile(data.shape, dtype)
    tensor_scalar(result, data, op, value, reverse, **second)
    return result


def _pair(first: NkiTensor, op: Any, second: NkiTensor, dtype: Any = _FLOAT32) -> NkiTensor:
    result = _tile(first.shape, dtype)
    tensor_tensor(result, first, second, op)
    return result


def _combine(x: NkiTensor, op: Any, y: Any, dtype: Any = _FLOAT32) -> NkiTensor:
    """Return x <op> y, where y is a tile like x, a number, or a column with one float32 value per partition."""
    if isinstance(y, NkiTensor) and y.free_size == x.free_size:
        return _pair(x, op, y, dtype)
    result: NkiTensor = _scalar(x, op, y, dtype)
    return result


def _full(shape: tuple[int, ...], value: float) -> NkiTensor:
    result = _tile(shape, _FLOAT32)
    memset(result, value)
    return result


def _operands(name: str, x: Any, y: Any) -> tuple[NkiTensor, Any]:
    """Return the operands with x as a tile.

    If x is a number, the tile has the shape of y and is filled with the number.
    """
    if isinstance(x, NkiTensor):
        return x, y
    if not isinstance(y, NkiTensor):
        raise NkiValidationError(f"nl.{name}: x or y must be a tile")
    return _full(y.shape, float(x)), y


def _result_type(x: Any, y: Any, dtype: Any) -> Any:
    return dtype or (x if isinstance(x, NkiTensor) else y).dtype


def divide(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return x / y, computed as x times the reciprocal of y. Either operand may be a number."""
    result = _result_type(x, y, dtype)
    if not isinstance(y, NkiTensor):
        return _combine(x, _MULTIPLY, 1.0 / y if y else math.copysign(math.inf, y), result)
    inverse = _tile(y.shape, _FLOAT32)
    reciprocal(inverse, y)
    if isinstance(x, NkiTensor):
        return _combine(x, _MULTIPLY, inverse, result)
    return _combine(inverse, _MULTIPLY, x, result)


def negative(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """Return -x."""
    return _combine(x, _MULTIPLY, -1.0, dtype or x.dtype)


def logical_not(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """Return 1 where x is 0, and 0 where x is 1, computed as an exclusive OR with 1 (bitwise for integers)."""
    operator = np.bitwise_xor if x._dtype.is_integer else np.logical_xor
    return _combine(x, operator, 1, dtype or x.dtype)


def _nearest(x: NkiTensor) -> NkiTensor:
    """Round to the nearest integer by casting to int32 and back. Values that are too large for int32 are unchanged."""
    rounded: NkiTensor = _tile(x.shape, "int32")
    tensor_copy(rounded, x)
    near = _tile(x.shape, _FLOAT32)
    tensor_copy(near, rounded)
    magnitude: NkiTensor = _scalar(x, abs, None)
    small: NkiTensor = _scalar(magnitude, _LESS, _INTEGER_LIMIT, "uint8")
    result = _tile(x.shape, _FLOAT32)
    tensor_copy(result, x)
    tensor_copy_predicated(result, near, small)
    return result


def floor(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """Round down to integers."""
    near = _nearest(x)
    return _pair(near, _SUBTRACT, _pair(near, _GREATER, x), dtype or x.dtype)


def ceil(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """Round up to integers."""
    near = _nearest(x)
    return _pair(near, _ADD, _pair(near, _LESS, x), dtype or x.dtype)


def trunc(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """Round toward zero to integers."""
    down, up = floor(x, _FLOAT32), ceil(x, _FLOAT32)
    negative_x: NkiTensor = _scalar(x, _LESS, 0.0, "uint8")
    tensor_copy_predicated(down, up, negative_x)
    return _cast(down, dtype or x.dtype)


def mod(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return the remainder x - floor(x / y) * y, which has the sign of y, subject to rounding of the product."""
    result = _result_type(x, y, dtype)
    x, y = _operands("mod", x, y)
    return _remainder(x, y, floor(divide(x, y, _FLOAT32), _FLOAT32), result)


def fmod(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return the remainder x - trunc(x / y) * y, which has the sign of x, subject to rounding of the product."""
    result = _result_type(x, y, dtype)
    x, y = _operands("fmod", x, y)
    return _remainder(x, y, trunc(divide(x, y, _FLOAT32), _FLOAT32), result)


def _remainder(x: NkiTensor, y: Any, quotient: NkiTensor, dtype: Any) -> NkiTensor:
    return _pair(x, _SUBTRACT, _combine(quotient, _MULTIPLY, y), dtype)


def sin(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """Return sin(x) for any x.

    Multiples of 2 pi are subtracted first, because the range of the Scalar Engine ends at pi.
    """
    turns = _nearest(_combine(x, _MULTIPLY, 1 / (2 * math.pi)))
    angle = _pair(x, _SUBTRACT, _combine(turns, _MULTIPLY, _TURN))
    angle = _pair(angle, _SUBTRACT, _combine(turns, _MULTIPLY, _TURN_REST))
    # np.float32(math.pi) is slightly above pi, outside the range of the instruction; the next lower float32 is the
    # limit.
    edge = float(np.nextafter(np.float32(math.pi), np.float32(0)))
    angle = _scalar(angle, np.minimum, edge, op1=_MAXIMUM, operand1=-edge)
    result = _tile(x.shape, dtype or x.dtype)
    activation(result, sin, angle)
    return result


def cos(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """Return cos(x) = sin(x + pi / 2)."""
    return sin(_combine(x, _ADD, math.pi / 2), dtype or x.dtype)


def tan(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """Return tan(x) = sin(x) / cos(x)."""
    return divide(sin(x, _FLOAT32), cos(x, _FLOAT32), dtype or x.dtype)


def _cast(x: NkiTensor, dtype: Any) -> NkiTensor:
    if lookup(dtype) is x._dtype:
        return x
    result = _tile(x.shape, dtype)
    tensor_copy(result, x)
    return result


def where(condition: NkiTensor, x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Select x where the condition is not 0, and y elsewhere. x and y are numbers or tiles like `condition`."""
    tiles = [operand for operand in (x, y) if isinstance(operand, NkiTensor)]
    result_dtype = dtype or (tiles[0].dtype if tiles else condition.dtype)
    result = _tile(condition.shape, result_dtype)
    if isinstance(y, NkiTensor):
        tensor_copy(result, y)
    else:
        memset(result, y)
    mask: NkiTensor = _scalar(condition, _NOT_EQUAL, 0.0, "uint8")
    if isinstance(x, NkiTensor):
        tensor_copy_predicated(result, _cast(x, result_dtype), mask)
    else:
        tensor_copy_predicated(result, round(x) if result._dtype.is_integer else float(x), mask)
    return result


# Reductions and functions based on them


def _axes(x: NkiTensor, axis: Any) -> tuple[int, ...]:
    return tuple(sorted(a % x.ndim for a in (axis if isinstance(axis, (tuple, list)) else (axis,))))


def _reduced(x: NkiTensor, op: Any, axis: Any, dtype: Any = _FLOAT32) -> NkiTensor:
    """Reduce x over its last axes, which are kept with size 1."""
    axes = _axes(x, axis)
    result = _tile(tuple(1 if dim in axes else extent for dim, extent in enumerate(x.shape)), dtype)
    tensor_reduce(result, op, x, axes, keepdims=True)
    return result


def _spread(x: NkiTensor, shape: tuple[int, ...]) -> NkiTensor:
    """Return a view in which the free dimensions of size 1 are broadcast to a shape."""
    for dim in range(1, len(shape)):
        if x.shape[dim] == 1 and shape[dim] != 1:
            x = x.broadcast(dim, shape[dim])
    return x


def _dropped(x: NkiTensor, axis: Any, keepdims: bool) -> NkiTensor:
    """Remove the reduced axes. A tile keeps at least two dimensions."""
    axes = _axes(x, axis)
    if keepdims:
        return x
    shape = tuple(extent for dim, extent in enumerate(x.shape) if dim not in axes)
    return x._reshape(shape if len(shape) > 1 else (x.shape[0], 1), "reshape")


def _count(x: NkiTensor, axis: Any) -> int:
    return math.prod(x.shape[dim] for dim in _axes(x, axis))


def mean(x: NkiTensor, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """Return the average over the last axes."""
    total = _reduced(x, _ADD, axis)
    return _dropped(_combine(total, _MULTIPLY, 1 / _count(x, axis), dtype or x.dtype), axis, keepdims)


def var(x: NkiTensor, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """Return the variance over the last axes, which are always kept with size 1 (as in NKI)."""
    apart = _pair(x, _SUBTRACT, _spread(mean(x, axis, _FLOAT32, keepdims=True), x.shape))
    return mean(_scalar(apart, np.square, None), axis, dtype or x.dtype, keepdims=True)


def all(x: NkiTensor, axis: Any, dtype: Any = None) -> NkiTensor:
    """Return 1 where all elements along the last axes are nonzero, and 0 elsewhere."""
    return _dropped(_reduced(x, np.logical_and, axis, dtype or x.dtype), axis, keepdims=False)


def softmax(x: NkiTensor, axis: Any = -1, dtype: Any = None) -> NkiTensor:
    """Return exp(x) / sum(exp(x)) along the last axes, after subtracting the maximum."""
    apart = _pair(x, _SUBTRACT, _spread(_reduced(x, _MAXIMUM, axis), x.shape))
    powers = _tile(x.shape, _FLOAT32)
    activation(powers, np.exp, apart)
    total = _reduced(powers, _ADD, axis)
    share = _tile(total.shape, _FLOAT32)
    reciprocal(share, total)
    return _pair(powers, _MULTIPLY, _spread(share, x.shape), dtype or x.dtype)


def rms_norm(
    x: NkiTensor, w: NkiTensor, axis: Any, n: int, epsilon: float = 1e-06, dtype: Any = None, compute_dtype: Any = None
) -> NkiTensor:
    """Return x / sqrt(sum(x^2) / n + epsilon) * w, with the sum over the last axes. w is a tile like x."""
    inner = compute_dtype or _FLOAT32
    total = _reduced(_scalar(x, np.square, None, inner), _ADD, axis)
    spread = _scalar(total, _MULTIPLY, 1 / n, op1=_ADD, operand1=epsilon)
    root, share = _tile(total.shape, _FLOAT32), _tile(total.shape, _FLOAT32)
    activation(root, np.sqrt, spread)
    reciprocal(share, root)
    return _pair(_pair(x, _MULTIPLY, _spread(share, x.shape), inner), _MULTIPLY, w, dtype or x.dtype)


# Data movement and random numbers


def broadcast_to(x: NkiTensor, shape: tuple[int, ...], dtype: Any = None) -> NkiTensor:
    """Broadcast x along dimensions of size 1. Return x itself if the shape is unchanged.

    Partitions are broadcast with a shuffle.
    """
    shape = tuple(shape)
    if len(shape) != x.ndim or any(old not in (1, new) for old, new in zip(x.shape, shape)):
        raise NkiValidationError(
            f"nl.broadcast_to: cannot broadcast {x.label} to shape {shape}; only dimensions of 1 can be broadcast"
        )
    if x.shape[0] != shape[0]:
        lanes = _tile((shape[0], *x.shape[1:]), x.dtype)
        for first in range(0, shape[0], QUADRANT):
            nc_stream_shuffle(lanes[first : min(first + QUADRANT, shape[0])], x, [0] * QUADRANT)
        x = lanes
    if x.shape == shape:
        return _cast(x, dtype or x.dtype)
    result = _tile(shape, dtype or x.dtype)
    tensor_copy(result, _spread(x, shape))
    return result


def load_transpose2d(src: NkiTensor, dtype: Any = None) -> NkiTensor:
    """Load the transpose of a 2-D tensor in HBM into a tile in SBUF, using a DMA."""
    if src.ndim != 2:
        raise NkiValidationError(f"nl.load_transpose2d: src {src.label} must have 2 dimensions")
    tile = _tile((src.shape[1], src.shape[0]), src.dtype)
    dma_transpose(tile, src)
    return _cast(tile, dtype or src.dtype)


def gather_flattened(data: NkiTensor, indices: NkiTensor, axis: int = 0, dtype: Any = None) -> NkiTensor:
    """Return result[p, i] = data[p, indices[p, i]], with the free dimensions of data flattened."""
    if axis != 0:
        raise NkiValidationError(
            f"nl.gather_flattened: only axis 0 (flattened free dimensions) is supported, got {axis}"
        )
    result = _tile(indices.shape, data.dtype)
    nc_n_gather(result, data, _cast(indices, "uint32"))
    return _cast(result, dtype or data.dtype)


def dropout(x: NkiTensor, rate: Any, dtype: Any = None) -> NkiTensor:
    """Set elements of x to 0 with probability `rate`, which is a number or contains one number per partition."""
    result = _tile(x.shape, x.dtype)
    isa_dropout(result, x, rate)
    return _cast(result, dtype or x.dtype)


def random_seed(seed: NkiTensor) -> None:
    """Seed the random numbers of `rand` and `dropout` with one 32-bit value."""
    set_rng_seed(seed)


def rand(shape: Any, dtype: Any, buffer: Any = SBUF, name: str = "") -> NkiTensor:
    """Return uniform random numbers in [0, 1), which are the same in every run (random_numbers.py)."""
    shape = tuple(shape)
    lanes = shape if len(shape) > 1 else (1, *shape)
    bits = _tile(lanes, "uint32")
    rng(bits)
    high = _tile(lanes, "uint32")
    tensor_scalar(high, bits, np.right_shift, 8)
    if buffer is SBUF or buffer is PSUM:
        result = active("nl.rand").ndarray(shape, dtype, buffer, name)
        tensor_scalar(result, high, _MULTIPLY, 2.0**-24)
        return result
    if not isinstance(buffer, MemoryRegion):
        raise NkiValidationError(f"nl.rand: buffer must be nl.sbuf, nl.psum, nl.hbm or nl.shared_hbm, got {buffer!r}")
    tensor = active("nl.rand").ndarray(shape, dtype, buffer, name)
    dma_copy(tensor, _scalar(high, _MULTIPLY, 2.0**-24, dtype))
    return tensor


__all__ = [
    "all",
    "broadcast_to",
    "ceil",
    "cos",
    "divide",
    "dropout",
    "floor",
    "fmod",
    "gather_flattened",
    "load_transpose2d",
    "logical_not",
    "mean",
    "mod",
    "negative",
    "rand",
    "random_seed",
    "rms_norm",
    "sin",
    "softmax",
    "tan",
    "trunc",
    "var",
    "where",
]
