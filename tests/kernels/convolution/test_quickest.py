"""The rule for the default form of a convolution.

test_forms.py checks that it is never slower than the direct form.
"""

from typing import Any

import pytest
from convolution_problems import problem
from nki_tensors import on
from trninfer.kernels.convolution.forms import Form
from trninfer.kernels.convolution.quickest import FEWEST_BANKS, forms, quickest
from trninfer.kernels.tiling.packing import Taps

DIRECT, PAIRS, SQUARES = Form.DIRECT, Form.PAIRS, Form.SQUARES


def square(side: int, channels: int, outputs: int = 128, kernel: tuple[int, int] = (3, 3), **fields: Any) -> Any:
    """Return a convolution with a square output of `side` rows."""
    sizes = {"height": side + kernel[0] - 1, "width": side + kernel[1] - 1}
    return problem(**sizes, in_channels=channels, out_channels=outputs, kernel=kernel, **fields)


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (square(20, 128), [DIRECT, PAIRS, SQUARES]),
        (square(20, 65), [DIRECT, PAIRS, SQUARES]),
        (square(20, 64), [DIRECT, PAIRS]),  # two rows of taps share the partitions
        (square(20, 42), [DIRECT]),  # all rows of taps share them
        (square(20, 3), [DIRECT]),  # all taps share them
        (square(20, 128, taps=Taps(1, 1, 128)), [DIRECT, PAIRS, SQUARES]),
        (square(20, 128, kernel=(3, 5)), [DIRECT]),
        (square(20, 128, kernel=(1, 1)), [DIRECT]),
        (square(20, 128, stride=(1, 2)), [DIRECT]),
        (square(20, 128, dilation=(2, 1)), [DIRECT]),
    ],
)
def test_forms_of_filters_that_move_by_one(what: Any, expected: list[Form]) -> None:
    with on("trn2"):
        assert forms(what) == expected


def test_a_row_must_fit_what_its_matmul_takes() -> None:
    """For pairs of columns, it must fit in a bank of 512 columns; for squares, in half a bank."""
    with on("trn2"):
        for width, expected in ((512, 3), (513, 2), (1024, 2), (1025, 1)):
            what = problem(height=9, width=width + 2, in_channels=128, out_channels=8, kernel=(3, 3))
            assert len(forms(what)) == expected, width


def found(target: str, side: int, channels: int, outputs: int, item_bytes: int) -> list[Form]:
    with on(target):
        return quickest(square(side, channels, outputs, item_bytes=item_bytes))


def test_the_form_that_saves_most_is_tried_first() -> None:
    assert found("trn2", 112, 256, 256, 4) == [SQUARES, PAIRS, DIRECT]
    assert found("trn1", 112, 256, 256, 4) == [PAIRS, DIRECT]  # sums take twice as long on trn1
    assert found("trn2", 112, 256, 256, 2) == [PAIRS, DIRECT]  # the errors of squares are too large for two bytes
    assert found("trn1", 112, 256, 256, 2) == [DIRECT]


def test_channels_must_fill_the_array() -> None:
    """In float32, half the array suffices, since the operands pass through it four times."""
    for item_bytes, least in ((4, 64), (2, 128)):
        assert found("trn2", 112, least, least, item_bytes)[0] is PAIRS
        assert found("trn2", 112, least - 1, least, item_bytes) == [DIRECT]
        assert found("trn2", 112, least, least - 1, item_bytes) == [DIRECT]


def test_matmuls_must_fill_many_banks() -> None:
    """32 x 32 outputs of 128 channels fill two banks, and count as eight in float32, which takes four passes."""
    assert FEWEST_BANKS == 10
    assert found("trn2", 32, 128, 128, 4) == [DIRECT]
    assert found("trn2", 32, 128, 129, 4) == [PAIRS, DIRECT]  # a second tile of outputs
    with on("trn2"):
        sizes = {"height": 34, "width": 34, "in_channels": 128, "out_channels": 128, "kernel": (3, 3)}
        assert quickest(problem(batch=2, **sizes)) == [PAIRS, DIRECT]
        assert quickest(problem(batch=3, **sizes)) == [SQUARES, PAIRS, DIRECT]  # 24 banks; squares need at least 20
