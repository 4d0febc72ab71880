"""Sliding windows over images, compared with an enumeration of the positions they read."""

from collections.abc import Iterator
from typing import Any

import nki.language as nl
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from nki_tensors import counted, in_hbm, new, normal, on, tile
from numpy.lib.stride_tricks import sliding_window_view
from trninfer.kernels.tiling.tiles import even_tiles
from trninfer.kernels.tiling.windows import (
    LONG_FOLD,
    MAX_REACH,
    Span,
    Sweep,
    Window,
    column_tap,
    cut_into_blocks,
    fold_columns,
    fold_rows,
    input_span,
    load_padded,
    make_sweep,
    row_tap,
    whole,
)


@st.composite
def sweeps(draw: st.DrawFn, most: int = 40) -> Sweep:
    """Draw an axis and windows that fit in it."""
    size, stride, dilation = draw(st.integers(1, 9)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    before, after = draw(st.integers(0, 5)), draw(st.integers(0, 5))
    extent = max(1, (size - 1) * dilation + 1 - before - after) + draw(st.integers(0, most))
    return make_sweep("rows", extent, Window(size, stride, dilation, (before, after), draw(st.booleans())))


def positions(sweep: Sweep, outputs: range, taps: range) -> list[int]:
    """Return all positions that some outputs read, by the definition of a sweep."""
    return [i * sweep.stride - sweep.before + j * sweep.dilation for i in outputs for j in taps]


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 3), st.booleans(), st.data())
def test_as_many_outputs_as_windows_begin(
    size: int, stride: int, dilation: int, ceil_mode: bool, data: st.DataObject
) -> None:
    """With `ceil_mode`, one more window may extend beyond the padding if it begins before the end."""
    before, reach = 2, (size - 1) * dilation + 1
    after = data.draw(st.integers(0, min(4, reach - 1)))
    extent = data.draw(st.integers(max(1, reach - before - after), 50))
    starts = [start for start in range(0, extent + before + after, stride) if start + reach <= extent + before + after]
    rest = starts[-1] + reach < extent + before + after
    hangs = ceil_mode and rest and starts[-1] + stride < extent + before
    sweep = make_sweep("rows", extent, Window(size, stride, dilation, (before, after), ceil_mode))
    assert (sweep.reach, sweep.outputs) == (reach, len(starts) + hangs)


