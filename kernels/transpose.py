"""Matrix transposition on the Tensor Engine: [M, N] -> [N, M].

The matrix is moved in square blocks whose rows are 2 KiB long in both directions. Inside a block, 128x128 tiles are
transposed into PSUM. A bank contains the adjacent tiles that form one long row, and one instruction copies it to SBUF.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .tiling.tiles import (
    DMA_ROW_BYTES,
    PARTITIONS,
    ceil_div,
    check_matrix,
    evict,
    itemsize,
    load_rows_in_words,
    sbuf_tile,
    store_rows,
    tiles,
    transposed_dtype,
    whole_words,
)


def _transpose_block(out, a):
    """Transpose an HBM window of at most 2 KiB by 2 KiB of elements: [rows, columns] -> [columns, rows]."""
    rows, columns = a.shape
    block = sbuf_tile((PARTITIONS, ceil_div(rows, PARTITIONS), columns), a.dtype)
    load_rows_in_words(block, a)
    dtype = transposed_dtype(a.dtype)
    transposed = sbuf_tile((PARTITIONS, ceil_div(columns, PARTITIONS), rows), a.dtype)
    for c in tiles(columns, PARTITIONS):
        for part in tiles(rows, nl.tile_size.psum_bank_fmax_bytes // itemsize(dtype)):
            bank = nl.ndarray((c.size, whole_words(part.size, dtype)), dtype=dtype, buffer=nl.psum)
            for r in tiles(part.size, PARTITIONS):
                count = whole_words(r.size, dtype)
                nisa.nc_transpose(
                    dst=bank[:, r.start : r.start + count],
                    data=block[0:count, part.start // PARTITIONS + r.index, c.start : c.end],
                    engine=nisa.engine.tensor,
                )
            result = transposed[0 : c.size, c.index, part.start : part.end]
            evict(dst=result, src=bank[:, 0 : part.size], turn=c.index + part.index)
    store_rows(out, transposed)


def transpose_into(out, a):
    """Write the transpose of a matrix in HBM, [M, N], to another matrix in HBM, [N, M]."""
    block = DMA_ROW_BYTES // itemsize(a.dtype)  # equal to 2 KiB of a PSUM partition: one bank
    for r in tiles(a.shape[0], block):
        for c in tiles(a.shape[1], block):
            _transpose_block(out[c.start : c.end, r.start : r.end], a[r.start : r.end, c.start : c.end])


@nki.jit
def transpose(a):
    """Transpose a matrix.

    Dimensions:
        M, N: rows and columns, any number.
    Args:
        a: [M, N] in HBM; float32, bfloat16 or float16.
    Returns:
        [N, M] in HBM, with the same dtype as a.
    Notes:
        Exact for finite numbers. On NeuronCore-v2 the Tensor Engine transposes by multiplying with the identity, so an
        infinity or NaN corrupts the other elements in the same row of the transposed 128x128 tile; later cores copy the
        bits.
    """
    check_matrix("a", a)
    rows, columns = a.shape
    out = nl.ndarray((columns, rows), dtype=a.dtype, buffer=nl.shared_hbm)
    transpose_into(out, a)
    return out
