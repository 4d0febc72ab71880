"""Tiling that is safe with remainders, and the moves between HBM and SBUF that go with it.

Nothing here is an instruction of its own: tiles and row groups are worked out while a kernel is specialised, and
the two moves are one or two `dma_copy` each.
"""

import math
from dataclasses import dataclass

import nki.isa as nisa
import nki.language as nl

from .packing import IDENTITY_BYTES, round_up
from .packing import ceil_div as ceil_div

PARTITIONS = nl.tile_size.pmax  # of SBUF and PSUM; rows and columns of the Tensor Engine
DMA_ROW_BYTES = 2048  # contiguous bytes from which a DMA descriptor is efficient (nki-dma-bandwidth-guide)
DMA_BYTES = 1 << 19  # from which a DMA is: 32 KiB for each of the 16 DMA engines (nki_perf_guide)


@dataclass(frozen=True)
class Tile:
    """Positions [start, end) of an axis: the tile number `index`, `size` long."""

    index: int
    start: int
    size: int
    end: int

    def moved(self, first):
        """Return the same positions of an axis that begins `first` earlier."""
        return Tile(self.index, self.start + first, self.size, self.end + first)


@dataclass(frozen=True)
class RowGroup:
    """Rows [start, end) of a matrix: partition p holds the `rows` consecutive ones from start + p * rows."""

    start: int
    partitions: int
    rows: int
    end: int


def tiles(extent, size):
    """The tiles of `size` that cover [0, extent); the last one may be shorter."""
    cover = []
    for index in range(ceil_div(extent, size)):
        start = index * size
        length = min(size, extent - start)
        cover.append(Tile(index, start, length, start + length))
    return cover


def even_tiles(extent, most):
    """As few tiles of at most `most` as cover [0, extent), of nearly equal size: no remainder makes tiny DMAs."""
    return tiles(extent, ceil_div(extent, ceil_div(extent, most)))


def row_groups(rows, rows_per_partition):
    """Groups of up to 128 * rows_per_partition rows that cover [0, rows).

    Consecutive rows on one partition make one contiguous run in HBM, so that narrow rows still move in large
    descriptors. Only the last group, of fewer than 128 rows, leaves partitions empty.
    """
    groups = []
    start = 0
    while start < rows:
        each = min(rows_per_partition, (rows - start) // PARTITIONS)
        partitions = PARTITIONS
        if each == 0:
            each = 1
            partitions = rows - start
        end = start + partitions * each
        groups.append(RowGroup(start, partitions, each, end))
        start = end
    return groups


def group_view(matrix, group, columns):
    """The rows of a row group and the columns of a tile of an HBM matrix, as [partitions, rows, columns]."""
    window = matrix[group.start : group.end, columns.start : columns.end]
    return window.reshape_dim(0, (group.partitions, group.rows))


def load_rows(dst, src):
    """Load an HBM matrix [rows, columns] into SBUF [128, tiles, columns]: row t * 128 + p to partition p, tile t."""
    rows = src.shape[0]
    whole = rows // PARTITIONS
    even = whole * PARTITIONS
    if whole > 0:
        copy_by_hardware(
            dst=dst[:, 0:whole, :], src=src[0:even, :].reshape_dim(0, (whole, PARTITIONS)).permute((1, 0, 2))
        )
    if even < rows:
        copy_by_hardware(dst=dst[0 : rows - even, whole, :], src=src[even:rows, :])


def copy_by_hardware(dst, src, engine=nisa.engine.unknown):
    """Copy by a DMA whose descriptors the hardware makes, where it can: the compiler gives those that a kernel leaves
    open to GpSimd, behind whose other work they wait (nki-dge). `engine` is the one that triggers it.

    Descriptors of a single row stay open: the compiler has them prepared before the launch.
    """
    if nisa.get_nc_version() == nisa.nc_version.gen2 or dst.shape[0] == 1 or src.shape[0] == 1:
        nisa.dma_copy(dst=dst, src=src)
    else:
        nisa.dma_copy(dst=dst, src=src, dge_mode=nisa.dge_mode.hwdge, engine=engine)


def load_early(dst, src):
    """A load that waits for nothing, beside others: from NeuronCore-v3 on the Scalar Engine triggers it, which has a
    descriptor generator of its own (trainium2_arch)."""
    copy_by_hardware(dst, src, engine=nisa.engine.scalar)


def store_rows(dst, src):
    """Store SBUF [128, tiles, columns] to an HBM matrix [rows, columns]: the reverse of `load_rows`."""
    rows = dst.shape[0]
    whole = rows // PARTITIONS
    even = whole * PARTITIONS
    if whole > 0:
        copy_by_hardware(
            dst=dst[0:even, :].reshape_dim(0, (whole, PARTITIONS)).permute((1, 0, 2)), src=src[:, 0:whole, :]
        )
    if even < rows:
        copy_by_hardware(dst=dst[even:rows, :], src=src[0 : rows - even, whole, :])


def evict(dst, src, turn):
    """Copy PSUM to SBUF (with a cast where the dtypes differ), on the Vector and the Scalar Engine in turns.

    One engine alone would keep the Tensor Engine waiting. The copy on the Scalar Engine is an activation, because
    NeuronCore-v2 has no `tensor_copy` there.
    """
    if turn % 2 == 0:
        nisa.tensor_copy(dst=dst, src=src, engine=nisa.engine.vector)
    else:
        nisa.activation(dst=dst, op=nl.copy, data=src)


def usable_sbuf_bytes():
    """Bytes of an SBUF partition that tiles may take: what the compiler leaves, without its transposes' identity."""
    return nl.tile_size.sbuf_fmax_bytes - IDENTITY_BYTES


def transposed_dtype(dtype):
    """The dtype in which the Tensor Engine leaves a transpose in PSUM: NeuronCore-v2 writes float32 alone
    (trainium_inferentia2_arch), later ones the dtype of the data (trainium2_arch)."""
    if nisa.get_nc_version() == nisa.nc_version.gen2:
        return nl.float32
    return dtype


def whole_words(columns, dtype):
    """Columns of a tile that holds `columns` of them in words of 4 bytes: one more where an odd number is 16-bit."""
    return columns if itemsize(dtype) == 4 else columns + columns % 2


def several_columns(columns, dtype):
    """Columns of an operand of the Tensor Engine for `columns` of them: at least two where they are 16-bit."""
    return max(columns, 2) if itemsize(dtype) == 2 else columns


def sbuf_tile(shape, dtype, name=""):
    """A tile in SBUF. A single 16-bit column is a view of two, and one of 8 bits a view of whole words, so that what is
    placed behind it begins with a word."""
    last = len(shape) - 1
    if itemsize(dtype) == 1:
        columns = math.prod(shape[1:])
        words = nl.ndarray((shape[0], round_up(columns, 4)), dtype=dtype, buffer=nl.sbuf, name=name)
        return words[:, 0:columns].reshape_dim(1, tuple(shape[1:]))
    if itemsize(dtype) == 4 or max(shape[1:], default=1) > 1:
        return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf, name=name)
    return nl.ndarray((*shape[0:last], 2), dtype=dtype, buffer=nl.sbuf, name=name).slice(last, 0, 1)


