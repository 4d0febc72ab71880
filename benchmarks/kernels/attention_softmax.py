"""The softmax variants of the measured prefill kernels: tile by tile, or over all scores at once."""

import nki.isa as nisa
import nki.language as nl

from .attention_tiles import (
    BATCH,
    P,
    copied,
    function,
    loaded,
    masked,
    reduced,
    sbuf,
    scaled,
    scored,
    spread,
    transposed,
    two,
)


def _state(columns):
    """Return the running sum of values, the maximum, and the sum of exponentials."""
    total, largest, count = sbuf(), sbuf(columns), sbuf(columns)
    nisa.memset(total, value=0.0)
    nisa.memset(largest, value=-1e30)
    nisa.memset(count, value=0.0)
    return total, largest, count


def _weighted(exponentials, tiles):
    """Return exponentials @ values, computed in tiles of 128 keys."""
    sums = nl.zeros((P, P), dtype=nl.float32, buffer=nl.psum)
    _weigh(sums, exponentials, tiles)
    return copied(sums)


def _weigh(sums, exponentials, tiles):
    for i in range(len(tiles)):
        part = exponentials[0:P, i * P : (i + 1) * P]
        nisa.nc_matmul(sums, stationary=transposed(copied(part, nl.bfloat16)), moving=tiles[i])


def _update(state, largest, count, total):
    nisa.tensor_copy(state[1], largest)
    nisa.tensor_copy(state[2], count)
    nisa.tensor_copy(state[0], total)


def flash_tiles(queries, keys, values, s, mask):
    """Keep running maxima and sums as tiles of equal columns, which DMAs broadcast for each key tile."""
    state = _state(P)
    for k in range(len(keys)):
        if mask is None:
            scores = masked(scored(queries, keys[k]), (s - k) * P)
        else:
            scores = scored(queries, transposed(keys[k]))
            added = loaded(mask[s * P : s * P + P, k * P : k * P + P], nl.float32)
            scores = two(nl.add, scores, added)
        largest = two(nl.maximum, state[1], spread(reduced(nl.maximum, scores)))
        negative = scaled(largest, nl.multiply, -1.0)
        decay = function(nl.exp, two(nl.add, state[1], negative))
        count = two(nl.multiply, state[2], decay)
        total = two(nl.multiply, state[0], decay)
        exponentials = function(nl.exp, two(nl.add, scores, negative))
        count = two(nl.add, count, spread(reduced(nl.add, exponentials)))
        total = two(nl.add, total, _weighted(exponentials, [values[k]]))
        _update(state, largest, count, total)
    root = function(nl.rsqrt, scaled(state[2], nl.add, 1e-9))
    return two(nl.multiply, state[0], two(nl.multiply, root, root))


def flash_columns(queries, keys, values, s):
    """Keep running maxima and sums as columns. Process four tiles of keys at a time, then the remainder."""
    state = _state(1)
    whole = len(keys) // BATCH * BATCH
    for k in range(0, whole, BATCH):
        wide = _wide(keys, k)
        _flash_step(state, masked(scored(queries, wide), (s - k) * P), values[k : k + BATCH])
    for k in range(whole, len(keys)):
        _flash_step(state, masked(scored(queries, keys[k]), (s - k) * P), values[k : k + 1])
    return two(nl.multiply, state[0], _inverse(state[2]))


def _flash_step(state, scores, tiles):
    largest = two(nl.maximum, state[1], reduced(nl.maximum, scores))
    negative = scaled(largest, nl.multiply, -1.0)
    decay = function(nl.exp, two(nl.add, state[1], negative))
    count = two(nl.multiply, state[2], decay)
    total = two(nl.multiply, state[0], spread(decay))
    exponentials = function(nl.exp, two(nl.add, scores, spread(negative, scores.shape[1])))
    count = two(nl.add, count, reduced(nl.add, exponentials))
    total = two(nl.add, total, _weighted(exponentials, tiles))
    _update(state, largest, count, total)


def _wide(keys, k):
    wide = sbuf(BATCH * P, nl.bfloat16)
    for i in range(BATCH):
        nisa.tensor_copy(wide[0:P, i * P : (i + 1) * P], keys[k + i])
    return wide


def _inverse(count):
    root = function(nl.rsqrt, scaled(count, nl.add, 1e-9))
    return spread(two(nl.multiply, root, root))


def softmax_whole(queries, keys, values, s, finish):
    """Compute all masked scores, the maximum of each row, and then exponentials.

    Unless `finish`, return only the scores.
    """
    wide = masked(scored(queries, _wide(keys, 0)), s * P)
    tail = []
    for k in range(BATCH, len(keys)):
        tail.append(masked(scored(queries, keys[k]), (s - k) * P))
    if not finish:
        return wide, tail
    negative = _negative_maximum(wide, tail)
    exponentials = function(nl.exp, two(nl.add, wide, spread(negative, BATCH * P)))
    count = reduced(nl.add, exponentials)
    sums = nl.zeros((P, P), dtype=nl.float32, buffer=nl.psum)
    _weigh(sums, exponentials, values[0:BATCH])
    _weigh_tail(sums, tail, spread(negative), count, values)
    total = copied(sums)
    return two(nl.multiply, total, _inverse(count))


def _negative_maximum(wide, tail):
    largest = reduced(nl.maximum, wide)
    for tile in tail:
        nisa.tensor_copy(largest, two(nl.maximum, largest, reduced(nl.maximum, tile)))
    return scaled(largest, nl.multiply, -1.0)


def _weigh_tail(sums, tail, negative, count, values):
    """Add the contribution of the last key tiles, and their exponentials to `count`."""
    for t in range(len(tail)):
        exponentials = function(nl.exp, two(nl.add, tail[t], negative))
        nisa.tensor_copy(count, two(nl.add, count, reduced(nl.add, exponentials)))
        _weigh(sums, exponentials, [values[BATCH + t]])


def softmax_tiles(scores, values):
    """Return softmax @ values of masked scores (wide, tail), computed in tiles of 128 keys."""
    wide, tail = scores
    negative = spread(_negative_maximum(wide, tail))
    sums = nl.zeros((P, P), dtype=nl.float32, buffer=nl.psum)
    count = None
    for i in range(BATCH):
        exponentials = function(nl.exp, two(nl.add, wide[0:P, i * P : (i + 1) * P], negative))
        part = reduced(nl.add, exponentials)
        count = part if i == 0 else two(nl.add, count, part)
        _weigh(sums, exponentials, [values[i]])
    for t in range(len(tail)):
        exponentials = function(nl.exp, two(nl.add, tail[t], negative))
        count = two(nl.add, count, reduced(nl.add, exponentials))
        _weigh(sums, exponentials, [values[BATCH + t]])
    total = copied(sums)
    return two(nl.multiply, total, _inverse(count))
