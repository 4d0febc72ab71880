"""The value of an operation: tiles of up to 128 partitions in SBUF, with zero padding around each image, or a tensor in
HBM."""

from __future__ import annotations

from dataclasses import dataclass

import nki.isa as nisa
import nki.language as nl

from ..operation_fields import with_fields
from ..program import NO_SIDES, Copies, Sides
from ..tiling.column_phases import ColumnPhases
from ..tiling.packing import ceil_div, tile_sizes
from ..tiling.tiles import PARTITIONS, copy_by_hardware, sbuf_tile
from ..tiling.windows import Span, fill_border


@dataclass(frozen=True)
class Value:
    """The value of an operation, [channels, rows, columns] for some images; `packed` images share the partitions.

    `tiles` contains [partitions, images, rows, columns] with (image, channel) on up to 128 partitions and each image
    surrounded by its margin. A single tile may be followed by copies of itself on later partitions, shifted up by rows.
    If `hbm`, [images, (image, channel), rows, columns], is not None, there are no tiles. `images` is the number of
    images along the free axis; `pictures` is at most images * packed; the remaining images are padding. `pitches`
    contains, for each tile, the distance in elements to the next tile in the same tensor, or 0 if the next tile is in
    another tensor; it is empty if no two tiles share a tensor.
    """

    tiles: tuple[nl.NkiTensor, ...]
    margins: tuple[Sides, ...]
    hbm: nl.NkiTensor | None
    images: int
    channels: int
    rows: int
    columns: int
    packed: int
    pictures: int
    pitches: tuple[int, ...] = ()
    column_phases: int = 1

    @property
    def dtype(self) -> str:
        """The dtype of its elements."""
        return self.tiles[0].dtype if self.hbm is None else self.hbm.dtype

    @property
    def heights(self) -> list[int]:
        """Number of partitions of each tile, without its copies."""
        lanes = self.channels * self.packed
        if self.hbm is not None:
            return tile_sizes(lanes, PARTITIONS)
        return [min(tile.shape[0], lanes) for tile in self.tiles]

    def inside(self, t: int, padding: Sides = NO_SIDES) -> nl.NkiTensor:
        """Return tile `t` with the margin reduced to `padding`.

        If the columns are in phases, all columns are returned.
        """
        top, left = (self.margins[t][side] - padding[side] for side in range(2))
        bottom = self.margins[t][0] + self.rows + padding[2]
        right = self.margins[t][1] + self.columns + padding[3]
        if self.column_phases > 1:
            return self.tiles[t][:, :, top:bottom]
        return self.tiles[t][:, :, top:bottom, left:right]

    def in_phases(self, t: int) -> nl.NkiTensor:
        """Return tile `t` as [partitions, images, rows, phases, columns of a phase], without its zero padding."""
        phases = ColumnPhases(self.column_phases, self.columns, self.margins[t][1], self.margins[t][3])
        apart = self.inside(t).reshape_dim(3, (phases.count, phases.each))
        return apart[:, :, :, :, phases.lead : phases.lead + phases.inside]

    def of_images(self, first: int, end: int) -> Value:
        """Return the images [first, end) along the free axis."""
        pictures = min(self.pictures, end * self.packed) - first * self.packed
        hbm = None if self.hbm is None else self.hbm[first:end]
        tiles = tuple(tile[:, first:end] for tile in self.tiles)
        return with_fields(self, tiles=tiles, hbm=hbm, images=end - first, pictures=pictures)

    def of_rows(self, first: int, end: int) -> Value:
        """Return rows [first, end). If they include the first or last row, the margin above or below is kept."""
        if self.hbm is not None:
            return with_fields(self, hbm=self.hbm[:, :, first:end], rows=end - first)
        tiles, margins = [], []
        for tile, (top, left, bottom, right) in zip(self.tiles, self.margins, strict=True):
            above = top if first == 0 else 0
            below = bottom if end == self.rows else 0
            tiles.append(tile[:, :, top + first - above : top + end + below])
            margins.append((above, left, below, right))
        return with_fields(self, tiles=tuple(tiles), margins=tuple(margins), rows=end - first)


def value_in_hbm(hbm, packed, pictures):
    """Create a value from a tensor in HBM, [images, (image, channel), rows, columns]."""
    images, lanes, rows, columns = hbm.shape
    return Value(
        tiles=(),
        margins=(),
        hbm=hbm,
        images=images,
        channels=lanes // packed,
        rows=rows,
        columns=columns,
        packed=packed,
        pictures=pictures,
    )


