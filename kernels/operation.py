"""The base class of the operations of a program, and operations that only move or hold a value.

Like program.py, the module contains plain data and does not import `nki`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from .operation_fields import ONE_COPY, Copies, Memory, Pair, RowFold, WriteRegion
from .tiling.column_phases import ColumnPhases
from .tiling.packing import ceil_div

if TYPE_CHECKING:
    from .attention_operation import Attention
    from .filter_operations import Convolution, FilterOperation
    from .pool_operations import AveragePool, MaxPool, RowFoldPool
    from .value_operations import Numbered

Sides = tuple[int, int, int, int]  # (top, left, bottom, right)
Parts = tuple[int, ...]  # operations, concatenated along the channels; negative numbers are inputs of the launch
Rows = tuple[int, int]  # [first, end)
Windows = tuple[Pair | None, ...]  # for each part, its rows [first, end), or None for all rows

NO_SIDES: Sides = (0, 0, 0, 0)


class Packing(Enum):
    """The permitted packing of the images that an operation reads."""

    ANY = "any"
    IN_ONE_PIECE = "in one piece"  # the channels of an image are contiguous
    NONE = "none"


@dataclass(frozen=True)
class Surroundings:
    """The context of an operation in a launch, which determines how much memory it requires in addition to its value.

    `images`, `images_read` and `at_once` are the numbers of images along the free axis of its value, of its first
    operand, and of the input of the launch. `tiles` is the number of tiles of the first operand. `operands` contains
    (channels, rows, columns) of each operand. `reads_hbm` is true if the first operand is in HBM. `itemsize` is the
    number of bytes per element. `partitions` and `bank_bytes` (of a PSUM bank) describe the chip.
    """

    images: int
    images_read: int
    at_once: int
    tiles: int
    operands: tuple[tuple[int, ...], ...]
    reads_hbm: bool
    itemsize: int
    partitions: int
    bank_bytes: int

    def loaded_bytes(self, padding: Sides) -> int:
        """Return the bytes per partition of the whole first operand, including its zero padding."""
        _, rows, columns = self.operands[0]
        high, wide = rows + padding[0] + padding[2], columns + padding[1] + padding[3]
        return self.tiles * self.at_once * high * wide * self.itemsize


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One step of a program; its value is [channels, rows, columns] for each image.

    `name` is the layer to which the operation belongs. `sources` contains the parts of each operand. `windows`
    contains, for each part of each operand, the rows [first, end) that are read, or None for all rows. `margin` is the
    width of the zero padding around the value that its consumers require. `into` is a region of another buffer
    that the operation writes instead of allocating a buffer. `is_fp8` is true if the value is stored in 8 bits, divided
    by a scale. The scale is part of the constants of the operations that compute and read the value. `column_phases` is
    the number of phases into which the columns are split; phases are stored consecutively (`ColumnPhases`).
    """

    name: str
    channels: int
    rows: int
    columns: int
    sources: tuple[Parts, ...] = ()
    windows: tuple[Windows, ...] = ()
    packed: int = 1
    margin: Sides = NO_SIDES
    into: WriteRegion | None = None
    is_fp8: bool = False
    column_phases: int = 1

    # Every operation class must set these attributes; tests/kernels/test_program.py reports classes that do not.
    cuts_channels: ClassVar[bool]  # the value is tiled independently of the first operand
    packing: ClassVar[Packing]  # permitted packing of the images of the first operand
    cuts_rows: ClassVar[bool]  # the operation can compute a subset of the rows of its value

    writes_hbm: ClassVar[bool] = False  # the operation can write its value directly to HBM
    is_mean: ClassVar[bool] = False  # the operation computes means or sums over windows
    is_load: ClassVar[bool] = False  # the operation loads a value from HBM into SBUF
    has_answers: ClassVar[bool] = False  # the value is in HBM and is returned by the launch
    has_scores: ClassVar[bool] = False  # the operation outputs scores and classes, not only classes
    moves_numbers: ClassVar[bool] = False  # the operation moves the numbers of each image through HBM
    reads_hbm: ClassVar[bool] = False  # the operation can read the first operand from HBM
    can_use_powers: ClassVar[bool] = False  # the activation can be a sigmoid that is computed without a lookup table

    def can_cut_rows(self, window: Pair) -> bool:
        """Return True if a subset of the rows can be computed, by reading windows of (rows, columns)."""
        return self.cuts_rows and self.rows > 1

    def whole_rows(self, rows: Rows) -> Rows:
        """Extend `rows` to whole groups of rows that can only be computed together."""
        return rows

    def rows_read(self, rows: Rows) -> Rows:
        """Return the rows of the first operand that are read to compute `rows` of the value.

        Rows outside the operand are padding.
        """
        return rows

    def fields_of_rows(self, rows: Rows, padding: Sides, first: int) -> dict[str, Any]:
        """Return the fields to replace, in addition to rows and margin, so that the operation computes only `rows`.

        `padding`: the padding for these rows. `first`: the first available row of the operand.
        """
        return {}

    def operand_rows(self, operand: int, own: Rows, read: Rows) -> Rows:
        """Return the rows of an operand that are read to compute the rows `own` of the value.

        `read`: the rows of the first operand that are read.
        """
        return read if operand == 0 else own

    def fields_unplaced(self) -> dict[str, Any]:
        """Return the values that fields have before weights and constants are laid out."""
        return {}

    def keeps_numbers(self, count: int) -> bool:
        """Return True if the value consists of the operand's `count` numbers in HBM, unchanged except for the shape."""
        return False

    def scratch_bytes(self, around: Surroundings) -> int:
        """Estimate the bytes per partition that are needed in addition to the value, the weights and common buffers."""
        return 0

    def zeros_around(self, source: Operation) -> Sides:
        """Return the width of the zero padding that the operation reads around `source`, the first operand."""
        return NO_SIDES

    def widest_zeros(self, source: Operation) -> Sides:
        """Return the largest width of the zero padding that any form of the operation reads around `source`."""
        return self.zeros_around(source)

    def folds_all(self, window: Pair) -> bool:
        """Return True if an operand of size `window` (rows, columns) is reduced to one number per channel."""
        return False

    @property
    def combines(self) -> bool:
        """True if elements at the same position of the operands are combined, so that their tiles must match."""
        return False

    @property
    def is_product(self) -> bool:
        """True if the operation multiplies its two operands element by element."""
        return False

    @property
    def adds(self) -> bool:
        """True if the operation adds its two operands element by element, and sums of zeros remain zero."""
        return False

    @property
    def joins_columns(self) -> bool:
        """True if the operation only writes its operands next to each other, without an activation."""
        return False

    @property
    def can_put_classes_on_partitions(self) -> bool:
        """True if the operation computes scores that may also be laid out with one class per partition."""
        return False

    @property
    def can_be_combined(self) -> bool:
        """True if minimal filtering can be applied to the operation's filters."""
        return False

    @property
    def step_between(self) -> Pair:
        """Distance (rows, columns) in the value between adjacent elements of an operand."""
        return 1, 1

    @property
    def buffer(self) -> Buffer | None:
        """The operation itself if it is a buffer, else None."""
        return None

    @property
    def convolved(self) -> Convolution | None:
        """The operation itself if it is a convolution, else None."""
        return None

    @property
    def copies_made(self) -> Copies | None:
        """The copies of its value that the operation creates on later partitions, or None if it cannot create any."""
        return None

    @property
    def folded(self) -> MaxPool | RowFoldPool | None:
        """The operation itself if it computes maxima of windows, else None."""
        return None

    @property
    def averaged(self) -> AveragePool | None:
        """The operation itself if it computes means or sums of windows, else None."""
        return None

    @property
    def filtered(self) -> FilterOperation | None:
        """The operation itself if it multiplies by filters, else None."""
        return None

    @property
    def taps_load(self) -> TapsLoad | None:
        """The operation itself if it loads an image once for each filter column, else None."""
        return None

    @property
    def attended(self) -> Attention | None:
        """The operation itself if it is an attention, else None."""
        return None

    @property
    def numbered(self) -> Numbered | None:
        """The operation itself if it has constants for each channel or element, else None."""
        return None

    @property
    def columns_held(self) -> int:
        """Number of columns of a row in SBUF, including zero padding."""
        return ColumnPhases(self.column_phases, self.columns, self.margin[1], self.margin[3]).total

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of channels, rows and columns of an image."""
        return self.channels, self.rows, self.columns


@dataclass(frozen=True, kw_only=True)
class Buffer(Operation):
    """A buffer that other operations write, for the images of a pass or, if `whole_batch`, of the launch.

    For a buffer in SBUF, `heights` contains the number of partitions of each tile.
    """

    memory: Memory = Memory.SBUF
    whole_batch: bool = False
    heights: tuple[int, ...] = ()
    copies: Copies = ONE_COPY

    cuts_channels: ClassVar[bool] = False
    packing: ClassVar[Packing] = Packing.ANY
    cuts_rows: ClassVar[bool] = False

    @property
    def buffer(self) -> Buffer:
        """See `Operation`."""
        return self


@dataclass(frozen=True, kw_only=True)
class Placeholder(Operation):
    """A placeholder value in SBUF with arbitrary contents, for timing the operations that read it.

    `heights` contains the number of partitions of each tile.
    """

    heights: tuple[int, ...]
    copies: Copies = ONE_COPY

    cuts_channels: ClassVar[bool] = False
    packing: ClassVar[Packing] = Packing.ANY
    cuts_rows: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class Load(Operation):
    """An operation that loads a value from HBM into SBUF without changing it."""

    is_load: ClassVar[bool] = True
    cuts_channels: ClassVar[bool] = False
    packing: ClassVar[Packing] = Packing.ANY
    cuts_rows: ClassVar[bool] = True

    def keeps_numbers(self, count: int) -> bool:
        """See `Operation`."""
        return True


@dataclass(frozen=True, kw_only=True)
class TapsLoad(Operation):
    """An operation that loads a small image with zero padding once for each filter column.

    The partitions are ordered (image, filter column, channel) and are followed by copies for the filter rows. The
    filter reads `kernel_columns` columns that are `dilation` apart. If `fills`, one DMA fills all copies, including the
    partitions between them.
    """

    kernel_columns: int
    dilation: int = 1
    fills: bool = False
    copies: Copies = ONE_COPY

    is_load: ClassVar[bool] = True
    cuts_channels: ClassVar[bool] = True
    packing: ClassVar[Packing] = Packing.ANY
    cuts_rows: ClassVar[bool] = False

    @property
    def taps_load(self) -> TapsLoad:
        """See `Operation`."""
        return self


@dataclass(frozen=True, kw_only=True)
class Store(Operation):
    """An operation that stores a value from SBUF to a buffer in HBM, part by part."""

    cuts_channels: ClassVar[bool] = False
    packing: ClassVar[Packing] = Packing.IN_ONE_PIECE
    cuts_rows: ClassVar[bool] = False
    writes_hbm: ClassVar[bool] = True


def aligned(rows: Rows, unit: int, count: int) -> Rows:
    """Extend a range of rows to multiples of `unit` in both directions, but not beyond the last row."""
    return rows[0] // unit * unit, min(count, ceil_div(rows[1], unit) * unit)


def groups_of_rows(groups: RowFold, rows: Rows, count: int) -> RowFold:
    """Return the row groups of an operation that computes only `rows` of its `count` rows."""
    return RowFold(groups.count, groups.above if rows[0] == 0 else 0, groups.below if rows[1] == count else 0)
