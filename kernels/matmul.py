"""Matrix multiplication, [M, K] @ [K, N] with the left operand given transposed: a ladder of four versions.

1. `matmul_tiled`: the Tensor Engine's tiles (128 of K and M, 512 of N), both operands loaded for every instruction.
2. `matmul_hoist_load`: the K tiles of the left operand are loaded once for a row of tiles, those of the right once
   for a tile of the result.
3. `matmul_block_free_dimension`: several tiles of M and N share what was loaded.
4. `matmul_fully_optimized`: M, N and K are blocked, by the plan that reads HBM least with what SBUF holds; DMAs are
   long, and four tiles of the result grow in PSUM while four others leave it.

In all of them K runs over the partitions of both operands and results accumulate in float32.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .matmul_plan import GROUP, TILE_M, TILE_N, choose_plan
from .tiles import DMA_BYTES, PARTITIONS, ceil_div, check_matrix, evict, itemsize, store_rows, tiles, usable_sbuf_bytes


def _check_operands(lhsT, rhs):
    check_matrix("lhsT", lhsT)
    check_matrix("rhs", rhs)
    assert lhsT.shape[0] == rhs.shape[0], (
        f"lhsT [K, M] and rhs [K, N] must have the same K, got shapes {lhsT.shape} and {rhs.shape}"
    )
    assert lhsT.dtype == rhs.dtype, f"lhsT and rhs must have the same dtype, got {lhsT.dtype} and {rhs.dtype}"


def _load(matrix, k, columns):
    """A tile of an operand: rows of k on the partitions."""
    tile = nl.ndarray((k.size, columns.size), dtype=matrix.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=matrix[k.start : k.end, columns.start : columns.end])
    return tile


def _load_column(matrix, columns):
    """All K tiles of a column of tiles."""
    column = []
    for k in tiles(matrix.shape[0], PARTITIONS):
        column.append(_load(matrix, k, columns))
    return column


def _multiply_columns(result, m, n, lhsT_column, rhs_column):
    """One tile of the result from the K tiles of its operands, copied to SBUF in the result's dtype and stored."""
    accumulator = nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.psum)
    for k in range(len(lhsT_column)):
        nisa.nc_matmul(dst=accumulator, stationary=lhsT_column[k], moving=rhs_column[k], accumulate=k > 0)
    _store(result, m, n, accumulator)


def _store(result, m, n, accumulator):
    tile = nl.ndarray((m.size, n.size), dtype=result.dtype, buffer=nl.sbuf)
    evict(dst=tile, src=accumulator, turn=m.index + n.index)
    nisa.dma_copy(dst=result[m.start : m.end, n.start : n.end], src=tile)