def reshaped(tile, shape):
    """A view of a tile in SBUF or PSUM with other free dimensions.

    `reshape` of one partition is reported to make a view whose partition step is 0, which the compiler's back end
    refuses. There, runs of dimensions are merged and split, which leaves the partition dimension as it is.
    """
    if tile.shape[0] != 1:
        return tile.reshape(tuple(shape))
    old, new, dim = list(tile.shape[1:]), list(shape[1:]), 1
    while old and new:
        merged, split = [old.pop(0)], [new.pop(0)]
        while math.prod(merged) != math.prod(split):
            if math.prod(merged) < math.prod(split):
                merged.append(old.pop(0))
            else:
                split.append(new.pop(0))
        if len(merged) > 1:
            tile = tile.flatten_dims(dim, dim + len(merged) - 1)
        if len(split) > 1:
            tile = tile.reshape_dim(dim, tuple(split))
        dim += len(split)
    for _ in old:
        tile = tile.squeeze_dim(dim)
    for number, _ in enumerate(new):
        tile = tile.expand_dim(dim + number)
    return tile


def itemsize(dtype):
    """Bytes of one element of a dtype that the kernels take."""
    if dtype == nl.float8_e4m3:
        return 1
    return 4 if dtype == nl.float32 else 2


def check_matrix(name, tensor):
    """Assert that a kernel's argument is a matrix of at least one element, of a dtype that the kernels take."""
    assert len(tensor.shape) == 2, f"{name} must have 2 dimensions, got shape {tensor.shape}"
    assert tensor.shape[0] > 0 and tensor.shape[1] > 0, f"{name} must not be empty, got shape {tensor.shape}"
    check_dtype(name, tensor)


def check_dtype(name, tensor):
    """Assert that a kernel's argument is of a dtype that the kernels take."""
    supported = tensor.dtype == nl.float32 or tensor.dtype == nl.bfloat16 or tensor.dtype == nl.float16
    assert supported, f"{name} must be float32, bfloat16 or float16, got {tensor.dtype}"
