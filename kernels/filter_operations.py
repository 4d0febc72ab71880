"""Operations that multiply by filters, and the last operation of a network.

Like program.py, the module contains plain data and does not import `nki`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from .convolution.forms import MOST_PRODUCTS, Form, combined_elements
from .convolution.row_blocks import RowBlocks
from .operation import NO_SIDES, Operation, Packing, Rows, Sides, Surroundings, aligned, groups_of_rows
from .operation_fields import (
    BOUNDS,
    IDENTITY,
    NO_ROW_FOLD,
    NO_WEIGHTS,
    ONE_COPY,
    Activation,
    Copies,
    Ending,
    Pair,
    RowFold,
    WeightsAt,
    with_fields,
)
from .output_order import OutputOrder
from .tiling.packing import Taps, ceil_div

GROUPED_TILES = 3  # row-group tiles of the input and output of a depthwise convolution: current, next and previous
FILTERING_BYTES = 16 * 1024  # bytes for the sums of minimal filtering before they are combined


@dataclass(frozen=True, kw_only=True)
class FilterOperation(Operation):
    """An operation that multiplies by filters; the biases start at column `bias` of the constants."""

    kernel: Pair = (1, 1)
    activation: Activation = IDENTITY
    weights: WeightsAt = NO_WEIGHTS
    bias: int = 0
    taps: Taps = field(default_factory=lambda: Taps(1, 1, 0))

    reads_hbm: ClassVar[bool] = True

    def fields_unplaced(self) -> dict[str, Any]:
        """See `Operation`."""
        return {"weights": with_fields(self.weights, loads=(), are_resident=False), "bias": 0}

    def count_constants(self, partitions: int) -> int:
        """Return the number of columns of constants that the operation uses."""
        raise NotImplementedError(f"{type(self).__name__} does not define its number of constants")

    @property
    def filtered(self) -> FilterOperation:
        """See `Operation`."""
        return self

    @property
    def filter_form(self) -> Form:
        """The form in which the filters are multiplied."""
        return Form.DIRECT

    @property
    def filter_groups(self) -> int:
        """The number of channel groups."""
        return 1

    @property
    def has_outputs_on_partitions(self) -> bool:
        """True if output channels, and thus their constants, are on the partitions."""
        return True

    def output_order(self, packed_in: int) -> OutputOrder:
        """Return the order of the outputs if `packed_in` images are packed in the input."""
        raise NotImplementedError(f"{type(self).__name__} does not define the order of its outputs")

    def output_tiles(self, packed_in: int, partitions: int) -> list[int]:
        """Return the number of channels of each output tile if `packed_in` images are packed in the input."""
        return self.output_order(packed_in).tile_sizes(partitions)


@dataclass(frozen=True, kw_only=True)
class Convolution(FilterOperation):
    """activation(maxpool(convolution + bias) + addend). The addend is the second operand, if there is one.

    `rows_at_once` is the number of output rows that the filters compute from one row group of the input. Each row has
    separate output tiles (`OutputOrder`). `group_bytes` is the number of bytes per partition for an input that is
    loaded from HBM in groups of rows or images (0 if it is loaded whole), or for the part of an input in SBUF that
    minimal filtering combines at a time. `bias` is the column of the constants that contains the biases of the first
    128 outputs. The biases are followed by the scales of the sums if the operation `is_scaled`, by three more columns
    if it also has an addend (`Epilogue` in convolution/sums.py), and by its `bounds`. `is_gate` is true if the value is
    one number per channel (operations/gates.py).
    """

    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    padding: Sides = NO_SIDES
    groups: int = 1
    pool_size: int = 1
    form: Form = Form.DIRECT
    copies: Copies = ONE_COPY
    row_fold: RowFold = NO_ROW_FOLD
    rows_at_once: int = 1
    group_bytes: int = 0
    is_gate: bool = False

    can_use_powers: ClassVar[bool] = True
    cuts_channels: ClassVar[bool] = True
    packing: ClassVar[Packing] = Packing.ANY
    cuts_rows: ClassVar[bool] = True
    writes_hbm: ClassVar[bool] = True

    def zeros_around(self, source: Operation) -> Sides:
        """See `Operation`."""
        return self.padding

    def widest_zeros(self, source: Operation) -> Sides:
        """See `Operation`. Minimal filtering computes an even number of rows and columns."""
        top, left, bottom, right = self.padding
        high, wide = self.outputs_at_once if self.can_be_combined else (0, 0)
        return top, left, bottom + high % 2, right + wide % 2

    @property
    def combines(self) -> bool:
        """See `Operation`. True if there is an addend."""
        return len(self.sources) > 1

    @property
    def can_be_combined(self) -> bool:
        """See `Operation`."""
        is_plain = max(*self.stride, *self.dilation, self.groups) == 1
        return self.kernel[1] == 3 and not self.weights.is_fp8 and is_plain

    @property
    def convolved(self) -> Convolution:
        """See `Operation`."""
        return self

    @property
    def copies_made(self) -> Copies:
        """See `Operation`."""
        return self.copies

    def whole_rows(self, rows: Rows) -> Rows:
        """See `Operation`."""
        is_squared = self.form.is_minimal and self.pool_size == 1
        return aligned(rows, self.rows_at_once * (2 if is_squared else 1), self.rows)

    def rows_read(self, rows: Rows) -> Rows:
        """See `Operation`."""
        start = rows[0] * self.pool_size // self.rows_at_once
        last = (rows[1] * self.pool_size - 1) // self.rows_at_once
        if self.form.is_minimal and rows[1] >= self.rows:  # minimal filtering computes an even number of rows
            last += self.rows * self.pool_size % 2
        top, reach = self.padding[0], (self.kernel[0] - 1) * self.dilation[0]
        return start * self.stride[0] - top, last * self.stride[0] - top + reach + 1

    def fields_of_rows(self, rows: Rows, padding: Sides, first: int) -> dict[str, Any]:
        """See `Operation`."""
        return {"padding": padding, "row_fold": groups_of_rows(self.row_fold, rows, self.rows)}

    def count_constants(self, partitions: int) -> int:
        """See `FilterOperation`."""
        return self.columns_of_constants * ceil_div(self.channels, partitions)

    def scratch_bytes(self, around: Surroundings) -> int:
        """See `Operation`. Counts diagonals, groups of rows, the loaded input, or combinations of minimal filtering."""
        if self.form is Form.MADE:
            return 2 * self.kernel[0] * self.kernel[1] * around.partitions * around.itemsize
        if self.form.is_elementwise:
            return 4 * (2 * MOST_PRODUCTS + 2 * around.images * self.rows * self.columns)
        if self.form.rows > 1:
            geometry, columns = self.row_blocks(around.partitions), around.operands[0][2]
            inputs = geometry.in_groups * (columns + self.padding[1] + self.padding[3])
            outputs = geometry.out_groups * self.columns
            return GROUPED_TILES * around.images * (inputs + outputs) * around.itemsize
        filtering = FILTERING_BYTES if self.form.is_minimal else 0
        if around.reads_hbm:
            return filtering + (self.group_bytes or around.loaded_bytes(self.padding))
        if not filtering:
            return 0
        elements = combined_elements(self.form, self.outputs_at_once, self.kernel[0])
        combined = around.tiles * around.images_read * elements * around.itemsize
        return filtering + 2 * min(self.group_bytes, combined)

    @property
    def outputs_at_once(self) -> Pair:
        """Numbers of rows and columns of each output channel that are computed together, before pooling."""
        return ceil_div(self.rows * self.pool_size, self.rows_at_once), self.columns * self.pool_size

    @property
    def filter_form(self) -> Form:
        """See `FilterOperation`."""
        return self.form

    @property
    def filter_groups(self) -> int:
        """See `FilterOperation`."""
        return self.groups

    @property
    def is_scaled(self) -> bool:
        """True if the sums are multiplied by scales because the weights or the value are stored in 8 bits."""
        return self.weights.is_fp8 or self.is_fp8

    @property
    def columns_of_constants(self) -> int:
        """Number of constant columns that 128 outputs need: bias, scales, and bounds."""
        scales = (1 if len(self.sources) == 1 else 4) if self.is_scaled else 0
        return 1 + scales + self.bounds

    @property
    def bounds(self) -> int:
        """Number of bounds of the activation that are columns of constants: per-channel bounds, and the bounds of a
        clip, which are divided by the scale of its value."""
        name = self.activation.name
        return BOUNDS.get(name, 2 if self.is_fp8 and name == "clip" else 0)

    def output_order(self, packed_in: int) -> OutputOrder:
        """Return the order of the outputs if `packed_in` images are packed in the input."""
        return OutputOrder(packed_in // self.packed, self.rows_at_once, self.packed, self.channels)

    def row_blocks(self, partitions: int) -> RowBlocks:
        """Return the row groups of a depthwise convolution whose form computes several rows together."""
        return RowBlocks(self.form.rows, self.kernel[0], self.stride[0], self.dilation[0], self.rows, partitions)


@dataclass(frozen=True, kw_only=True)
class ClassifierHead(Operation):
    """An operation that stores each image's values to HBM as scores, and finds the class with the largest score."""

    ending: Ending = Ending.RAW

    has_answers: ClassVar[bool] = True
    has_scores: ClassVar[bool] = True
    cuts_channels: ClassVar[bool] = False
    packing: ClassVar[Packing] = Packing.IN_ONE_PIECE
    cuts_rows: ClassVar[bool] = False

    def scratch_bytes(self, around: Surroundings) -> int:
        """See `Operation`. Counts the loaded scores in float32, and the stored scores."""
        return self.channels * (4 + 2 * around.itemsize)


