"""The matrix transposition that was measured: one 128x128 tile at a time, on the Tensor Engine."""

import nki
import nki.isa as nisa
import nki.language as nl

TILE = 128  # rows and columns of the PE array


@nki.jit
def matrix_transpose(a):
    """Transpose a matrix with a load, a transpose into PSUM, a copy to SBUF and a store per tile.

    Dimensions:
        M, N: rows and columns, multiples of 128.
    Args:
        a: [M, N] in HBM.
    Returns:
        [N, M] in HBM, with the same dtype as a.
    Notes:
        Every DMA moves rows of 128 elements. The Scalar Engine evicts PSUM, as in the measured kernel.
    """
    rows, columns = a.shape
    assert rows % TILE == 0 and columns % TILE == 0, f"rows and columns must be multiples of {TILE}, got {a.shape}"
    out = nl.ndarray((columns, rows), dtype=a.dtype, buffer=nl.shared_hbm)
    for row in range(0, rows, TILE):
        for column in range(0, columns, TILE):
            tile = nl.ndarray((TILE, TILE), dtype=a.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=a[row : row + TILE, column : column + TILE])
            turned = nl.ndarray((TILE, TILE), dtype=a.dtype, buffer=nl.psum)
            nisa.nc_transpose(dst=turned, data=tile, engine=nisa.engine.tensor)
            copied = nl.ndarray((TILE, TILE), dtype=a.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=copied, src=turned, engine=nisa.engine.scalar)
            nisa.dma_copy(dst=out[column : column + TILE, row : row + TILE], src=copied)
    return out
