"""Fast products with block matrices, bit-identical to the full product but without the zeros between blocks: the
stationary tiles of layers whose rows or images share the partitions, and of depthwise convolutions by row groups, are
mostly zeros.

Adding 0 times a finite number does not change a sum, and BLAS adds the other products in the same order. This is tested
with random numbers for each size; if a library behaves differently, or if a number is not finite (0 times infinity is
not 0), whole matrices are multiplied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..instructions.checks import shaped
from ..instructions.tensor_engine import multiply
from ..machine.dtypes import Array
from ..tensors.strided import StridedMemory

LARGEST_SHARE = 0.5  # largest share of nonzero elements
MOST_BETWEEN = 1.5  # largest size of a moving tile including the gaps between its rows, relative to its elements
FEWEST_COLUMNS = 8  # minimum columns of the moving tile: BLAS computes vectors differently
_COUNTS = (32, 16, 8, 4, 2)
_RUNS = (1, 2, 4, 8, 16, 32, 64)


class Blocks(NamedTuple):
    """The blocks of a matrix.

    Its rows are `row_runs` x `number` x rows of a run, and its columns likewise; block i has the rows and columns at
    position i of every run.
    """

    number: int
    row_runs: int
    column_runs: int


def same(one: StridedMemory, other: StridedMemory) -> bool:
    """True if two views have the same elements."""
    return one.storage is other.storage and (one.offset, one.shape, one.strides) == (
        other.offset,
        other.shape,
        other.strides,
    )


def blocks_of(matrix: Array, columns: int) -> Blocks | None:
    """Return the blocks of a stationary tile [K, M] that is zero elsewhere, as many as possible; None if there are
    none, or if products with a moving tile of these columns would differ in some bits."""
    nonzero = matrix != 0
    if columns < FEWEST_COLUMNS or np.count_nonzero(nonzero) > LARGEST_SHARE * matrix.size:
        return None
    found = _find(matrix.shape, np.packbits(nonzero).tobytes())
    return found if found is not None and _is_exact(*matrix.shape, columns, found) else None


def cut(matrix: Array, blocks: Blocks) -> Array:
    """Return the blocks of a stationary tile [K, M], transposed like the whole tile, so that BLAS adds in the same
    order: [count, columns of one, rows of one]."""
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
            multiply_wholes([operands])
        elif adds:
            np.add(target, result, target)
        elif not is_direct:
            np.copyto(target, result)

    return by_blocks


Step = tuple[Callable[..., None], tuple[Any, ...]]


def in_blocks(steps: Sequence[Step], fixed: set[int]) -> list[Step]:
    """Return the steps of a replay with consecutive block matmuls merged.

    Matmuls that accumulate in one tile are merged if their stationary tiles are `fixed` (by storage id) with the same
    blocks, and their moving tiles have one form.
    """
    found: list[Step] = []
    taps: list[tuple[Any, ...]] = []  # operands of matmuls that accumulate
    form: Any = None
    for compute, operands in steps:
        own = _form(operands, fixed) if compute is multiply else None
        joins = taps and own is not None and own == form and operands[5] is True and same(operands[0], taps[0][0])
        if taps and not joins:
            found.append((add_by_blocks, (taps[0][0], tuple(taps), form[0])))
            taps = []
        if joins or (own is not None and operands[5] is False):
            taps, form = [*taps, operands], own
        else:
            found.append((compute, operands))
    return [*found, (add_by_blocks, (taps[0][0], tuple(taps), form[0]))] if taps else found


def _form(operands: tuple[Any, ...], fixed: set[int]) -> tuple[Any, ...] | None:
    """Return the blocks of a matmul's stationary tile and the form of its moving tile; None without blocks."""
    _, stationary, moving, contracted, turns, _, room = operands
    if turns or id(stationary.storage) not in fixed or moving.shape[0] != contracted:
        return None
    blocks = blocks_of(stationary.values.reshape(contracted, -1), room.shape[1])
    return None if blocks is None else (blocks, moving.shape, moving.strides)


def add_by_blocks(dst: StridedMemory, taps: tuple[tuple[Any, ...], ...], blocks: Blocks) -> None:
    """Return the values of matmuls, the first of which overwrites a tile that the others add to."""
    multiply_wholes(taps)


def multiply_wholes(taps: Sequence[tuple[Any, ...]]) -> None:
    """Multiply whole matrices, one matmul after another."""
    for operands in taps:
        multiply(*operands)


