"""Fast products with block matrices, which skip the zeros between blocks but are bit-identical to the full product.

The stationary tiles of layers in which several rows or images share the partitions, and of depthwise convolutions
computed by row groups, consist mostly of zeros. Adding 0 times a finite number does not change a sum, and BLAS adds the
remaining products in the same order. This is tested with random numbers for each size. If a library behaves
differently, or if a number is not finite (0 times infinity is not 0), the whole matrices are multiplied.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..instructions.tensor_engine import multiply
from ..machine.dtypes import Array
from ..tensors.strided import StridedMemory

LARGEST_SHARE = 0.5  # maximum share of nonzero elements
FEWEST_COLUMNS = 8  # minimum number of columns of the moving tile, since BLAS computes vectors differently
_COUNTS = (32, 16, 8, 4, 2)
_RUNS = (1, 2, 4, 8, 16, 32, 64)


class Blocks(NamedTuple):
    """A division of a matrix into blocks.

    The rows of the matrix are divided into `row_runs` runs, each run into `number` groups of equal size, and likewise
    for the columns. Block i consists of the rows and columns in group i of every run.
    """

    number: int
    row_runs: int
    column_runs: int


def same(one: StridedMemory, other: StridedMemory) -> bool:
    """Return True if two views refer to the same elements."""
    return one.storage is other.storage and (one.offset, one.shape, one.strides) == (
        other.offset,
        other.shape,
        other.strides,
    )


def blocks_of(matrix: Array, columns: int) -> Blocks | None:
    """Return the division of a stationary tile [K, M] into as many blocks as possible, outside of which it is zero.

    The result is None if there is no such division, or if a product with a moving tile of `columns` columns would not
    be bit-identical.
    """
    nonzero = matrix != 0
    if columns < FEWEST_COLUMNS or np.count_nonzero(nonzero) > LARGEST_SHARE * matrix.size:
        return None
    found = _find(matrix.shape, np.packbits(nonzero).tobytes())
    return found if found is not None and _is_exact(*matrix.shape, columns, found) else None


def cut(matrix: Array, blocks: Blocks) -> Array:
    """Return the blocks of a stationary tile [K, M] as an array [count, columns of a block, rows of a block].

    The blocks are transposed like the whole tile, so that BLAS adds in the same order.
    """
    count, row_runs, column_runs = blocks
    split = matrix.reshape(row_runs, count, -1, column_runs, count, matrix.shape[1] // (column_runs * count))
    parts = [split[:, number, :, :, number].reshape(len(matrix) // count, -1) for number in range(count)]
    return np.stack(parts).swapaxes(1, 2)


def by_runs(values: Array, runs: int, count: int) -> Array:
    """Return a view of values [runs x count x n, ...] with the shape [count, runs, n, ...]."""
    return values.reshape(runs, count, -1, *values.shape[1:]).swapaxes(0, 1)


def block_product(blocks: Blocks, operands: tuple[Any, ...], matrix: Array, moving: Array) -> Callable[[], None]:
    """Return a function that computes a matmul by the blocks of its stationary tile `matrix` [K, M].

    `operands` are the operands of the matmul, see `multiply`. `moving` [count, rows of a block, N] contains the rows of
    the moving tile for each block.
    """
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
            multiply_whole(operands)
        elif adds:
            np.add(target, result, target)
        elif not is_direct:
            np.copyto(target, result)

    return by_blocks


def multiply_whole(operands: tuple[Any, ...]) -> None:
    """Multiply the whole matrices."""
    multiply(*operands)


def _random_blocks(shape: tuple[int, int], moving_columns: int, blocks: Blocks) -> tuple[Array, Array]:
    """Return a random stationary tile with the given blocks and a random moving tile, including zeros of both
    signs."""
    rng = np.random.default_rng(0)
    own, other = (
        (np.arange(size) // (size // (runs * blocks.number))) % blocks.number
        for size, runs in zip(shape, (blocks.row_runs, blocks.column_runs))
    )
    matrix = rng.standard_normal(shape, np.float32) * (own[:, None] == other)
    moving = rng.standard_normal((shape[0], moving_columns), np.float32)
    moving[::3, ::5] = -0.0
    return matrix, moving


@lru_cache(maxsize=1024)
def _find(shape: tuple[int, int], packed: bytes) -> Blocks | None:
    nonzero = np.unpackbits(np.frombuffer(packed, np.uint8), count=shape[0] * shape[1]).reshape(shape)
    places = np.nonzero(nonzero)
    for count in _COUNTS:
        # The block of the row and of the column of each nonzero element, for each possible number of runs.
        rows, columns = (
            {runs: (place // (size // (runs * count))) % count for runs in _RUNS if size % (runs * count) == 0}
            for place, size in zip(places, shape)
        )
        for row_runs, column_runs in itertools.product(rows, columns):
            if np.array_equal(rows[row_runs], columns[column_runs]):
                return Blocks(count, row_runs, column_runs)
    return None


@lru_cache(maxsize=4096)
def _is_exact(rows: int, columns: int, moving_columns: int, blocks: Blocks) -> bool:
    """Return True if multiplying the blocks of a random matrix is bit-identical to multiplying the whole matrix.

    The matrices include zeros of both signs.
    """
    matrix, moving = _random_blocks((rows, columns), moving_columns, blocks)
    whole = np.matmul(matrix.T, moving)
    by_block = by_runs(moving, blocks.row_runs, blocks.number).reshape(blocks.number, -1, moving_columns)
    parts = np.matmul(cut(matrix, blocks), np.ascontiguousarray(by_block))
    return by_runs(whole, blocks.column_runs, blocks.number).tobytes() == parts.tobytes()
