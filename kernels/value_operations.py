"""Operations that combine, scale, normalize or move values: plain data without `nki`, like program.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from .operation import Operation, Packing, Rows, Sides, Surroundings, aligned
from .operation_fields import IDENTITY, Activation, Border, Pair
from .tiling.packing import ceil_div

SEARCHED_BYTES = 8 * 1024  # bytes of a partition that hold the pixels whose classes are determined together


def products_bytes(operation: Operation, around: Surroundings) -> int:
    """Return the bytes per partition of two float32 copies of an operation's value, or 0 if it writes to a buffer."""
    if operation.into is not None:
        return 0
    top, _, bottom, _ = operation.margin
    return 8 * around.tiles * around.images * (operation.rows + top + bottom) * operation.columns_held


@dataclass(frozen=True, kw_only=True)
class Combine(Operation):
    """activation(first `arithmetic` second). The second operand may have a single row or column, which is repeated."""

    arithmetic: str = "add"
    activation: Activation = IDENTITY

    can_use_powers: ClassVar[bool] = True
    cuts_channels: ClassVar[bool] = False
    packing: ClassVar[Packing] = Packing.ANY
    cuts_rows: ClassVar[bool] = True

    @property
    def combines(self) -> bool:
        """See `Operation`."""
        return True

    @property
    def is_product(self) -> bool:
        """See `Operation`."""
        return self.arithmetic == "multiply"

    @property
    def adds(self) -> bool:
        """See `Operation`."""
        return self.arithmetic == "add" and self.activation.keeps_zero

    def scratch_bytes(self, around: Surroundings) -> int:
        """See `Operation`: products in float32."""
        return products_bytes(self, around)


@dataclass(frozen=True, kw_only=True)
class Numbered(Operation):
    """An operation with constants for each channel or element, which start at column `constants`.

    `is_scaled` is False if all scales are 1 and all shifts are 0. The operation then has no constants.
    """

    constants: int = 0
    is_scaled: bool = True

    def fields_unplaced(self) -> dict[str, Any]:
        """See `Operation`."""
        return {"constants": 0}

    @property
    def numbered(self) -> Numbered:
        """See `Operation`."""
        return self


@dataclass(frozen=True, kw_only=True)
class Scaling(Numbered):
    """A multiplication by numbers for each channel or, if `by_element`, for each element of an image."""

    by_element: bool = False

    cuts_channels: ClassVar[bool] = False
    packing: ClassVar[Packing] = Packing.ANY
    cuts_rows: ClassVar[bool] = True

    def scratch_bytes(self, around: Surroundings) -> int:
        """See `Operation`: products in float32."""
        return products_bytes(self, around)

    def can_cut_rows(self, window: Pair) -> bool:
        """Return True unless the value has one row, or the constants differ by element."""
        return self.rows > 1 and not self.by_element


@dataclass(frozen=True, kw_only=True)
class Affine(Scaling):
    """activation(x * scale + shift). With the activation "within", x is limited to [scale, shift] instead.

    The constants start at column `constants`: the scale and the shift of each tile of channels, alternating.
    """

    activation: Activation = IDENTITY

    can_use_powers: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class Slope(Scaling):
    """x, or x * slope where x < 0; the slopes start at column `constants`."""


@dataclass(frozen=True, kw_only=True)
class Norm(Numbered):
    """(x - mean) / sqrt(variance + epsilon) * scale + shift. The constants are arranged as in `Affine`."""

    epsilon: float = 1e-5

    cuts_channels: ClassVar[bool] = False
    packing: ClassVar[Packing] = Packing.IN_ONE_PIECE
    cuts_rows: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class LayerNorm(Norm):
    """A normalization that uses the statistics of each pixel over its channels.

    If `is_centred`, the mean of the operand's channels is zero at each pixel.
    """

    is_centred: bool = False

    cuts_rows: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class GroupNorm(Norm):
    """A normalization that uses the statistics of each group of channels over an image."""

    groups: int = 1


@dataclass(frozen=True, kw_only=True)
class ChannelSoftmax(Operation):
    """Softmax of each pixel, or its logarithm, over axis `length` of its channels, viewed as [outer, length, inner]."""

    length: int
    inner: int = 1
    log: bool = False

    cuts_channels: ClassVar[bool] = False
    packing: ClassVar[Packing] = Packing.IN_ONE_PIECE
    cuts_rows: ClassVar[bool] = True

    def scratch_bytes(self, around: Surroundings) -> int:
        """See `Operation`. Counts the double-buffered differences, exponentials and shares of some pixels."""
        return 6 * max(around.bank_bytes, 4 * around.tiles * around.partitions)


