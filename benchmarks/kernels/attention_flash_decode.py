"""Attention of one new token over a cache, tile by tile with a running maximum: the loops and instructions of the
measured rows o18 and o19.

Weights are loaded as tiles of 128 x 128 in 256-byte rows. The maximum of each tile is broadcast to all partitions
through HBM. Row o18 processes one query head at a time; row o19 processes all heads of a key together (`packed`).
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .attention_tiles import P, copied, function, loaded, reduced, sbuf, scaled, two


@nki.jit
def attention_flash_decode(
    hidden, wq, wk, wv, q_norm, k_norm, key_cache, value_cache, cos, sin, position, packed, merged=True
):
    """hidden [1, 1, H], wq [Hq d, H], wk and wv [Hk d, H], norms [d], caches [1, Hk, S, d], cos and sin [1, d],
    position [1, 1] (not read) -> [1, 1, Hq d].

    `merged`: whether the heads of a key share its loads, because the compiler merged them (the profile of o18 contains
    404 DMAs, but its source contains 572).
    """
    heads, keys = wq.shape[0] // P, wk.shape[0] // P
    out = nl.ndarray((1, 1, heads * P), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    column = out.reshape((heads * P, 1))
    group = heads // keys
    state = _State(wq, wk, wv, key_cache, value_cache, group if packed else 1, merged)
    weights = [copied(loaded(vector.reshape((P, 1)))) for vector in (q_norm, k_norm)]
    state.ones = sbuf(dtype=nl.bfloat16)
    nisa.memset(state.ones, value=1.0)
    turns = [loaded(vector.reshape((P, 1))) for vector in (cos, sin)]
    turns = [copied(turn) for turn in turns]
    rows = hidden.reshape((hidden.shape[2], 1))
    state.token = [loaded(rows[t * P : (t + 1) * P, 0:1]) for t in range(rows.shape[0] // P)]
    for first in range(0, heads, state.columns):
        head = first // group
        result = _packed_heads(state, head, weights, turns) if packed else _one_head(state, first, head, weights, turns)
        for g in range(state.columns):
            narrow = copied(result[0:P, g : g + 1], nl.bfloat16)
            nisa.dma_copy(dst=column[(first + g) * P : (first + g + 1) * P, 0:1], src=narrow)
    return out


class _State:
    """The state that the parts of the kernel share. `columns` heads are processed together."""

    def __init__(self, wq, wk, wv, key_cache, value_cache, columns, merged):
        self.wq, self.wk, self.wv = wq, wk, wv
        self.caches = [cache.reshape((cache.shape[1] * cache.shape[2], P)) for cache in (key_cache, value_cache)]
        self.tiles = key_cache.shape[2] // P
        self.columns = columns
        self.spread = nl.ndarray((columns, 1), dtype=nl.float32, buffer=nl.private_hbm)
        self.merged = merged
        self.ones = self.token = None  # created at the same point as in the measured kernel
        self.kept = {}

    def tile(self, source, offset, pitch, shared):
        """Load a tile of 128 rows of 256 bytes, or return the tile if it was already loaded for a head of the same
        key."""
        tile = self.kept.get((id(source), offset))
        if tile is None:
            tile = sbuf(dtype=nl.bfloat16)
            nisa.dma_copy(dst=tile, src=source.ap(pattern=[[pitch, P], [1, P]], offset=offset))
            if self.merged and shared:
                self.kept[id(source), offset] = tile
        return tile


def _zeros(rows, columns):
    return nl.zeros((rows, columns), dtype=nl.float32, buffer=nl.psum)


def _projected(state, weight, head, shared):
    """Project the token with weight[head], [128, 1]."""
    features = weight.shape[1]
    sums = _zeros(P, 1)
    for t in range(len(state.token)):
        tile = state.tile(weight, head * P * features + t * P, features, shared)
        nisa.nc_matmul(sums, stationary=tile, moving=state.token[t])
    return copied(sums)


def _normalized(state, data, weight):
    """Apply RMS normalisation to a column."""
    squares = copied(two(nl.multiply, data, data), nl.bfloat16)
    sums = _zeros(P, 1)
    nisa.nc_matmul(sums, stationary=state.ones, moving=squares)
    mean = scaled(copied(sums), nl.multiply, 1.0 / P)
    inverse = function(nl.rsqrt, scaled(mean, nl.add, 1e-6))
    return two(nl.multiply, two(nl.multiply, data, inverse), weight)


def _turned(data):
    """Swap the halves of a column and negate the upper one."""
    half = P // 2
    result = sbuf(1)
    nisa.tensor_copy(result[0:half, 0:1], scaled(data[half:P, 0:1], nl.multiply, -1.0))
    nisa.tensor_copy(result[half:P, 0:1], data[0:half, 0:1])
    return result


def _rotated(data, turned, turns):
    cosine, sine = turns
    return two(nl.add, two(nl.multiply, data, cosine), two(nl.multiply, turned, sine))


def _one_head(state, head, key_head, weights, turns):
    """Return the result of one query head, [128, 1]."""
    vectors = [_projected(state, state.wq, head, False), _projected(state, state.wk, key_head, True)]
    value = _projected(state, state.wv, key_head, True)
    normal = [_normalized(state, vector, weight) for vector, weight in zip(vectors, weights)]
    turned = [_turned(vector) for vector in normal]
    query, key = (_rotated(vector, turn, turns) for vector, turn in zip(normal, turned))
    query = scaled(query, nl.multiply, P**-0.5)
    narrow, _ = copied(query, nl.bfloat16), copied(key, nl.bfloat16)  # the second result is not used
    return _attended(state, key_head, narrow, query, key, value)


def _packed_heads(state, key_head, weights, turns):
    """Return the results of all query heads of a key, [128, heads]."""
    key = _normalized(state, _projected(state, state.wk, key_head, True), weights[1])
    key = _rotated(key, _turned(key), turns)
    value = _projected(state, state.wv, key_head, True)
    narrow, queries = [], []
    for g in range(state.columns):
        query = _projected(state, state.wq, key_head * state.columns + g, False)
        query = _normalized(state, query, weights[0])
        queries.append(scaled(_rotated(query, _turned(query), turns), nl.multiply, P**-0.5))
        narrow.append(copied(queries[g], nl.bfloat16))
    return _attended(state, key_head, _packed(narrow), _packed(queries), key, value)


def _packed(columns):
    """Concatenate columns, with a separate copy for each."""
    dst = sbuf(len(columns), columns[0].dtype)
    for c in range(len(columns)):
        nisa.tensor_copy(dst[0:P, c : c + 1], columns[c])
    return dst


def _spread(column, columns):
    """Copy a column to each of `columns`."""
    return column if columns == 1 else _packed([column] * columns)


def _tile_maximum(state, scores):
    """Return the largest score of each head on all partitions, broadcast through HBM."""
    flipped = nl.ndarray((state.columns, P), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_transpose(flipped, scores)
    nisa.dma_copy(dst=state.spread, src=reduced(nl.maximum, copied(flipped)))
    largest = sbuf(state.columns)
    nisa.dma_copy(dst=largest, src=state.spread.ap(pattern=[[0, P], [1, state.columns]], offset=0))
    return largest


def _rescaled(largest, new_largest, sums, total):
    """Return the negated maximum, and the sums and total scaled by exp(old maximum - new maximum)."""
    negative = scaled(new_largest, nl.multiply, -1.0)
    alpha = function(nl.exp, two(nl.add, largest, negative))
    return negative, two(nl.multiply, sums, alpha), two(nl.multiply, total, alpha)


def _attended(state, key_head, narrow, queries, key, value):
    """Return the softmax over the cached keys and the new key, multiplied by the values."""
    columns = state.columns
    total, largest, sums = sbuf(columns), sbuf(columns), sbuf(columns)
    for tile, number in ((total, 0.0), (largest, -1e9), (sums, 0.0)):
        nisa.memset(tile, value=number)
    for t in range(state.tiles):
        offset = (key_head * state.tiles + t) * P * P
        keys = state.tile(state.caches[0], offset, P, True)
        products = _zeros(P, columns)
        nisa.nc_matmul(products, stationary=keys, moving=narrow)
        scores = copied(products)
        new_largest = two(nl.maximum, largest, _tile_maximum(state, scores))
        negative, new_sums, new_total = _rescaled(largest, new_largest, sums, total)
        exponentials = copied(function(nl.exp, two(nl.add, scores, negative)), nl.bfloat16)
        counted = _zeros(P, columns)
        nisa.nc_matmul(counted, stationary=state.ones, moving=exponentials)
        nisa.tensor_tensor(new_sums, new_sums, copied(counted), op=nl.add)
        flipped = nl.ndarray((P, P), dtype=nl.bfloat16, buffer=nl.psum)
        nisa.nc_transpose(flipped, state.tile(state.caches[1], offset, P, True))
        values = copied(flipped, nl.bfloat16)
        weighted = _zeros(P, columns)
        nisa.nc_matmul(weighted, stationary=values, moving=exponentials)
        nisa.tensor_tensor(new_total, new_total, copied(weighted), op=nl.add)
        for old, new in ((largest, new_largest), (sums, new_sums), (total, new_total)):
            nisa.tensor_copy(old, new)
    return _with_new_token(state, queries, key, value, (largest, sums, total))


def _with_new_token(state, queries, key, value, before):
    largest, sums, total = before
    columns = state.columns
    products = copied(two(nl.multiply, _spread(key, columns), queries), nl.bfloat16)
    own = _zeros(P, columns)
    nisa.nc_matmul(own, stationary=state.ones, moving=products)
    score = copied(own)
    negative, sums, total = _rescaled(largest, two(nl.maximum, largest, score), sums, total)
    exponential = function(nl.exp, two(nl.add, score, negative))
    nisa.tensor_tensor(sums, sums, exponential, op=nl.add)
    nisa.tensor_tensor(total, total, two(nl.multiply, _spread(value, columns), exponential), op=nl.add)
    root = function(nl.rsqrt, scaled(sums, nl.add, 1e-9))
    return two(nl.multiply, total, two(nl.multiply, root, root))
