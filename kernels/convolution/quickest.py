"""Forms that a convolution can take, and the default form of kernels called without a choice.

The host chooses by the predicted time of each form (`lowering/`). Without it, a rule by shapes: minimal filtering where
channels fill the array and outputs many PSUM banks, so that the additions are hidden behind matmuls and what comes
before the first of them is paid back.
"""

from __future__ import annotations

import nki.language as nl

from ..tiling.packing import ceil_div, matmul_passes
from .forms import Form, matmul_columns, most_columns, worthwhile
from .problem import bank_columns, is_gen2

FEWEST_BANKS = 10  # that the matmuls of one filter and tile of input channels take the time to fill, for a form to pay


def forms(problem):
    """Return the forms that can take a convolution, the direct one first.

    The others take 3x3 filters that move by one, of which no matmul covers whole rows of taps.
    """
    plain = max(problem.stride) == 1 and max(problem.dilation) == 1 and problem.kernel == (3, 3)
    if not plain or problem.taps.columns > 1 or problem.taps.rows == 3:
        return [Form.DIRECT]
    whole_row = ceil_div(problem.out_columns, 2)
    pairs = [Form.PAIRS] if whole_row <= most_columns(Form.PAIRS, bank_columns()) else []
    squares = whole_row <= most_columns(Form.SQUARES, bank_columns()) and problem.taps.rows == 1
    return [Form.DIRECT, *pairs, *([Form.SQUARES] if squares else [])]


def quickest(problem):
    """Return the forms that the rule above takes, the first of them that fits SBUF; at last the direct one."""
    taken = worthwhile(is_gen2(), problem.item_bytes)
    partitions = nl.tile_size.pmax
    least = partitions // 2 if problem.item_bytes == 4 else partitions
    if min(problem.in_channels, problem.out_channels) < least:
        return [Form.DIRECT]
    columns = problem.batch * matmul_columns(Form.DIRECT, problem.out_rows, problem.out_columns)
    columns *= ceil_div(problem.out_channels, partitions) * matmul_passes(problem.item_bytes)
    banks = columns // bank_columns()
    fewest = {Form.PAIRS: FEWEST_BANKS, Form.SQUARES: 2 * FEWEST_BANKS}  # which make more sums of inputs beforehand
    found = [form for form in forms(problem) if form in taken and banks >= fewest[form]]
    return [*found[::-1], Form.DIRECT]
