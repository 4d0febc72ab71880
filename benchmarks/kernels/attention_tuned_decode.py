"""Attention of one new token, including all projections, in seven tuned versions: the loops and instructions of the
measured rows o20 to o26.

All versions load the projections in rows of 4 KiB and the cache in tiles, and broadcast columns over the heads by two
transposes. They differ in the order of loads, in how descriptors are generated, in how the cached keys are transposed,
and in the number of passes over the cache (one or two); `Version` has a field for each difference.
"""

from dataclasses import dataclass

import nki
import nki.isa as nisa
import nki.language as nl

from .attention_tiles import P, copied, function, reduced, rotated_columns, sbuf, scaled, two

WIDE = 512  # columns of the output projection per step
EPSILON = 1e-6


@dataclass(frozen=True)
class Version:
    """The choices in which the versions differ."""

    masked: bool = True  # cached tokens at and after the position are masked; the new key and value are outputs too
    queries_first: bool = True  # the weights of queries and values are loaded before the keys are computed
    outputs_first: bool = False  # the weights of the output projection are loaded before those of the other projections
    hardware: bool = False  # the hardware generates the descriptors of all copies
    keys_by_dma: bool = False  # a DMA, not the Tensor Engine, transposes the cached keys
    masks_first: bool = False  # masks are broadcast when the keys are loaded
    shifted: bool = True  # an additional instruction adds one to the mask's threshold
    spread_by_dma: bool = False  # DMAs broadcast the columns of queries by reading each element once per head
    one_pass: bool = False


@dataclass
class _Loads:
    """The token and a column of ones in SBUF, and functions that load the other data."""

    version: Version
    ones: object = None
    token: object = None

    def load(self, src, dtype=nl.bfloat16):
        dst = nl.ndarray(src.shape, dtype=dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=dst, src=src, dge_mode=self.mode())
        return dst

    def mode(self):
        return nisa.dge_mode.hwdge if self.version.hardware else nisa.dge_mode.unknown


