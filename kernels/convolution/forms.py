"""The convolution algorithms ("forms"), and the sizes of their operands. The forms of 3x3 filters are:

    direct    9 matmuls over all output columns
    pairs     12 matmuls over half of the columns: two thirds of the work (pairs.py)
    squares   16 matmuls over a quarter of the outputs: four ninths of the work (squares.py)

Minimal filtering (pairs, squares) needs fewer matmuls but more additions: on the input, once for all output channels,
and on the sums of each tile of output channels. With many channels, matmuls hide the latency of these additions,
especially in float32, in which a column takes four cycles.

Minimal filtering has larger errors than the direct form: in float32 by a factor of 1.3 (pairs) or 1.7 (squares), and in
16-bit formats, to which combinations are rounded, by a factor of 1.9 (pairs). Squares are not used with 16-bit values,
because the errors would be two and a half times as large, and the Vector Engine would lose more time than the Tensor
Engine would save (docs/convolutions.md). In float16 the sum of two inputs must not overflow.

In networks, depthwise filters of any size have additional forms. "Rows of 2" and "rows of 4" (row_blocks.py) compute
the same products and sums as the direct form, with the same errors. For filters with many taps, diagonal matrices can
be generated on the chip from one number for each channel and tap instead of being loaded. For small images, the Vector
Engine and GpSimd multiply elementwise: each input pixel for each output pixel ("products"), or the windows of the
image with one row of the filter at a time ("row products").

This module is pure arithmetic and does not import `nki`: the host chooses the form according to predicted times
(`lowering/`).
"""

from __future__ import annotations

from enum import Enum

from ..tiling.packing import ceil_div, round_up


class Form(str, Enum):
    """A convolution algorithm, as described in the module's docstring."""

    DIRECT = "direct"
    PAIRS = "pairs"
    SQUARES = "squares"
    ROWS_2 = "rows of 2"
    ROWS_4 = "rows of 4"
    MADE = "made diagonals"
    PRODUCTS = "products"
    ROW_PRODUCTS = "row products"

    def __str__(self) -> str:
        return self.value

    @property
    def is_minimal(self) -> bool:
        """True for minimal filtering."""
        return self in (Form.PAIRS, Form.SQUARES)

    @property
    def is_elementwise(self) -> bool:
        """True if the Vector Engine multiplies, with a number for each channel and factor instead of a matrix."""
        return self in (Form.PRODUCTS, Form.ROW_PRODUCTS)

    @property
    def rows(self) -> int:
        """Number of rows of a channel that share the partition axis, for depthwise filters only (row_blocks.py)."""
        return {Form.ROWS_2: 2, Form.ROWS_4: 4}.get(self, 1)


QUICKEST = "quickest"  # a kernel argument that lets the kernel choose the form
FORMS = (QUICKEST, Form.DIRECT.value, *(form.value for form in Form if form.is_minimal))
ROW_BLOCKS = tuple(form for form in Form if form.rows > 1)
DEPTHWISE = (*ROW_BLOCKS, Form.MADE, Form.PRODUCTS, Form.ROW_PRODUCTS)
MOST_PRODUCTS = 2048  # elements of a partition that are multiplied together
RESERVED_BYTES = 8 * 1024  # bytes of an SBUF partition reserved for biases and the scratch space of pooling


def worthwhile(gen2: bool, item_bytes: int) -> tuple[Form, ...]:
    """Return the forms, other than the direct one, whose errors are small enough for the form to be chosen by default.

    NeuronCore-v2 takes two cycles to add two tiles, and its Vector Engine shares ports with other engines: there,
    minimal filtering gains nothing with 16-bit values, and squares gain nothing in float32.
    """
    if item_bytes == 2:
        return () if gen2 else (Form.PAIRS,)
    return (Form.PAIRS,) if gen2 else (Form.PAIRS, Form.SQUARES)


def matrices(form: Form, steps: int) -> int:
    """Return the number of stationary matrices for a filter that requires `steps` matmuls in the direct form."""
    if form is Form.PAIRS:
        return steps // 3 * 4
    return 16 if form is Form.SQUARES else steps


def most_columns(form: Form, bank_columns: int) -> int:
    """Return the maximum number of columns per matmul: as many as a PSUM bank holds, or half as many for squares."""
    return bank_columns // 2 if form is Form.SQUARES else bank_columns


def matmul_columns(form: Form, rows: int, columns: int) -> int:
    """Return the number of columns of the matmuls for a block of outputs."""
    if form is Form.PAIRS:
        return rows * ceil_div(columns, 2)
    if form is Form.SQUARES:
        return ceil_div(rows, 2) * ceil_div(columns, 2)
    return rows * columns


def rows_together(form: Form, pool_size: int) -> int:
    """Return the number of output rows that are computed together."""
    return 2 if form is Form.SQUARES else pool_size


def input_room(form: Form) -> int:
    """Return the SBUF space that the input and its combinations require, as a multiple of the size of the input."""
    if form is Form.PAIRS:
        return 3
    return 6 if form is Form.SQUARES else 1  # squares: one copy of the combined rows, two of everything else


def piece_of(
    form: Form, pool_size: int, shape: tuple[int, int], rows_fitting: int, bank_columns: int
) -> tuple[int, int, int]:
    """Return (images, rows, columns) of the largest output piece that fits in a PSUM tile.

    Pieces have nearly equal sizes.

    `shape` is (rows, columns) of the outputs, and `rows_fitting` is the number of rows that fit in SBUF together. The
    number of images is 0 if a single image exceeds a bank.
    """
    rows, columns = shape
    most = most_columns(form, bank_columns)
    unit = rows_together(form, pool_size)
    wide = columns
    if form is Form.DIRECT:
        wide = round_up(ceil_div(columns, ceil_div(columns, most // unit)), unit)
    high = min(rows_fitting, most // matmul_columns(form, unit, wide) * unit)
    high = round_up(ceil_div(rows, ceil_div(rows, high)), unit)
    return most // matmul_columns(form, rows, wide), high, wide


def combined_elements(form: Form, shape: tuple[int, int], filter_rows: int) -> int:
    """Return the number of elements per partition that the combinations of one input-channel tile occupy.

    `shape` is (rows, columns) of the outputs.
    """
    rows, columns = shape
    if form is Form.PAIRS:
        return 4 * (rows + filter_rows - 1) * ceil_div(columns, 2)
    squares = ceil_div(rows, 2)
    return 16 * squares * ceil_div(columns, 2) + 4 * squares * (columns + 3)  # the second term: combined rows


def rows_combined(form: Form, shape: tuple[int, int], filter_rows: int, pool_size: int, elements: int) -> int:
    """Return the number of output rows, at least a few, whose combinations fit in `elements` elements of a
    partition."""
    rows, columns = shape
    unit = rows_together(form, pool_size)
    fitting = round_up(rows, unit)
    while fitting > unit and combined_elements(form, (fitting, columns), filter_rows) > elements:
        fitting -= unit
    return min(rows, fitting)
