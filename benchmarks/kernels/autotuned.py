"""Products of 2048 x 2048 matrices, as an autotuner generated them: the loops and instructions of the measured rows o43
to o46.

All kernels zero a tile in PSUM, accumulate into it and copy it out. They use the same tile for all products.
"""

import nki
import nki.isa as nisa
import nki.language as nl

P = 128
WIDE = 512  # columns of a product, one PSUM bank
M_TILES, K_TILES = 4, 8  # tiles per block of `matmul_accumulated`


def _grid(rows, columns, width):
    """Allocate rows x columns tiles [128, width] in SBUF."""
    return [[nl.ndarray((P, width), dtype=nl.bfloat16, buffer=nl.sbuf) for _ in range(columns)] for _ in range(rows)]


def _load(grid, source, transposed):
    """Fill a grid from HBM, or from its transpose with transposing DMAs."""
    width = grid[0][0].shape[1]
    for row, tiles in enumerate(grid):
        for column, tile in enumerate(tiles):
            inner = slice(row * P, (row + 1) * P)
            outer = slice(column * width, (column + 1) * width)
            if transposed:
                nisa.dma_transpose(tile, source[outer, inner])
            else:
                nisa.dma_copy(tile, source[inner, outer])


def _store(target, grid):
    width = grid[0][0].shape[1]
    for row, tiles in enumerate(grid):
        for column, tile in enumerate(tiles):
            nisa.dma_copy(target[row * P : (row + 1) * P, column * width : (column + 1) * width], tile)


def _accumulate(sums, pairs):
    """Set sums to the sum of stationary.T @ moving over `pairs`."""
    nisa.memset(sums, 0.0)
    for stationary, moving in pairs:
        nisa.nc_matmul(sums, stationary, moving)


@nki.jit
def matmul_accumulated(lhs_t, rhs):
    """Multiply lhs_t [K, M] by rhs [K, N] -> [M, N] bfloat16, in blocks whose sums are accumulated in SBUF (row
    o43)."""
    (depth, rows), columns = lhs_t.shape, rhs.shape[1]
    out = nl.ndarray((rows, columns), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    block = M_TILES * P
    for n in range(columns // WIDE):
        results = _grid(rows // P, 1, WIDE)
        for (result,) in results:
            nisa.memset(result, 0.0)
        for k in range(depth // (K_TILES * P)):
            inner = slice(k * K_TILES * P, (k + 1) * K_TILES * P)
            moving = _grid(K_TILES, 1, WIDE)
            _load(moving, rhs[inner, n * WIDE : (n + 1) * WIDE], transposed=False)
            for m in range(rows // block):
                stationary = _grid(K_TILES, 1, block)
                _load(stationary, lhs_t[inner, m * block : (m + 1) * block], transposed=False)
                sums = nl.ndarray((P, WIDE), dtype=nl.float32, buffer=nl.psum)
                part = nl.ndarray((P, WIDE), dtype=nl.bfloat16, buffer=nl.sbuf)
                for t in range(M_TILES):
                    _accumulate(sums, [(s[:, t * P : (t + 1) * P], move) for (s,), (move,) in zip(stationary, moving)])
                    nisa.tensor_copy(part, sums)
                    (result,) = results[m * M_TILES + t]
                    nisa.tensor_tensor(result, result, part, op=nl.add)
        for row, (result,) in enumerate(results):
            packed = nl.ndarray((P, WIDE), dtype=nl.bfloat16, buffer=nl.sbuf)
            nisa.tensor_copy(packed, result)
            nisa.dma_copy(out[row * P : (row + 1) * P, n * WIDE : (n + 1) * WIDE], packed)
    return out


@nki.jit
def matmul_preloaded(lhs, rhs_t, lhs_transposed):
    """Multiply lhs [K, M] or [M, K] (`lhs_transposed`) by rhs_t [N, K] -> [M, N].

    All tiles are loaded first, and DMAs transpose the tiles that are stored in the other order. This is row o44 or,
    with `lhs_transposed`, row o45.
    """
    columns, depth = rhs_t.shape
    rows = lhs.shape[0] if lhs_transposed else lhs.shape[1]
    out = nl.ndarray((rows, columns), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    stationary, moving = _grid(depth // P, rows // P, P), _grid(depth // P, columns // WIDE, WIDE)
    if lhs_transposed:
        _load(stationary, lhs, transposed=True)
    _load(moving, rhs_t, transposed=True)
    if not lhs_transposed:
        _load(stationary, lhs, transposed=False)
    results = _grid(rows // P, columns // WIDE, WIDE)
    sums = nl.ndarray((P, WIDE), dtype=nl.float32, buffer=nl.psum)
    for m in range(rows // P):
        for n in range(columns // WIDE):
            _accumulate(sums, [(stationary[k][m], moving[k][n]) for k in range(depth // P)])
            nisa.tensor_copy(results[m][n], sums)
    _store(out, results)
    return out


def _scores(q, k):
    """Return (q @ k.T).T as tiles [128 keys, 128 queries], indexed by key and query.

    Tiles of queries are loaded again for each use.
    """
    tiles, depth = q.shape[0] // P, q.shape[1] // P
    scores = _grid(k.shape[0] // P, tiles, P)
    half = depth // 2
    queries, keys, block = _grid(half, 1, P), _grid(depth, 1, WIDE), _grid(1, 1, WIDE)[0][0]
    sums = nl.ndarray((P, WIDE), dtype=nl.float32, buffer=nl.psum)
    turned = nl.ndarray((P, P), dtype=nl.bfloat16, buffer=nl.psum)
    for wide in range(k.shape[0] // WIDE):
        _load(keys, k[wide * WIDE : (wide + 1) * WIDE, :], transposed=True)
        for tile in range(tiles):
            nisa.memset(sums, 0.0)
            for part in range(2):
                _load(
                    queries,
                    q[tile * P : (tile + 1) * P, part * half * P : (part + 1) * half * P],
                    transposed=True,
                )
                for d in range(half):
                    nisa.nc_matmul(sums, queries[d][0], keys[part * half + d][0])
            nisa.tensor_copy(block, sums)
            for t in range(WIDE // P):
                nisa.nc_transpose(turned, block[:, t * P : (t + 1) * P])
                nisa.tensor_copy(scores[wide * (WIDE // P) + t][tile], turned)
    return scores


@nki.jit
def double_matmul(q, k, v):
    """Return (q @ k.T) @ v, where all matrices are [2048, 2048] (row o46)."""
    rows, columns = q.shape[0], v.shape[1]
    out = nl.ndarray((rows, columns), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    scores = _scores(q, k)
    results = _grid(rows // P, columns // WIDE, WIDE)
    values = _grid(v.shape[0] // P, 2, WIDE)
    sums = nl.ndarray((P, WIDE), dtype=nl.float32, buffer=nl.psum)
    for pair in range(columns // (2 * WIDE)):
        _load(values, v[:, pair * 2 * WIDE : (pair + 1) * 2 * WIDE], transposed=False)
        for half in range(2):
            for row in range(rows // P):
                _accumulate(sums, [(scores[d][row], values[d][half]) for d in range(len(scores))])
                nisa.tensor_copy(results[row][pair * 2 + half], sums)
    _store(out, results)
    return out
