"""Matrix multiplication, [M, K] @ [K, N] with the left operand transposed, in four successively optimized versions.

1. `matmul_tiled`: uses the Tensor Engine's tiles (128 of K and M, 512 of N), and loads both operands for every
   instruction.
2. `matmul_hoist_load`: loads the K tiles of the left operand once per row of tiles, and the K tiles of the right
   operand once per tile of the result.
3. `matmul_block_free_dimension`: several tiles of M and N share their loads.
4. `matmul_fully_optimized`: M, N and K are blocked so that HBM traffic is as small as SBUF allows; DMAs are long, and
   four tiles of the result accumulate in PSUM while four others are evicted.

In all versions, K is on the partition axis of both operands, and results accumulate in float32.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .matmul_blocks import Block, load_panels, multiply_block, padded, panels, whole_rows
from .matmul_plan import GROUP, TILE_M, TILE_N, Product, choose_plan
from .tiling.packing import matmul_passes
from .tiling.tiles import (
    DMA_BYTES,
    PARTITIONS,
    ceil_div,
    check_matrix,
    copy_by_hardware,
    evict,
    itemsize,
    sbuf_tile,
    several_columns,
    tiles,
    usable_sbuf_bytes,
)
from .tiling.warm_up import warm_bank

FIRST_BYTES = DMA_BYTES // 2  # bytes per DMA while the Tensor Engine waits
WARM_COLUMNS = 16384  # matmuls with more columns (times four in float32) take at least twice as long as the warm-up


def _check_operands(lhsT, rhs):
    check_matrix("lhsT", lhsT)
    check_matrix("rhs", rhs)
    assert lhsT.shape[0] == rhs.shape[0], (
        f"lhsT [K, M] and rhs [K, N] must have the same K, got shapes {lhsT.shape} and {rhs.shape}"
    )
    assert lhsT.dtype == rhs.dtype, f"lhsT and rhs must have the same dtype, got {lhsT.dtype} and {rhs.dtype}"


def _load(matrix, k, columns):
    """Load a tile of an operand, with the K rows `k` on the partitions. A single 16-bit column is padded with zeros."""
    width = several_columns(columns.size, matrix.dtype)
    tile = nl.ndarray((k.size, width), dtype=matrix.dtype, buffer=nl.sbuf)
    if width > columns.size:
        nisa.memset(dst=tile, value=0.0)
    copy_by_hardware(dst=tile[:, 0 : columns.size], src=matrix[k.start : k.end, columns.start : columns.end])
    return tile


def _accumulator(m, n, dtype):
    """Allocate PSUM for a tile of the result, including the column that `_load` pads."""
    shape = (several_columns(m.size, dtype), several_columns(n.size, dtype))
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)


def _load_column(matrix, columns):
    """Load all K tiles of a column of tiles."""
    column = []
    for k in tiles(matrix.shape[0], PARTITIONS):
        column.append(_load(matrix, k, columns))
    return column


def _multiply_columns(result, m, n, lhsT_column, rhs_column):
    """Compute one tile of the result from the K tiles of its operands.

    Evict it to SBUF in the dtype of the result, and store it.
    """
    accumulator = _accumulator(m, n, result.dtype)
    for k in range(len(lhsT_column)):
        nisa.nc_matmul(dst=accumulator, stationary=lhsT_column[k], moving=rhs_column[k], accumulate=k > 0)
    _store(result, m, n, accumulator)


def _store(result, m, n, accumulator):
    tile = sbuf_tile((m.size, n.size), result.dtype)
    evict(dst=tile, src=accumulator[0 : m.size, 0 : n.size], turn=m.index + n.index)
    copy_by_hardware(dst=result[m.start : m.end, n.start : n.end], src=tile)


@nki.jit
def matmul_tiled(lhsT, rhs):
    """Multiply matrices tile by tile. Both operands are loaded for every Tensor Engine instruction.

    Dimensions:
        M, N, K: any size.
    Args:
        lhsT: [K, M] in HBM, the left operand transposed; float32, bfloat16 or float16.
        rhs: [K, N] in HBM, with the same dtype as lhsT.
    Returns:
        [M, N] in HBM, with the same dtype as lhsT; accumulated in float32 and rounded once.
    Notes:
        Reads the left operand N / 512 times and the right operand M / 128 times. Needs almost no SBUF.
    """
    _check_operands(lhsT, rhs)
    result = nl.ndarray((lhsT.shape[1], rhs.shape[1]), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    for m in tiles(lhsT.shape[1], TILE_M):
        for n in tiles(rhs.shape[1], TILE_N):
            accumulator = _accumulator(m, n, lhsT.dtype)
            for k in tiles(lhsT.shape[0], PARTITIONS):
                nisa.nc_matmul(
                    dst=accumulator,
                    stationary=_load(lhsT, k, m),
                    moving=_load(rhs, k, n),
                    accumulate=k.index > 0,
                )
            _store(result, m, n, accumulator)
    return result


@nki.jit
def matmul_hoist_load(lhsT, rhs):
    """Multiply matrices, with the loads hoisted out of the loop over K.

    Dimensions:
        M, N: any size.
        K: limited because SBUF must hold 640 columns of all K tiles: up to 8,704 in float32, 17,664 in 16 bits on trn1.
    Args:
        lhsT: [K, M] in HBM, the left operand transposed; float32, bfloat16 or float16.
        rhs: [K, N] in HBM, with the same dtype as lhsT.
    Returns:
        [M, N] in HBM, with the same dtype as lhsT; accumulated in float32 and rounded once.
    Notes:
        Reads the left operand once and the right operand M / 128 times.
    """
    _check_operands(lhsT, rhs)
    _assert_columns_fit(lhsT, rhs)
    result = nl.ndarray((lhsT.shape[1], rhs.shape[1]), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    for m in tiles(lhsT.shape[1], TILE_M):
        lhsT_column = _load_column(lhsT, m)
        for n in tiles(rhs.shape[1], TILE_N):
            _multiply_columns(result, m, n, lhsT_column, _load_column(rhs, n))
    return result


@nki.jit
def matmul_block_free_dimension(lhsT, rhs, tiles_in_block_m=2, tiles_in_block_n=2):
    """Multiply matrices with blocks of M and N tiles that share their loads.

    Dimensions:
        M, N: any size.
        K: limited because SBUF must hold 640 columns of all K tiles: up to 8,704 in float32, 17,664 in 16 bits on trn1.
    Args:
        lhsT: [K, M] in HBM, the left operand transposed; float32, bfloat16 or float16.
        rhs: [K, N] in HBM, with the same dtype as lhsT.
        tiles_in_block_m, tiles_in_block_n: the number of tiles of 128 of M and of 512 of N per block. If SBUF cannot
            hold all of K for that many tiles, blocks are made smaller, along N first.
    Returns:
        [M, N] in HBM, with the same dtype as lhsT; accumulated in float32 and rounded once.
    Notes:
        Reads the left operand once and the right operand once for each block of M.
    """
    _check_operands(lhsT, rhs)
    _assert_columns_fit(lhsT, rhs)
    assert tiles_in_block_m >= 1, f"tiles_in_block_m must be at least 1, got {tiles_in_block_m}"
    assert tiles_in_block_n >= 1, f"tiles_in_block_n must be at least 1, got {tiles_in_block_n}"
    result = nl.ndarray((lhsT.shape[1], rhs.shape[1]), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    most_columns = _columns_that_fit(lhsT)
    block_m = min(TILE_M * tiles_in_block_m, lhsT.shape[1])
    block_n = min(TILE_N * tiles_in_block_n, rhs.shape[1])
    while block_m + block_n > most_columns and block_n > TILE_N:
        block_n = ceil_div(block_n, TILE_N) * TILE_N - TILE_N
    while block_m + block_n > most_columns and block_m > TILE_M:
        block_m = ceil_div(block_m, TILE_M) * TILE_M - TILE_M
    m_tiles = tiles(lhsT.shape[1], TILE_M)
    n_tiles = tiles(rhs.shape[1], TILE_N)
    for m_block in tiles(len(m_tiles), ceil_div(block_m, TILE_M)):
        lhsT_columns = []
        for m in range(m_block.start, m_block.end):
            lhsT_columns.append(_load_column(lhsT, m_tiles[m]))
        for n_block in tiles(len(n_tiles), ceil_div(block_n, TILE_N)):
            rhs_columns = []
            for n in range(n_block.start, n_block.end):
                rhs_columns.append(_load_column(rhs, n_tiles[n]))
            for m in range(m_block.size):
                for n in range(n_block.size):
                    _multiply_columns(
                        result,
                        m_tiles[m_block.start + m],
                        n_tiles[n_block.start + n],
                        lhsT_columns[m],
                        rhs_columns[n],
                    )
    return result


def _columns_that_fit(matrix):
    """Return the number of columns of both operands, each with all of K, that fit in SBUF together with two tiles of
    the result."""
    k_tiles = ceil_div(matrix.shape[0], PARTITIONS)
    size = itemsize(matrix.dtype)
    return (usable_sbuf_bytes() - 2 * TILE_N * size) // (k_tiles * size)


def _assert_columns_fit(lhsT, rhs):
    needed = min(TILE_M, lhsT.shape[1]) + min(TILE_N, rhs.shape[1])
    most_columns = _columns_that_fit(lhsT)
    assert needed <= most_columns, (
        f"K = {lhsT.shape[0]} is too long: SBUF can hold all of K for {most_columns} columns of {lhsT.dtype}, but a "
        f"result tile needs {needed}; matmul_fully_optimized supports any K"
    )


def _warm_up(M, N, K, dtype):
    """Return a PSUM tile of zeros for the first sums, or None if warming up is not worthwhile."""
    passes = matmul_passes(itemsize(dtype))
    if ceil_div(M, TILE_M) * ceil_div(K, PARTITIONS) * N * passes < WARM_COLUMNS:
        return None
    return warm_bank(min(M, TILE_M), several_columns(min(N, TILE_N), dtype), itemsize(dtype))


@nki.jit
def matmul_fully_optimized(lhsT, rhs, tiles_in_block_m=0, tiles_in_block_n=0, tiles_in_block_k=0):
    """Multiply matrices with all three dimensions blocked.

    Dimensions:
        M, N, K: any size.
    Args:
        lhsT: [K, M] in HBM, the left operand transposed; float32, bfloat16 or float16.
        rhs: [K, N] in HBM, with the same dtype as lhsT.
        tiles_in_block_m, tiles_in_block_n, tiles_in_block_k: tiles of 128 of M, 512 of N and 128 of K per block.
            0 for all three selects the blocks that minimize HBM reads: each operand is read once if SBUF allows it.
    Returns:
        [M, N] in HBM, with the same dtype as lhsT; accumulated in float32 and rounded once.
    Notes:
        If a block contains all of K, results accumulate only in PSUM; otherwise partial results are kept in SBUF in
        float32.
    """
    _check_operands(lhsT, rhs)
    K, M = lhsT.shape
    N = rhs.shape[1]
    product = Product(padded(M, lhsT.dtype), padded(N, lhsT.dtype), K, itemsize(lhsT.dtype))
    plan = choose_plan(product, usable_sbuf_bytes(), (tiles_in_block_m, tiles_in_block_n, tiles_in_block_k))
    result = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    k_blocks = tiles(ceil_div(K, PARTITIONS), plan.depth)
    outer_blocks = tiles(N, plan.block_n) if plan.n_outer else tiles(M, plan.block_m)
    inner_blocks = tiles(M, plan.block_m) if plan.n_outer else tiles(N, plan.block_n)
    warm = _warm_up(M, N, K, lhsT.dtype)
    lhsT_held = -1  # index of the block that is in SBUF and need not be loaded again
    rhs_held = -1
    for outer in outer_blocks:
        for inner in inner_blocks:
            m = inner if plan.n_outer else outer
            n = outer if plan.n_outer else inner
            partial = None
            if len(k_blocks) > 1:
                partial = nl.ndarray((PARTITIONS, ceil_div(m.size, TILE_M), n.size), dtype=nl.float32, buffer=nl.sbuf)
            for k in k_blocks:
                # At first, the Tensor Engine waits for loads. Load only the operands of one group of tiles, if
                # multiplying them keeps the engine busy while the operands of the next group are loaded.
                starts = lhsT_held < 0 and m.size >= GROUP * TILE_M and n.size >= TILE_N and not whole_rows()
                lhsT_new = []
                rhs_new = []
                if lhsT_held != m.index * len(k_blocks) + k.index:
                    lhsT_held = m.index * len(k_blocks) + k.index
                    lhsT_panels = panels(lhsT, k, m, GROUP * TILE_M if starts else m.size)
                    lhsT_new = lhsT_panels
                if rhs_held != n.index * len(k_blocks) + k.index:
                    rhs_held = n.index * len(k_blocks) + k.index
                    rhs_panels = panels(rhs, k, n, TILE_N if starts else n.size)
                    rhs_new = rhs_panels
                load_panels(lhsT_new, rhs_new, lhsT, rhs, k, FIRST_BYTES if starts else DMA_BYTES)
                multiply_block(result, Block(m, n, k, lhsT_panels, rhs_panels), K, partial, warm)
                warm = None
    return result
