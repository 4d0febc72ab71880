"""The base class of a program's operations, the questions each must answer, and operations that only move or hold a
value.

Plain data without `nki`, like program.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from .operation_fields import ONE_COPY, Copies, Memory, Pair, RowFold, WriteRegion
from .tiling.column_phases import ColumnPhases
from .tiling.packing import ceil_div

if TYPE_CHECKING:
    from .filter_operations import Convolution, Filtered
    from .pool_operations import MaxPool, RowFoldPool
    from .value_operations import Numbered

Sides = tuple[int, int, int, int]  # (top, left, bottom, right)
Parts = tuple[int, ...]  # operations whose channels are concatenated; negative numbers are inputs of the launch
Rows = tuple[int, int]  # [first, end)
Windows = tuple[Pair | None, ...]  # for each part, rows [first, end), None for all

NO_SIDES: Sides = (0, 0, 0, 0)


class Packing(Enum):
    """The packing of images that an operation can read."""

    ANY = "any"
    IN_ONE_PIECE = "in one piece"  # the channels of an image are contiguous
    NONE = "none"


@dataclass(frozen=True)
class Surroundings:
    """The surroundings of an operation in a launch that its memory, beside its value, depends on.

    `images`: along the free axis of its value; `images_read` of its first operand; `at_once` of the input. `tiles`: of
    the first operand. `operands`: (channels, rows, columns) of each. `reads_hbm`: the first operand is in HBM.
    `itemsize`: bytes of an element. `partitions` and `bank_bytes` (of a PSUM bank) describe the chip.
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
        """Return the bytes per partition of the whole first operand with zeros around it."""
        _, rows, columns = self.operands[0]
        high, wide = rows + padding[0] + padding[2], columns + padding[1] + padding[3]
        return self.tiles * self.at_once * high * wide * self.itemsize


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One step of a program; its value is [channels, rows, columns] for each image.

    `name` is the layer it belongs to. `sources`: the parts of each operand. `windows`: of each part of each operand the
    rows [first, end) that it reads, None for all. `margin`: zeros around its value, for the operations that read it.
    `into`: a room that it writes to, in place of one of its own. `is_fp8`: its value is in 8 bits, as shares of a scale
    that is in the constants of the operations that compute and read it. `column_phases`: the number of phases that its
    columns are in, one after another (`ColumnPhases`).
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

    # Every kind must set these; tests/kernels/test_program.py names the ones that do not.
    cuts_channels: ClassVar[bool]  # its value has its own tiling, not that of its first operand
    mixes_channels: ClassVar[bool]  # an output channel depends on several channels of the first operand
    packing: ClassVar[Packing]  # allowed packing of the images of its first operand
    cuts_rows: ClassVar[bool]  # it can compute some of several rows of its value by themselves

    loads_taps: ClassVar[bool] = False  # it loads an image once for each filter column
    writes_hbm: ClassVar[bool] = False  # it can write its value to HBM by itself
    is_mean: ClassVar[bool] = False  # means, or sums, of windows
    is_load: ClassVar[bool] = False  # it loads a value from HBM into SBUF
    has_answers: ClassVar[bool] = False  # its value is in HBM, and the launch returns it
    has_scores: ClassVar[bool] = False  # it outputs scores and classes, not classes alone
    reads_hbm: ClassVar[bool] = False  # it can read its first operand from HBM, as operations with filters can

    def can_cut_rows(self, window: Pair) -> bool:
        """Return True if it can compute some rows of its value alone, reading windows of (rows, columns)."""
        return self.cuts_rows and self.rows > 1

    def whole_rows(self, rows: Rows) -> Rows:
        """Extend `rows` to the rows that can only be computed together."""
        return rows

    def rows_read(self, rows: Rows) -> Rows:
        """Return the rows of its first operand that it reads for some rows of its value; those outside the operand are
        padding."""
        return rows

    def fields_of_rows(self, rows: Rows, padding: Sides, first: int) -> dict[str, Any]:
        """Return the fields to replace, besides rows and margin, for an operation that computes only some rows.

        `padding`: its padding for these rows. `first`: the first available row of its operand.
        """
        return {}

    def operand_rows(self, operand: int, own: Rows, read: Rows) -> Rows:
        """Return the rows of an operand that it reads for `own` rows of its value; `read` are those of the first
        operand."""
        return read if operand == 0 else own

    def fields_unplaced(self) -> dict[str, Any]:
        """Return the fields it has before weights and constants are laid out."""
        return {}

    def keeps_numbers(self, count: int) -> bool:
        """Return True if its value is its operand's `count` numbers unchanged in HBM, whatever its shape."""
        return False

    def scratch_bytes(self, around: Surroundings) -> int:
        """Estimate the bytes per partition it needs besides its value, its weights and what every operation needs."""
        return 0

    def zeros_around(self, source: Operation) -> Sides:
        """Return the zeros around the value of `source`, its first operand, that it reads."""
        return NO_SIDES

    def widest_zeros(self, source: Operation) -> Sides:
        """Return the zeros around the value of `source` that it reads in any form that it can have."""
        return self.zeros_around(source)

    def folds_all(self, window: Pair) -> bool:
        """Return True if it reduces an operand of `window` (rows, columns) to one number for each channel."""
        return False

    @property
    def combines(self) -> bool:
        """True if it combines the numbers of operands at the same place, so that their tiles must agree."""
        return False

    @property
    def is_product(self) -> bool:
        """True if it multiplies the numbers of two operands."""
        return False

    @property
    def can_be_combined(self) -> bool:
        """True if it has filters that minimal filtering can combine."""
        return False

    @property
    def step_between(self) -> Pair:
        """Distance (rows, columns) of the numbers of an operand in its value."""
        return 1, 1

    @property
    def buffer(self) -> Buffer | None:
        """Itself if it is a room, else None."""
        return None

    @property
    def convolved(self) -> Convolution | None:
        """Itself if it is a convolution, else None."""
        return None

    @property
    def folded(self) -> MaxPool | RowFoldPool | None:
        """Itself if it takes maxima of windows, else None."""
        return None

    @property
    def filtered(self) -> Filtered | None:
        """Itself if it multiplies by filters, else None."""
        return None

    @property
    def numbered(self) -> Numbered | None:
        """Itself if it has numbers for each channel or element, else None."""
        return None

    @property
    def columns_held(self) -> int:
        """Columns of a row in SBUF, including the zeros around them."""
        return ColumnPhases(self.column_phases, self.columns, self.margin[1], self.margin[3]).total

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, rows and columns of an image."""
        return self.channels, self.rows, self.columns


@dataclass(frozen=True, kw_only=True)
class Buffer(Operation):
    """A buffer that other operations write to, for the images of a pass or, if `whole_batch`, of the launch.

    `heights`: partitions of each tile of a buffer in SBUF, as written by those operations.
    """

    memory: Memory = Memory.SBUF
    whole_batch: bool = False
    heights: tuple[int, ...] = ()
    copies: Copies = ONE_COPY

    cuts_channels: ClassVar[bool] = False
    mixes_channels: ClassVar[bool] = False
    packing: ClassVar[Packing] = Packing.ANY
    cuts_rows: ClassVar[bool] = False

    @property
    def buffer(self) -> Buffer:
        """See `Operation`."""
        return self


@dataclass(frozen=True, kw_only=True)
class Placeholder(Operation):
    """A placeholder value in SBUF with arbitrary contents, for timing the operations that read it.

    `heights`: partitions of each tile.
    """

    heights: tuple[int, ...]
    copies: Copies = ONE_COPY

    cuts_channels: ClassVar[bool] = False
    mixes_channels: ClassVar[bool] = False
    packing: ClassVar[Packing] = Packing.ANY
    cuts_rows: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class Load(Operation):
    """Loads a value from HBM into SBUF as it is."""

    is_load: ClassVar[bool] = True
    cuts_channels: ClassVar[bool] = False
    mixes_channels: ClassVar[bool] = False
    packing: ClassVar[Packing] = Packing.ANY
    cuts_rows: ClassVar[bool] = True

    def keeps_numbers(self, count: int) -> bool:
        """See `Operation`."""
        return True


@dataclass(frozen=True, kw_only=True)
class TapsLoad(Operation):
    """Loads a small image with zeros around it, once for each filter column: (image, filter column, channel) on the
    partitions, and copies of that for filter rows.

    The filter reads `kernel_columns` columns, `dilation` apart. `fills`: one DMA fills all copies, up to the next.
    """

    kernel_columns: int
    dilation: int = 1
    fills: bool = False
    copies: Copies = ONE_COPY

    loads_taps: ClassVar[bool] = True
    is_load: ClassVar[bool] = True
    cuts_channels: ClassVar[bool] = True
    mixes_channels: ClassVar[bool] = False
    packing: ClassVar[Packing] = Packing.ANY
    cuts_rows: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class Store(Operation):
    """Stores a value from SBUF to a buffer in HBM."""

    cuts_channels: ClassVar[bool] = False
    mixes_channels: ClassVar[bool] = False
    packing: ClassVar[Packing] = Packing.ANY
    cuts_rows: ClassVar[bool] = False


def aligned(rows: Rows, unit: int, count: int) -> Rows:
    """Extend rows to multiples of `unit`, or to the end."""
    return rows[0] // unit * unit, min(count, ceil_div(rows[1], unit) * unit)


def groups_of_rows(groups: RowFold, rows: Rows, count: int) -> RowFold:
    """Return the row groups of an operation that computes only some of its `count` rows."""
    return RowFold(groups.count, groups.above if rows[0] == 0 else 0, groups.below if rows[1] == count else 0)
