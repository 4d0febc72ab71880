"""Causal attention over a prompt, including the projections: the loops and instructions of the measured rows o12 to
o17.

    for each key head: keys and values of all tiles of 128 positions (projected, keys normalised and rotated)
        for each of its query heads, each tile of queries: project, normalise, rotate; softmax(queries @ keys) @ values

The rows differ in the parameters of `attention_prefill`; `launch_of` (measurements.py) returns the parameters of each
row. Columns are broadcast to 128 columns by DMAs of 4-byte elements, which determines the latency of these kernels.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .attention_softmax import flash_columns, flash_tiles, softmax_tiles, softmax_whole
from .attention_tiles import P, copied, loaded, norm_weight, normalized, rotated, sbuf, scaled, transposed


@nki.jit
def attention_prefill(
    hidden,
    wq,
    wk,
    wv,
    q_norm,
    k_norm,
    cos,
    sin,
    mask=None,
    softmax="tiles",
    transposed_keys=False,
    hidden_first=False,
    transposed_weights=False,
    cache=False,
):
    """hidden [1, S, H], wq [Hq d, H], wk and wv [Hkv d, H] (or transposed), norms [d], cos and sin [S, d] -> [S, Hq d].

    softmax: "tiles" and "columns" keep running maxima as tiles or columns; "whole" and "whole in tiles" compute all
    scores first. mask [S, S] is loaded if given, and otherwise computed. hidden_first: whether the input is loaded and
    transposed only once. cache: whether keys and values are stored too.
    """
    _, length, _ = hidden.shape
    heads, key_heads = wq.shape[transposed_weights] // P, wk.shape[transposed_weights] // P
    out = nl.ndarray((length, heads * P), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    key_cache = nl.ndarray((length, key_heads * P), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    value_cache = nl.ndarray((length, key_heads * P), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    rows = hidden.reshape((length, hidden.shape[2]))
    q_weight, k_weight = norm_weight(q_norm), norm_weight(k_norm)
    ones = sbuf(dtype=nl.bfloat16)
    nisa.memset(ones, value=1.0)
    angles = []
    for s in range(length // P):
        cosine = copied(loaded(cos[s * P : s * P + P, 0:P]))
        angles.append((cosine, copied(loaded(sin[s * P : s * P + P, 0:P]))))
    wq_tiles = []
    for h in range(heads):
        line = []
        for t in range(rows.shape[1] // P):
            line.append(_weight_tile(wq, h, t, transposed_weights))
        wq_tiles.append(line)
    first = _hidden_tiles(rows) if hidden_first else None
    for head in range(key_heads):
        wk_tiles, wv_tiles = [], []
        for t in range(rows.shape[1] // P):
            wk_tiles.append(_weight_tile(wk, head, t, transposed_weights))
            wv_tiles.append(_weight_tile(wv, head, t, transposed_weights))
        keys, values = [], []
        for s in range(length // P):
            if hidden_first:
                key_sums, value_sums = _project(rows, s, [wk_tiles, wv_tiles], first)
            else:
                (key_sums,) = _project(rows, s, [wk_tiles], first)
            normal = normalized(key_sums, k_weight, ones)
            key = copied(rotated(normal, angles[s][0], angles[s][1]), nl.bfloat16)
            if cache:
                key = _stored(key, key_cache, s, head)
            keys.append(transposed(key) if transposed_keys else key)
            if not hidden_first:
                (value_sums,) = _project(rows, s, [wv_tiles], first)
            value = copied(copied(value_sums), nl.bfloat16)
            if cache:
                value = _stored(value, value_cache, s, head)
            values.append(value)
        for h in range(head * heads // key_heads, (head + 1) * heads // key_heads):
            pending = []
            for s in range(length // P):
                (sums,) = _project(rows, s, [wq_tiles[h]], first)
                turned = rotated(normalized(sums, q_weight, ones), angles[s][0], angles[s][1])
                queries = transposed(copied(scaled(turned, nl.multiply, P**-0.5), nl.bfloat16))
                pending.append(_attend(softmax, queries, keys, values, s, mask))
                if softmax != "whole in tiles":
                    _store(out, pending[s], s, h)
            if softmax == "whole in tiles":
                for s in range(length // P):
                    _store(out, softmax_tiles(pending[s], values), s, h)
    return out


def _attend(softmax, queries, keys, values, s, mask):
    """Return the attention of a tile of queries or, for "whole in tiles", only the masked scores."""
    if softmax == "tiles":
        return flash_tiles(queries, keys, values, s, mask)
    if softmax == "columns":
        return flash_columns(queries, keys, values, s)
    return softmax_whole(queries, keys, values, s, finish=softmax == "whole")


def _store(out, result, s, h):
    nisa.dma_copy(dst=out[s * P : s * P + P, h * P : h * P + P], src=copied(result, nl.bfloat16))


def _stored(tile, cache, s, head):
    nisa.dma_copy(dst=cache[s * P : s * P + P, head * P : head * P + P], src=tile)
    return tile


def _weight_tile(weight, head, t, already_transposed):
    """Load a tile [features, 128] of the weights of a head."""
    if already_transposed:
        return loaded(weight[t * P : t * P + P, head * P : head * P + P])
    return transposed(loaded(weight[head * P : head * P + P, t * P : t * P + P]))


def _hidden_tiles(rows):
    tiles = []
    for s in range(rows.shape[0] // P):
        line = []
        for t in range(rows.shape[1] // P):
            line.append(_hidden_tile(rows, s, t))
        tiles.append(line)
    return tiles


def _hidden_tile(rows, s, t):
    return transposed(loaded(rows[s * P : s * P + P, t * P : t * P + P]))


def _project(rows, s, weights, first):
    """Return the products of a tile of rows with each of the weights, in PSUM.

    The rows are read from SBUF if `first` contains them.
    """
    sums = []
    for _ in weights:
        sums.append(nl.zeros((P, P), dtype=nl.float32, buffer=nl.psum))
    for t in range(rows.shape[1] // P):
        tile = _hidden_tile(rows, s, t) if first is None else first[s][t]
        for w in range(len(weights)):
            nisa.nc_matmul(sums[w], stationary=tile, moving=weights[w][t])
    return sums
