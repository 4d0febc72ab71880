"""Matrix products and transposes, in the first NKI."""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np


@nki.jit
def matmul(lhs_t, rhs):
    """Compute lhs_t.T @ rhs in tiles of 128 x 128 x 512."""
    k, m = lhs_t.shape
    _, n = rhs.shape
    out = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(m // 128):
        for j in nl.affine_range(n // 512):
            acc = nl.zeros((128, 512), nl.float32, buffer=nl.psum)
            for q in nl.affine_range(k // 128):
                left = nl.load(lhs_t[nl.ds(q * 128, 128), nl.ds(i * 128, 128)])
                right = nl.load(rhs[q * 128 : (q + 1) * 128, j * 512 : (j + 1) * 512])
                acc += nisa.nc_matmul(left, right)
            nl.store(out[i * 128 : (i + 1) * 128, j * 512 : (j + 1) * 512], value=acc)
    return out


@nki.jit
def matmul_of_odd_sizes(lhs, rhs):
    """Compute lhs @ rhs of up to 128 x 128 x 512 elements with index arrays and masks."""
    (m, k), (_, n) = lhs.shape, rhs.shape
    out = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.shared_hbm)
    im, ik = nl.mgrid[0:128, 0:128]
    jk, jn = nl.mgrid[0:128, 0:512]
    left = nl.zeros((128, 128), dtype=lhs.dtype)
    left[im, ik] = nl.load(lhs[im, ik], mask=(im < m) & (ik < k))
    right = nl.zeros((nl.par_dim(128), 512), dtype=rhs.dtype)
    right[jk, jn] = nl.load(rhs[jk, jn], mask=(jk < k) & (jn < n))
    product = nl.matmul(left, right)
    io, jo = nl.mgrid[0:128, 0:512]
    nl.store(out[io, jo], value=product[io, jo], mask=(io < m) & (jo < n))
    return out


@nki.jit
def transposed(a):
    """Compute a.T in bfloat16, also for odd sizes."""
    rows, columns = a.shape
    out = nl.ndarray((columns, rows), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    tile = nl.load(a)
    turned = nisa.nc_transpose(tile, dtype=nl.bfloat16)
    nl.store(out, turned)
    return out


def check():
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((256, 128), (256, 1024)))
    np.testing.assert_allclose(nki.simulate_kernel(matmul, a, b), a.T @ b, rtol=1e-3, atol=1e-3)
    for m, k, n in ((128, 128, 512), (7, 33, 129), (1, 1, 1)):
        a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
        got = nki.simulate_kernel(matmul_of_odd_sizes, a, b)
        np.testing.assert_allclose(got, a @ b, rtol=1e-3, atol=1e-3)
    a = rng.integers(0, 100, (33, 65)).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(nki.simulate_kernel(transposed, a), np.float32), a.T)