@nki.jit
def attention_tuned_decode(
    hidden, wq, wk, wv, wo, q_norm, k_norm, key_cache, value_cache, cos, sin, position, version=None
):
    """hidden [1, 1, H], wq [Hq d, H], wk and wv [d, H], wo [Hq d, H], norms [d], caches [1, 1, S, d], cos and sin
    [1, d], position [1, 1] -> [1, 1, H], and the new key and value [1, d]. Row p of wq, wk and wv holds, for each tile
    of 128 features, the d weights of the tile's feature p."""
    version = version or Version()
    heads, features = wq.shape[0] // P, hidden.shape[2]
    outs = [nl.ndarray((1, 1, wo.shape[1]), dtype=nl.bfloat16, buffer=nl.shared_hbm)]
    if version.masked:
        outs += [nl.ndarray((1, P), dtype=nl.bfloat16, buffer=nl.shared_hbm) for _ in range(2)]
    s = _Loads(version)
    weights = [copied(s.load(vector.reshape((P, 1)))) for vector in (q_norm, k_norm)]
    turns = [s.load(vector.reshape((P, 1))) for vector in (cos, sin)]
    turns = [copied(turn) for turn in turns]
    s.ones = sbuf(dtype=nl.bfloat16)
    nisa.memset(s.ones, value=1.0)
    s.token = s.load(hidden.reshape((features, 1)).ap(pattern=[[1, P], [P, features // P]], offset=0))
    queries_of = [wq[head * P : (head + 1) * P, :] for head in range(heads)]
    if version.queries_first:
        queries_of = [s.load(rows) for rows in queries_of]
    output_weights = _output_weights(s, wo) if version.outputs_first else None
    key_weights = s.load(wk)
    value_weights = s.load(wv) if version.queries_first else None
    key = rotated_columns(two(nl.multiply, _normal(s, _projected(s, key_weights)), weights[1]), *turns)
    if version.masked:
        _put_out(s, key, outs[1])
    value = _projected(s, value_weights or s.load(wv))
    if version.masked:
        _put_out(s, value, outs[2])
    packed = sbuf(heads)
    for head, rows in enumerate(queries_of):
        weight = rows if version.queries_first else s.load(rows)
        nisa.tensor_copy(packed[0:P, head : head + 1], _sums(s, weight))
    columns = [(q_norm, weights[0]), (cos, turns[0]), (sin, turns[1])]
    queries = _queries(s, packed, columns)
    if output_weights is None:
        output_weights = _output_weights(s, wo)
    score = _new_score(s, key, queries)
    caches = [cache.reshape((cache.shape[2], P)) for cache in (key_cache, value_cache)]
    attend = one_pass if version.one_pass else two_passes
    result = attend(s, queries, caches, position, score, value)
    _project_out(s, result, output_weights, outs[0].reshape((1, wo.shape[1])))
    return tuple(outs) if version.masked else outs[0]


def _output_weights(s, wo):
    """Load the output weights of each head, [128, H]."""
    features = wo.shape[1]
    rows = wo.reshape((wo.shape[0] // P, P, features))
    return [
        s.load(rows.ap(pattern=[[features, P], [1, features]], offset=head * P * features))
        for head in range(wo.shape[0] // P)
    ]


def zeros(rows, columns):
    return nl.zeros((rows, columns), dtype=nl.float32, buffer=nl.psum)


def _sums(s, weight):
    sums = zeros(P, 1)
    for t in range(s.token.shape[1]):
        nisa.nc_matmul(sums, stationary=weight[0:P, t * P : (t + 1) * P], moving=s.token[0:P, t : t + 1])
    return sums


def _projected(s, weight):
    """Project the token with weight [128, H], [128, 1]."""
    return copied(_sums(s, weight))


def summed(s, data):
    """Sum bfloat16 columns over the partitions; every partition receives the result."""
    sums = zeros(P, data.shape[1])
    nisa.nc_matmul(sums, stationary=s.ones, moving=data)
    return copied(sums)


def _normal(s, data):
    """Divide columns by their root mean square."""
    total = summed(s, copied(two(nl.multiply, data, data), nl.bfloat16))
    mean = sbuf(data.shape[1])
    nisa.tensor_scalar(mean, total, op0=nl.multiply, operand0=1.0 / P, op1=nl.add, operand1=EPSILON)
    return two(nl.multiply, data, function(nl.rsqrt, mean))


def _put_out(s, column, out):
    """Store a column as a row."""
    flipped = nl.ndarray((1, P), dtype=nl.bfloat16, buffer=nl.psum)
    nisa.nc_transpose(flipped, copied(column, nl.bfloat16))
    nisa.dma_copy(dst=out, src=copied(flipped, nl.bfloat16), dge_mode=s.mode())


def turned(data, rows, columns):
    """Transpose a tile on the Tensor Engine and return the result in SBUF. `data` may repeat elements."""
    flipped = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_transpose(flipped, data)
    return copied(flipped)


def spread(column, count):
    """Copy a column to each of `count` columns, by means of two transposes."""
    return turned(turned(column.ap([[1, P], [0, count]], offset=0), count, P), P, count)


def _queries(s, packed, columns):
    """Return the queries of all heads, [128, heads] bfloat16. `columns`: a weight, cos and sin, in HBM and in SBUF."""
    heads = packed.shape[1]

    def wide(source, column):
        if not s.version.spread_by_dma:
            return spread(column, heads)
        return copied(s.load(source.reshape((P, 1)).ap([[1, P], [0, heads]], offset=0)))

    normal = _normal(s, packed)
    weighted = two(nl.multiply, normal, wide(*columns[0]))
    cosine, sine = wide(*columns[1]), wide(*columns[2])
    queries = sbuf(heads, nl.bfloat16)
    nisa.tensor_scalar(queries, rotated_columns(weighted, cosine, sine), op0=nl.multiply, operand0=P**-0.5)
    return queries


def _new_score(s, key, queries):
    """Return the scores of the new token's own key, on every partition."""
    products = two(nl.multiply, spread(key, queries.shape[1]), queries)
    return summed(s, copied(products, nl.bfloat16))


def _project_out(s, result, weights, out):
    blocks = out.shape[1] // WIDE
    sums = [zeros(1, WIDE) for _ in range(blocks)]
    for head, weight in enumerate(weights):
        for block in range(blocks):
            moving = weight[0:P, block * WIDE : (block + 1) * WIDE]
            nisa.nc_matmul(sums[block], stationary=result[0:P, head : head + 1], moving=moving)
    for block in range(blocks):
        row = nl.ndarray((1, WIDE), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.tensor_copy(row, sums[block])
        nisa.dma_copy(dst=out[0:1, block * WIDE : (block + 1) * WIDE], src=row, dge_mode=s.mode())


class _Masks:
    """Masks of -1e9 for positions of the cache that are not filled yet."""

    def __init__(self, s, position):
        self.shifted = s.version.shifted
        self.position = copied(s.load(position.reshape((1, 1))[0:1, 0:1], nl.int32))
        self.index = sbuf(1)
        nisa.iota(self.index, pattern=[[1, 1]], offset=0, channel_multiplier=1)

    def column(self, start):
        """Return the mask of the tile that begins at `start`, [128, 1]."""
        threshold = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(threshold, self.position, op0=nl.multiply, operand0=-1.0, op1=nl.add, operand1=float(start))
        delta = two(nl.add, self.index, turned(threshold.ap([[1, 1], [0, P]], offset=0), P, 1))
        if self.shifted:
            delta = scaled(delta, nl.add, 1.0)
        clamped = scaled(function(nl.relu, delta), nl.minimum, 1.0)
        return scaled(clamped, nl.multiply, -1e9)


def _key_tile(s, cache, tile):
    """Load keys of the cache, [d, 128]."""
    if s.version.keys_by_dma:
        keys = nl.ndarray((P, 1, 1, P), dtype=nl.bfloat16, buffer=nl.sbuf)
        rows = cache.reshape((cache.shape[0], 1, 1, P))
        nisa.dma_transpose(dst=keys, src=rows[tile * P : (tile + 1) * P, 0:1, 0:1, :])
        return keys.reshape((P, P))
    raw = s.load(cache[tile * P : (tile + 1) * P, :])
    flipped = nl.ndarray((P, P), dtype=nl.bfloat16, buffer=nl.psum)
    nisa.nc_transpose(flipped, raw)
    return copied(flipped, nl.bfloat16)


def _value_tile(s, cache, tile):
    return s.load(cache.ap(pattern=[[P, P], [1, P]], offset=tile * P * P))


def _scores(keys, queries):
    products = zeros(P, queries.shape[1])
    nisa.nc_matmul(products, stationary=keys, moving=queries)
    return copied(products)


def _maximum(scores, zeroed=False):
    """Return the largest score of each head, [heads, 1]."""
    heads = scores.shape[1]
    flipped = zeros(heads, P) if zeroed else nl.ndarray((heads, P), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_transpose(flipped, scores)
    return reduced(nl.maximum, copied(flipped))


def _filled(rows, columns, value):
    dst = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst, value=value)
    return dst


def _on_all(column, heads):
    """Broadcast [heads, 1] to every partition, [128, heads]."""
    return turned(column.ap([[1, heads], [0, P]], offset=0), P, heads)


def _add_tile(s, exponentials, values, sums):
    """Add exp(scores) of a tile to the count, and its weighted values to the total."""
    total, count = sums
    nisa.tensor_tensor(count, count, summed(s, exponentials), op=nl.add)
    weighted = zeros(P, exponentials.shape[1])
    nisa.nc_matmul(weighted, stationary=values, moving=exponentials)
    nisa.tensor_tensor(total, total, copied(weighted), op=nl.add)


def _with_new_token(score, negative, value, sums):
    """Return the attention with the new token, [128, heads] bfloat16."""
    total, count = sums
    own = function(nl.exp, two(nl.add, score, negative))
    nisa.tensor_tensor(count, count, own, op=nl.add)
    nisa.tensor_tensor(total, total, two(nl.multiply, spread(value, score.shape[1]), own), op=nl.add)
    root = function(nl.rsqrt, scaled(count, nl.add, 1e-9))
    result = sbuf(score.shape[1], nl.bfloat16)
    nisa.tensor_tensor(result, total, two(nl.multiply, root, root), op=nl.multiply)
    return result


def two_passes(s, queries, caches, position, score, value):
    """Find the largest score, then sum. All tiles of keys and values are loaded first."""
    heads, tiles = queries.shape[1], caches[0].shape[0] // P
    masks = _Masks(s, position) if s.version.masked else None
    keys, columns, wide = [], [], []
    for t in range(tiles):
        keys.append(_key_tile(s, caches[0], t))
        if masks:
            columns.append(masks.column(t * P))
            if s.version.masks_first:
                wide.append(spread(columns[t], heads))
    values = [_value_tile(s, caches[1], t) for t in range(tiles)]
    largest = _filled(heads, 1, -1e9)
    nisa.tensor_tensor(largest, largest, _maximum(score, zeroed=True), op=nl.maximum)
    saved = []
    for t in range(tiles):
        scores = _scores(keys[t], queries)
        if masks:
            scores = two(nl.add, scores, wide[t] if wide else spread(columns[t], heads))
        saved.append(scores)
        nisa.tensor_tensor(largest, largest, _maximum(scores), op=nl.maximum)
    negative = _on_all(scaled(largest, nl.multiply, -1.0), heads)
    sums = _filled(P, heads, 0.0), _filled(P, heads, 0.0)
    for t in range(tiles):
        exponentials = copied(function(nl.exp, two(nl.add, saved[t], negative)), nl.bfloat16)
        _add_tile(s, exponentials, values[t], sums)
    return _with_new_token(score, negative, value, sums)


def _rescale(largest, new, sums):
    """Scale the sums to a new maximum."""
    difference = two(nl.add, largest, scaled(new, nl.multiply, -1.0))
    factor = _on_all(function(nl.exp, difference), largest.shape[0])
    for tile in sums:
        nisa.tensor_tensor(tile, tile, factor, op=nl.multiply)


def one_pass(s, queries, caches, position, score, value):
    """Keep a running maximum, processing tiles of keys and values sequentially."""
    heads = queries.shape[1]
    masks = _Masks(s, position)
    largest = _filled(heads, 1, -1e9)
    sums = _filled(P, heads, 0.0), _filled(P, heads, 0.0)
    for t in range(caches[0].shape[0] // P):
        scores = _scores(_key_tile(s, caches[0], t), queries)
        scores = two(nl.add, scores, spread(masks.column(t * P), heads))
        new = two(nl.maximum, largest, _maximum(scores))
        _rescale(largest, new, sums)
        nisa.tensor_copy(largest, new)
        values = _value_tile(s, caches[1], t)
        negative = scaled(_on_all(new, heads), nl.multiply, -1.0)
        exponentials = copied(function(nl.exp, two(nl.add, scores, negative)), nl.bfloat16)
        _add_tile(s, exponentials, values, sums)
    new = two(nl.maximum, largest, _maximum(score, zeroed=True))
    _rescale(largest, new, sums)
    negative = scaled(_on_all(new, heads), nl.multiply, -1.0)
    return _with_new_token(score, negative, value, sums)
