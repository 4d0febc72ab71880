"""The blocks of `matmul_fully_optimized`: their panels in SBUF, their loads in the order in which matmuls need the
data, and groups of tiles that accumulate in PSUM together.

    for group of four tiles of the result:          # half of PSUM; the other half is being evicted
        for tile of 128 of K:
            for tile of the group:
                accumulate(stationary[tile of M], moving[tile of N])        # a matmul
        store(copy(group))
"""

from dataclasses import dataclass

import nki.isa as nisa
import nki.language as nl

from .matmul_plan import GROUP, TILE_M, TILE_N
from .tiling.tiles import (
    DMA_BYTES,
    PARTITIONS,
    Tile,
    copy_by_hardware,
    evict,
    itemsize,
    sbuf_tile,
    several_columns,
    store_rows,
    tiles,
)
from .tiling.warm_up import psum_tile

MANY_TILES = 8 * GROUP  # with at least this many tiles, all operands of a block are loaded long before its last group


def whole_rows():
    """True if blocks should be loaded and stored in whole rows.

    On NeuronCore-v2, parts of rows whose pitch is a multiple of 4 KiB share few HBM channels.
    """
    return nisa.get_nc_version() == nisa.nc_version.gen2


@dataclass
class Panel:
    """A range of columns of an operand's block, [128, tiles of K, columns] in SBUF.

    `columns` is the corresponding range of columns of the matrix.
    """

    columns: Tile
    tensor: nl.NkiTensor


@dataclass
class Block:
    """A block of a product: its ranges of M, N and K (in tiles), and the panels of both operands."""

    m: Tile
    n: Tile
    k: Tile
    left: list[Panel]
    right: list[Panel]


def padded(columns, dtype):
    """Return the number of columns of an operand, plus one if its last tile would be a single 16-bit column."""
    return columns + 1 if columns % PARTITIONS == 1 and itemsize(dtype) == 2 else columns


def panels(matrix, k, columns, first):
    """Allocate the SBUF panels of an operand block. The first has `first` columns; each later panel doubles the total.

    If the last tile of a 16-bit panel would be a single column, the panel is padded with zeros, which are also
    multiplied.
    """
    result: list[Panel] = []
    start = columns.start
    width = first
    while start < columns.end:
        size = min(width, columns.end - start)
        allocated = padded(size, matrix.dtype)
        tensor = nl.ndarray((PARTITIONS, k.size, allocated), dtype=matrix.dtype, buffer=nl.sbuf)
        if allocated > size:
            nisa.memset(dst=tensor[:, :, size:allocated], value=0.0)
        result.append(Panel(Tile(len(result), start, size, start + size), tensor))
        start += size
        width = start - columns.start
    return result