@nki.jit
def matmul_tiled(lhsT, rhs):
    """Multiply matrices tile by tile, loading both operands of every Tensor Engine instruction.

    Dimensions:
        M, N, K: any.
    Args:
        lhsT: [K, M] in HBM, the left operand transposed; float32, bfloat16 or float16.
        rhs: [K, N] in HBM, of the dtype of lhsT.
    Returns:
        [M, N] in HBM, of the dtype of lhsT; accumulated in float32 and rounded once.
    Notes:
        Reads each operand M / 128 or N / 512 times. Needs next to no SBUF.
    """
    _check_operands(lhsT, rhs)
    result = nl.ndarray((lhsT.shape[1], rhs.shape[1]), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    for m in tiles(lhsT.shape[1], TILE_M):
        for n in tiles(rhs.shape[1], TILE_N):
            accumulator = nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.psum)
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
    """Multiply matrices with the loads moved out of the loop over K.

    Dimensions:
        M, N: any.
        K: as long as SBUF holds 640 columns of all K tiles: up to 8,704 in float32, 17,664 in 16 bits on trn1.
    Args:
        lhsT: [K, M] in HBM, the left operand transposed; float32, bfloat16 or float16.
        rhs: [K, N] in HBM, of the dtype of lhsT.
    Returns:
        [M, N] in HBM, of the dtype of lhsT; accumulated in float32 and rounded once.
    Notes:
        Reads the left operand once and the right one M / 128 times.
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
        M, N: any.
        K: as long as SBUF holds 640 columns of all K tiles: up to 8,704 in float32, 17,664 in 16 bits on trn1.
    Args:
        lhsT: [K, M] in HBM, the left operand transposed; float32, bfloat16 or float16.
        rhs: [K, N] in HBM, of the dtype of lhsT.
        tiles_in_block_m, tiles_in_block_n: tiles of 128 of M and of 512 of N to a block. Where all of K does not fit
            in SBUF for that many, blocks are made smaller, those of N first.
    Returns:
        [M, N] in HBM, of the dtype of lhsT; accumulated in float32 and rounded once.
    Notes:
        Reads the left operand once and the right one once for each block of M.
    """
    _check_operands(lhsT, rhs)
    _assert_columns_fit(lhsT, rhs)
    assert tiles_in_block_m >= 1, f"tiles_in_block_m must be at least 1, got {tiles_in_block_m}"
    assert tiles_in_block_n >= 1, f"tiles_in_block_n must be at least 1, got {tiles_in_block_n}"
    result = nl.ndarray((lhsT.shape[1], rhs.shape[1]), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    room = _columns_that_fit(lhsT)
    block_m = min(TILE_M * tiles_in_block_m, lhsT.shape[1])
    block_n = min(TILE_N * tiles_in_block_n, rhs.shape[1])
    while block_m + block_n > room and block_n > TILE_N:
        block_n = ceil_div(block_n, TILE_N) * TILE_N - TILE_N
    while block_m + block_n > room and block_m > TILE_M:
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
    """Columns of both operands together for which SBUF holds all of K beside two tiles of the result."""
    k_tiles = ceil_div(matrix.shape[0], PARTITIONS)
    size = itemsize(matrix.dtype)
    return (usable_sbuf_bytes() - 2 * TILE_N * size) // (k_tiles * size)


def _assert_columns_fit(lhsT, rhs):
    needed = min(TILE_M, lhsT.shape[1]) + min(TILE_N, rhs.shape[1])
    room = _columns_that_fit(lhsT)
    assert needed <= room, (
        f"K = {lhsT.shape[0]} is too long: SBUF holds all of K for {room} columns of {lhsT.dtype}, a tile of the "
        f"result needs {needed}; matmul_fully_optimized takes any K"
    )


def _block(matrix, k, columns):
    """Room in SBUF for the tiles k.start to k.end of K and some columns of an operand: [128, k.size, columns]."""
    return nl.ndarray((PARTITIONS, k.size, columns.size), dtype=matrix.dtype, buffer=nl.sbuf)


def _loads(block, matrix, k, columns):
    """The DMAs that fill a block, in the order in which the matmuls want it, as (destination, source).

    Which rows of K meet in a tile is free as long as both operands agree. Partition p takes the consecutive rows from
    p * (K // 128) on, so that rows of a narrow matrix join to long descriptors; the K % 128 last rows are a tile of
    their own.
    """
    K = matrix.shape[0]
    whole = K // PARTITIONS
    loads = []
    last = min(k.end, whole)
    if k.start < last:
        folded = matrix[0 : whole * PARTITIONS, columns.start : columns.end].reshape_dim(0, (PARTITIONS, whole))
        at_once = max(1, DMA_BYTES // (PARTITIONS * columns.size * itemsize(matrix.dtype)))
        for part in tiles(last - k.start, at_once):
            source = folded[:, k.start + part.start : k.start + part.end, :]
            loads.append((block[:, part.start : part.end, :], source))
    if k.end > whole:
        rest = K - whole * PARTITIONS
        source = matrix[whole * PARTITIONS : K, columns.start : columns.end]
        loads.append((block[0:rest, k.size - 1, :], source))
    return loads


def _issue(lhsT_loads, rhs_loads):
    """Issue the loads of both operands in turns, so that the first matmul waits for the first tile of each only."""
    for i in range(max(len(lhsT_loads), len(rhs_loads))):
        if i < len(lhsT_loads):
            nisa.dma_copy(dst=lhsT_loads[i][0], src=lhsT_loads[i][1])
        if i < len(rhs_loads):
            nisa.dma_copy(dst=rhs_loads[i][0], src=rhs_loads[i][1])


def _multiply_group(accumulators, lhsT_block, rhs_block, m_tiles, n_tiles, k, K):
    """The K tiles of a block into PSUM, for each pair of an M and an N tile (positions within the block)."""
    for t in range(k.size):
        partitions = min(PARTITIONS, K - (k.start + t) * PARTITIONS)
        for i in range(len(m_tiles)):
            for j in range(len(n_tiles)):
                nisa.nc_matmul(
                    dst=accumulators[i][j],
                    stationary=lhsT_block[0:partitions, t, m_tiles[i].start : m_tiles[i].end],
                    moving=rhs_block[0:partitions, t, n_tiles[j].start : n_tiles[j].end],
                    accumulate=t > 0,
                )


def _leave_psum(accumulators, partial, staged, m_tiles, n_tiles, first, last):
    """Move a group out of PSUM: on to the partial results of earlier K blocks, or to where results are stored from."""
    turn = 0
    for i in range(len(m_tiles)):
        rows = m_tiles[i].size
        for j in range(len(n_tiles)):
            n = n_tiles[j]
            source = accumulators[i][j]
            if last:
                offset = n_tiles[0].start
                target = staged[0:rows, i, n.start - offset : n.end - offset]
            else:
                target = partial[0:rows, m_tiles[i].index, n.start : n.end]
            if first:
                evict(dst=target, src=source, turn=turn)
            else:
                earlier = partial[0:rows, m_tiles[i].index, n.start : n.end]
                nisa.tensor_tensor(dst=target, data1=earlier, data2=source, op=nl.add, engine=nisa.engine.vector)
            turn += 1


def _multiply_block(result, lhsT_block, rhs_block, partial, m_block, n_block, k, K):
    """A block's share of the result, in groups of tiles that accumulate in PSUM together."""
    first = k.start == 0
    last = k.end * PARTITIONS >= K
    n_tiles = tiles(n_block.size, TILE_N)
    m_tiles = tiles(m_block.size, TILE_M)
    for n_group in tiles(len(n_tiles), GROUP):
        n_part = n_tiles[n_group.start : n_group.end]
        start = n_part[0].start
        width = n_part[n_group.size - 1].end - start
        for m_group in tiles(len(m_tiles), GROUP // n_group.size):
            m_part = m_tiles[m_group.start : m_group.end]
            accumulators = []
            for m in m_part:
                row = []
                for n in n_part:
                    row.append(nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.psum))
                accumulators.append(row)
            _multiply_group(accumulators, lhsT_block, rhs_block, m_part, n_part, k, K)
            staged = nl.ndarray((PARTITIONS, m_group.size, width), dtype=result.dtype, buffer=nl.sbuf)
            _leave_psum(accumulators, partial, staged, m_part, n_part, first, last)
            if last:
                row_start = m_block.start + m_part[0].start
                row_end = m_block.start + m_part[m_group.size - 1].end
                column = n_block.start + start
                store_rows(result[row_start:row_end, column : column + width], staged)


@nki.jit
def matmul_fully_optimized(lhsT, rhs, tiles_in_block_m=0, tiles_in_block_n=0, tiles_in_block_k=0):
    """Multiply matrices with all three dimensions blocked.

    Dimensions:
        M, N, K: any.
    Args:
        lhsT: [K, M] in HBM, the left operand transposed; float32, bfloat16 or float16.
        rhs: [K, N] in HBM, of the dtype of lhsT.
        tiles_in_block_m, tiles_in_block_n, tiles_in_block_k: tiles of 128 of M, 512 of N and 128 of K to a block.
            0, for all three, takes the blocks that read HBM least: each operand once where SBUF allows it.
    Returns:
        [M, N] in HBM, of the dtype of lhsT; accumulated in float32 and rounded once.
    Notes:
        Where a block holds all of K, results accumulate in PSUM alone; else partial results wait in SBUF in float32.
    """
    _check_operands(lhsT, rhs)
    K, M = lhsT.shape
    N = rhs.shape[1]
    plan = choose_plan(
        M,
        N,
        K,
        itemsize(lhsT.dtype),
        usable_sbuf_bytes(),
        tiles_in_block_m,
        tiles_in_block_n,
        tiles_in_block_k,
    )
    result = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    k_blocks = tiles(ceil_div(K, PARTITIONS), plan.depth)
    outer_blocks = tiles(N, plan.block_n) if plan.n_outer else tiles(M, plan.block_m)
    inner_blocks = tiles(M, plan.block_m) if plan.n_outer else tiles(N, plan.block_n)
    lhsT_held = -1  # which block SBUF holds, so that it is not loaded again
    rhs_held = -1
    for outer in outer_blocks:
        for inner in inner_blocks:
            m = inner if plan.n_outer else outer
            n = outer if plan.n_outer else inner
            partial = None
            if len(k_blocks) > 1:
                partial = nl.ndarray((PARTITIONS, ceil_div(m.size, TILE_M), n.size), dtype=nl.float32, buffer=nl.sbuf)
            for k in k_blocks:
                lhsT_loads = []
                rhs_loads = []
                if lhsT_held != m.index * len(k_blocks) + k.index:
                    lhsT_held = m.index * len(k_blocks) + k.index
                    lhsT_block = _block(lhsT, k, m)
                    lhsT_loads = _loads(lhsT_block, lhsT, k, m)
                if rhs_held != n.index * len(k_blocks) + k.index:
                    rhs_held = n.index * len(k_blocks) + k.index
                    rhs_block = _block(rhs, k, n)
                    rhs_loads = _loads(rhs_block, rhs, k, n)
                _issue(lhsT_loads, rhs_loads)
                _multiply_block(result, lhsT_block, rhs_block, partial, m, n, k, K)
    return result
