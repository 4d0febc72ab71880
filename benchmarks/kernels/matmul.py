"""Matrix multiplication that is blocked in all three dimensions, as in the last of the measured optimization steps.

The first three steps (tiled, hoisted loads, blocked free dimension) were measured with the structure of
`trninfer.kernels.matmul_tiled`, `matmul_hoist_load` and `matmul_block_free_dimension`, which are used unchanged.
"""

import nki
import nki.isa as nisa
import nki.language as nl

TILE_K = 128  # partitions
TILE_M = 128  # columns of a stationary operand
TILE_N = 512  # columns of a moving operand


@nki.jit
def matmul_blocked(lhsT, rhs, tiles_in_block_m=16, tiles_in_block_n=2, tiles_in_block_k=8):
    """Multiply matrices. Partial results of a block of N and all of M stay in SBUF during the loop over blocks of K.

    Dimensions:
        M, N, K: multiples of the blocks, 128 * tiles_in_block_m, 512 * tiles_in_block_n, 128 * tiles_in_block_k.
    Args:
        lhsT: [K, M] in HBM, the left operand transposed.
        rhs: [K, N] in HBM, of the dtype of lhsT.
    Returns:
        [M, N] in HBM, of the dtype of lhsT. Partial results are rounded to this dtype after each block of K.
    """
    K, M = lhsT.shape
    N = rhs.shape[1]
    assert rhs.shape[0] == K, f"lhsT and rhs must have the same K, got {lhsT.shape} and {rhs.shape}"
    block_m = TILE_M * tiles_in_block_m
    block_n = TILE_N * tiles_in_block_n
    block_k = TILE_K * tiles_in_block_k
    assert M % block_m == 0 and N % block_n == 0 and K % block_k == 0, (
        f"M, N, K = {M}, {N}, {K} must be multiples of the blocks {block_m}, {block_n}, {block_k}"
    )
    out = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    for n in range(0, N, block_n):
        results = []
        for _ in range(0, M, TILE_M):
            result = nl.ndarray((TILE_M, block_n), dtype=out.dtype, buffer=nl.sbuf)
            nisa.memset(dst=result, value=0.0)
            results.append(result)
        for k in range(0, K, block_k):
            rhs_tiles = []
            for t in range(tiles_in_block_k):
                row = k + t * TILE_K
                tile = nl.ndarray((TILE_K, block_n), dtype=rhs.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=tile, src=rhs[row : row + TILE_K, n : n + block_n])
                rhs_tiles.append(tile)
            for m in range(0, M, block_m):
                lhsT_tiles = []
                for t in range(tiles_in_block_k):
                    row = k + t * TILE_K
                    tile = nl.ndarray((TILE_K, block_m), dtype=lhsT.dtype, buffer=nl.sbuf)
                    nisa.dma_copy(dst=tile, src=lhsT[row : row + TILE_K, m : m + block_m])
                    lhsT_tiles.append(tile)
                _multiply_block(results, lhsT_tiles, rhs_tiles, m, tiles_in_block_m, tiles_in_block_n)
        for m in range(0, M, TILE_M):
            packed = nl.ndarray((TILE_M, block_n), dtype=out.dtype, buffer=nl.sbuf)
            for j in range(0, block_n, TILE_N):
                nisa.tensor_copy(dst=packed[:, j : j + TILE_N], src=results[m // TILE_M][:, j : j + TILE_N])
            nisa.dma_copy(dst=out[m : m + TILE_M, n : n + block_n], src=packed)
    return out


def _multiply_block(results, lhsT_tiles, rhs_tiles, first_m, m_tiles, n_tiles):
    """Add the product of a block to the partial results of its rows."""
    for j in range(n_tiles):
        columns = (j * TILE_N, (j + 1) * TILE_N)
        for i in range(m_tiles):
            sums = nl.ndarray((TILE_M, TILE_N), dtype=nl.float32, buffer=nl.psum)
            for t in range(len(lhsT_tiles)):
                nisa.nc_matmul(
                    dst=sums,
                    stationary=lhsT_tiles[t][:, i * TILE_M : (i + 1) * TILE_M],
                    moving=rhs_tiles[t][:, columns[0] : columns[1]],
                    accumulate=t > 0,
                )
            partial = results[first_m // TILE_M + i][:, columns[0] : columns[1]]
            nisa.tensor_tensor(dst=partial, data1=partial, data2=sums, op=nl.add)