@dataclass(frozen=True, kw_only=True)
class DenseHead(ClassifierHead, FilterOperation):
    """The last layer of a network: a dense layer with images on the partitions, and the argmax of its outputs.

    If `by_columns` is set (as it is for a single picture), classes are laid out along the partitions. The biases are
    then in columns of 128 classes each, followed by a column of partition numbers. Otherwise, `bias` is the column of
    the first class, and the scales of 8-bit weights follow the biases.
    """

    by_columns: bool = False

    cuts_channels: ClassVar[bool] = True

    @property
    def can_put_classes_on_partitions(self) -> bool:
        """See `Operation`."""
        return self.ending is Ending.RAW and self.activation.is_identity and not self.weights.is_fp8

    @property
    def has_outputs_on_partitions(self) -> bool:
        """See `FilterOperation`."""
        return self.by_columns

    def output_tiles(self, packed_in: int, partitions: int) -> list[int]:
        """See `FilterOperation`."""
        return [packed_in * self.channels]

    def count_constants(self, partitions: int) -> int:
        """See `FilterOperation`."""
        if self.by_columns:
            return ceil_div(self.channels, partitions) + 1
        return self.channels * (2 if self.weights.is_fp8 else 1)

    def scratch_bytes(self, around: Surroundings) -> int:
        """See `Operation`. Counts the loaded input."""
        return around.loaded_bytes(NO_SIDES) if around.reads_hbm else 0

    def output_order(self, packed_in: int) -> OutputOrder:
        """Return the order of the outputs if `packed_in` images are packed in the input."""
        return OutputOrder(1, 1, packed_in, self.channels)