@dataclass(frozen=True, kw_only=True)
class RowSoftmax(Operation):
    """Softmax over the columns of each row, or its logarithm."""

    log: bool = False

    cuts_channels: ClassVar[bool] = False
    packing: ClassVar[Packing] = Packing.ANY
    cuts_rows: ClassVar[bool] = True

    def scratch_bytes(self, around: Surroundings) -> int:
        """See `Operation`. Counts the double-buffered differences and exponentials of some rows."""
        return 4 * max(2 * around.bank_bytes, 4 * self.columns)


@dataclass(frozen=True, kw_only=True)
class LocalResponseNorm(Operation):
    """x / (bias + alpha / size * sum of the squares of the `size` surrounding channels) ** beta."""

    size: int
    alpha: float
    beta: float
    bias: float

    cuts_channels: ClassVar[bool] = False
    packing: ClassVar[Packing] = Packing.NONE
    cuts_rows: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class Pad(Operation):
    """Padding with rows and columns of `value`, or of the operand as `border` specifies.

    Negative `padding` crops the operand.
    """

    padding: Sides
    value: float = 0.0
    border: Border = Border.NUMBER

    cuts_channels: ClassVar[bool] = False
    packing: ClassVar[Packing] = Packing.ANY
    cuts_rows: ClassVar[bool] = True

    def can_cut_rows(self, window: Pair) -> bool:
        """Return True unless the padding wraps around to rows from the opposite border."""
        return self.rows > 1 and self.border is not Border.WRAP

    def whole_rows(self, rows: Rows) -> Rows:
        """Extend rows at the border to include the image rows that the border copies."""
        first, end = rows
        own = 1 if self.border is Border.NUMBER else 2
        above, below = (side * own + 1 if side > 0 else 0 for side in self.padding[::2])
        if first < above:
            first, end = 0, max(end, above)
        if end > self.rows - below:
            first, end = min(first, self.rows - below), self.rows
        return max(0, first), min(self.rows, end)

    def rows_read(self, rows: Rows) -> Rows:
        """See `Operation`."""
        return rows[0] - self.padding[0], rows[1] - self.padding[0]

    def fields_of_rows(self, rows: Rows, padding: Sides, first: int) -> dict[str, Any]:
        """See `Operation`."""
        return {"padding": padding}


@dataclass(frozen=True, kw_only=True)
class PixelShuffle(Operation):
    """Pixel shuffle: operand n becomes every `step`-th row and column, starting at (n // step[1], n % step[1])."""

    step: Pair

    cuts_channels: ClassVar[bool] = False
    packing: ClassVar[Packing] = Packing.ANY
    cuts_rows: ClassVar[bool] = True

    @property
    def step_between(self) -> Pair:
        """See `Operation`."""
        return self.step

    def operand_rows(self, operand: int, own: Rows, read: Rows) -> Rows:
        """See `Operation`. All operands have the same rows."""
        return read

    def whole_rows(self, rows: Rows) -> Rows:
        """See `Operation`."""
        return aligned(rows, self.step[0], self.rows)

    def rows_read(self, rows: Rows) -> Rows:
        """See `Operation`."""
        return rows[0] // self.step[0], ceil_div(rows[1], self.step[0])


@dataclass(frozen=True, kw_only=True)
class Beside(Operation):
    """A single row that contains the pixels of operand n, row by row, starting at column `starts[n]`, and zeros in all
    other columns."""

    starts: tuple[int, ...]
    activation: Activation = IDENTITY

    cuts_channels: ClassVar[bool] = False
    packing: ClassVar[Packing] = Packing.ANY
    cuts_rows: ClassVar[bool] = False

    @property
    def joins_columns(self) -> bool:
        """See `Operation`."""
        return self.activation.is_identity


@dataclass(frozen=True, kw_only=True)
class PixelArgmax(Operation):
    """A class map in HBM, int32: the channel with the largest value at each pixel (the first, if several are equal)."""

    has_answers: ClassVar[bool] = True
    reads_hbm: ClassVar[bool] = True
    cuts_channels: ClassVar[bool] = True
    packing: ClassVar[Packing] = Packing.IN_ONE_PIECE
    cuts_rows: ClassVar[bool] = False

    def scratch_bytes(self, around: Surroundings) -> int:
        """Return the SBUF bytes for the pixels of all channels and for their double-buffered loads; see `Operation`."""
        return 2 * SEARCHED_BYTES * (1 + (around.tiles if around.reads_hbm else 0))


@dataclass(frozen=True, kw_only=True)
class Rearrange(Operation):
    """The elements of each image, starting at `first`, reshaped to `split` and transposed to `order`."""

    split: tuple[int, ...]
    order: tuple[int, ...]
    first: int = 0

    writes_hbm: ClassVar[bool] = True
    moves_numbers: ClassVar[bool] = True
    cuts_channels: ClassVar[bool] = True
    packing: ClassVar[Packing] = Packing.IN_ONE_PIECE
    cuts_rows: ClassVar[bool] = False

    def keeps_numbers(self, count: int) -> bool:
        """See `Operation`."""
        return self.order == (0,) and self.split == (count,)
