"""Row blocks, compared with the rows that a depthwise filter reads."""

import pytest
from trninfer.kernels.convolution.row_blocks import RowBlocks

FILTERS = [(3, 1, 1), (5, 2, 1), (7, 1, 2), (1, 3, 1)]


@pytest.mark.parametrize("rows", [2, 4])
@pytest.mark.parametrize(("kernel", "stride", "dilation"), FILTERS)
def test_each_tap_is_once_for_each_row_of_a_group(rows: int, kernel: int, stride: int, dilation: int) -> None:
    geometry = RowBlocks(rows, kernel, stride, dilation, 11, 128)
    taps = list(geometry.taps())
    assert len(set(taps)) == len(taps) == rows * kernel
    assert max(step for _, _, step, _ in taps) + 1 == geometry.steps
    assert all(step * rows + side == output * stride + row * dilation for output, side, step, row in taps)


@pytest.mark.parametrize("rows", [2, 4])
@pytest.mark.parametrize(("kernel", "stride", "dilation"), FILTERS)
@pytest.mark.parametrize("out_rows", [1, 3, 4, 11])
def test_groups_have_all_rows_that_are_read(rows: int, kernel: int, stride: int, dilation: int, out_rows: int) -> None:
    geometry = RowBlocks(rows, kernel, stride, dilation, out_rows, 128)
    assert rows * (geometry.out_groups - 1) < out_rows <= rows * geometry.out_groups
    group_starts = range(0, geometry.out_groups * stride, stride)  # the first input group of each output group
    assert geometry.in_groups == max(start + step for start in group_starts for _, _, step, _ in geometry.taps()) + 1


@pytest.mark.parametrize("rows", [2, 4])
def test_rows_in_place_are_those_of_the_image(rows: int) -> None:
    geometry = RowBlocks(rows, 3, 1, 1, 8, 128)
    for image in range(12):
        for row in range(rows):
            assert geometry.rows_in_place(row, image) == sum(each % rows == row for each in range(image))


def test_the_filters_that_pay_most() -> None:
    """The number of matmuls for 4 rows, as in the docstring: filter columns times steps."""
    counted = [RowBlocks(4, size, 1, 1, 8, 128).steps * size for size in (3, 5, 7)]
    assert counted == [6, 10, 21]


def test_blocks_never_cross_a_tile() -> None:
    geometry = RowBlocks(4, 3, 1, 1, 8, 128)
    found = [(block.index, block.tile, block.first, block.size) for block in geometry.blocks([128, 40])]
    assert found == [(0, 0, 0, 32), (1, 0, 32, 32), (2, 0, 64, 32), (3, 0, 96, 32), (4, 1, 0, 32), (5, 1, 32, 8)]
