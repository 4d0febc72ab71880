"""Products with diagonal matrices, bit by bit, without their zeros: a depthwise convolution on the Tensor Engine.

A sum of one product and zeros is that product, so each row of the moving tile is scaled. Where a number is not finite,
0 times it is no zero: then the matrices are multiplied after all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..instructions.tensor_engine import multiply
from ..machine.dtypes import Array
from ..tensors.strided import StridedMemory

Step = tuple[Callable[..., None], tuple[Any, ...]]


def without_zeros(steps: Sequence[Step], fixed: set[int]) -> list[Step]:
    """The steps of a replay, with matmuls by diagonal tiles that are `fixed`, by the id of their storage, as scalings.

    Matmuls after each other that add up in one tile are one step.
    """
    shorter: list[Step] = []
    taps: list[tuple[Any, ...]] = []  # the operands of matmuls that add up, with their diagonals
    for compute, operands in steps:
        diagonal = _diagonal(operands, fixed) if compute is multiply else None
        adds = diagonal is not None and operands[5]
        if taps and not (adds and same(operands[0], taps[0][0])):
            shorter.append((scale_and_add, (taps[0][0], tuple(taps))))
            taps = []
        if diagonal is not None and (taps or not adds):
            taps.append((*operands, diagonal))
        else:
            shorter.append((compute, operands))
    if taps:
        shorter.append((scale_and_add, (taps[0][0], tuple(taps))))
    return shorter


def same(one: StridedMemory, other: StridedMemory) -> bool:
    """True if two views have the same elements."""
    return one.storage is other.storage and (one.offset, one.shape, one.strides) == (
        other.offset,
        other.shape,
        other.strides,
    )


def _diagonal(operands: tuple[Any, ...], fixed: set[int]) -> Array | None:
    """The diagonal of a matmul's stationary tile as a column for the moving one, if all else there is zero."""
    dst, stationary, moving, contracted, turns, adds, _ = operands
    if id(stationary.storage) not in fixed or stationary.size != contracted**2 or turns or adds not in (True, False):
        return None
    if moving.shape[0] != contracted or not (dst._dtype.exact and dst.values.flags.c_contiguous):
        return None
    values = stationary.values.reshape(contracted, contracted)
    column = values.diagonal()
    if np.count_nonzero(values) != np.count_nonzero(column):
        return None
    return column.reshape((-1,) + (1,) * (len(moving.shape) - 1)).copy()


def scale_and_add(dst: StridedMemory, taps: tuple[tuple[Any, ...], ...]) -> None:
    """The values of matmuls that overwrite a tile, the first one, and add to it, the others."""
    scaling(dst, taps, lambda _, size: np.empty(size, np.float32))()


def scaling(
    dst: StridedMemory, taps: tuple[tuple[Any, ...], ...], room: Callable[[str, int], Array]
) -> Callable[[], None]:
    """`scale_and_add` on the arrays that the tiles are in now; `room` returns a float32 array by purpose."""
    flat = dst.values.reshape(-1)
    values, columns = [tap[2].values for tap in taps], [tap[-1] for tap in taps]
    lines, sums, result = _as_lines(values), flat, flat
    if lines is not None:
        shape, strides = values[0].shape, values[0].strides
        values, columns = lines, [column.reshape(-1, 1) for column in columns]
        if values[0].size != flat.size:
            sums = room("sums", values[0].size)
            result = as_strided(sums, shape, (sums.nbytes // shape[0], *strides[1:]))
    product, total = room("product", sums.size), dst.values.reshape(result.shape)
    first, *others = zip(values, columns)
    shaped_sums, shaped_product = sums.reshape(values[0].shape), product.reshape(values[0].shape)

    def compute() -> None:
        np.multiply(*first, shaped_sums)
        for moving, column in others:
            np.multiply(moving, column, shaped_product)
            np.add(sums, product, sums)
        np.add(result, np.float32(0), total)  # of zeros, a sum has no sign
        if not np.isfinite(np.dot(flat, flat)):
            for *operands, _ in taps:
                multiply(*operands)

    return compute


def _as_lines(values: list[Array]) -> list[Array] | None:
    """Moving tiles [K, ...] as [K, elements from the first to the last], with what lies between their rows: NumPy is
    fast on long rows. None where that is much more than the tiles."""
    shape, strides = values[0].shape, values[0].strides
    length = 1 + sum((count - 1) * stride for count, stride in zip(shape[1:], strides[1:])) // 4
    dense = strides[-1] == 4 and min(strides) >= 0 and length <= 1.5 * prod(shape[1:])
    if not dense or any((each.shape, each.strides) != (shape, strides) for each in values):
        return None
    return [as_strided(each, (shape[0], length), (strides[0], 4)) for each in values]
