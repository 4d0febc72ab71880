"""The forms in which filters are multiplied, and the sizes that go with each: of 3x3 filters

direct    nine matmuls of all outputs
pairs     12 of half as many columns: two thirds (pairs.py)
squares   16 of a quarter: four ninths (squares.py)

Minimal filtering saves matmuls and costs additions, on the input, once for all output channels, and on the sums, for
each tile of them. The Tensor Engine hides those of the other engines where channels are many, more easily in float32,
of which a column takes four cycles.

Its errors are larger: in float32, 1.3 times (pairs) and 1.7 times (squares) those of the direct form, in 16 bits, to
which combinations are rounded, 1.9 times (pairs). Squares are not used there: their errors would be two and a half
times as large, and the Vector Engine would take longer than the Tensor Engine saves (docs/convolutions.md). In float16
the sum of two inputs must be in range.

Depthwise filters of any size have forms of their own, rows of 2 and of 4 (row_blocks.py), in a network alone. They
compute the same products and sums, so that their errors are those of the direct form. Of many taps, diagonals may be
made on the chip of one number for each channel and tap, rather than loaded.

Plain arithmetic without `nki`: the host chooses forms by the predicted time (`lowering/`).
"""

from __future__ import annotations

from enum import Enum

from ..tiling.packing import ceil_div, round_up


class Form(str, Enum):
    """A form in which filters are multiplied."""

    DIRECT = "direct"
    PAIRS = "pairs"
    SQUARES = "squares"
    ROWS_2 = "rows of 2"
    ROWS_4 = "rows of 4"
    MADE = "made diagonals"

    def __str__(self) -> str:
        return self.value

    @property
    def is_minimal(self) -> bool:
        """True for minimal filtering."""
        return self in (Form.PAIRS, Form.SQUARES)

    @property
    def rows(self) -> int:
        """Rows of a channel that share the partitions, for depthwise filters alone (row_blocks.py)."""
        return {Form.ROWS_2: 2, Form.ROWS_4: 4}.get(self, 1)


QUICKEST = "quickest"  # of a kernel's argument: the form that is chosen for it
FORMS = (QUICKEST, Form.DIRECT.value, *(form.value for form in Form if form.is_minimal))
ROW_BLOCKS = tuple(form for form in Form if form.rows > 1)
DEPTHWISE = (*ROW_BLOCKS, Form.MADE)
RESERVED_BYTES = 8 * 1024  # of a partition of SBUF, for biases and pooling scratch, beside a grouped input


def worthwhile(gen2: bool, item_bytes: int) -> tuple[Form, ...]:
    """Return the forms beside the direct one whose errors are small enough to be used unasked.

    NeuronCore-v2 takes two cycles for a sum of two tiles, and its Vector Engine shares ports with the others: in 16
    bits nothing is left to gain there, in float32 nothing by squares.
    """
    if item_bytes == 2:
        return () if gen2 else (Form.PAIRS,)
    return (Form.PAIRS,) if gen2 else (Form.PAIRS, Form.SQUARES)


def matrices(form: Form, steps: int) -> int:
    """Return the stationary matrices of a filter that takes `steps` matmuls in the direct form."""
    if form is Form.PAIRS:
        return steps // 3 * 4
    return 16 if form is Form.SQUARES else steps


def most_columns(form: Form, bank_columns: int) -> int:
    """Return the columns of a matmul: those of a PSUM bank, of which squares take two halves at a time."""
    return bank_columns // 2 if form is Form.SQUARES else bank_columns


def matmul_columns(form: Form, rows: int, columns: int) -> int:
    """Return the columns of the matmuls that compute a block of outputs."""
    if form is Form.PAIRS:
        return rows * ceil_div(columns, 2)
    if form is Form.SQUARES:
        return ceil_div(rows, 2) * ceil_div(columns, 2)
    return rows * columns


def rows_together(form: Form, pool_size: int) -> int:
    """Return how many output rows are computed together."""
    return 2 if form is Form.SQUARES else pool_size


def input_room(form: Form) -> int:
    """Return the SBUF that the input takes with its combinations, in multiples of its own size."""
    if form is Form.PAIRS:
        return 3
    return 6 if form is Form.SQUARES else 1  # of the combined rows of squares there is one copy, of all else two


def piece_of(
    form: Form, pool_size: int, shape: tuple[int, int], rows_fitting: int, bank_columns: int
) -> tuple[int, int, int]:
    """Return (images, rows, columns) of the most outputs that a PSUM tile takes, evenly cut.

    `shape`: (rows, columns) of the outputs. `rows_fitting`: rows that SBUF holds at a time. Images are 0 where one does
    not fit a bank.
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
    """Return the elements of a partition that the combinations of one tile of input channels take.

    `shape`: (rows, columns) of the outputs.
    """
    rows, columns = shape
    if form is Form.PAIRS:
        return 4 * (rows + filter_rows - 1) * ceil_div(columns, 2)
    squares = ceil_div(rows, 2)
    return 16 * squares * ceil_div(columns, 2) + 4 * squares * (columns + 3)  # rows are combined first


def rows_combined(form: Form, shape: tuple[int, int], filter_rows: int, pool_size: int, elements: int) -> int:
    """Return the output rows whose combinations fit `elements` of a partition: all of them, or at least a few."""
    rows, columns = shape
    unit = rows_together(form, pool_size)
    fitting = round_up(rows, unit)
    while fitting > unit and combined_elements(form, (fitting, columns), filter_rows) > elements:
        fitting -= unit
    return min(rows, fitting)