def join(values):
    """Concatenate values along the channels."""
    first = values[0]
    if len(values) == 1:
        return first
    return with_fields(
        first,
        tiles=tuple(tile for value in values for tile in value.tiles),
        margins=tuple(margin for value in values for margin in value.margins),
        channels=sum(value.channels for value in values),
        pitches=tuple(pitch for value in values for pitch in value.pitches or (0,) * len(value.tiles)),
    )


def allocate_value(launch, operation, pictures, partitions, is_blank=True):
    """Allocate SBUF tiles for a value, with the numbers of partitions in `partitions`.

    If `is_blank`, set the margins to zero.
    """
    images = ceil_div(pictures, operation.packed)
    top, left, bottom, right = operation.margin
    copies = getattr(operation, "copies", Copies())
    phases = ColumnPhases(operation.column_phases, operation.columns, left, right)
    image = (operation.rows + top + bottom, phases.total)
    shapes = [((copies.count - 1) * copies.stride + size, images, *image) for size in partitions]
    tiles, pitches = _tiles(launch, operation, shapes)
    for tile, size in zip(tiles, partitions, strict=True):
        shape = tile.shape
        if not is_blank:
            pass
        elif copies.count > 1 and copies.stride > size:
            nisa.memset(dst=tile, value=0.0, engine=nisa.engine.gpsimd)
        else:
            across = Span(0, phases.each, phases.lead, phases.tail)
            for first in range(0, phases.total, phases.each):
                part = tile[0:size, :, :, first : first + phases.each]
                fill_border(part, Span(0, shape[2], top, bottom), across, 0.0)
    return value_in_tiles(operation, pictures, tiles, pitches)


def _tiles(launch, operation, shapes):
    """Allocate tiles for a value, and return the tiles and their pitches.

    With 8-bit values, two tiles of equal shape share a tensor, with their rows interleaved, so that a matmul can
    contract over both. The two planes must be close to each other, because the strides of instructions are limited.
    """
    tiles: list[nl.NkiTensor] = []
    pitches: list[int] = []
    dtype = launch.dtype_of(operation)
    while len(tiles) < len(shapes):
        shape = shapes[len(tiles)]
        if operation.is_fp8 and len(tiles) + 1 < len(shapes) and shapes[len(tiles) + 1] == shape:
            partitions, images, rows, columns = shape
            both = sbuf_tile((partitions, images, rows, 2, columns), dtype, name=launch.label(operation))
            tiles += [both[:, :, :, 0], both[:, :, :, 1]]
            pitches += [columns, 0]
        else:
            tiles.append(sbuf_tile(shape, dtype, name=launch.label(operation)))
            pitches.append(0)
    return tiles, tuple(pitches)


def value_in_tiles(operation, pictures, tiles, pitches):
    """Return the value of an operation for `pictures` pictures, stored in SBUF tiles that include its margin."""
    return Value(
        tiles=tuple(tiles),
        pitches=pitches,
        margins=(operation.margin,) * len(tiles),
        hbm=None,
        images=ceil_div(pictures, operation.packed),
        channels=operation.channels,
        rows=operation.rows,
        columns=operation.columns,
        packed=operation.packed,
        pictures=pictures,
        column_phases=operation.column_phases,
    )


def copy_down(copies, value):
    """Copy a value to later partitions, shifted up by rows, so that a matmul contracts over several filter rows."""
    lanes = value.channels * value.packed
    for copy in range(1, copies.count):
        tile, first, shift = value.tiles[0], copy * copies.stride, copy * copies.shift
        if shift >= tile.shape[2]:  # the copy would read only the margin
            break
        nisa.tensor_copy(
            dst=tile[first : first + lanes, :, 0 : tile.shape[2] - shift],
            src=tile[0:lanes, :, shift : tile.shape[2]],
            engine=nisa.engine.vector,
        )


def store_value(value, hbm):
    """Store a value in SBUF to [images, (image, channel), rows, columns] in HBM."""
    first = 0
    for t in range(len(value.tiles)):
        end = first + value.tiles[t].shape[0]
        copy_by_hardware(dst=hbm[:, first:end].permute((1, 0, 2, 3)), src=value.inside(t))
        first = end


def stored_value(launch, value):
    """Return a value as [images, (image, channel), rows, columns] in HBM. If it is not in HBM, store it first."""
    if value.hbm is not None:
        return value.hbm
    shape = (value.images, value.packed * value.channels, value.rows, value.columns)
    hbm = nl.ndarray(shape, dtype=launch.dtype, buffer=nl.private_hbm)
    store_value(value, hbm)
    return hbm
