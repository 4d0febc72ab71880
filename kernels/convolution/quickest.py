"""The forms that a convolution supports, and the default form of kernels that are called without a form.

In a network, the host chooses the form according to predicted times (`lowering/`). Otherwise, a rule based on shapes
applies: minimal filtering is used if the channels fill the systolic array and the outputs fill many PSUM banks. Matmuls
then hide the additions and compensate for the combinations that precede the first matmul.
"""

from __future__ import annotations

import nki.language as nl

from ..tiling.packing import ceil_div, matmul_passes
from .forms import Form, matmul_columns, most_columns, worthwhile
from .problem import bank_columns, is_gen2

FEWEST_BANKS = 10  # minimum number of PSUM banks, per filter and tile of input channels, for minimal filtering


def forms(problem):
    """Return the forms that a convolution supports, starting with the direct one.

    The other forms require 3x3 filters of stride 1 whose matmuls do not cover whole rows of taps.
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
    """Return the forms to try, in order, according to the rule above. The direct form comes last."""
    allowed = worthwhile(is_gen2(), problem.images.item_bytes)
    partitions = nl.tile_size.pmax
    least = partitions // 2 if problem.images.item_bytes == 4 else partitions
    if min(problem.filters.in_channels, problem.filters.out_channels) < least:
        return [Form.DIRECT]
    columns = problem.images.count * matmul_columns(Form.DIRECT, problem.output[0], problem.output[1])
    columns *= ceil_div(problem.filters.out_channels, partitions) * matmul_passes(problem.images.item_bytes)
    banks = columns // bank_columns()
    fewest = {Form.PAIRS: FEWEST_BANKS, Form.SQUARES: 2 * FEWEST_BANKS}  # squares combine more inputs in advance
    fitting = [form for form in forms(problem) if form in allowed and banks >= fewest[form]]
    return [*fitting[::-1], Form.DIRECT]
