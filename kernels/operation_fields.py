"""The places of an operation's value and weights in a program, the padding of values, and the last step of scores.

Plain data without `nki`, like program.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from .tensor_names import OpId

ZERO_COLUMNS = 128  # columns of a warm-up matmul of zeros: few, so that work that becomes ready does not wait long

Pair = tuple[int, int]  # (rows, columns)


class Memory(Enum):
    """Memory of a buffer."""

    SBUF = "sbuf"
    HBM = "hbm"
    OUTPUT = "output"  # in HBM, returned by the launch


@dataclass(frozen=True)
class Copies:
    """Copies of a value's only tile further down the partitions, for filters with several taps on the partitions.

    Copy n starts at partition n * `stride` and is shifted up by n * `shift` rows.
    """

    count: int = 1
    shift: int = 0
    stride: int = 0


class Border(Enum):
    """The padding around a value: a number, or rows and columns of the value itself."""

    NUMBER = "constant"
    EDGE = "edge"
    REFLECT = "reflect"
    WRAP = "wrap"

    def position(self, outside: int, extent: int) -> int:
        """Return which of `extent` rows or columns fills a position `outside` of [0, extent)."""
        if self is Border.EDGE:
            return min(max(outside, 0), extent - 1)
        if self is Border.WRAP:
            return outside % extent
        return -outside if outside < 0 else 2 * (extent - 1) - outside


@dataclass(frozen=True)
class RowFold:
    """Rows of an image on the partitions in groups of `count`: (image, row of the group, channel).

    The first group starts with `above` rows, and the last ends with `below` rows, that are not part of the image and
    zero.
    """

    count: int = 1
    above: int = 0
    below: int = 0


@dataclass(frozen=True)
class WriteRegion:
    """The region that an operation writes: a buffer from `first` (row, column) on in steps of `step`, and from tile
    `tile` on."""

    buffer: int
    first: tuple[int, int] = (0, 0)
    step: tuple[int, int] = (1, 1)
    tile: int = 0


@dataclass(frozen=True)
class Unit:
    """Weights of an input tile for an output tile: `elements` of a partition, from `first` on in their load.

    `rows`: the partitions that they are on, of those of the load; the others have zeros.
    `is_diagonal`: one number for each channel and matrix, expanded to diagonal matrices on the chip.
    """

    out_tile: int
    in_tile: int
    first: int
    elements: int
    rows: int
    is_diagonal: bool = False


@dataclass(frozen=True)
class WeightLoad:
    """One DMA of weights: `elements` on each of `rows` partitions, from position `offset` in the array of weights.

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
    """The weights of an operation: the loads that bring them, in the order in which output tiles need them.

    `are_resident`: loaded once in a stage, and kept in SBUF. `is_fp8`: in 8 bits, divided by a scale for each output
    channel, and loaded from the array of 8-bit weights.
    """

    loads: tuple[WeightLoad, ...] = ()
    are_resident: bool = False
    is_fp8: bool = False


ONE_COPY, NO_ROW_FOLD, NO_WEIGHTS = Copies(), RowFold(), WeightsAt()


@dataclass(frozen=True)
class Activation:
    """An elementwise function, named as in `activation_functions.activate`, and its parameters."""

    name: str = "identity"
    parameters: tuple[float, ...] = ()

    @property
    def is_identity(self) -> bool:
        """True if it changes nothing."""
        return self.name == "identity"


IDENTITY = Activation()


class Ending(Enum):
    """The last step after scores."""

    RAW = ""
    SOFTMAX = "softmax"
    LOG_SOFTMAX = "log_softmax"


@dataclass(frozen=True)
class Prefetch:
    """Weight load number `load` of `operation`, issued before an earlier operation."""

    operation: OpId
    load: int