def _loads(panel, matrix, k, dma_bytes):
    """Return the DMAs that fill a panel as (destination, source), in the order in which matmuls need the data.

    Rows of K may be assigned to tiles in any way that is the same for both operands. Partition p contains consecutive
    rows starting at p * (K // 128), so that rows of a narrow matrix are merged into long descriptors. The last K % 128
    rows form a separate tile. A DMA transfers at least one tile and up to `dma_bytes`.
    """
    K = matrix.shape[0]
    full_tiles = K // PARTITIONS
    columns = panel.columns
    loads = []
    last = min(k.end, full_tiles)
    if k.start < last:
        folded = matrix[0 : full_tiles * PARTITIONS, columns.start : columns.end].reshape_dim(
            0, (PARTITIONS, full_tiles)
        )
        at_once = max(1, dma_bytes // (PARTITIONS * columns.size * itemsize(matrix.dtype)))
        for part in tiles(last - k.start, at_once):
            source = folded[:, k.start + part.start : k.start + part.end, :]
            loads.append((panel.tensor[:, part.start : part.end, 0 : columns.size], source))
    if k.end > full_tiles:
        rest = K - full_tiles * PARTITIONS
        source = matrix[full_tiles * PARTITIONS : K, columns.start : columns.end]
        loads.append((panel.tensor[0:rest, k.size - 1, 0 : columns.size], source))
    return loads


def load_panels(lhsT_panels, rhs_panels, lhsT, rhs, k, first_bytes):
    """Load the panels of both operands.

    First come the panels for the first matmul, alternating between the operands, then the panels of the left operand,
    which the next groups of tiles need, and then the panels of the right operand.
    """
    first_lhsT = _loads(lhsT_panels[0], lhsT, k, first_bytes) if len(lhsT_panels) > 0 else []
    first_rhs = _loads(rhs_panels[0], rhs, k, first_bytes) if len(rhs_panels) > 0 else []
    for i in range(max(len(first_lhsT), len(first_rhs))):
        if i < len(first_lhsT):
            copy_by_hardware(dst=first_lhsT[i][0], src=first_lhsT[i][1])
        if i < len(first_rhs):
            copy_by_hardware(dst=first_rhs[i][0], src=first_rhs[i][1])
    for panel in lhsT_panels[1:]:
        for load in _loads(panel, lhsT, k, DMA_BYTES):
            copy_by_hardware(dst=load[0], src=load[1])
    for panel in rhs_panels[1:]:
        for load in _loads(panel, rhs, k, DMA_BYTES):
            copy_by_hardware(dst=load[0], src=load[1])


def _operands(panels, block, columns):
    """Return the tiles that cover a range of a block's columns in the panels, each [128, tiles of K, columns]."""
    operands = []
    for tile in columns:
        start = block.start + tile.start
        for panel in panels:
            if panel.columns.start <= start and start < panel.columns.end:
                offset = start - panel.columns.start
                operands.append(panel.tensor[:, :, offset : offset + several_columns(tile.size, panel.tensor.dtype)])
    return operands


def _multiply(accumulator, lhsT_tile, rhs_tile, t, partitions, adds):
    """Multiply K tile `t` of a block and accumulate into one tile of the result.

    Unless `adds`, K tile 0 overwrites the tile.
    """
    nisa.nc_matmul(
        dst=accumulator,
        stationary=lhsT_tile[0:partitions, t, :],
        moving=rhs_tile[0:partitions, t, :],
        accumulate=adds or t > 0,
    )


def _multiply_group(accumulators, lhsT_tiles, rhs_tiles, rows, in_turn, warm):
    """Multiply the K tiles of a block, with `rows` rows each, into PSUM for each pair of an M tile and an N tile.

    All pairs proceed together as K tiles arrive. If `in_turn`, pairs are multiplied one after the other, so that the
    first pairs are evicted while the last pairs are multiplied. `warm`: the first accumulator contains zeros.
    """
    pairs = [(i, j) for i in range(len(lhsT_tiles)) for j in range(len(rhs_tiles))]
    tiles_of_k = range(len(rows))
    order = (
        [(pair, t) for pair in pairs for t in tiles_of_k] if in_turn else [(p, t) for t in tiles_of_k for p in pairs]
    )
    for (i, j), t in order:
        _multiply(accumulators[i][j], lhsT_tiles[i], rhs_tiles[j], t, rows[t], warm and i == j == 0)


def _leave_psum(accumulators, m_tiles, n_tiles, partial, staged, adds):
    """Evict a group from PSUM to `staged` or, if that is None, to `partial`. If `adds`, add the earlier results."""
    turn = 0
    for i in range(len(m_tiles)):
        rows = m_tiles[i].size
        for j in range(len(n_tiles)):
            n = n_tiles[j]
            source = accumulators[i][j][0:rows, 0 : n.size]
            earlier = None if partial is None else partial[0:rows, m_tiles[i].index, n.start : n.end]
            offset = n_tiles[0].start
            target = earlier if staged is None else staged[0:rows, i, n.start - offset : n.end - offset]
            if adds:
                nisa.tensor_tensor(dst=target, data1=earlier, data2=source, op=nl.add, engine=nisa.engine.vector)
            else:
                evict(dst=target, src=source, turn=turn)
            turn += 1


def multiply_block(result, block, K, partial, warm):
    """Multiply a block in groups of tiles that accumulate in PSUM together.

    If there are enough tiles of M, a group spans one tile of N, which minimizes the number of columns to load for it.
    partial: a buffer for partial results, or None if the block contains all of K. warm: a PSUM tile of zeros, or None.
    """
    takes_whole_rows = whole_rows()
    m_block, n_block, k = block.m, block.n, block.k
    last = k.end * PARTITIONS >= K
    rows = [min(PARTITIONS, K - t * PARTITIONS) for t in range(k.start, k.end)]
    n_tiles = tiles(n_block.size, TILE_N)
    m_tiles = tiles(m_block.size, TILE_M)
    for n_group in tiles(len(n_tiles), GROUP if takes_whole_rows else max(1, GROUP // len(m_tiles))):
        n_part = n_tiles[n_group.start : n_group.end]
        start = n_part[0].start
        width = n_part[n_group.size - 1].end - start
        for m_group in tiles(len(m_tiles), GROUP // n_group.size):
            m_part = m_tiles[m_group.start : m_group.end]
            accumulators = []
            for m in m_part:
                row = []
                for n in n_part:
                    zeros = warm if m.index == 0 and n.index == 0 else None
                    shape = (several_columns(m.size, result.dtype), several_columns(n.size, result.dtype))
                    row.append(psum_tile(shape, zeros))
                accumulators.append(row)
            ends = last and n_block.start + start + width == result.shape[1]
            ends = ends and m_block.start + m_part[m_group.size - 1].end == result.shape[0]
            ends = ends and not takes_whole_rows and len(m_tiles) * len(n_tiles) >= MANY_TILES
            operands = _operands(block.left, m_block, m_part), _operands(block.right, n_block, n_part)
            _multiply_group(accumulators, *operands, rows, ends, warm is not None)
            warm = None
            staged = sbuf_tile((PARTITIONS, m_group.size, width), result.dtype) if last else None
            _leave_psum(accumulators, m_part, n_part, partial, staged, adds=k.start > 0)
            if staged is not None:
                column = n_block.start + start
                for store in tiles(m_group.size, 1 if ends else m_group.size):
                    row_start = m_block.start + m_part[store.start].start
                    row_end = m_block.start + m_part[store.end - 1].end
                    store_rows(result[row_start:row_end, column : column + width], staged[:, store.start : store.end])