@pytest.mark.parametrize(
    ("window", "message"),
    [
        (Window(0), "window, stride and dilation must be at least 1, got 0, 1 and 1 columns"),
        (Window(2, 1, 0), "window, stride and dilation must be at least 1, got 2, 1 and 0 columns"),
        (Window(2, padding=(0, -1)), "padding must be at least 0 columns, got 0 and -1"),
        (Window(3, 1, 3, (1, 1)), "a window that spans 7 columns does not fit 4 with padding 1 and 1"),
    ],
)
def test_an_impossible_window_is_refused(window: Window, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        make_sweep("columns", 4, window)


@given(sweeps(), st.data())
def test_a_span_is_all_that_is_read(sweep: Sweep, data: st.DataObject) -> None:
    outputs = data.draw(st.sampled_from(even_tiles(sweep.outputs, data.draw(st.integers(1, 10)))))
    taps = data.draw(st.sampled_from(even_tiles(sweep.size, data.draw(st.integers(1, 9)))))
    read = positions(sweep, range(outputs.start, outputs.end), range(taps.start, taps.end))
    span = input_span(sweep, outputs, taps)
    assert (span.start, span.size) == (min(read), max(read) - min(read) + 1)
    inside = [0 <= at < sweep.extent for at in range(span.start, span.start + span.size)]
    assert sum(inside) == span.size - span.head - span.tail
    assert not any(inside[: span.head]) and not any(inside[span.size - span.tail :])


@given(sweeps(60), sweeps(200), st.sampled_from([60, 300]))
@example(make_sweep("rows", 3, Window(1)), make_sweep("columns", 122, Window(3)), 60)
def test_blocks_cover_the_output_and_read_a_chunk(rows: Sweep, columns: Sweep, chunk: int) -> None:
    blocks = cut_into_blocks(rows, columns, chunk)
    covered = np.zeros((rows.outputs, columns.outputs), int)
    for block in blocks.outputs:
        covered[block.rows.start : block.rows.end, block.columns.start : block.columns.end] += 1
        for taps in blocks.taps:
            read = (
                input_span(rows, block.rows, taps).size * input_span(columns, block.columns, whole(columns.size)).size
            )
            assert read <= blocks.elements <= max(chunk, columns.reach)
        assert len(blocks.taps) == 1 or block.rows.size == 1
    assert (covered == 1).all()
    assert [tap for taps in blocks.taps for tap in range(taps.start, taps.end)] == list(range(rows.size))


def test_a_window_that_is_too_wide_is_refused() -> None:
    columns = make_sweep("columns", MAX_REACH + 1, Window(MAX_REACH + 1))
    with pytest.raises(AssertionError, match="at most 16384 columns, got 16385"):
        cut_into_blocks(make_sweep("rows", 3, Window(1)), columns)


@pytest.fixture(autouse=True)
def _core() -> Iterator[None]:
    """Record the instructions of these tests."""
    with on("trn2"):
        yield


@pytest.mark.parametrize("between", [(5,), (2, 3)])
@pytest.mark.parametrize("fill", [0.0, -7.0])
def test_images_are_loaded_with_their_padding(between: tuple[int, ...], fill: float) -> None:
    """Some rows with three rows of padding below or two above; all columns, with one before and two after."""
    images = counted(3, *between, 6, 7)
    columns = Span(-1, 10, 1, 2)
    for rows, inside, around in ((Span(2, 7, 0, 3), slice(2, 6), (0, 3)), (Span(-2, 5, 2, 0), slice(0, 3), (2, 0))):
        found = load_padded(in_hbm(images), rows, columns, fill).values
        flat = images.reshape(3, -1, 6, 7)[:, :, inside]
        np.testing.assert_array_equal(found, np.pad(flat, ((0, 0), (0, 0), around, (1, 2)), constant_values=fill))


def test_nothing_but_padding_loads_nothing() -> None:
    found = load_padded(in_hbm(counted(2, 1, 3, 3)), Span(-4, 2, 2, 0), Span(0, 3, 0, 0), 5.0).values
    np.testing.assert_array_equal(found, np.full((2, 1, 2, 3), 5.0))


def test_a_tap_reads_every_so_many_rows_and_columns() -> None:
    values = counted(2, 3, 11, 13)
    sweep = make_sweep("rows", 11, Window(3, 2, 3))
    np.testing.assert_array_equal(row_tap(tile(values), sweep, 2, 2).values, values[:, :, [6, 8]])
    np.testing.assert_array_equal(column_tap(tile(values), sweep, 3, 1).values, values[:, :, :, [3, 5, 7]])


@pytest.mark.parametrize(("op", "function"), [("maximum", np.max), ("add", np.sum)])
@pytest.mark.parametrize("taps", [1, 2, LONG_FOLD - 1, LONG_FOLD, 11])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (3, 2)])
def test_folds(op: str, function: Any, taps: int, stride: int, dilation: int) -> None:
    """Over rows and over columns, by a chain of instructions or by one reduction."""
    reach = (taps - 1) * dilation + 1
    extent = reach + 2 * stride  # three outputs
    sweep = make_sweep("rows", extent, Window(taps, stride, dilation))
    values = normal(3, 2, extent, extent)
    windows = sliding_window_view(values, reach, axis=2)[:, :, ::stride, :, ::dilation]
    found = fold_rows(tile(values), op, sweep, 3, taps, nl.float32).values
    np.testing.assert_allclose(found, function(windows, axis=-1), rtol=1e-5, atol=1e-6)
    windows = sliding_window_view(values, reach, axis=3)[:, :, :, ::stride, ::dilation]
    found = fold_columns(tile(values), op, sweep, 3, nl.float32).values
    np.testing.assert_allclose(found, function(windows, axis=-1), rtol=1e-5, atol=1e-6)


def test_columns_are_folded_into_the_tile_that_is_given() -> None:
    sweep = make_sweep("columns", 5, Window(2))
    into = new((2, 1, 1, 4))
    values = counted(2, 1, 1, 5)
    assert fold_columns(tile(values), "maximum", sweep, 4, nl.float32, into=into) is into
    np.testing.assert_array_equal(into.values, values[..., 1:])
