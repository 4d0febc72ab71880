"""Small kernels for tests of running kernels."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

A = np.arange(12, dtype=np.float32).reshape(3, 4)


@nki.jit
def add(a, b, factor=1.0):
    """Add two tiles."""
    left, right = nl.load(a), nl.load(b)
    total = nl.ndarray(a.shape, a.dtype)
    nisa.tensor_tensor(total, left, right, nl.add)
    nisa.tensor_scalar(total, total, nl.multiply, factor)
    out = nl.ndarray(a.shape, a.dtype, nl.shared_hbm)
    nl.store(out, total)
    return out


@nki.jit
def accumulate(total, rows):
    """Add every row tile to `total` in place, and return their sum."""
    held = nl.load(total)
    for row in rows:
        nisa.tensor_tensor(held, held, nl.load(row), nl.add)
    nisa.dma_copy(total, held)
    out = nl.ndarray(total.shape, total.dtype, nl.shared_hbm)
    nisa.dma_copy(out, held)
    return {"sum": out, "count": len(rows)}


@nki.jit
def gather(a, rows, skip=False):
    index = nl.load(rows)
    tile = nl.zeros((rows.shape[0], a.shape[1]), a.dtype)
    mode = nisa.oob_mode.skip if skip else nisa.oob_mode.error
    nisa.dma_copy(tile, a.ap([[a.shape[1], rows.shape[0]], [1, a.shape[1]]], vector_offset=index), oob_mode=mode)
    out = nl.ndarray(tile.shape, a.dtype, nl.shared_hbm)
    nl.store(out, tile)
    return out


@nki.jit
def pick(a, at):
    """Return the tile of `a` whose index is in `at`."""
    index = nl.load(at)
    out = nl.ndarray(a.shape[1:], a.dtype, nl.shared_hbm)
    nisa.dma_copy(out, a.select(0, index))
    return out
