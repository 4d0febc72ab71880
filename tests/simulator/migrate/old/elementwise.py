"""Index arrays, masks and operators on tiles, in the first NKI."""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np


@nki.jit
def affine(a, b, scale):
    # tiles of 128 rows, the last of which is masked
    rows, columns = a.shape
    out = nl.ndarray((rows, columns), dtype=a.dtype, buffer=nl.shared_hbm)
    r = nl.arange(128)[:, None]
    c = nl.arange(columns)[None, :]
    for i in nl.affine_range((rows + 127) // 128):
        inside = i * 128 + r < rows
        x = nl.load(a[i * 128 + r, c], mask=inside)
        y = nl.load(b[i * 128 + r, c], mask=(i * 128 + r < rows))  # the same mask, spelled out
        z = nl.exp(x * scale) + y / 2 - 1.0
        nl.store(out[i * 128 + r, c], value=z, mask=inside)
    return out


@nki.jit
def instructions(a):
    rows, _ = a.shape
    out = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(a)
    squares = nisa.tensor_tensor(tile, tile, op=np.multiply, dtype=nl.float32)
    shifted = nisa.tensor_scalar(squares, np.add, 1.0, op1=np.multiply, operand1=0.5)
    total = nisa.tensor_reduce(np.add, shifted, axis=[1], negate=True)
    biased = nisa.activation(np.abs, total, bias=total, scale=2.0)
    nl.store(out, nisa.tensor_copy(biased, dtype=nl.float32))
    return out


@nki.jit
def columns_apart(a):
    """Gather every second column of each row: out[p, i, j] = a[p, 4 * i + 2 * j + 1]."""
    out = nl.ndarray((64, 8, 2), dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    p, i, j = nl.mgrid[0:64, 0:8, 0:2]
    nl.store(out[p, i, j], nl.copy(tile[p, 4 * i + 2 * j + 1]))
    return out


def reference(a, b, scale):
    return np.exp(a * scale) + b / 2 - 1


def check():
    rng = np.random.default_rng(0)
    for rows in (128, 300, 1):
        a, b = (rng.standard_normal((rows, 64)).astype(np.float32) for _ in range(2))
        got = nki.simulate_kernel(affine, a, b, 0.5)
        np.testing.assert_allclose(got, reference(a, b, 0.5), rtol=1e-4, atol=1e-5)
    a = rng.standard_normal((100, 32)).astype(np.float32)
    total = -((a * a + 1) * 0.5).sum(1, keepdims=True)
    np.testing.assert_allclose(nki.simulate_kernel(instructions, a), np.abs(2 * total + total), rtol=1e-4)
    a = rng.standard_normal((64, 32)).astype(np.float32)
    expected = np.stack([[a[:, 4 * i + 2 * j + 1] for j in range(2)] for i in range(8)]).transpose(2, 0, 1)
    np.testing.assert_array_equal(nki.simulate_kernel(columns_apart, a), expected)


if __name__ == "__main__":
    check()
