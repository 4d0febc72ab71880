"""Types for fields of operations: the location of values and weights, the padding of values, and the last step applied
to scores.

Like program.py, the module contains plain data and does not import `nki`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

ZERO_COLUMNS = 128  # columns of a warm-up matmul; few, so that matmuls that become ready need not wait long

Pair = tuple[int, int]  # (rows, columns)

T = TypeVar("T")


def with_fields(value: T, **fields: Any) -> T:
    """Return an operation, or another frozen dataclass without `__post_init__`, with some of its fields replaced.

    `dataclasses.replace` takes several times as long and would account for a tenth of the planning time.
    """
    copy = object.__new__(type(value))
    copy.__dict__.update(value.__dict__, **fields)
    if len(copy.__dict__) > len(value.__dict__):
        raise TypeError(f"{type(value).__name__} does not have all of the fields {', '.join(fields)}")
    return copy


class Memory(Enum):
    """The memory of a buffer."""

    SBUF = "sbuf"
    HBM = "hbm"
    OUTPUT = "output"  # in HBM, returned by the launch


@dataclass(frozen=True)
class Copies:
    """Copies of the only tile of a value on later partitions, for filters with several taps on the partition axis.

    Copy n starts at partition n * `stride` and is shifted up by n * `shift` rows.
    """

    count: int = 1
    shift: int = 0
    stride: int = 0


class Border(Enum):
    """The padding around a value: a constant, or rows and columns of the value."""

    NUMBER = "constant"
    EDGE = "edge"
    REFLECT = "reflect"
    WRAP = "wrap"

    def position(self, outside: int, extent: int) -> int:
        """Return the index of the row or column, out of `extent`, that fills the position `outside`, which is not in
        [0, extent)."""
        if self is Border.EDGE:
            return min(max(outside, 0), extent - 1)
        if self is Border.WRAP:
            return outside % extent
        return -outside if outside < 0 else 2 * (extent - 1) - outside


@dataclass(frozen=True)
class RowFold:
    """A layout with groups of `count` rows of an image on the partitions, ordered (image, row of the group, channel).

    The first group starts with `above` rows, and the last group ends with `below` rows, that are outside the image.
    These rows are zero.
    """

    count: int = 1
    above: int = 0
    below: int = 0


@dataclass(frozen=True)
class WriteRegion:
    """The region of a buffer that an operation writes.

    It starts at `first` (row, column) and at tile `tile`, in steps of `step`. For `Rearrange`, it starts at element
    `number` of each image in HBM.
    """

    buffer: int
    first: tuple[int, int] = (0, 0)
    step: tuple[int, int] = (1, 1)
    tile: int = 0
    number: int = 0


@dataclass(frozen=True)
class Unit:
    """The weights of an input tile for an output tile: `elements` per partition, starting at `first` in their load."""

    out_tile: int
    in_tile: int
    first: int
    elements: int
    # the unit contains one number per channel and matrix, which the chip expands to diagonal matrices
    is_diagonal: bool = False


@dataclass(frozen=True)
class WeightRun:
    """One DMA of weights: `elements` on each of `rows` partitions, starting at `offset` in the array of weights."""

    offset: int
    rows: int
    elements: int

    @property
    def numbers(self) -> int:
        """Total number of weights, including zeros on partitions that some loads of the run leave unused."""
        return self.rows * self.elements

    @property
    def end(self) -> int:
        """The position after its last weight."""
        return self.offset + self.numbers


@dataclass(frozen=True)
class WeightLoad:
    """Weights that are loaded together: `elements` on each of `rows` partitions, starting at element `first` of each
    partition of `run`.

    The first output tile that needs its units is `out_tile`.
    """

    out_tile: int
    rows: int
    units: tuple[Unit, ...]
    # the DMA that fetches the weights, which small loads share; empty until a position is assigned
    run: WeightRun = WeightRun(0, 0, 0)
    first: int = 0

    @property
    def elements(self) -> int:
        """Number of weights on each partition."""
        return sum(unit.elements for unit in self.units)

    @property
    def numbers(self) -> int:
        """Total number of weights."""
        return self.rows * self.elements

    @property
    def is_shared(self) -> bool:
        """True if other loads share its DMA."""
        return self.run.elements > self.elements


@dataclass(frozen=True)
class WeightsAt:
    """The weights of an operation, described by the loads that fetch them, in the order in which output tiles need
    them.
    """

    loads: tuple[WeightLoad, ...] = ()
    are_resident: bool = False  # whether the weights are loaded once per stage and stay in SBUF
    # whether the weights are in 8 bits, divided by a scale for each output channel; they are then loaded from the array
    # of 8-bit weights
    is_fp8: bool = False


ONE_COPY, NO_ROW_FOLD, NO_WEIGHTS = Copies(), RowFold(), WeightsAt()


@dataclass(frozen=True)
class Activation:
    """An elementwise function, named as in `activation_functions.activate`, and its parameters."""

    name: str = "identity"
    parameters: tuple[float, ...] = ()

    @property
    def is_identity(self) -> bool:
        """True if the activation leaves its input unchanged."""
        return self.name == "identity"

    @property
    def keeps_zero(self) -> bool:
        """True if the activation maps 0 to 0."""
        return self.name in ("identity", "relu", "silu")


IDENTITY = Activation()

# activations with bounds for each channel, and how many: the larger of x and a bound, and x clipped to two bounds
BOUNDS = {"at_least": 1, "within": 2}


class Ending(Enum):
    """The last step, applied to scores."""

    RAW = ""
    SOFTMAX = "softmax"
    LOG_SOFTMAX = "log_softmax"
