"""Operations that only move data, compared with NumPy element by element."""

from typing import Any, Literal

import numpy as np
import pytest
from nki_tensors import counted
from single_operations import load_of, run_operations
from trninfer.kernels.operations.arrange import border_copies
from trninfer.kernels.program import Border, Pad, PixelShuffle, Rearrange
from trninfer.kernels.tiling.windows import Span

FROM_LOAD = ((0,),)


def padded(x: Any, padding: tuple[int, int, int, int], packed: int = 1, **fields: Any) -> Any:
    top, left, bottom, right = padding
    size = {"rows": x.shape[2] + top + bottom, "columns": x.shape[3] + left + right}
    pad = Pad(name="p", channels=x.shape[1], **size, packed=packed, padding=padding, sources=FROM_LOAD, **fields)
    return run_operations([load_of(x, packed=packed), pad], x, packed=packed)


@pytest.mark.parametrize("channels", [3, 130])
def test_a_number_around(channels: int) -> None:
    x = counted(2, channels, 3, 5)
    expected = np.pad(x, ((0, 0), (0, 0), (1, 2), (0, 3)), constant_values=-1.5)
    np.testing.assert_array_equal(padded(x, (1, 0, 2, 3), value=-1.5), expected)


@pytest.mark.parametrize(
    ("border", "mode"), [(Border.EDGE, "edge"), (Border.REFLECT, "reflect"), (Border.WRAP, "wrap")]
)
def test_rows_and_columns_of_its_own_around(border: Border, mode: Literal["edge", "reflect", "wrap"]) -> None:
    """This includes the corners: rows are copied after columns."""
    x = counted(4, 3, 4, 5)
    expected = np.pad(x, ((0, 0), (0, 0), (3, 1), (2, 4)), mode=mode)
    np.testing.assert_array_equal(padded(x, (3, 2, 1, 4), packed=2, border=border), expected)


def test_less_than_nothing_around() -> None:
    x = counted(1, 2, 6, 7)
    expected = np.pad(x[:, :, 1:, :-2], ((0, 0), (0, 0), (0, 1), (3, 0)), constant_values=9)
    np.testing.assert_array_equal(padded(x, (-1, 3, 1, -2), value=9), expected)


def test_each_place_around_is_a_copy_of_one_inside() -> None:
    """Three rows with two more on either side, at positions 2 to 4 of seven."""
    assert border_copies(Border.REFLECT, Span(0, 7, 2, 2)) == [(0, 4), (1, 3), (5, 3), (6, 2)]
    assert border_copies(Border.EDGE, Span(0, 7, 2, 2)) == [(0, 2), (1, 2), (5, 4), (6, 4)]


@pytest.mark.parametrize("step", [(1, 2), (2, 1), (2, 2), (3, 2)])
def test_values_take_turns(step: tuple[int, int]) -> None:
    phases = step[0] * step[1]
    x = counted(2, phases * 3, 4, 5)
    out = PixelShuffle(
        name="i",
        channels=3,
        rows=4 * step[0],
        columns=5 * step[1],
        step=step,
        sources=tuple((n,) for n in range(phases)),
    )
    parts = [np.ascontiguousarray(x[:, 3 * n : 3 * n + 3]) for n in range(phases)]
    expected = np.zeros((2, 3, 4 * step[0], 5 * step[1]), np.float32)
    for n, part in enumerate(parts):
        expected[:, :, n // step[1] :: step[0], n % step[1] :: step[1]] = part
    found = run_operations([*(load_of(part, n) for n, part in enumerate(parts)), out], *parts)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("packed", [1, 2])
@pytest.mark.parametrize(
    ("split", "order", "shape", "first"),
    [
        ((6, 4, 5), (1, 2, 0), (4, 5, 6), 0),
        ((6, 4, 5), (0, 1, 2), (120, 1, 1), 0),
        ((2, 3, 20), (1, 0, 2), (6, 4, 5), 0),
        ((3, 4, 5), (2, 0, 1), (5, 3, 4), 40),  # half of the elements
    ],
)
def test_numbers_in_another_order(split: Any, order: Any, shape: Any, first: int, packed: int) -> None:
    x = counted(4, 6, 4, 5)
    size = dict(zip(("channels", "rows", "columns"), shape))
    turn = Rearrange(name="r", **size, packed=packed, split=split, order=order, first=first, sources=FROM_LOAD)
    flat = x.reshape(4, -1)[:, first : first + int(np.prod(split))]
    expected = flat.reshape(4, *split).transpose(0, *(axis + 1 for axis in order)).reshape(4, *shape)
    np.testing.assert_array_equal(run_operations([load_of(x, packed=packed), turn], x, packed=packed), expected)
