"""Kernels that deliberately break undocumented rules, to find out whether a compiler or a chip enforces them.

`psum_half_word` writes an odd number of 16-bit columns to PSUM. `single_column` uses 16-bit tiles with a single column
in SBUF. `sbuf_without_fallback` fills most of SBUF and is compiled with `nki_alloc_fallback=False`: if NKI's allocation
does not fit, compilation fails instead of falling back to the allocator of neuronx-cc. `trninfer doctor
--selftest` runs them for information; no other kernel of this package breaks these rules.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .tiling.tiles import PARTITIONS, check_matrix, copy_by_hardware, tiles


def _jit_without_fallback(function):
    """Apply `nki.jit` with `nki_alloc_fallback=False`, or without that option if this nki has no CompileConfig."""
    try:
        from nki.compiler import CompileConfig
    except ImportError:
        return nki.jit(function)
    return nki.jit(function, compile_config=CompileConfig(nki_alloc_fallback=False))


@nki.jit
def psum_half_word(a):
    """Return the transpose [N, M] of a matrix [M, N] in HBM, M and N at most 128, computed by one Tensor Engine
    transpose.

    If M is odd and `a` has 16 bits, the rows of the transpose end within a word of PSUM.
    """
    check_matrix("a", a)
    rows, columns = a.shape
    assert max(rows, columns) <= PARTITIONS, f"a must have at most {PARTITIONS} rows and columns, got {a.shape}"
    data = nl.ndarray((rows, columns), dtype=a.dtype, buffer=nl.sbuf)
    copy_by_hardware(dst=data, src=a)
    turned = nl.ndarray((columns, rows), dtype=a.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=data, engine=nisa.engine.tensor)
    out = nl.ndarray((columns, rows), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=out, src=turned, engine=nisa.engine.vector)
    result = nl.ndarray((columns, rows), dtype=a.dtype, buffer=nl.shared_hbm)
    copy_by_hardware(dst=result, src=out)
    return result


@nki.jit
def single_column(a):
    """Return 2 * a for a column [M, 1] in HBM, M at most 128, using tiles with a single column."""
    check_matrix("a", a)
    rows, columns = a.shape
    assert rows <= PARTITIONS and columns == 1, f"a must be [1 to {PARTITIONS}, 1], got {a.shape}"
    data = nl.ndarray((rows, 1), dtype=a.dtype, buffer=nl.sbuf)
    copy_by_hardware(dst=data, src=a)
    twice = nl.ndarray((rows, 1), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=twice, data=data, op0=nl.multiply, operand0=2.0)
    result = nl.ndarray((rows, 1), dtype=a.dtype, buffer=nl.shared_hbm)
    copy_by_hardware(dst=result, src=twice)
    return result


@_jit_without_fallback
def sbuf_without_fallback(a):
    """Return the blocks of 128 rows of a matrix [128 * blocks, N] in HBM in reverse order.

    All blocks are in SBUF at the same time.
    """
    check_matrix("a", a)
    assert a.shape[0] % PARTITIONS == 0, f"a must have a multiple of {PARTITIONS} rows, got {a.shape[0]}"
    result = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    blocks = tiles(a.shape[0], PARTITIONS)
    held = []
    for block in blocks:
        tile = nl.ndarray((PARTITIONS, a.shape[1]), dtype=a.dtype, buffer=nl.sbuf)
        copy_by_hardware(dst=tile, src=a[block.start : block.end])
        held.append(tile)
    for block, tile in zip(blocks, reversed(held)):
        copy_by_hardware(dst=result[block.start : block.end], src=tile)
    return result
