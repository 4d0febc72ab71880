"""Tiling of extents with remainders, and transfers of tiles between HBM and SBUF.

Tiles and row groups are computed when a kernel is specialized. Each transfer consists of one or two `dma_copy` calls.
"""

import math
from dataclasses import dataclass

import nki.isa as nisa
import nki.language as nl

from .packing import IDENTITY_BYTES, round_up
from .packing import ceil_div as ceil_div

PARTITIONS = nl.tile_size.pmax  # partitions of SBUF and PSUM; rows and columns of the Tensor Engine
DMA_ROW_BYTES = 2048  # minimum contiguous bytes of an efficient DMA descriptor (nki-dma-bandwidth-guide)
DMA_BYTES = 1 << 19  # minimum size of an efficient DMA: 32 KiB for each of the 16 DMA engines (nki_perf_guide)


@dataclass(frozen=True)
class Tile:
    """Positions [start, end) of an axis: tile number `index`, with `size` positions."""

    index: int
    start: int
    size: int
    end: int

    def moved(self, first):
        """Return the same tile with its positions shifted by `first`."""
        return Tile(self.index, self.start + first, self.size, self.end + first)


@dataclass(frozen=True)
class RowGroup:
    """Rows [start, end) of a matrix: partition p contains `rows` consecutive rows, starting at start + p * rows."""

    start: int
    partitions: int
    rows: int
    end: int


def tiles(extent, size):
    """Return the tiles that cover [0, extent). Each has size `size`, except that the last may be smaller."""
    cover = []
    for index in range(ceil_div(extent, size)):
        start = index * size
        length = min(size, extent - start)
        cover.append(Tile(index, start, length, start + length))
    return cover


def even_tiles(extent, most):
    """Return the smallest number of tiles of at most `most` positions that cover [0, extent).

    Their sizes are nearly equal, so that there is no small remainder that results in tiny DMAs.
    """
    return tiles(extent, ceil_div(extent, ceil_div(extent, most)))


