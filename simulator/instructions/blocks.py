"""Products with matrices of blocks, bit by bit, without the zeros between the blocks: layers whose rows or images share
the partitions, and depthwise convolutions by groups of rows, are nearly all zeros on the Tensor Engine.

Adding 0 times a finite number changes no sum, and BLAS adds the other products in the same order, which is tried with
numbers for each size: a library that does otherwise multiplies whole matrices. Where a number is not finite, the
matrices are multiplied after all, since 0 times infinity is no zero.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..dtypes import Array
from .tensor_engine import multiply

LARGEST_SHARE = 0.5  # of numbers that are not zero
FEWEST_COLUMNS = 8  # of the moving tile: BLAS computes vectors differently
_COUNTS = (32, 16, 8, 4, 2)
_RUNS = (1, 2, 4, 8, 16, 32, 64)


class Blocks(NamedTuple):
    """Blocks of a matrix, whose rows are `row_runs` x `number` x rows of a run, the columns likewise; a block has
    the rows and columns of its place in every run."""

    number: int
    row_runs: int
    column_runs: int


def blocks_of(matrix: Array, columns: int) -> Blocks | None:
    """Return the most blocks that a stationary tile [K, M] consists of, the others of which are zero; None where there
    are none, or where products with a moving tile of these columns would have other bits."""
    nonzero = matrix != 0
    if columns < FEWEST_COLUMNS or np.count_nonzero(nonzero) > LARGEST_SHARE * matrix.size:
        return None
    found = _find(matrix.shape, np.packbits(nonzero).tobytes())
    return found if found is not None and _is_exact(*matrix.shape, columns, found) else None


def cut(matrix: Array, blocks: Blocks) -> Array:
    """Return the blocks of a stationary tile [K, M], transposed as the whole tile is, or BLAS might add otherwise:
    [count, columns of one, rows of one]."""
    count, row_runs, column_runs = blocks
    split = matrix.reshape(row_runs, count, -1, column_runs, count, matrix.shape[1] // (column_runs * count))
    parts = [split[:, number, :, :, number].reshape(len(matrix) // count, -1) for number in range(count)]
    return np.stack(parts).swapaxes(1, 2)


def by_runs(values: Array, runs: int, count: int) -> Array:
    """Return values [runs x count x n, ...] as [count, runs, n, ...], a view."""
    return values.reshape(runs, count, -1, *values.shape[1:]).swapaxes(0, 1)


def block_product(blocks: Blocks, operands: tuple[Any, ...], matrix: Array, moving: Array) -> Callable[[], None]:
    """Return a function that computes a matmul of `operands`, those of `multiply`, by the blocks of its stationary tile
    `matrix` [K, M]; `moving` [count, rows of a block, N] has the moving tile's rows by block."""
    dst, *_, adds, room = operands
    left, values = cut(matrix, blocks), dst.values
    is_direct = not adds and blocks.column_runs == 1 and values.flags.c_contiguous
    flat = (values if is_direct else room).reshape(-1)
    products = flat.reshape(blocks.number, left.shape[1], -1)
    target = by_runs(values, blocks.column_runs, blocks.number)
    result = flat.reshape(target.shape)

    def by_blocks() -> None:
        np.matmul(left, moving, products)
        if not np.isfinite(np.dot(flat, flat)):
            multiply(*operands)
        elif adds:
            np.add(target, result, target)
        elif not is_direct:
            np.copyto(target, result)

    return by_blocks


def band_of(matrix: Array, columns: int) -> slice | None:
    """Return the rows of a stationary tile [K, M] that are not all zero, where they are at most half of it; else, or
    where products with a moving tile of these columns would have other bits, None."""
    rows = np.flatnonzero(matrix.any(axis=1))
    if columns < FEWEST_COLUMNS or not len(rows) or rows[-1] - rows[0] >= LARGEST_SHARE * len(matrix):
        return None
    first, end = int(rows[0]), int(rows[-1]) + 1
    return slice(first, end) if _is_band_exact(matrix.shape, columns, first, end) else None


def band_product(
    rows: slice, operands: tuple[Any, ...], matrix: Array, moving: Array, finite: list[bool]
) -> Callable[[], None]:
    """Return a function that computes a matmul of `operands`, those of `multiply`, by the rows of its stationary tile
    `matrix` [K, M] that are not zero, if `finite` says that all numbers of `moving` [K, N] are."""
    dst, *_, adds, room = operands
    left, right, values = matrix[rows].T, moving[rows], dst.values
    is_direct = not adds and values.flags.c_contiguous
    products = values.reshape(room.shape) if is_direct else room
    result = room.reshape(values.shape)

    def by_rows() -> None:
        if not finite[0]:
            multiply(*operands)
            return
        np.matmul(left, right, products)
        if adds:
            np.add(values, result, values)
        elif not is_direct:
            np.copyto(values, result)

    return by_rows


@lru_cache(maxsize=4096)
def _is_band_exact(shape: tuple[int, int], columns: int, first: int, end: int) -> bool:
    """True if the rows [first, end) of a matrix of random numbers, the others being 0, give the bits of the whole."""
    rng = np.random.default_rng(0)
    matrix = np.zeros(shape, np.float32)
    matrix[first:end] = rng.standard_normal((end - first, shape[1]), np.float32)
    moving = rng.standard_normal((shape[0], columns), np.float32)
    moving[::3, ::5] = -0.0
    return np.matmul(matrix.T, moving).tobytes() == np.matmul(matrix[first:end].T, moving[first:end]).tobytes()


@lru_cache(maxsize=1024)
def _find(shape: tuple[int, int], packed: bytes) -> Blocks | None:
    nonzero = np.unpackbits(np.frombuffer(packed, np.uint8), count=shape[0] * shape[1]).reshape(shape)
    places = np.nonzero(nonzero)
    for count in _COUNTS:
        # Of each row and column that is not zero, the block, by the number of runs.
        rows, columns = (
            {runs: (place // (size // (runs * count))) % count for runs in _RUNS if size % (runs * count) == 0}
            for place, size in zip(places, shape)
        )
        for row_runs, own in rows.items():
            for column_runs, other in columns.items():
                if np.array_equal(own, other):
                    return Blocks(count, row_runs, column_runs)
    return None


@lru_cache(maxsize=4096)
def _is_exact(rows: int, columns: int, moving_columns: int, blocks: Blocks) -> bool:
    """True if the blocks of a matrix of random numbers, zeros of both signs among them, give the bits of the whole."""
    rng = np.random.default_rng(0)
    own, other = (
        (np.arange(size) // (size // (runs * blocks.number))) % blocks.number
        for size, runs in ((rows, blocks.row_runs), (columns, blocks.column_runs))
    )
    matrix = rng.standard_normal((rows, columns), np.float32) * (own[:, None] == other)
    moving = rng.standard_normal((rows, moving_columns), np.float32)
    moving[::3, ::5] = -0.0
    whole = np.matmul(matrix.T, moving)
    by_block = by_runs(moving, blocks.row_runs, blocks.number).reshape(blocks.number, -1, moving_columns)
    parts = np.matmul(cut(matrix, blocks), np.ascontiguousarray(by_block))
    return by_runs(whole, blocks.column_runs, blocks.number).tobytes() == parts.tobytes()
