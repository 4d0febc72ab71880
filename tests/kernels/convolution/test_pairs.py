"""Convolutions by pairs of columns, compared with float64."""

from typing import Any

import numpy as np
import pytest
from conv2d_errors import DTYPES, SETTINGS, check_form, convolutions, convolve
from hypothesis import given, settings


@settings(**SETTINGS)
@given(convolutions([43, 64, 65, 129]))
def test_any_shape(arguments: dict[str, Any]) -> None:
    check_form("pairs", **arguments)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("height", "width"), [(1, 513), (3, 3), (3, 127), (129, 5), (127, 129), (513, 1)])
def test_odd_sizes(dtype: Any, height: int, width: int) -> None:
    check_form("pairs", dtype, (1, 65, height, width), 3, 1)


def test_filters_that_are_asked_for_must_be_3x3() -> None:
    x, w = np.zeros((1, 64, 9, 9), np.float32), np.zeros((4, 64, 5, 5), np.float32)
    with pytest.raises(AssertionError, match="pairs requires 3x3 filters"):
        convolve(x, w, np.zeros(4, np.float32), form="pairs")
