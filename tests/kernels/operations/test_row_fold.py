"""Values with groups of rows on the partitions: rows outside of the image, and max pooling."""

from typing import Any

import numpy as np
import pytest
from nki_tensors import new, normal, on, tile
from numpy.lib.stride_tricks import sliding_window_view
from single_operations import load_of, run_operations
from trninfer.kernels.operations.row_fold import BAND_ELEMENTS, blank_tile
from trninfer.kernels.program import RowFold, RowFoldPool


def grouped(image: Any, offset: int, groups: int) -> Any:
    """Convert [B, C, H, W] to [B, 2 C, groups, W]: group g contains rows 2 g - offset and 2 g - offset + 1, or zeros
    outside of the image."""
    batch, channels, rows, columns = image.shape
    padded = np.zeros((batch, channels, 2 * groups, columns), image.dtype)
    padded[:, :, offset : offset + rows] = image
    return (
        padded.reshape(batch, channels, groups, 2, columns).transpose(0, 3, 1, 2, 4).reshape(batch, -1, groups, columns)
    )


@pytest.mark.parametrize("above", [0, 1, 2])
@pytest.mark.parametrize("below", [0, 1])
def test_rows_around_the_image_are_zeros(above: int, below: int) -> None:
    """These are the first rows of the first group and the last rows of the last group."""
    values = normal(4 * 32, 2, 5, 6)
    with on("trn2"):
        data = tile(values)
        blank_tile(RowFold(4, above, below), data, 32, 5)
        expected = values.copy()
        expected[: above * 32, :, 0] = 0
        expected[(4 - below) * 32 :, :, 4] = 0
        np.testing.assert_array_equal(data.values, expected)


def test_a_tile_without_rows_around_it_stays() -> None:
    with on("trn2") as core:
        data = new((8, 1, 3, 3))
        issued = len(core.program)
        blank_tile(RowFold(2), data, 4, 3)
        assert len(core.program) == issued


@pytest.mark.parametrize("kernel", [(2, 2), (3, 3), (5, 1)])
@pytest.mark.parametrize("offset_in", [0, 1])
@pytest.mark.parametrize("offset_out", [-1, 0, 1])
@pytest.mark.parametrize("size", [(8, 6), (9, 7), (70, 66)])
def test_windows_that_move_on_by_two_rows(
    kernel: tuple[int, int], offset_in: int, offset_out: int, size: tuple[int, int]
) -> None:
    """From groups to groups, or to single rows; in several bands if they do not fit."""
    rows, columns = size
    top, side = (kernel[0] - 1) // 2, kernel[1] // 2
    image = np.abs(normal(2, 32, rows, columns))  # the two halves of the partitions begin at 0 and 32
    groups_in = -(-(rows + offset_in) // 2)
    x = grouped(image, offset_in, groups_in)
    padded = np.pad(image, ((0, 0), (0, 0), (top, kernel[0]), (side, side)))
    expected = sliding_window_view(padded, kernel, axis=(2, 3)).max(axis=(4, 5))[:, :, ::2, ::2]
    out_rows = (rows + 2 * top - kernel[0]) // 2 + 1
    expected = expected[:, :, :out_rows]
    margin = (2, side, 2, side)
    groups = RowFold(2)
    if offset_out >= 0:
        groups_out = -(-(out_rows + offset_out) // 2)
        groups = RowFold(2, offset_out, 2 * groups_out - out_rows - offset_out)
        expected = grouped(expected, offset_out, groups_out)
    pool = RowFoldPool(
        name="p",
        channels=expected.shape[1],
        rows=expected.shape[2],
        columns=expected.shape[3],
        kernel=kernel,
        stride=(2, 2),
        dilation=(1, 1),
        padding=margin,
        start=offset_in - top,
        offset=offset_out,
        image_rows=out_rows,
        row_fold=groups,
        sources=((0,),),
    )
    assert rows < 70 or 2 * expected.shape[2] * expected.shape[3] > BAND_ELEMENTS
    np.testing.assert_array_equal(run_operations([load_of(x, margin=margin), pool], x), expected)