def row_groups(rows, rows_per_partition):
    """Return groups of up to 128 * rows_per_partition rows that cover [0, rows).

    The rows of a partition are contiguous in HBM, so that even narrow rows are moved with large descriptors.
    Only the last group, if it has fewer than 128 rows, leaves partitions unused.
    """
    groups = []
    start = 0
    while start < rows:
        per_partition = min(rows_per_partition, (rows - start) // PARTITIONS)
        partitions = PARTITIONS
        if per_partition == 0:
            per_partition = 1
            partitions = rows - start
        end = start + partitions * per_partition
        groups.append(RowGroup(start, partitions, per_partition, end))
        start = end
    return groups


def group_view(matrix, group, columns):
    """View the rows of a row group and the columns of a tile of an HBM matrix as [partitions, rows, columns]."""
    window = matrix[group.start : group.end, columns.start : columns.end]
    return window.reshape_dim(0, (group.partitions, group.rows))


def load_rows(dst, src):
    """Load an HBM matrix [rows, columns] into SBUF [128, tiles, columns], with row t * 128 + p on partition p of tile
    t."""
    rows = src.shape[0]
    full_tiles = rows // PARTITIONS
    even = full_tiles * PARTITIONS
    if full_tiles > 0:
        copy_by_hardware(
            dst=dst[:, 0:full_tiles, :], src=src[0:even, :].reshape_dim(0, (full_tiles, PARTITIONS)).permute((1, 0, 2))
        )
    if even < rows:
        copy_by_hardware(dst=dst[0 : rows - even, full_tiles, :], src=src[even:rows, :])


def load_rows_in_words(dst, src):
    """Load an HBM matrix as `load_rows` does, for a matrix that will be transposed.

    If an odd number of rows would end within a word of PSUM (`whole_words`), load the last row twice.
    """
    load_rows(dst, src)
    rows = src.shape[0]
    if whole_words(rows, transposed_dtype(src.dtype)) > rows:
        remaining = rows % PARTITIONS
        copy_by_hardware(dst=dst[remaining : remaining + 1, rows // PARTITIONS, :], src=src[rows - 1 : rows, :])


def copy_by_hardware(dst, src, engine=nisa.engine.unknown):
    """Copy with descriptors that hardware generates (DGE) if possible; otherwise the compiler may let GpSimd generate
    them after its other work (nki-dge). `engine` triggers the DMA.

    If only a single partition of SBUF is involved, the mode is not specified, because the compiler prepares such
    descriptors before the launch.
    """
    in_sbuf = dst if dst.buffer == nl.sbuf else src
    if nisa.get_nc_version() == nisa.nc_version.gen2 or in_sbuf.shape[0] == 1:
        nisa.dma_copy(dst=dst, src=src)
    else:
        nisa.dma_copy(dst=dst, src=src, dge_mode=nisa.dge_mode.hwdge, engine=engine)


def load_early(dst, src):
    """Load without waiting for other work.

    On NeuronCore-v3 and later, the Scalar Engine triggers the DMA, since it has a separate descriptor generator
    (trainium2_arch).
    """
    copy_by_hardware(dst, src, engine=nisa.engine.scalar)


def store_rows(dst, src):
    """Store SBUF [128, tiles, columns] to an HBM matrix [rows, columns]: the inverse of `load_rows`."""
    rows = dst.shape[0]
    full_tiles = rows // PARTITIONS
    even = full_tiles * PARTITIONS
    if full_tiles > 0:
        copy_by_hardware(
            dst=dst[0:even, :].reshape_dim(0, (full_tiles, PARTITIONS)).permute((1, 0, 2)), src=src[:, 0:full_tiles, :]
        )
    if even < rows:
        copy_by_hardware(dst=dst[even:rows, :], src=src[0 : rows - even, full_tiles, :])


def evict(dst, src, turn):
    """Copy from PSUM to SBUF (casting if the dtypes differ), alternating between the Vector and the Scalar Engine.

    A single engine would stall the Tensor Engine. The Scalar Engine copies with an activation instruction, because it
    does not support `tensor_copy` on NeuronCore-v2.
    """
    if turn % 2 == 0:
        nisa.tensor_copy(dst=dst, src=src, engine=nisa.engine.vector)
    else:
        nisa.activation(dst=dst, op=nl.copy, data=src)


def usable_sbuf_bytes():
    """Return the bytes of an SBUF partition that are available for tiles.

    The bytes that the compiler reserves, and those of the identity matrix for its transposes, are excluded.
    """
    return nl.tile_size.sbuf_fmax_bytes - IDENTITY_BYTES


def transposed_dtype(dtype):
    """Return the dtype of a Tensor Engine transpose in PSUM: float32 on NeuronCore-v2 (trainium_inferentia2_arch), and
    the dtype of the data on later cores (trainium2_arch)."""
    if nisa.get_nc_version() == nisa.nc_version.gen2:
        return nl.float32
    return dtype


def whole_words(columns, dtype):
    """Return the number of columns, rounded up to whole 4-byte words: an odd number of 16-bit columns increases by
    one."""
    return columns if itemsize(dtype) == 4 else columns + columns % 2


def several_columns(columns, dtype):
    """Return the number of columns of a Tensor Engine operand, which is at least two for 16-bit dtypes."""
    return max(columns, 2) if itemsize(dtype) == 2 else columns


def sbuf_tile(shape, dtype, name=""):
    """Allocate a tile in SBUF.

    A single 16-bit column is a view of two columns, and 8-bit columns are a view of whole words, so that the next
    allocation starts at a word boundary.
    """
    last = len(shape) - 1
    if itemsize(dtype) == 1:
        columns = math.prod(shape[1:])
        words = nl.ndarray((shape[0], round_up(columns, 4)), dtype=dtype, buffer=nl.sbuf, name=name)
        return words[:, 0:columns].reshape_dim(1, tuple(shape[1:]))
    if itemsize(dtype) == 4 or max(shape[1:], default=1) > 1:
        return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf, name=name)
    return nl.ndarray((*shape[0:last], 2), dtype=dtype, buffer=nl.sbuf, name=name).slice(last, 0, 1)


def reshaped(tile, shape):
    """View a tile in SBUF or PSUM with other free dimensions.

    On a single partition, `reshape` is reported to create a view with partition step 0, which the compiler's back end
    rejects. Therefore runs of dimensions are merged and split, which preserves the partition dimension.
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
    """Return the number of bytes per element of a dtype that the kernels support."""
    if dtype == nl.float8_e4m3:
        return 1
    return 4 if dtype == nl.float32 else 2


def check_matrix(name, tensor):
    """Assert that an argument of a kernel is a nonempty matrix with a dtype that the kernels support."""
    assert len(tensor.shape) == 2, f"{name} must have 2 dimensions, got shape {tensor.shape}"
    assert tensor.shape[0] > 0 and tensor.shape[1] > 0, f"{name} must not be empty, got shape {tensor.shape}"
    check_dtype(name, tensor)


def check_dtype(name, tensor):
    """Assert that an argument of a kernel has a dtype that the kernels support."""
    supported = tensor.dtype == nl.float32 or tensor.dtype == nl.bfloat16 or tensor.dtype == nl.float16
    assert supported, f"{name} must be float32, bfloat16 or float16, got {tensor.dtype}"
