"""Problems of convolutions: sizes compared with NumPy, the matmuls of a filter, and invalid arguments."""

from typing import Any

import nki.language as nl
import numpy as np
import pytest
from convolution_problems import problem
from hypothesis import given
from hypothesis import strategies as st
from nki_tensors import hbm, on
from numpy.lib.stride_tricks import sliding_window_view
from trninfer.kernels.convolution.forms import Form
from trninfer.kernels.convolution.problem import (
    Filters,
    FilterSource,
    Finish,
    Images,
    Movement,
    Problem,
    bank_columns,
    is_gen2,
    make_problem,
    movement_of,
    output_extent,
    row_pitch,
    steps_of,
)
from trninfer.kernels.tiling.packing import Taps


@given(st.integers(1, 60), st.integers(1, 7), st.integers(1, 4), st.integers(1, 3), st.integers(0, 6))
def test_as_many_outputs_as_windows(size: int, kernel: int, stride: int, dilation: int, zeros: int) -> None:
    reach = (kernel - 1) * dilation + 1
    windows = 0
    if size + zeros >= reach:
        windows = len(sliding_window_view(np.arange(size + zeros), reach)[::stride])
    assert max(0, output_extent(size, kernel, stride, dilation, zeros)) == windows


def test_padding_is_one_number_or_four() -> None:
    assert movement_of((1, 2), (1, 1), 3) == Movement((1, 2), (1, 1), (3, 3, 3, 3))
    assert movement_of((1, 2), (1, 1), (1, 0, 2, 4)).padding == (1, 0, 2, 4)


@pytest.mark.parametrize(
    ("stride", "dilation", "padding", "message"),
    [
        ((1, 0), (1, 1), 0, r"stride and dilation must be at least 1, got \(1, 0\) and \(1, 1\)"),
        ((1, 1), (0, 1), 0, r"stride and dilation must be at least 1, got \(1, 1\) and \(0, 1\)"),
        ((1, 1), (1, 1), (0, 0, -1, 0), r"padding must be a number or .*, at least 0, got \(0, 0, -1, 0\)"),
        ((1, 1), (1, 1), (1, 1), r"padding must be a number or \(top, left, bottom, right\), .* got \(1, 1\)"),
    ],
)
def test_a_filter_that_does_not_move_is_refused(stride: Any, dilation: Any, padding: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        movement_of(stride, dilation, padding)


def made(
    shape: tuple[int, ...] = (2, 3, 12, 9), dtype: str = nl.float32, pool_size: int = 1, form: str = "direct"
) -> Problem:
    """Return the problem for an argument of this shape and 5 filters of 4x3 with strides (2, 1)."""
    finish = Finish(pool_size, "relu", ())
    filters = Filters(3, 5, (4, 3), Taps(1, 1, 3), FilterSource.FRAMEWORK)
    return make_problem(hbm(shape, dtype), filters, movement_of((2, 1), (1, 2), (1, 0, 2, 0)), finish, form)


def test_a_problem_of_arguments() -> None:
    """12 rows with three rows of padding give 6 outputs; 9 columns give 5 outputs for filters that span 5 columns;
    pooling drops the odd last one."""
    with on("trn2"):
        whole = made()
        assert whole.output == (6, 5) and whole.form is Form.DIRECT and whole.images.item_bytes == 4
        assert whole.images == Images(2, 12, 9, 4)
        assert (whole.filters.in_channels, whole.filters.out_channels) == (3, 5)
        pooled = made((2, 3, 14, 9), nl.bfloat16, pool_size=2, form="quickest")
        assert pooled.output == (6, 4) and pooled.form == "quickest" and pooled.images.item_bytes == 2


@pytest.mark.parametrize(
    ("shape", "changes", "message"),
    [
        ((3, 12, 9), {}, r"x must be \[B, Cin, H, W\], got \(3, 12, 9\)"),
        ((2, 4, 12, 9), {}, "x has 4 channels, but the filters have 3"),
        ((2, 3, 12, 9), {"dtype": nl.int32}, "x must be float32, bfloat16 or float16, got int32"),
        ((2, 3, 12, 9), {"pool_size": 3}, "pool_size must be 1 or 2, got 3"),
        ((2, 3, 12, 4), {}, r"12x4 with padding \(1, 0, 2, 0\) is too small for filters of 4x3, dilation \(1, 2\)"),
        ((2, 3, 12, 5), {"pool_size": 2}, "12x5 with padding .* is too small for .* and pool_size 2"),
    ],
)
def test_arguments_that_are_refused(shape: tuple[int, ...], changes: dict[str, Any], message: str) -> None:
    with on("trn2"), pytest.raises(AssertionError, match=message):
        made(shape, **changes)


@given(st.data())
def test_each_tap_of_a_filter_is_contracted_once(data: st.DataObject) -> None:
    """A step reads the input `down` rows and `right` columns further in SBUF, where its first tap is."""
    kernel = data.draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    stride, dilation = (data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3))) for _ in range(2))
    channels = data.draw(st.sampled_from([1, 3, 8, 14, 40, 64, 130]))
    sizes = {"height": 30, "width": 30, "in_channels": channels, "out_channels": 4}
    what = problem(**sizes, kernel=kernel, stride=stride, dilation=dilation)
    pitch = row_pitch(what)
    found = []
    for step in steps_of(what):
        assert (step.down * pitch, step.right) == (step.filter_row * dilation[0], step.filter_column * dilation[1])
        columns = what.filters.taps.columns
        found += [(step.filter_row + tap // columns, step.filter_column + tap % columns) for tap in range(step.taps)]
    assert sorted(found) == list(np.ndindex(kernel))


@given(st.integers(1, 5), st.integers(1, 3), st.sampled_from([3, 40, 130]))
def test_rows_that_no_step_reads_are_left_out(kernel: int, stride: int, channels: int) -> None:
    """If one step covers all rows of a filter, SBUF contains only every stride-th row for each tap; otherwise it
    contains all rows."""
    what = problem(height=30, width=30, in_channels=channels, out_channels=4, kernel=(kernel, 3), stride=(stride, 1))
    downs = {step.down for step in steps_of(what)}
    assert row_pitch(what) == (stride if downs == {0} else 1)


def test_the_core_is_asked() -> None:
    for target, gen2 in (("trn1", True), ("trn2", False), ("trn3", False)):
        with on(target):
            assert is_gen2() is gen2
            assert bank_columns() == 512  # 2 KiB of float32 numbers
