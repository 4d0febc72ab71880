"""Operations that reduce windows: plain data without `nki`, like program.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from .operation import NO_SIDES, Operation, Packing, Rows, Sides, groups_of_rows
from .operation_fields import NO_ROW_FOLD, ONE_COPY, Copies, Pair, RowFold


@dataclass(frozen=True, kw_only=True)
class Pool(Operation):
    """The base class of `MaxPool` and `AveragePool`, which reduce windows of rows and columns."""

    kernel: Pair
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    padding: Sides = NO_SIDES
    ceil_mode: bool = False

    cuts_channels: ClassVar[bool] = False
    packing: ClassVar[Packing] = Packing.ANY
    cuts_rows: ClassVar[bool] = True

    def can_cut_rows(self, window: Pair) -> bool:
        """Return True unless the value has one row, or a window covers the whole operand."""
        return self.rows > 1 and self.kernel != window

    def folds_all(self, window: Pair) -> bool:
        """See `Operation`."""
        return self.kernel == window and not any(self.padding)

    def rows_read(self, rows: Rows) -> Rows:
        """See `Operation`."""
        first, end = (row * self.stride[0] - self.padding[0] for row in (rows[0], rows[1] - 1))
        return first, end + (self.kernel[0] - 1) * self.dilation[0] + 1

    def fields_of_rows(self, rows: Rows, padding: Sides, first: int) -> dict[str, Any]:
        """See `Operation`."""
        return {"padding": padding}


@dataclass(frozen=True, kw_only=True)
class MaxPool(Pool):
    """Maxima over windows."""

    def zeros_around(self, source: Operation) -> Sides:
        """See `Operation`. If columns are in phases, the result covers all columns that the windows read."""
        return self.reached(source.rows, source.columns) if source.column_phases > 1 else NO_SIDES

    def reached(self, rows: int, columns: int) -> Sides:
        """Return how many rows and columns around an image the windows read."""
        sizes = [
            (outputs - 1) * stride - before + (kernel - 1) * dilation + 1 - extent
            for outputs, stride, before, kernel, dilation, extent in zip(
                (self.rows, self.columns), self.stride, self.padding[:2], self.kernel, self.dilation, (rows, columns)
            )
        ]
        top, left, _, _ = self.padding
        return top, left, max(0, sizes[0]), max(0, sizes[1])

    @property
    def folded(self) -> MaxPool:
        """See `Operation`."""
        return self


@dataclass(frozen=True, kw_only=True)
class AveragePool(Pool):
    """Means over windows, or sums if `is_sum`. Means count only elements of the image, or also the padding."""

    count_include_pad: bool = False
    is_sum: bool = False

    is_mean: ClassVar[bool] = True

    @property
    def averaged(self) -> AveragePool:
        """See `Operation`."""
        return self

    def can_cut_rows(self, window: Pair) -> bool:
        """Return False if means at the border cover fewer elements, since their number depends on the position of the
        row."""
        counts_unevenly = self.ceil_mode or (any(self.padding) and not self.count_include_pad)
        return super().can_cut_rows(window) and not counts_unevenly


@dataclass(frozen=True, kw_only=True)
class RowFoldPool(Operation):
    """Maxima over windows of nonnegative numbers whose rows are in groups of two.

    `start` is the row of the first tap of the first output, counted in the groups of the input. `offset` is the number
    of rows above the image in the first group of the output, or -1 if rows are not grouped. `image_rows` is the number
    of output rows that are inside the image.
    """

    kernel: Pair
    stride: Pair
    dilation: Pair
    padding: Sides
    start: int
    offset: int
    image_rows: int
    row_fold: RowFold = NO_ROW_FOLD
    copies: Copies = ONE_COPY  # copies of the output on later partitions

    cuts_channels: ClassVar[bool] = True
    packing: ClassVar[Packing] = Packing.ANY
    cuts_rows: ClassVar[bool] = True

    def zeros_around(self, source: Operation) -> Sides:
        """See `Operation`."""
        return self.padding

    def reached(self, rows: int, columns: int) -> Sides:
        """Return how many rows and columns around an image the windows read."""
        return self.padding

    @property
    def folded(self) -> RowFoldPool:
        """See `Operation`."""
        return self

    @property
    def copies_made(self) -> Copies:
        """See `Operation`."""
        return self.copies

    def rows_read(self, rows: Rows) -> Rows:
        """See `Operation`."""
        image = rows
        if self.offset >= 0:
            first, end = (2 * row - self.offset for row in rows)
            image = max(0, first), min(self.image_rows, end)
        return self.start // 2 + image[0], (self.start + self.kernel[0] - 1) // 2 + image[1]

    def fields_of_rows(self, rows: Rows, padding: Sides, first: int) -> dict[str, Any]:
        """See `Operation`."""
        base = rows[0] if self.offset < 0 else 2 * rows[0]
        return {
            "padding": padding,
            "row_fold": groups_of_rows(self.row_fold, rows, self.rows),
            "start": self.start + 2 * (base - first),
            "image_rows": rows[1] - rows[0] if self.offset < 0 else self.image_rows - base,
        }
