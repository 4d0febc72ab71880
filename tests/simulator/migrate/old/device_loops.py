"""Device loops and names of NKI 0.2 to 0.6."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit(platform_target="trn2")
def doubled_often(a, times):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer="shared_hbm")
    t = nl.ndarray(a.shape, dtype=a.dtype, buffer="sbuf")
    nisa.dma_copy(dst=t, src=a, dge_mode=3)
    for _ in nl.dynamic_range(times):
        nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=2.0, engine=5)
    nisa.dma_copy(dst=out, src=t)
    return out


@nki.jit
def until_zero(a, count):
    """Add 1 until the register, which an instruction in the loop decrements, is zero."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    left = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=a)
    nisa.dma_copy(dst=left, src=count)
    go = nisa.register_alloc(None)
    nisa.register_load(go, left)
    while go:
        nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
        nisa.tensor_scalar(dst=left, data=left, op0=nl.subtract, operand0=1)
        nisa.register_load(go, left)
    nisa.dma_copy(dst=out, src=t)
    return out


def check():
    a = np.arange(64, dtype=np.float32).reshape(8, 8)
    np.testing.assert_array_equal(nki.simulate_kernel(doubled_often, a, 3), a * 8)
    np.testing.assert_array_equal(nki.simulate(until_zero)(a, np.array([[4]], np.int32)), a + 4)
