"""Grids of tiles and blocks, which index a tensor by the coordinates of its tiles (NKI 0.7).

Grids are views and do not move data. A grid selects a rectangular range of whole tiles (the last tile along a dimension
may be partial). Its `.data` is the selected tensor, which can be passed to instructions. The names, attributes and
errors are documented (en/latest/nki/api/generated/nki.language.tiles.html, and likewise for blocks, alloc_tiles,
alloc_blocks and NkiGrid). The following is assumed, because the accessible pages do not specify it:

- an integer index removes its dimension from `shape` and, for an untiled leading dimension, also from `element_shape`
  and `.data`;
- `is_remainder` is true if any tile of the selection is partial;
- in SBUF and PSUM, the rows of tiles are adjacent in the free dimension, and each row has the same layout as in the
  tensor.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

from ..instructions.core import active
from ..machine.errors import NkiValidationError, OperatorError, OutOfBoundsError, ShapeError
from ..machine.memory import MemoryRegion
from ..machine.registers import DeviceNumber
from ..tensors.tensor import NkiTensor


@dataclass(frozen=True)
class _Dimension:
    """A dimension of the grid's tensor. The elements [start, stop) are selected, and divided into steps of `step`."""

    start: int
    stop: int
    step: int  # elements per tile or block; 1 if the dimension is not tiled
    tiled: bool
    indexed: bool = False  # True if indexed by an integer, so that it has no coordinate

    @property
    def count(self) -> int:
        return -(-(self.stop - self.start) // self.step)

    def part(self, first: int, last: int) -> _Dimension:
        """Return the dimension with only steps `first` to `last` of the selection."""
        start = self.start + first * self.step
        return replace(self, start=start, stop=min(self.start + last * self.step, self.stop))


@dataclass(frozen=True)
class _Layout:
    """The layout of elements in `tensor`.

    If `rows` is 0, the tensor has the same dimensions as the grid. Otherwise, tiles of `rows` partitions are stored
    consecutively in the free dimension of a tensor [rows, ...].
    """

    tensor: NkiTensor
    element_shape: tuple[int, ...]
    rows: int = 0

    def _part_of_tensor(self, dimensions: tuple[_Dimension, ...]) -> NkiTensor:
        """Return the selected part of a tensor that has the same dimensions as the grid."""
        remaining = tuple(d for d in dimensions if d.tiled or not d.indexed)
        keys = tuple(d.start if d.indexed and not d.tiled else slice(d.start, d.stop) for d in dimensions)
        part = self.tensor[keys]
        return (
            part
            if part.ndim == len(remaining)
            else part._reshape(tuple(d.stop - d.start for d in remaining), "reshape")
        )

    def view(self, dimensions: tuple[_Dimension, ...]) -> NkiTensor | None:
        """Return the selected tensor as a view, or None if the selection cannot be represented as a view."""
        if not self.rows:
            return self._part_of_tensor(dimensions)
        lead, partitions, free = dimensions[: -self._rank], dimensions[-self._rank], dimensions[1 - self._rank :]
        at, size = partitions.start % self.rows, partitions.stop - partitions.start
        if any(d.stop - d.start != 1 for d in lead) or at + size > self.rows:
            return None
        row = 0
        for dimension, extent in zip(lead, self.element_shape):
            row = row * extent + dimension.start
        row = row * -(-self.element_shape[-self._rank] // self.rows) + partitions.start // self.rows
        keys = (slice(at, at + size), row, *(slice(d.start, d.stop) for d in free))
        return self.tensor[keys]

    @property
    def _rank(self) -> int:
        """Return the number of dimensions, starting with the partition dimension."""
        return self.tensor.ndim - 1


class NkiGrid:
    """Base class for grids of tiles or blocks (nki.language.NkiGrid).

    Grids are created by `nl.tiles`, `nl.blocks`, `nl.alloc_tiles` and `nl.alloc_blocks`.
    """

    def __init__(self, layout: _Layout, dimensions: tuple[_Dimension, ...], tile_shape: tuple[int, ...]) -> None:
        self._layout = layout
        self._dimensions = dimensions
        self.tile_shape = tile_shape

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the number of tiles (or blocks) along each dimension that has not been indexed by an integer.

        For a dimension that is not tiled, the number of elements is returned.
        """
        return tuple(d.count for d in self._dimensions if not d.indexed)

    @property
    def element_shape(self) -> tuple[int, ...]:
        """Return the number of elements selected along each dimension."""
        return tuple(d.stop - d.start for d in self._dimensions if d.tiled or not d.indexed)

    @property
    def index_step_elements(self) -> tuple[int, ...]:
        """Return the number of elements that one step along each coordinate advances."""
        return tuple(d.step for d in self._dimensions if not d.indexed)

    @property
    def is_remainder(self) -> bool:
        """Return True if any tile (or block) of the selection is partial."""
        return any((d.stop - d.start) % d.step for d in self._dimensions)

    @property
    def dtype(self) -> str:
        return self._layout.tensor.dtype

    @property
    def buffer(self) -> MemoryRegion:
        return self._layout.tensor.buffer

    @property
    def is_data_representable(self) -> bool:
        """Return True if the selection can be represented as a single tensor."""
        return self._layout.view(self._dimensions) is not None

    @property
    def data(self) -> NkiTensor:
        """Return the selection as one operand. Raise NkiValidationError if it is not a single tensor."""
        view = self._layout.view(self._dimensions)
        if view is None:
            raise NkiValidationError(
                f"{self!r}: its rows of tiles have different offsets in the partitions, so it cannot be viewed as one "
                f"tensor (is_data_representable); select one row of tiles"
            )
        return view

    def __getitem__(self, key: Any) -> Any:
        keys = list(key) if isinstance(key, tuple) else [key]
        free = [at for at, d in enumerate(self._dimensions) if not d.indexed]
        if Ellipsis in keys:
            at = keys.index(Ellipsis)
            keys[at : at + 1] = [slice(None)] * (len(free) - len(keys) + 1)
        if len(keys) > len(free):
            raise OutOfBoundsError(f"{self!r}: got {len(keys)} coordinates for a grid of {len(free)} dimensions")
        dimensions = list(self._dimensions)
        for at, item in zip(free, keys):
            dimensions[at] = self._part(dimensions[at], item)
        return self._with(tuple(dimensions))

    def _part(self, dimension: _Dimension, item: Any) -> _Dimension:
        count = dimension.count
        if isinstance(item, slice):
            first, last, step = item.indices(count)
            if step != 1 or first >= last:
                raise OutOfBoundsError(f"{self!r}: a slice must have step 1 and select at least one tile, got {item}")
            if not dimension.tiled and last - first != count:
                raise NkiValidationError(f"{self!r}: a dimension that is not tiled requires an integer index")
            return dimension.part(first, last)
        if isinstance(item, DeviceNumber):
            raise NkiValidationError(
                f"{self!r}: the coordinate is a device register; move the tensor by index_step_elements with "
                "t.ap(..., scalar_offset=...)"
            )
        if isinstance(item, bool) or not hasattr(item, "__index__"):
            raise OperatorError(f"{self!r}: a coordinate must be an integer or a slice, got {type(item).__name__}")
        index = item.__index__()
        if not -count <= index < count:
            raise OutOfBoundsError(f"{self!r}: coordinate {index} is out of bounds; it must be 0 to {count - 1}")
        part = dimension.part(index % count, index % count + 1)
        return replace(part, indexed=True)

    def _with(self, dimensions: tuple[_Dimension, ...]) -> NkiGrid:
        raise NotImplementedError

    def __len__(self) -> int:
        if not self.shape:
            raise OperatorError(f"{self!r} has no coordinates left")
        return self.shape[0]

    __iter__ = None  # otherwise, Python would iterate by index until an out-of-bounds error occurs

    def __repr__(self) -> str:
        kind = type(self).__name__
        return f"{kind}({list(self.shape)} of {list(self.tile_shape)}, {self._layout.tensor.label})"


class NkiTileGrid(NkiGrid):
    """A tensor indexed by the coordinates of its tiles (nki.language.NkiTileGrid)."""

    def _with(self, dimensions: tuple[_Dimension, ...]) -> NkiTileGrid:
        return NkiTileGrid(self._layout, dimensions, self.tile_shape)


class NkiBlockGrid(NkiGrid):
    """A tensor indexed by the coordinates of blocks of tiles (nki.language.NkiBlockGrid)."""

    def __init__(
        self,
        layout: _Layout,
        dimensions: tuple[_Dimension, ...],
        tile_shape: tuple[int, ...],
        block_shape: tuple[int, ...],
    ) -> None:
        super().__init__(layout, dimensions, tile_shape)
        self.block_shape = block_shape

    def _with(self, dimensions: tuple[_Dimension, ...]) -> NkiBlockGrid:
        return NkiBlockGrid(self._layout, dimensions, self.tile_shape, self.block_shape)


def tiles(source: Any, *, tile_shape: tuple[int, ...] | None = None) -> NkiTileGrid:
    """Return a grid of tiles of `tile_shape` over `source`, which is a tensor or a grid with the same tile shape."""
    layout, dimensions, shape = _source("tiles", source, tile_shape)
    return NkiTileGrid(layout, _steps("tiles", dimensions, shape), shape)


def blocks(source: Any, *, tile_shape: tuple[int, ...] | None = None, block_shape: tuple[int, ...]) -> NkiBlockGrid:
    """Return a grid of blocks of `block_shape` tiles over `source`."""
    layout, dimensions, shape = _source("blocks", source, tile_shape)
    block = _shape("blocks", "block_shape", block_shape)
    if len(block) != len(shape):
        raise ShapeError(f"nl.blocks: block_shape {block} must have {len(shape)} dimensions, like tile_shape {shape}")
    extents = tuple(count * extent for count, extent in zip(block, shape))
    return NkiBlockGrid(layout, _steps("blocks", dimensions, extents), shape, block)


def alloc_tiles(
    *, tile_shape: Any, element_shape: Any, buffer: Any, dtype: Any, address: Any = None, name: str = ""
) -> NkiTileGrid:
    """Allocate an uninitialised tensor of `element_shape`, and return a grid of tiles of `tile_shape` over its last
    dimensions."""
    layout, dimensions, shape = _allocated("alloc_tiles", tile_shape, element_shape, (buffer, dtype, address, name))
    return NkiTileGrid(layout, _steps("alloc_tiles", dimensions, shape), shape)


def alloc_blocks(
    *,
    tile_shape: Any,
    block_shape: Any,
    element_shape: Any,
    buffer: Any,
    dtype: Any,
    address: Any = None,
    name: str = "",
) -> NkiBlockGrid:
    """Allocate a tensor, as `alloc_tiles` does, and return a grid of blocks of `block_shape` tiles."""
    block = _shape("alloc_blocks", "block_shape", block_shape)
    layout, dimensions, shape = _allocated("alloc_blocks", tile_shape, element_shape, (buffer, dtype, address, name))
    if len(block) != len(shape):
        raise ShapeError(f"nl.alloc_blocks: block_shape {block} must have the same rank as tile_shape {shape}")
    extents = tuple(count * extent for count, extent in zip(block, shape))
    return NkiBlockGrid(layout, _steps("alloc_blocks", dimensions, extents), shape, block)


def like(grid: NkiGrid, dtype: Any, buffer: Any, name: str) -> NkiGrid:
    """Allocate storage for the selection of a grid, with the same tiles and blocks (`nl.empty_like` for grids)."""
    options = {"element_shape": grid.element_shape, "dtype": dtype or grid.dtype, "buffer": buffer or grid.buffer}
    if isinstance(grid, NkiBlockGrid):
        return alloc_blocks(tile_shape=grid.tile_shape, block_shape=grid.block_shape, name=name, **options)
    return alloc_tiles(tile_shape=grid.tile_shape, name=name, **options)


def _source(what: str, source: Any, tile_shape: Any) -> tuple[_Layout, tuple[_Dimension, ...], tuple[int, ...]]:
    """Return the layout of a source, its dimensions before tiling, and the tile shape."""
    if isinstance(source, NkiGrid):
        shape = source.tile_shape if tile_shape is None else _shape(what, "tile_shape", tile_shape)
        return source._layout, source._dimensions, shape
    if not isinstance(source, NkiTensor):
        raise OperatorError(f"nl.{what}: source must be a tensor or a grid, got {type(source).__name__}")
    if tile_shape is None:
        raise OperatorError(f"nl.{what}: pass tile_shape if the source is a tensor")
    shape = _shape(what, "tile_shape", tile_shape)
    if source.storage.on_chip and len(shape) != source.ndim:
        raise ShapeError(
            f"nl.{what}: tile_shape {shape} must have the {source.ndim} dimensions of {source.label}, on chip"
        )
    dimensions = tuple(_Dimension(0, extent, 1, tiled=False) for extent in source.shape)
    return _Layout(source, source.shape), dimensions, shape


def _steps(what: str, dimensions: tuple[_Dimension, ...], extents: tuple[int, ...]) -> tuple[_Dimension, ...]:
    """Return the dimensions, with the last ones divided into steps of the extents of a tile or block."""
    if len(extents) > len(dimensions):
        raise ShapeError(
            f"nl.{what}: a tile of {len(extents)} dimensions is too large for a tensor of {len(dimensions)} dimensions"
        )
    untiled = len(dimensions) - len(extents)
    steps = list(dimensions[:untiled])
    for dimension, extent in zip(dimensions[untiled:], extents):
        steps.append(_Dimension(dimension.start, dimension.stop, extent, tiled=True))
    return tuple(steps)


def _allocated(
    what: str, tile_shape: Any, element_shape: Any, tensor: tuple[Any, Any, Any, str]
) -> tuple[_Layout, tuple[_Dimension, ...], tuple[int, ...]]:
    shape, elements = _shape(what, "tile_shape", tile_shape), _shape(what, "element_shape", element_shape)
    buffer, dtype, address, name = tensor
    if not isinstance(buffer, MemoryRegion):
        raise OperatorError(
            f"nl.{what}: buffer must be nl.sbuf, nl.psum, nl.private_hbm or nl.shared_hbm, got {buffer!r}"
        )
    if not 2 <= len(shape) <= len(elements):
        raise ShapeError(
            f"nl.{what}: tile_shape {shape} must have at least two dimensions and no more dimensions "
            f"than element_shape {elements}"
        )
    core = active(f"nl.{what}")
    dimensions = tuple(_Dimension(0, extent, 1, tiled=False) for extent in elements)
    if buffer not in (MemoryRegion.sbuf, MemoryRegion.psum):
        return _Layout(core.ndarray(elements, dtype, buffer, name, address), elements), dimensions, shape
    lead, partitions, free = elements[: -len(shape)], elements[-len(shape)], elements[1 - len(shape) :]
    rows = min(shape[0], partitions)
    count = prod(lead) * -(-partitions // rows)
    flat = core.ndarray((rows, count * prod(free)), dtype, buffer, name, address)
    return _Layout(flat._reshape((rows, count, *free), "reshape"), elements, rows), dimensions, shape


def _shape(what: str, name: str, shape: Any) -> tuple[int, ...]:
    if not isinstance(shape, tuple) or any(type(extent) is not int for extent in shape):
        raise OperatorError(f"nl.{what}: {name} must be a tuple of integers, got {shape!r}")
    if not shape or min(shape) < 1:
        raise ShapeError(f"nl.{what}: {name} {shape} must have positive entries")
    return shape
