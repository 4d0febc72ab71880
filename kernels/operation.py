"""The operation of a program, what may be asked of any, and operations that only move or hold a value.

Plain data without `nki`, as in program.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from .places import ONE_COPY, Copies, Memory, Pair, Place, RowGroups
from .tiling.column_phases import ColumnPhases
from .tiling.packing import ceil_div

if TYPE_CHECKING:
    from .filter_operations import Filtered
    from .value_operations import Numbered

Sides = tuple[int, int, int, int]  # (top, left, bottom, right)
Parts = tuple[int, ...]  # operations whose channels follow one another; inputs of the launch are below 0
Rows = tuple[int, int]  # [first, end)
Windows = tuple[Pair | None, ...]  # of each part, rows [first, end), None for all

NO_SIDES: Sides = (0, 0, 0, 0)


class Packing(Enum):
    """The packed images that an operation can read."""

    ANY = "any"
    IN_ONE_PIECE = "in one piece"  # the channels of an image follow one another
    NONE = "none"


@dataclass(frozen=True)
class Surroundings:
    """Surroundings of an operation in a launch, on which the memory that it takes beside its value depends.

    `images`: along the free axis of its value, `images_read` of its first operand, `at_once` of the input. `tiles`: of
    the first operand. `operands`: (channels, rows, columns) of each. `reads_hbm`: the first is in HBM. `itemsize`:
    bytes of a number. `partitions`, `bank_bytes`: of the chip, those of a bank of PSUM.
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
        """Return the bytes of a partition that the first operand takes as a whole, with zeros around it."""
        _, rows, columns = self.operands[0]
        high, wide = rows + padding[0] + padding[2], columns + padding[1] + padding[3]
        return self.tiles * self.at_once * high * wide * self.itemsize


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One step of a program; its value is [channels, rows, columns] for each image.

    `name` is the layer it belongs to. `sources`: the parts of each operand. `windows`: of each part of each operand the
    rows [first, end) that it reads, None for all. `margin`: zeros around its value, for the operations that read it.
    `into`: a room that it writes to, in place of one of its own. `narrow`: its value is in 8 bits, as shares of a scale
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
    into: Place | None = None
    narrow: bool = False
    column_phases: int = 1

    # Answers that every kind gives. One without fails tests/kernels/test_program.py, by its name.
    cuts_channels: ClassVar[bool]  # its value has tiles of its own, not those of its first operand
    mixes_channels: ClassVar[bool]  # what it computes of a channel depends on others of its first operand
    packing: ClassVar[Packing]  # of the images of its first operand

    is_load: ClassVar[bool] = False  # its value is in HBM already, and comes into SBUF
    has_answers: ClassVar[bool] = False  # scores and classes in HBM, which the launch returns

    def can_cut_rows(self, window: Pair) -> bool:
        """Return True if it can compute some rows of its value alone, of an operand of `window` (rows, columns)."""
        raise NotImplementedError(f"{type(self).__name__} does not say whether its rows can be cut")

    def whole_rows(self, rows: Rows) -> Rows:
        """Return the rows that it computes where `rows` are asked for: all that it can only compute together."""
        return rows

    def rows_read(self, rows: Rows) -> Rows:
        """Return the rows of its first operand that it reads for some rows; those outside of it are padding."""
        return rows

    def fields_of_rows(self, rows: Rows, padding: Sides, first: int) -> dict[str, Any]:
        """Return the fields that an operation for some of its rows has, beside rows and margin.

        `padding`: of it, for these rows. `first`: the first row that there is of its operand.
        """
        return {}

    def operand_rows(self, operand: int, own: Rows, read: Rows) -> Rows:
        """Return the rows of an operand that it reads for `own` rows of its value, `read` being those of the first."""
        return read if operand == 0 else own

    def fields_unplaced(self) -> dict[str, Any]:
        """Return the fields that it has before weights and constants have places."""
        return {}

    def keeps_numbers(self, count: int) -> bool:
        """Return True if its value is the `count` numbers of its operand as they are in HBM, whatever its shape."""
        return False

    def scratch_bytes(self, around: Surroundings) -> int:
        """Return about the bytes of a partition that it takes beside its value, its weights and what all take."""
        return 0

    @property
    def filtered(self) -> Filtered | None:
        """The operation, if it multiplies by filters."""
        return None

    @property
    def numbered(self) -> Numbered | None:
        """The operation, if it has numbers for each channel or element."""
        return None

    @property
    def columns_held(self) -> int:
        """Columns of a row in SBUF, with the zeros around them."""
        return ColumnPhases(self.column_phases, self.columns, self.margin[1], self.margin[3]).total

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, rows and columns of an image."""
        return self.channels, self.rows, self.columns


@dataclass(frozen=True, kw_only=True)
class Room(Operation):
    """Memory that other operations write to, for the images of a pass or, `whole_batch`, of the launch.

    `heights`: partitions of each tile of one in SBUF, as the operations that write it have them.
    """

    memory: Memory = Memory.SBUF
    whole_batch: bool = False
    heights: tuple[int, ...] = ()
    copies: Copies = ONE_COPY

    cuts_channels: ClassVar[bool] = False
    mixes_channels: ClassVar[bool] = False
    packing: ClassVar[Packing] = Packing.ANY

    def can_cut_rows(self, window: Pair) -> bool:
        """Return False."""
        return False


@dataclass(frozen=True, kw_only=True)
class Resident(Operation):
    """A value whose numbers do not matter and that is in SBUF already: to time the operations that read it.

    `heights`: partitions of each tile.
    """

    heights: tuple[int, ...]
    copies: Copies = ONE_COPY

    cuts_channels: ClassVar[bool] = False
    mixes_channels: ClassVar[bool] = False
    packing: ClassVar[Packing] = Packing.ANY

    def can_cut_rows(self, window: Pair) -> bool:
        """Return False."""
        return False


@dataclass(frozen=True, kw_only=True)
class Load(Operation):
    """A value in HBM, as it is, into SBUF."""

    is_load: ClassVar[bool] = True
    cuts_channels: ClassVar[bool] = False
    mixes_channels: ClassVar[bool] = False
    packing: ClassVar[Packing] = Packing.ANY

    def keeps_numbers(self, count: int) -> bool:
        """See `Operation`."""
        return True

    def can_cut_rows(self, window: Pair) -> bool:
        """Return True if there are several."""
        return self.rows > 1


@dataclass(frozen=True, kw_only=True)
class TapsLoad(Operation):
    """A small image that comes with its zeros, once for each filter column: (image, filter column, channel) on the
    partitions, and copies of that for filter rows.

    The filter reads `kernel_columns` columns, `dilation` apart. `fills`: one DMA brings all copies, up to the next.
    """

    kernel_columns: int
    dilation: int = 1
    fills: bool = False
    copies: Copies = ONE_COPY

    is_load: ClassVar[bool] = True
    cuts_channels: ClassVar[bool] = True
    mixes_channels: ClassVar[bool] = False
    packing: ClassVar[Packing] = Packing.ANY

    def can_cut_rows(self, window: Pair) -> bool:
        """Return False."""
        return False


@dataclass(frozen=True, kw_only=True)
class Store(Operation):
    """A value in SBUF into a room in HBM."""

    cuts_channels: ClassVar[bool] = False
    mixes_channels: ClassVar[bool] = False
    packing: ClassVar[Packing] = Packing.ANY

    def can_cut_rows(self, window: Pair) -> bool:
        """Return False."""
        return False


def aligned(rows: Rows, unit: int, count: int) -> Rows:
    """Return rows from a multiple of `unit` to one, or to the end of all."""
    return rows[0] // unit * unit, min(count, ceil_div(rows[1], unit) * unit)


def groups_of_rows(groups: RowGroups, rows: Rows, count: int) -> RowGroups:
    """Return the row groups of an operation for some of its `count` rows."""
    return RowGroups(groups.count, groups.above if rows[0] == 0 else 0, groups.below if rows[1] == count else 0)
