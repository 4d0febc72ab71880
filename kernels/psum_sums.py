"""Two kernels that check whether a chip accumulates correctly in PSUM.

`psum_within`: as in a convolution that accumulates all filter taps in one PSUM tile, some terms (taps at the border of
an image) are added to only some of the columns. `psum_side_by_side`: several sums accumulate in one bank in an
interleaved order. A trn2 device is reported to lose terms of such sums, so no other kernel of this package computes
them. AWS's simulator and the simulator of this package compute both exactly. `trninfer doctor --selftest` runs both
before any other kernel.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .tiling.tiles import PARTITIONS, check_matrix, copy_by_hardware, evict, tiles


def _check(lhsT, rhs):
    check_matrix("lhsT", lhsT)
    check_matrix("rhs", rhs)
    assert lhsT.shape[0] == rhs.shape[0], f"lhsT has {lhsT.shape[0]} rows and rhs {rhs.shape[0]}; they must be the same"
    assert lhsT.shape[1] <= PARTITIONS, f"lhsT must have at most {PARTITIONS} columns, got {lhsT.shape[1]}"
    bank = nl.tile_size.psum_bank_fmax
    assert rhs.shape[1] <= bank, f"rhs must have at most {bank} columns, got {rhs.shape[1]}"


def _load_tile(matrix, k):
    tile = nl.ndarray((k.size, matrix.shape[1]), dtype=matrix.dtype, buffer=nl.sbuf)
    copy_by_hardware(dst=tile, src=matrix[k.start : k.end, :])
    return tile


def _stored(sums, dtype):
    tile = nl.ndarray(sums.shape, dtype=dtype, buffer=nl.sbuf)
    evict(dst=tile, src=sums, turn=0)
    result = nl.ndarray(sums.shape, dtype=dtype, buffer=nl.shared_hbm)
    copy_by_hardware(dst=result, src=tile)
    return result


@nki.jit
def psum_side_by_side(lhsT, rhs, slices=4):
    """Multiply matrices, interleaving the accumulation of slices of the columns.

    Each K tile is added to all slices before the next K tile is processed.

    Dimensions:
        M: up to 128. N: up to 512. K: limited because SBUF must hold a column of K tiles.
    Args:
        lhsT: [K, M] in HBM, the left operand transposed; float32, bfloat16 or float16.
        rhs: [K, N] in HBM, with the same dtype as lhsT.
        slices: number of slices of N, at most N.
    Returns:
        [M, N] in HBM, with the same dtype as lhsT; accumulated in float32 in one bank of PSUM.
    Notes:
        `trninfer lint` rejects this kernel, because a trn2 device is reported to lose terms of such sums.
    """
    _check(lhsT, rhs)
    rows = lhsT.shape[1]
    columns = rhs.shape[1]
    assert slices >= 1 and slices <= columns, f"slices must be 1 to {columns}, got {slices}"
    bank = nl.ndarray((PARTITIONS, nl.tile_size.psum_bank_fmax), dtype=nl.float32, buffer=nl.psum)
    for k in tiles(lhsT.shape[0], PARTITIONS):
        left = _load_tile(lhsT, k)
        right = _load_tile(rhs, k)
        for s in range(slices):
            start = columns * s // slices
            end = columns * (s + 1) // slices
            nisa.nc_matmul(  # noqa (interleaved sums, which this kernel is to show)
                dst=bank[0:rows, start:end], stationary=left, moving=right[:, start:end], accumulate=k.index > 0
            )
    return _stored(bank[0:rows, 0:columns], lhsT.dtype)


@nki.jit
def psum_within(lhsT, rhs):
    """Multiply matrices, adding K tile i only to columns i to N - i: the first tile to all columns, and later tiles to
    fewer.

    Dimensions and Args:
        See `psum_side_by_side`; N must be greater than twice the number of K tiles.
    Returns:
        [M, N] in HBM, with the same dtype as lhsT; accumulated in float32 in one tile of PSUM.
    """
    _check(lhsT, rhs)
    columns = rhs.shape[1]
    k_tiles = tiles(lhsT.shape[0], PARTITIONS)
    assert columns > 2 * len(k_tiles), f"rhs must have more than {2 * len(k_tiles)} columns, got {columns}"
    sums = nl.ndarray((lhsT.shape[1], columns), dtype=nl.float32, buffer=nl.psum)
    for k in k_tiles:
        left = _load_tile(lhsT, k)
        right = _load_tile(rhs, k)
        start = k.index
        end = columns - k.index
        nisa.nc_matmul(dst=sums[:, start:end], stationary=left, moving=right[:, start:end], accumulate=k.index > 0)
    return _stored(sums, lhsT.dtype)
