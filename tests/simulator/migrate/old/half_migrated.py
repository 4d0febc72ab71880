"""A kernel with current imports that still calls some instructions for their tiles."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def mixed(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    nisa.tensor_scalar(tile, tile, nl.add, 1.0)  # in the current form, with positional arguments
    doubled = nisa.tensor_scalar(tile, nl.multiply, 2.0)
    squares = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(squares, tile, tile)
    sums = nisa.tensor_reduce(nl.add, doubled, axis=(1,))
    doubled = nisa.tensor_scalar(doubled, nl.subtract, sums)
    nisa.dma_copy(dst=out, src=doubled)
    return out


def check():
    a = np.random.default_rng(0).standard_normal((128, 64)).astype(np.float32)
    doubled = 2 * (a + 2)
    np.testing.assert_allclose(mixed(a), doubled - doubled.sum(1, keepdims=True), rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    check()
