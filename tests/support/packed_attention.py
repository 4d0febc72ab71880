"""softmax(q^T k) v^T in one kernel (allenkchau/trainium-kernel-fusion).

q, k and v are [128, sequence], and the result is [sequence, 128]. Scores are float32 regardless of the dtype of the
arguments.

With `as_compiled`, the kernel issues the instructions found in the profiles: the compiler of NKI's first beta
interleaved the loops over blocks of 128 queries. One instruction computes the maxima, the sums or the reciprocals of a
whole group of blocks, which synchronises the group. Four transposes share a PSUM bank and a copy, and DMAs of two or
four blocks are merged. Otherwise, the instructions follow the source.
"""

import nki
import nki.isa as nisa
import nki.language as nl

P = 128
COLUMNS = 512  # columns of a matmul, and of a PSUM bank
RESULTS = 4  # blocks of the result that one DMA stores, as compiled


def _tile(*free, dtype=nl.float32):
    return nl.ndarray((P, *free), dtype=dtype, buffer=nl.sbuf)


def _loaded(src):
    tile = nl.ndarray(src.shape, dtype=src.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=src)
    return tile


def _blocks(length, as_compiled, most):
    """Return the indices of the blocks of 128 queries, in the groups that the compiler interleaves."""
    count = length // P
    size = min(most, count) if as_compiled else 1
    return [range(first, first + size) for first in range(0, count, size)]


def _product(q, k, block, j):
    """Return the scores of 128 queries and 512 keys, in PSUM."""
    product = nl.ndarray((P, COLUMNS), dtype=nl.float32, buffer=nl.psum)
    columns = slice(j * COLUMNS, (j + 1) * COLUMNS)
    nisa.nc_matmul(product, stationary=q[0:P, block * P : (block + 1) * P], moving=k[0:P, columns])
    return product


def _copied(src):
    tile = nl.ndarray(src.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(tile, src)
    return tile


def _exponentials(scores):
    """Return exp(scores - maximum) of a group of blocks, and the reciprocal of each row sum, [128, blocks].

    `scores` contains the tiles of 512 columns of each block.
    """
    count, size = len(scores[0]), len(scores)
    maxima, sums = _tile(size, count), _tile(size, count)
    lowest, total, inverse = _tile(size), _tile(size), _tile(size)
    for i in range(size):
        for j in range(count):
            nisa.tensor_reduce(dst=maxima[0:P, i, j : j + 1], op=nl.maximum, data=scores[i][j], axis=1)
    nisa.tensor_reduce(dst=lowest, op=nl.maximum, data=maxima, axis=2, negate=True)
    exponentials = []
    for i in range(size):
        tiles = [_tile(COLUMNS) for _ in range(count)]
        for j in range(count):
            nisa.activation(tiles[j], op=nl.exp, data=scores[i][j], bias=lowest[0:P, i : i + 1], scale=1.0)
            nisa.tensor_reduce(dst=sums[0:P, i, j : j + 1], op=nl.add, data=tiles[j], axis=1)
        exponentials.append(tiles)
    nisa.tensor_reduce(dst=total, op=nl.add, data=sums, axis=2)
    nisa.reciprocal(inverse, total)
    return exponentials, inverse


def _transposed(tile, at_once):
    """Return the transposes of the squares of a tile of 512 columns. `at_once` transposes share a PSUM bank."""
    squares = _tile(COLUMNS)
    for first in range(0, COLUMNS, at_once * P):
        flipped = nl.ndarray((P, at_once * P), dtype=tile.dtype, buffer=nl.psum)
        for j in range(0, at_once * P, P):
            nisa.nc_transpose(flipped[0:P, j : j + P], tile[0:P, first + j : first + j + P])
        nisa.tensor_copy(squares[0:P, first : first + at_once * P], flipped)
    return squares


def _weighted(weights, values):
    """Return the sum over all keys of the transposed weights multiplied by the values, in PSUM."""
    sums = nl.ndarray((P, P), dtype=nl.float32, buffer=nl.psum)
    for weight, value in zip(weights, values):
        for j in range(0, COLUMNS, P):
            nisa.nc_matmul(sums, stationary=weight[0:P, j : j + P], moving=value[0:P, j : j + P])
    return sums


def _halves(tile):
    return [tile[0:P, j : j + COLUMNS] for j in range(0, tile.shape[1], COLUMNS)]


def _store(result, blocks, tiles):
    """Store the results of several blocks, which are adjacent in a tile, with one DMA."""
    rows = result[blocks[0] * P : (blocks[-1] + 1) * P, 0:P].reshape((len(blocks), P, P))
    nisa.dma_copy(dst=rows.permute((1, 0, 2)), src=tiles)


@nki.jit
def attention_fused(q_hbm, k_hbm, v_hbm, as_compiled=False):
    length = q_hbm.shape[1]
    result = nl.ndarray((length, P), dtype=q_hbm.dtype, buffer=nl.shared_hbm)
    q, k, v = _loaded(q_hbm), _loaded(k_hbm), _loaded(v_hbm)
    at_once = 4 if as_compiled else 1
    values = [_transposed(tile, at_once) for tile in _halves(v)]
    for blocks in _blocks(length, as_compiled, RESULTS):
        scores = []
        for block in blocks:
            products = [_product(q, k, block, j) for j in range(length // COLUMNS)]
            # In the compiled kernel, the eight PSUM banks hold half of the scores of four long blocks; the other half
            # is copied to SBUF.
            keeps = as_compiled and len(blocks) * len(products) <= 4
            scores.append([p if keeps or (as_compiled and j == 0) else _copied(p) for j, p in enumerate(products)])
        exponentials, inverse = _exponentials(scores)
        out = _tile(len(blocks), P, dtype=q_hbm.dtype)
        for i, tiles in enumerate(exponentials):
            sums = _weighted([_transposed(tile, at_once) for tile in tiles], values)
            nisa.tensor_scalar(
                out[0:P, i], sums, op0=nl.multiply, operand0=inverse[0:P, i : i + 1], engine=nisa.engine.vector
            )
        _store(result, blocks, out)
    return result
