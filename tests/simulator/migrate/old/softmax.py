"""Block dimensions, reductions and a causal mask, in the first NKI."""

import numpy as np
from neuronxcc import nki
from neuronxcc.nki import isa as nisa
from neuronxcc.nki import language as nl
from neuronxcc.nki.language import par_dim


def row_maximum(tile):
    return nisa.tensor_reduce(np.max, tile, axis=(1,), negate=True)


@nki.jit(mode="simulation")
def causal_softmax(scores):
    rows, columns = scores.shape
    blocks = rows // 128
    out = nl.ndarray(scores.shape, dtype=scores.dtype, buffer=nl.hbm)
    kept = nl.zeros((blocks, par_dim(128), columns), dtype=nl.float32, buffer=nl.sbuf)
    ip, jf = nl.arange(128)[:, None], nl.arange(columns)[None, :]
    for i in nl.sequential_range(blocks):
        tile = nl.load(scores[i * 128 + ip, jf])
        kept[i, ip, jf] = nisa.affine_select(
            pred=(i * 128 + ip >= jf), on_true_tile=tile[ip, jf], on_false_value=-1e9, dtype=nl.float32
        )
    for i in nl.affine_range(blocks):
        least = row_maximum(kept[i])
        exps = nisa.activation(np.exp, kept[i], bias=least)
        sums = nl.sum(exps, axis=[1])
        nl.store(out[nl.ds(i * 128, 128), :], exps / sums)
    return out


@nki.jit
def even_blocks_only(a):
    """Double the blocks with even numbers, using masks that are Python conditions; the others stay unchanged."""
    rows, columns = a.shape
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(rows // 128):
        even = i % 2 == 0
        tile = nl.load(a[i * 128 : (i + 1) * 128, :])
        result = nl.ndarray((par_dim(128), columns), dtype=a.dtype)
        result[:, :] = nl.copy(tile)
        result[:, :] = nl.multiply(tile, 2.0, mask=even)
        result[:, 0:1] = nisa.tensor_scalar(tile[:, 0:1], np.add, 1.0, mask=even)
        nl.store(out[i * 128 : (i + 1) * 128, :], result)
    return out


def check():
    rng = np.random.default_rng(1)
    s = rng.standard_normal((256, 256)).astype(np.float32)
    masked = np.where(np.tril(np.ones_like(s)) > 0, s, -1e9)
    e = np.exp(masked - masked.max(1, keepdims=True))
    np.testing.assert_allclose(
        nki.simulate_kernel(causal_softmax, s), e / e.sum(1, keepdims=True), rtol=1e-3, atol=1e-6
    )
    a = rng.standard_normal((384, 16)).astype(np.float32)
    expected = a.copy()
    for i in (0, 2):
        expected[i * 128 : (i + 1) * 128] *= 2
        expected[i * 128 : (i + 1) * 128, 0] = a[i * 128 : (i + 1) * 128, 0] + 1
    np.testing.assert_allclose(nki.simulate_kernel(even_blocks_only, a), expected)
