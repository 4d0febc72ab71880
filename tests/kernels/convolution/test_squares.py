"""Convolutions by squares of outputs, compared with float64."""

from typing import Any

import numpy as np
import pytest
from conv2d_errors import DTYPES, SETTINGS, check_form, convolutions, convolve
from hypothesis import given, settings


@settings(**SETTINGS)
@given(convolutions([65, 128, 129]))
def test_any_shape(arguments: dict[str, Any]) -> None:
    check_form("squares", **arguments)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("height", "width"), [(1, 511), (3, 3), (3, 127), (129, 5), (127, 129), (513, 1)])
def test_odd_sizes(dtype: Any, height: int, width: int) -> None:
    check_form("squares", dtype, (1, 65, height, width), 3, 1)


def test_a_column_in_wide_padding() -> None:
    check_form("squares", np.float32, (3, 128, 14, 1), 128, 3, target="trn1")


def test_a_row_must_fit_half_a_bank() -> None:
    x, w = np.zeros((1, 65, 3, 515), np.float32), np.zeros((4, 65, 3, 3), np.float32)
    with pytest.raises(AssertionError, match=r"squares requires 3x3 filters .* whole rows in SBUF"):
        convolve(x, w, np.zeros(4, np.float32), form="squares")
