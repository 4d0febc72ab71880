"""Attention of one new token, including all projections: the loops and instructions of the measured row o01.

The output weights are loaded with their rows along the free axis, in elements of 2 bytes, which determines the
latency of the kernel.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .attention_tiles import P, copied, function, loaded, reduced, rotated_columns, sbuf, scaled, two

WIDE = 512  # columns of the output projection per step


@nki.jit
def attention_decode(hidden, wq, wk, wv, wo, q_norm, k_norm, key_cache, value_cache, cos, sin):
    """hidden [1, H], wq [Hq d, H], wk and wv [d, H], wo [H, Hq d], norms, cos and sin [d], caches [S, d] -> [1, H]."""
    features, heads = hidden.shape[1], wq.shape[0] // P
    out = nl.ndarray((1, features), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    columns = []
    for vector in (q_norm, k_norm, cos, sin):
        columns.append(copied(loaded(vector.reshape((P, 1)))))
    q_weight, k_weight, cosine, sine = columns
    ones = sbuf(dtype=nl.bfloat16)
    nisa.memset(ones, value=1.0)
    token = sbuf(features // P, nl.bfloat16)
    nisa.dma_copy(dst=token, src=hidden.ap(pattern=[[1, P], [P, features // P]], offset=0))
    wo_tiles = []
    for head in range(heads):
        tile = sbuf(features, nl.bfloat16)
        nisa.dma_copy(dst=tile, src=wo.ap(pattern=[[1, P], [heads * P, features]], offset=head * P))
        wo_tiles.append(tile)
    key = rotated_columns(_normalized(_projected(loaded(wk), token), k_weight, ones), cosine, sine)
    value = _projected(loaded(wv), token)
    queries = _queries(wq, token, heads, q_weight, cosine, sine, ones)
    score = _new_score(key, queries, heads, ones)
    result = _attended(queries, key_cache, value_cache, score, value, heads, ones)
    for block in range(features // WIDE):
        sums = nl.zeros((1, WIDE), dtype=nl.float32, buffer=nl.psum)
        for head in range(heads):
            part = wo_tiles[head][0:P, block * WIDE : (block + 1) * WIDE]
            nisa.nc_matmul(sums, stationary=result[0:P, head : head + 1], moving=part)
        row = nl.ndarray((1, WIDE), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.tensor_copy(row, sums)
        nisa.dma_copy(dst=out[0:1, block * WIDE : (block + 1) * WIDE], src=row)
    return out


def _projected(weight, token):
    """Project the token, which is stored as [128, 1] columns, with weight [128, H], tile by tile."""
    sums = nl.zeros((P, 1), dtype=nl.float32, buffer=nl.psum)
    for t in range(token.shape[1]):
        nisa.nc_matmul(sums, stationary=weight[0:P, t * P : (t + 1) * P], moving=token[0:P, t : t + 1])
    return copied(sums)


def _summed(data, ones):
    """Sum over the partitions with a matmul of ones; every partition receives the result."""
    sums = nl.zeros((P, data.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(sums, stationary=ones, moving=copied(data, nl.bfloat16))
    return copied(sums)


def _normalized(data, weight, ones):
    """Apply RMS normalisation to columns."""
    total = _summed(two(nl.multiply, data, data), ones)
    mean = sbuf(data.shape[1])
    nisa.tensor_scalar(mean, total, op0=nl.multiply, operand0=1.0 / P, op1=nl.add, operand1=1e-6)
    return two(nl.multiply, two(nl.multiply, data, function(nl.rsqrt, mean)), weight)


def _repeated(column, count):
    """Repeat the column `count` times, with a separate copy for each."""
    dst = sbuf(count)
    for c in range(count):
        nisa.tensor_copy(dst[0:P, c : c + 1], column)
    return dst


def _queries(wq, token, heads, weight, cosine, sine, ones):
    """Return the queries of all heads, normalised, rotated and scaled, as columns [128, heads] bfloat16."""
    weights = []
    for head in range(heads):
        weights.append(loaded(wq[head * P : (head + 1) * P, 0 : wq.shape[1]]))
    vectors = []
    for head in range(heads):
        vectors.append(_projected(weights[head], token))
    packed = sbuf(heads)
    for head in range(heads):
        nisa.tensor_copy(packed[0:P, head : head + 1], vectors[head])
    normal = _normalized(packed, _repeated(weight, heads), ones)
    turned = rotated_columns(normal, _repeated(cosine, heads), _repeated(sine, heads))
    queries = sbuf(heads, nl.bfloat16)
    nisa.tensor_scalar(queries, turned, op0=nl.multiply, operand0=P**-0.5)
    return queries


def _new_score(key, queries, heads, ones):
    """Return the scores of the new token's own key on every partition."""
    return _summed(two(nl.multiply, _repeated(key, heads), queries), ones)


