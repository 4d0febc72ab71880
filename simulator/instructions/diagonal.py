"""Products with diagonal matrices, bit by bit, without their zeros: a depthwise convolution on the Tensor Engine.

A sum of one product and zeros is that product, so each row of the moving tile is scaled. Where a number is not finite,
0 times it is no zero: then the matrices are multiplied after all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..dtypes import Array
from ..strided import StridedMemory
from .tensor_engine import multiply

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
        if taps and not (adds and _same(operands[0], taps[0][0])):
            shorter.append((_scale_and_add, (taps[0][0], tuple(taps))))
            taps = []
        if diagonal is not None and (taps or not adds):
            taps.append((*operands, diagonal))
        else:
            shorter.append((compute, operands))
    if taps:
        shorter.append((_scale_and_add, (taps[0][0], tuple(taps))))
    return shorter


def _same(one: StridedMemory, other: StridedMemory) -> bool:
    """Whether two views are of the same elements."""
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


def _scale_and_add(dst: StridedMemory, taps: tuple[tuple[Any, ...], ...]) -> None:
    """The values of matmuls that overwrite a tile, the first one, and add to it, the others."""
    flat = dst.values.reshape(-1)
    for number, (*_, moving, _, _, _, room, column) in enumerate(taps):
        values = moving.values
        if number:
            product = room.reshape(values.shape)
            np.multiply(values, column, out=product)
            flat += product.reshape(-1)
        else:
            np.multiply(values, column, out=flat.reshape(values.shape))
            flat += np.float32(0)  # of zeros, a sum has no sign
    if not np.isfinite(np.dot(flat, flat)):
        for *operands, _ in taps:
            multiply(*operands)
