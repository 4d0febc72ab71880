"""Vector addition as it was measured, with tiles of up to 128 numbers, one per partition.

The streamed version was measured with the structure of `trninfer.kernels.vector_add_stream`, which is used unchanged.
"""

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def vector_add_tiled(a, b, row_chunk, by_hardware=False):
    """Add two vectors in tiles of [row_chunk, 1]: two loads, one tensor_scalar and one store each.

    Dimensions:
        n: length of the vectors, a multiple of row_chunk.
    Args:
        a, b: [n] in HBM, of the same dtype.
        row_chunk: numbers per tile, 1 to 128.
        by_hardware: True if hardware generates the descriptors, as for addresses in a loop that was not unrolled.
    Returns:
        [n] in HBM, of the dtype of a.
    """
    assert a.shape == b.shape, f"a and b must have the same shape, got {a.shape} and {b.shape}"
    n = a.shape[0]
    assert n % row_chunk == 0, f"n must be a multiple of row_chunk, got {n} and {row_chunk}"
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    out_column = out.reshape((n, 1))
    a_column = a.reshape((n, 1))
    b_column = b.reshape((n, 1))
    mode = nisa.dge_mode.hwdge if by_hardware else nisa.dge_mode.unknown
    for start in range(0, n, row_chunk):
        end = start + row_chunk
        a_tile = nl.ndarray((row_chunk, 1), dtype=a.dtype, buffer=nl.sbuf)
        b_tile = nl.ndarray((row_chunk, 1), dtype=b.dtype, buffer=nl.sbuf)
        sum_tile = nl.ndarray((row_chunk, 1), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=a_tile, src=a_column[start:end, :], dge_mode=mode)
        nisa.dma_copy(dst=b_tile, src=b_column[start:end, :], dge_mode=mode)
        nisa.tensor_scalar(dst=sum_tile, data=a_tile, op0=nl.add, operand0=b_tile)
        nisa.dma_copy(dst=out_column[start:end, :], src=sum_tile, dge_mode=mode)
    return out
