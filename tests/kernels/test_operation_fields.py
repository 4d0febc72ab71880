"""The surroundings of a padded value against NumPy's padding of the same name."""

from typing import Literal

import numpy as np
import pytest
from trninfer.kernels.operation_fields import Border


@pytest.mark.parametrize(
    ("border", "mode"), [(Border.EDGE, "edge"), (Border.REFLECT, "reflect"), (Border.WRAP, "wrap")]
)
@pytest.mark.parametrize("extent", [2, 3, 7])
def test_positions_are_those_of_numpy(border: Border, mode: Literal["edge", "reflect", "wrap"], extent: int) -> None:
    """Up to the extent less one on either side, beyond which a reflection would be reflected again."""
    most = extent - 1
    expected = np.pad(np.arange(extent), most, mode=mode)
    found = [border.position(outside, extent) for outside in range(-most, extent + most)]
    around = [*range(most), *range(extent + most, extent + 2 * most)]
    assert [found[at] for at in around] == [expected[at] for at in around]


def test_one_row_is_all_around_itself() -> None:
    for border in (Border.EDGE, Border.WRAP):
        assert [border.position(outside, 1) for outside in (-3, -1, 1, 2)] == [0] * 4