def _row_maximum(scores, heads, zeroed=False):
    """Return the largest score of each head, [heads, 1]; the measured kernel zeroes PSUM before the first call."""
    flipped = nl.ndarray((heads, P), dtype=nl.float32, buffer=nl.psum)
    if zeroed:
        nisa.memset(flipped, value=0.0)
    nisa.nc_transpose(flipped, scores)
    return reduced(nl.maximum, copied(flipped))


def _negative_maximum(largest, heads):
    """Return -largest [heads, 1] on every partition, [128, heads], by means of one copy per column and a transpose."""
    negative = scaled(largest, nl.multiply, -1.0)
    wide = nl.ndarray((heads, P), dtype=nl.float32, buffer=nl.sbuf)
    for c in range(P):
        nisa.tensor_copy(wide[0:heads, c : c + 1], negative)
    flipped = nl.zeros((P, heads), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_transpose(flipped, wide)
    return copied(flipped)


def _attended(queries, key_cache, value_cache, score, value, heads, ones):
    """Return the softmax over the cached keys and the new key, multiplied by the values, [128, heads] bfloat16."""
    tiles = key_cache.shape[0] // P
    keys, values = [], []
    for t in range(tiles):
        key = sbuf(dtype=nl.bfloat16)
        nisa.dma_copy(dst=key, src=key_cache.ap(pattern=[[1, P], [P, P]], offset=t * P * P))
        keys.append(key)
    for t in range(tiles):
        values.append(loaded(value_cache[t * P : (t + 1) * P, 0:P]))
    largest = nl.ndarray((heads, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(largest, value=-1e9)
    nisa.tensor_tensor(largest, largest, _row_maximum(score, heads, zeroed=True), op=nl.maximum)
    scores = []
    for t in range(tiles):
        sums = nl.zeros((P, heads), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(sums, stationary=keys[t], moving=queries)
        scores.append(copied(sums))
        nisa.tensor_tensor(largest, largest, _row_maximum(scores[t], heads), op=nl.maximum)
    negative = _negative_maximum(largest, heads)
    total, count = sbuf(heads), sbuf(heads)
    nisa.memset(total, value=0.0)
    nisa.memset(count, value=0.0)
    for t in range(tiles):
        exponentials = copied(function(nl.exp, two(nl.add, scores[t], negative)), nl.bfloat16)
        sums = nl.zeros((P, heads), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(sums, stationary=ones, moving=exponentials)
        nisa.tensor_tensor(count, count, copied(sums), op=nl.add)
        weighted = nl.zeros((P, heads), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(weighted, stationary=values[t], moving=exponentials)
        nisa.tensor_tensor(total, total, copied(weighted), op=nl.add)
    own = function(nl.exp, two(nl.add, score, negative))
    nisa.tensor_tensor(count, count, own, op=nl.add)
    nisa.tensor_tensor(total, total, two(nl.multiply, _repeated(value, heads), own), op=nl.add)
    root = function(nl.rsqrt, scaled(count, nl.add, 1e-9))
    result = sbuf(heads, nl.bfloat16)
    nisa.tensor_tensor(result, total, two(nl.multiply, root, root), op=nl.multiply)
    return result
