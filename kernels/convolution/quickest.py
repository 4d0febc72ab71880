"""The forms that a convolution can take, and the default of kernels called without a choice.

In a network, the host chooses by predicted time (`lowering/`). Otherwise a rule by shapes applies: minimal filtering if
channels fill the array and outputs fill many PSUM banks, so that matmuls hide the additions and make up for the
combinations before the first matmul.
"""

from __future__ import annotations

import nki.language as nl

from ..tiling.packing import ceil_div, matmul_passes
from .forms import Form, matmul_columns, most_columns, worthwhile
from .problem import bank_columns, is_gen2

FEWEST_BANKS = 10  # least number of PSUM banks, per filter and tile of input channels, for a form to pay


def forms(problem):
    """Return the forms that a convolution can take, the direct one first.

    The others need 3x3 filters of stride 1, none of whose matmuls covers whole rows of taps.
    """
    plain = (
        max(problem.movement.stride) == 1 and max(problem.movement.dilation) == 1 and problem.filters.kernel == (3, 3)
    )
    if not plain or problem.filters.taps.columns > 1 or problem.filters.taps.rows == 3:
        return [Form.DIRECT]
    whole_row = ceil_div(problem.output[1], 2)
    pairs = [Form.PAIRS] if whole_row <= most_columns(Form.PAIRS, bank_columns()) else []
    squares = whole_row <= most_columns(Form.SQUARES, bank_columns()) and problem.filters.taps.rows == 1
    return [Form.DIRECT, *pairs, *([Form.SQUARES] if squares else [])]


def quickest(problem):
    """Return the forms to try by the rule above, in order; the direct one comes last."""
    taken = worthwhile(is_gen2(), problem.images.item_bytes)
    partitions = nl.tile_size.pmax
    least = partitions // 2 if problem.images.item_bytes == 4 else partitions
    if min(problem.filters.in_channels, problem.filters.out_channels) < least:
        return [Form.DIRECT]
    columns = problem.images.count * matmul_columns(Form.DIRECT, problem.output[0], problem.output[1])
    columns *= ceil_div(problem.filters.out_channels, partitions) * matmul_passes(problem.images.item_bytes)
    banks = columns // bank_columns()
    fewest = {Form.PAIRS: FEWEST_BANKS, Form.SQUARES: 2 * FEWEST_BANKS}  # squares combine more inputs beforehand
    found = [form for form in forms(problem) if form in taken and banks >= fewest[form]]
    return [*found[::-1], Form.DIRECT]