def sum_of_blocks(
    taps: tuple[tuple[Any, ...], ...], blocks: Blocks, room: Callable[[str, int], Array]
) -> Callable[[], None] | None:
    """Compute `add_by_blocks` on the tiles' arrays without copying the moving tiles: gaps between their rows are
    multiplied too, and left out of the sum.

    None if the gaps are large, if BLAS cannot read the layout, or if it adds in another order. `room` returns a float32
    array by purpose and number of elements.
    """
    dst, moving = taps[0][0].values, [tap[2].values for tap in taps]
    lines = [found for found in (line_matrices(values, blocks) for values in moving) if found is not None]
    shape, strides = moving[0].shape[1:], moving[0].strides[1:]
    if len(lines) < len(taps) or any(values.strides[1:] != strides for values in moving):
        return None
    target = by_runs(shaped(dst, (len(dst), *shape)), blocks.column_runs, blocks.number)
    length = lines[0].shape[2]
    exact = _are_lines_exact((len(moving[0]), len(dst)), blocks, (length, shape, strides))
    if not exact or not np.may_share_memory(target, dst):
        return None
    lefts = [cut(stationary.values.reshape(contracted, -1), blocks) for _, stationary, _, contracted, *_ in taps]
    sums, product = room("sums", len(dst) * length), room("product", len(dst) * length)
    matrices = [array.reshape(blocks.number, -1, length) for array in (sums, product)]
    (first, *others) = zip(lefts, lines)
    pitches = [length * len(dst) // count for count in (blocks.number, blocks.number * blocks.column_runs, len(dst))]
    result = as_strided(sums, target.shape, (*(4 * pitch for pitch in pitches), *strides))
    flat = dst.reshape(-1) if dst.flags.c_contiguous else None

    def by_lines() -> None:
        np.matmul(*first, matrices[0])
        for left, line in others:
            np.matmul(left, line, matrices[1])
            np.add(sums, product, sums)
        np.copyto(target, result)
        if not np.isfinite(np.add.reduce(target, axis=None) if flat is None else np.dot(flat, flat)):
            multiply_wholes(taps)

    return by_lines


def line_matrices(values: Array, blocks: Blocks) -> Array | None:
    """Return a moving tile [K, ...] as [blocks, rows of a block, elements from a row's first to its last], a view; None
    if BLAS cannot read it or the gaps are large."""
    pitch, *strides = values.strides
    length = 1 + sum((count - 1) * stride for count, stride in zip(values.shape[1:], strides)) // 4
    run = len(values) // (blocks.number * blocks.row_runs)
    dense = strides[-1] == 4 and min(strides) >= 0 and length <= MOST_BETWEEN * prod(values.shape[1:])
    if not dense or pitch < 4 * length or (blocks.row_runs > 1 and run > 1):
        return None
    between = pitch if blocks.row_runs == 1 else blocks.number * pitch
    return as_strided(values, (blocks.number, run * blocks.row_runs, length), (run * pitch, between, 4))


@lru_cache(maxsize=4096)
def _are_lines_exact(shape: tuple[int, int], blocks: Blocks, form: tuple[Any, ...]) -> bool:
    """True if products of random blocks by whole lines have the same bits as products with the elements alone."""
    length, free, strides = form
    matrix, lines = _random_blocks(shape, length, blocks)
    whole = np.matmul(matrix.T, as_strided(lines, (shape[0], *free), (4 * length, *strides)).reshape(shape[0], -1))
    matrices = line_matrices(as_strided(lines, (shape[0], *free), (4 * length, *strides)), blocks)
    assert matrices is not None
    found = np.empty((shape[1], length), np.float32)
    np.matmul(cut(matrix, blocks), matrices, found.reshape(blocks.number, -1, length))
    rows = by_runs(np.arange(shape[1]), blocks.column_runs, blocks.number).reshape(-1)
    parts = as_strided(found, (shape[1], *free), (4 * length, *strides)).reshape(shape[1], -1)
    return whole[rows].tobytes() == parts.tobytes()


def band_of(matrix: Array, columns: int) -> slice | None:
    """Return the rows of a stationary tile [K, M] that are not all zero, if they are at most half of it; None
    otherwise, or if products with a moving tile of these columns would differ in some bits."""
    rows = np.flatnonzero(matrix.any(axis=1))
    if columns < FEWEST_COLUMNS or not len(rows) or rows[-1] - rows[0] >= LARGEST_SHARE * len(matrix):
        return None
    first, end = int(rows[0]), int(rows[-1]) + 1
    return slice(first, end) if _is_band_exact(matrix.shape, columns, first, end) else None


def band_product(
    rows: slice, operands: tuple[Any, ...], matrix: Array, moving: Array, finite: list[bool]
) -> Callable[[], None]:
    """Return a function that computes a matmul by the nonzero rows of its stationary tile `matrix` [K, M], if `finite`
    says that all numbers of `moving` [K, N] are finite."""
    dst, *_, adds, room = operands
    left, right, values = matrix[rows].T, moving[rows], dst.values
    is_direct = not adds and values.flags.c_contiguous
    products = values.reshape(room.shape) if is_direct else room
    result = room.reshape(values.shape)

    def by_rows() -> None:
        if not finite[0]:
            multiply_wholes([operands])
            return
        np.matmul(left, right, products)
        if adds:
            np.add(values, result, values)
        elif not is_direct:
            np.copyto(values, result)

    return by_rows


@lru_cache(maxsize=4096)
def _is_band_exact(shape: tuple[int, int], columns: int, first: int, end: int) -> bool:
    """True if the rows [first, end) of a random matrix, zero elsewhere, give the bits of the whole."""
    rng = np.random.default_rng(0)
    matrix = np.zeros(shape, np.float32)
    matrix[first:end] = rng.standard_normal((end - first, shape[1]), np.float32)
    moving = rng.standard_normal((shape[0], columns), np.float32)
    moving[::3, ::5] = -0.0
    return np.matmul(matrix.T, moving).tobytes() == np.matmul(matrix[first:end].T, moving[first:end]).tobytes()


def _random_blocks(shape: tuple[int, int], moving_columns: int, blocks: Blocks) -> tuple[Array, Array]:
    """Return a random stationary tile of blocks and a random moving tile, including zeros of both signs."""
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
        # The block of each nonzero row and column, by the number of runs.
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
    """True if the blocks of a random matrix, including zeros of both signs, give the bits of the whole."""
    matrix, moving = _random_blocks((rows, columns), moving_columns, blocks)
    whole = np.matmul(matrix.T, moving)
    by_block = by_runs(moving, blocks.row_runs, blocks.number).reshape(blocks.number, -1, moving_columns)
    parts = np.matmul(cut(matrix, blocks), np.ascontiguousarray(by_block))
    return by_runs(whole, blocks.column_runs, blocks.number).tobytes() == parts.tobytes()
