"""Places of an operation's value and weights in a program, their surroundings, and how values end.

Plain data without `nki`, as in program.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from .tensor_names import OpId

ZERO_COLUMNS = 128  # of a matmul of zeros that keeps the clock up: what waits for other engines waits for few of them

Pair = tuple[int, int]  # (rows, columns)


class Memory(Enum):
    """Memory of a room."""

    SBUF = "sbuf"
    HBM = "hbm"
    OUTPUT = "output"  # HBM that the launch returns


@dataclass(frozen=True)
class Copies:
    """Copies of a value's only tile further down the partitions, for filters whose taps share them.

    Copy n begins at partition n * `stride` and is moved up by n * `shift` rows.
    """

    count: int = 1
    shift: int = 0
    stride: int = 0


class Border(Enum):
    """The surroundings of a padded value: a number, or rows and columns of its own."""

    NUMBER = "constant"
    EDGE = "edge"
    REFLECT = "reflect"
    WRAP = "wrap"

    def position(self, outside: int, extent: int) -> int:
        """Return which of `extent` rows or columns is at a position `outside` of [0, extent)."""
        if self is Border.EDGE:
            return min(max(outside, 0), extent - 1)
        if self is Border.WRAP:
            return outside % extent
        return -outside if outside < 0 else 2 * (extent - 1) - outside


@dataclass(frozen=True)
class RowGroups:
    """Rows of an image in groups of `count` on the partitions: (image, row of the group, channel).

    The first group begins with `above` rows that are not of the image, the last ends with `below`; they are zeros.
    """

    count: int = 1
    above: int = 0
    below: int = 0


@dataclass(frozen=True)
class Place:
    """Place that an operation writes: a room, from `first` (row, column) on in steps of `step`, and from tile `tile`
    on."""

    room: int
    first: tuple[int, int] = (0, 0)
    step: tuple[int, int] = (1, 1)
    tile: int = 0


@dataclass(frozen=True)
class Unit:
    """Weights of an input tile for an output tile: `elements` of a partition, from `first` on in their load.

    `is_diagonal`: they are a number for each channel and matrix, of which the chip makes diagonal matrices.
    """

    out_tile: int
    in_tile: int
    first: int
    elements: int
    is_diagonal: bool = False


@dataclass(frozen=True)
class WeightLoad:
    """One DMA of weights: `elements` on each of `rows` partitions, from number `offset` on in the array of weights.

    Output tiles from `out_tile` on need its units.
    """

    out_tile: int
    rows: int
    units: tuple[Unit, ...]
    offset: int = 0

    @property
    def elements(self) -> int:
        """Weights on each partition."""
        return sum(unit.elements for unit in self.units)

    @property
    def numbers(self) -> int:
        """All weights."""
        return self.rows * self.elements


@dataclass(frozen=True)
class WeightsAt:
    """Weights of an operation: the loads that bring them, in the order in which output tiles need them.

    If they `stay`, they are loaded once in a stage. If they are `narrow`, they are in 8 bits, as shares of a scale for
    each output channel, and their loads are of the array of such weights.
    """

    loads: tuple[WeightLoad, ...] = ()
    stay: bool = False
    narrow: bool = False


ONE_COPY, NO_ROW_GROUPS, NO_WEIGHTS = Copies(), RowGroups(), WeightsAt()


@dataclass(frozen=True)
class Activation:
    """An elementwise function, by the names of `activation_functions.activate`, and its numbers."""

    name: str = "identity"
    parameters: tuple[float, ...] = ()

    @property
    def is_identity(self) -> bool:
        """True if it changes nothing."""
        return self.name == "identity"


IDENTITY = Activation()


class Ending(Enum):
    """The last step of scores."""

    RAW = ""
    SOFTMAX = "softmax"
    LOG_SOFTMAX = "log_softmax"


@dataclass(frozen=True)
class EarlyLoad:
    """A load of weights, number `load` of those of `operation`, that comes before an earlier operation."""

    operation: OpId
    load: int
