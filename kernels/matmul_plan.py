"""Choose the block sizes of `matmul_fully_optimized` so that HBM traffic is as small as SBUF allows.

The module is pure arithmetic on compile-time integers; no instruction is issued.
"""

import itertools
from dataclasses import dataclass

from .tiling.tiles import DMA_BYTES, DMA_ROW_BYTES, PARTITIONS, ceil_div

TILE_M = PARTITIONS  # columns of the stationary operand: the PE array is square
TILE_N = 512  # columns of the moving operand: a PSUM bank of float32 (nl.tile_size.gemm_moving_fmax)
GROUP = 4  # result tiles that accumulate together: half of the 8 PSUM banks, while the other half is being evicted


@dataclass(frozen=True)
class Product:
    """A product of matrices [K, M] and [K, N] with elements of `size` bytes."""

    M: int
    N: int
    K: int
    size: int


@dataclass(frozen=True)
class Blocks:
    """Blocks of `matmul_fully_optimized`: block_m x block_n elements of the result, and depth K tiles."""

    block_m: int
    block_n: int
    depth: int
    n_outer: bool = False  # True if the outer loop is over blocks of N and the inner loop over blocks of M


@dataclass(frozen=True)
class Plan(Blocks):
    """Blocks and their cost."""

    loaded: int = 0  # elements read from HBM
    held: int = 0  # bytes per SBUF partition


def _block_sizes(extent, tile, smallest):
    """Return the block sizes to consider, beginning with `smallest` tiles and doubling until one block covers the
    extent."""
    sizes = []
    size = tile * smallest
    while size < extent:
        sizes.append(size)
        size = size * 2
    sizes.append(extent)
    return sizes


def evaluate(product, blocks, buffers):
    """Return the cost of blocks: the elements read and the bytes held, with `buffers` copies of each block that is
    replaced during the computation."""
    M, N, K, size = product.M, product.N, product.K, product.size
    block_m, block_n, depth, n_outer = blocks.block_m, blocks.block_n, blocks.depth, blocks.n_outer
    k_tiles = ceil_div(K, PARTITIONS)
    m_blocks = ceil_div(M, block_m)
    n_blocks = ceil_div(N, block_n)
    whole_k = depth >= k_tiles
    # A block of an operand stays in SBUF until the inner loop advances to another block. If K is split, no block stays.
    lhsT_reads = n_blocks if (n_outer or not whole_k) and (m_blocks > 1 or not whole_k) else 1
    rhs_reads = m_blocks if (not n_outer or not whole_k) and (n_blocks > 1 or not whole_k) else 1
    lhsT_copies = 1 if whole_k and m_blocks == 1 else buffers
    rhs_copies = 1 if whole_k and n_blocks == 1 else buffers
    held_bytes = depth * size * (lhsT_copies * block_m + rhs_copies * block_n)
    held_bytes += buffers * GROUP * TILE_N * size  # results being evicted
    if not whole_k:
        held_bytes += ceil_div(block_m, TILE_M) * block_n * 4  # partial results
    return Plan(block_m, block_n, depth, n_outer, K * (M * lhsT_reads + N * rhs_reads), held_bytes)


def _is_better(plan, other):
    if plan.loaded != other.loaded:
        return plan.loaded < other.loaded
    if plan.depth != other.depth:
        return plan.depth > other.depth
    return plan.held < other.held


def best_plan(product, sbuf_bytes):
    """Return the plan that fits in SBUF and reads the least.

    Ties are broken in favour of the deepest plan, then of the smallest.

    Blocks are double-buffered. If the matrix allows it, they are large enough for efficient DMAs. If K is split, the
    blocks are deep enough for the matmuls (on trn2, 0.9 us each in float32 and 0.2 us with 16-bit values) to hide the
    addition of partial results on the Vector Engine (0.7 us per tile).
    """
    M, N, K, size = product.M, product.N, product.K, product.size
    k_tiles = ceil_div(K, PARTITIONS)
    least_depth = 2 if size == 4 else 8
    smallest = evaluate(product, Blocks(min(TILE_M, M), min(TILE_N, N), min(least_depth, k_tiles)), 2)
    best = None
    for depth in _block_sizes(k_tiles, 1, least_depth):
        row_bytes = max(ceil_div(DMA_BYTES, min(K, depth * PARTITIONS)), DMA_ROW_BYTES)
        blocks_m = _block_sizes(M, TILE_M, ceil_div(row_bytes, TILE_M * size))
        blocks_n = _block_sizes(N, TILE_N, ceil_div(row_bytes, TILE_N * size))
        for block_m, block_n, n_outer in itertools.product(blocks_m, blocks_n, (False, True)):
            plan = evaluate(product, Blocks(block_m, block_n, depth, n_outer), 2)
            if plan.held <= sbuf_bytes and (best is None or _is_better(plan, best)):
                best = plan
    return best or smallest


def choose_plan(product, sbuf_bytes, tiles_in_block):
    """Return the plan with the requested blocks, in tiles of (M, N, K), or the best plan if all three are 0."""
    tiles_in_block_m, tiles_in_block_n, tiles_in_block_k = tiles_in_block
    if tiles_in_block == (0, 0, 0):
        return best_plan(product, sbuf_bytes)
    requested = (
        f"got tiles_in_block_m={tiles_in_block_m}, tiles_in_block_n={tiles_in_block_n}, "
        f"tiles_in_block_k={tiles_in_block_k}"
    )
    positive = tiles_in_block_m >= 1 and tiles_in_block_n >= 1 and tiles_in_block_k >= 1
    assert positive, f"pass all three block sizes, each at least 1, or none of them; {requested}"
    block_m = min(TILE_M * tiles_in_block_m, product.M)
    block_n = min(TILE_N * tiles_in_block_n, product.N)
    depth = min(tiles_in_block_k, ceil_div(product.K, PARTITIONS))
    plan = evaluate(product, Blocks(block_m, block_n, depth), 1)
    assert plan.held <= sbuf_bytes, (
        f"blocks need {plan.held} of the {sbuf_bytes} bytes of an SBUF partition; {requested}"
    )
    return plan
