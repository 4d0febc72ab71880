"""Index of the largest element of each row, computed on the chip: [N, C] -> int32 [N].

`max8` finds the largest values of a partition and `nc_find_index8` finds the first position of each. Rows are laid out
along the partitions, with several short rows per partition. Rows longer than a chunk are searched chunk by chunk, and
the best value so far and its index are carried along.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .tiling.tiles import DMA_BYTES, PARTITIONS, check_matrix, copy_by_hardware, even_tiles, itemsize, row_groups, tiles

SEARCH_WIDTH = 8  # max8 and nc_find_index8 process 8 values, and require at least 8 elements
CHUNK = 8192  # elements searched per instruction: half of the limit (16,384), so that SBUF also holds the next chunk
ROWS = 1024  # rows per partition whose results are stored together
MAX_COLUMNS = 1 << 24  # chunks are combined in float32, which represents indices up to this value exactly


def _search(values, indices, data):
    """Find the 8 largest values of each row of data [partitions, rows, columns] and their first positions (0-based)."""
    for row in range(data.shape[1]):
        nisa.max8(dst=values[:, row, :], src=data[:, row, :])
        nisa.nc_find_index8(dst=indices[:, row, :], data=data[:, row, :], vals=values[:, row, :])


def _load_chunk(a, columns):
    """Load a chunk of the rows of an HBM view [partitions, rows, columns] as [partitions, rows, at least 8]."""
    width = max(columns.size, SEARCH_WIDTH)
    data = nl.ndarray((a.shape[0], a.shape[1], width), dtype=a.dtype, buffer=nl.sbuf)
    copy_by_hardware(dst=data[:, :, 0 : columns.size], src=a[:, :, columns.start : columns.end])
    fill_up(data, columns.size)
    return data


def find_largest(found, data):
    """Write the index of each row's largest value to found, int32 [partitions, rows].

    data is [partitions, rows, at least 8]. Returns the 8 largest values of each row, [partitions, rows, 8] in the dtype
    of data. All operands are in SBUF.
    """
    shape = (data.shape[0], data.shape[1], SEARCH_WIDTH)
    values = nl.ndarray(shape, dtype=data.dtype, buffer=nl.sbuf)
    indices = nl.ndarray(shape, dtype=nl.uint32, buffer=nl.sbuf)
    _search(values, indices, data)
    # The bits in the index register are already the result, so no conversion through float32 is needed.
    nisa.tensor_copy(dst=found, src=indices.view(nl.int32)[:, :, 0], engine=nisa.engine.vector)
    return values


def fill_up(data, columns):
    """Pad rows [partitions, rows, at least 8] that have fewer columns with copies of their first element.

    A copy is never found, regardless of its value, because the first of several equal elements is returned.
    """
    width = data.shape[2]
    if columns < width:
        first = data[:, :, 0:1].broadcast(2, width - columns)
        nisa.tensor_copy(dst=data[:, :, columns:width], src=first, engine=nisa.engine.vector)


def _argmax_long_rows(found, a):
    """Search rows that span several chunks, with one row per partition.

    The maximum of a chunk replaces the best value so far only if it is greater.
    """
    column = (a.shape[0], 1)
    best = nl.ndarray(column, dtype=nl.float32, buffer=nl.sbuf)
    best_index = nl.ndarray(column, dtype=nl.float32, buffer=nl.sbuf)
    for chunk in even_tiles(a.shape[2], CHUNK):
        data = _load_chunk(a, chunk)
        values = nl.ndarray((a.shape[0], 1, SEARCH_WIDTH), dtype=a.dtype, buffer=nl.sbuf)
        indices = nl.ndarray((a.shape[0], 1, SEARCH_WIDTH), dtype=nl.uint32, buffer=nl.sbuf)
        _search(values, indices, data)
        if chunk.index == 0:
            nisa.tensor_copy(dst=best, src=values[:, 0, 0:1], engine=nisa.engine.vector)
            nisa.tensor_copy(dst=best_index, src=indices[:, 0, 0:1], engine=nisa.engine.vector)
        else:
            index = nl.ndarray(column, dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_scalar(dst=index, data=indices[:, 0, 0:1], op0=nl.add, operand0=chunk.start)
            greater = nl.ndarray(column, dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=greater, data1=values[:, 0, 0:1], data2=best, op=nl.greater)
            # best_index += greater * (index - best_index): exact, since all three are integers below 2^24
            step = nl.ndarray(column, dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=step, data1=index, data2=best_index, op=nl.subtract)
            nisa.tensor_tensor(dst=step, data1=step, data2=greater, op=nl.multiply)
            nisa.tensor_tensor(dst=best_index, data1=best_index, data2=step, op=nl.add)
            if chunk.end < a.shape[2]:  # more chunks follow
                nisa.tensor_tensor(dst=best, data1=best, data2=values[:, 0, 0:1], op=nl.maximum)
    nisa.tensor_copy(dst=found, src=best_index, engine=nisa.engine.vector)


@nki.jit
def argmax(a):
    """Find the index of the largest element of each row. If several elements are equal, the first is chosen.

    Dimensions:
        N: rows, any number.
        C: columns, from 1 to 2^24.
    Args:
        a: [N, C] in HBM; float32, bfloat16 or float16. Infinities are compared like other numbers.
    Returns:
        int32 [N] in HBM, with values from 0 to C - 1.
    Notes:
        The result for a row that contains a NaN is undefined and may not even be between 0 and C - 1, because AWS does
        not document how max8 orders NaN.
    """
    check_matrix("a", a)
    rows, columns = a.shape
    assert columns <= MAX_COLUMNS, f"a must have at most {MAX_COLUMNS} columns, got {columns}"
    out = nl.ndarray((rows,), dtype=nl.int32, buffer=nl.shared_hbm)
    at_once = max(1, DMA_BYTES // (PARTITIONS * columns * itemsize(a.dtype)))
    for group in row_groups(rows, ROWS):
        shape = (group.partitions, group.rows)
        indices = nl.ndarray(shape, dtype=nl.int32, buffer=nl.sbuf)
        folded = a[group.start : group.end, :].reshape_dim(0, shape)
        for part in tiles(group.rows, at_once):
            if columns <= CHUNK:
                rows_here = folded[:, part.start : part.end, :]
                find_largest(indices[:, part.start : part.end], _load_chunk(rows_here, tiles(columns, CHUNK)[0]))
            else:
                _argmax_long_rows(indices[:, part.start : part.end], folded[:, part.start : part.end, :])
        copy_by_hardware(dst=out[group.start : group.end].reshape(shape), src=indices)
    return out
