"""Pooling, compared with NumPy, for any shape, window, stride, padding and dilation, in each dtype."""

from typing import Any

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_programs import run_alone
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from trninfer import simulator
from trninfer.kernels import average_pool
from trninfer.kernels.pooling import average_pool_tile, lowest, max_pool_tile
from trninfer.kernels.tiling.windows import Window, input_span, load_padded, make_sweep, whole
from trninfer.models.layers import Pool

DTYPES = [np.float32, ml_dtypes.bfloat16, np.float16]
TARGETS = ["trn1", "trn2", "trn3"]
PLANES = st.sampled_from([(1, 1), (1, 3), (2, 127), (1, 128), (3, 129), (1, 512), (1, 513), (5, 260)])


def outputs(extent: int, before: int, after: int, reach: int, stride: int, ceil_mode: bool) -> int:
    """Count the outputs as frameworks do: with ceil_mode, the last window must begin in the image or the leading
    padding."""
    positions = list(range(0, extent + before + after - reach + 1, stride))
    if ceil_mode and positions[-1] + reach < extent + before + after and positions[-1] + stride < extent + before:
        positions.append(positions[-1] + stride)
    return len(positions)


def windows(x: NDArray[Any], p: dict[str, Any], border: float, counted: float) -> NDArray[np.float64]:
    """Return [B, C, H', W', window rows, window columns] in float64; padding is `counted`, and `border` is used beyond
    it."""
    pads, counts = p["padding"], []
    data = np.pad(x.astype(np.float64), ((0, 0), (0, 0), pads[0::2], pads[1::2]), constant_values=counted)
    for axis in (0, 1):
        reach = (p["window"][axis] - 1) * p["dilation"][axis] + 1
        before, after = pads[axis], pads[axis + 2]
        counts.append(outputs(x.shape[2 + axis], before, after, reach, p["stride"][axis], p["ceil_mode"]))
        over = max(0, (counts[axis] - 1) * p["stride"][axis] + reach - data.shape[2 + axis])
        widths = [(0, 0)] * 4
        widths[2 + axis] = (0, over)
        data = np.pad(data, widths, constant_values=border)
    reaches = tuple((k - 1) * d + 1 for k, d in zip(p["window"], p["dilation"]))
    every = sliding_window_view(data, reaches, axis=(2, 3))[:, :, :: p["stride"][0], :: p["stride"][1]]
    return every[:, :, : counts[0], : counts[1], :: p["dilation"][0], :: p["dilation"][1]]


def full(window: tuple[int, int], **given: Any) -> dict[str, Any]:
    rest = {"stride": (1, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1), "ceil_mode": False}
    return {"window": window, **rest, **given}


def random(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    return (np.random.default_rng(shape).standard_normal(shape) + 1).astype(dtype)


def assert_max(shape: tuple[int, ...], p: dict[str, Any], dtype: Any, target: str) -> None:
    x = random(shape, dtype)
    result = run_alone(Pool("l", "max", **p), x, target=target)
    assert result.dtype == x.dtype
    np.testing.assert_array_equal(result.astype(np.float64), windows(x, p, -np.inf, -np.inf).max(axis=(4, 5)))


def assert_average(shape: tuple[int, ...], p: dict[str, Any], dtype: Any, target: str, include: bool) -> None:
    x = random(shape, dtype)
    (result,) = simulator.run(average_pool, x, target=target, count_include_pad=include, **p).outputs
    assert result is not None and result.dtype == x.dtype
    expected = np.nanmean(windows(x, p, np.nan, 0.0 if include else np.nan), axis=(4, 5))
    rounding = {np.float32: 1e-6, ml_dtypes.bfloat16: 2.0**-8, np.float16: 2.0**-11}[dtype]
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=rounding, atol=2e-6)


@st.composite
def axes(draw: Any) -> tuple[int, int, int, int, int, int]:
    """Draw (extent, window, stride, dilation, before, after) of an axis, with padding up to half a window, as
    frameworks require."""
    window, dilation = draw(st.sampled_from([1, 2, 3, 3, 5, 9])), draw(st.sampled_from([1, 1, 1, 2]))
    reach = (window - 1) * dilation + 1
    before, after = (draw(st.integers(0, window // 2)) for _ in range(2))
    extent = max(1, reach - before - after, (dilation > 1) * reach) + draw(st.integers(0, 12))
    return extent, window, draw(st.sampled_from([1, 2, 3, 4])), dilation, before, after


@settings(max_examples=80)
@given(
    planes=PLANES,
    rows=axes(),
    columns=axes(),
    ceil_mode=st.booleans(),
    include=st.booleans(),
    dtype=st.sampled_from(DTYPES),
    target=st.sampled_from(TARGETS),
)
def test_any_window(
    planes: tuple[int, int], rows: Any, columns: Any, ceil_mode: bool, include: bool, dtype: Any, target: str
) -> None:
    (height, *down), (width, *across) = rows, columns
    window, stride, dilation, before, after = zip(down, across)
    p = full(window, stride=stride, dilation=dilation, padding=(*before, *after), ceil_mode=ceil_mode)
    assert_max((*planes, height, width), p, dtype, target)
    assert_average((*planes, height, width), p, dtype, target, include)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "p"),
    [
        ((1, 512, 7, 7), full((7, 7))),
        ((2, 130, 64, 64), full((64, 64))),  # one plane fills a chunk
        ((1, 3, 150, 100), full((2, 2), stride=(2, 2))),  # rows of windows in several tiles
        ((1, 3, 129, 127), full((3, 3), stride=(2, 2), padding=(1, 1, 1, 1))),
        ((1, 130, 130, 130), full((130, 130))),  # a window in several pieces
        ((1, 5, 90, 601), full((45, 3), stride=(20, 3), padding=(5, 1, 4, 1))),  # pieces, with padding
        ((1, 2, 200, 90), full((50, 90), dilation=(2, 1))),  # pieces of a dilated window
        ((1, 2, 3, 16384), full((3, 16384))),
        ((1, 1, 1, 16384), full((1, 1))),
        ((1, 2, 5, 3000), full((3, 3), padding=(1, 1, 1, 1))),  # columns in overlapping tiles
        ((3, 5, 513, 1), full((1, 1), stride=(2, 1))),
    ],
)
def test_sizes_that_take_another_path(shape: tuple[int, ...], p: dict[str, Any], dtype: Any) -> None:
    assert_average(shape, p, dtype, "trn1", True)
    assert_average(shape, p, dtype, "trn2", False)


@nki.jit
def pool_tiles(x, window, stride, padding, ceil_mode):  # type: ignore[no-untyped-def]
    """Both pooling helpers on one tile of planes, as kernels with several layers call them."""
    planes, height, width = x.shape
    rows = make_sweep("rows", height, Window(window[0], stride[0], 1, (padding[0], padding[2]), ceil_mode))
    columns = make_sweep("columns", width, Window(window[1], stride[1], 1, (padding[1], padding[3]), ceil_mode))
    across = input_span(columns, whole(columns.outputs), whole(columns.size))
    down = input_span(rows, whole(rows.outputs), whole(rows.size))
    results = []
    for kind in ("maximum", "mean"):
        data = load_padded(
            x.reshape((planes, 1, height, width)), down, across, lowest(x.dtype) if kind == "maximum" else 0.0
        )
        result = nl.ndarray((planes, 1, rows.outputs, columns.outputs), dtype=x.dtype, buffer=nl.sbuf)
        if kind == "maximum":
            max_pool_tile(result, data, rows, columns, whole(rows.outputs))
        else:
            average_pool_tile(result, data, rows, columns, whole(rows.outputs), False)
        out = nl.ndarray((planes, rows.outputs, columns.outputs), dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=result)
        results.append(out)
    return tuple(results)


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("window", [(3, 3), (1, 2), (9, 8), (11, 13)])
def test_tiles_in_sbuf(window: tuple[int, int], ceil_mode: bool) -> None:
    x = random((1, 127, 11, 13), np.float32)
    p = full(window, stride=(2, 3), padding=(0, 1, 0, 1) if window == (3, 3) else (0, 0, 0, 0), ceil_mode=ceil_mode)
    given = {name: p[name] for name in ("window", "stride", "padding", "ceil_mode")}
    largest, means = simulator.run(pool_tiles, x[0], **given).outputs
    np.testing.assert_array_equal(largest, windows(x, p, -np.inf, -np.inf).max(axis=(4, 5))[0].astype(np.float32))
    np.testing.assert_allclose(means, np.nanmean(windows(x, p, np.nan, np.nan), axis=(4, 5))[0], rtol=1e-6, atol=2e-6)


def test_sums_do_not_overflow_in_half_precision() -> None:
    x = np.full((1, 2, 16, 16), 60_000, np.float16)
    (result,) = simulator.run(average_pool, x, window=(16, 16)).outputs
    np.testing.assert_array_equal(result, np.full((1, 2, 1, 1), 60_000, np.float16))


def test_padding_never_wins_over_negative_numbers() -> None:
    x = np.full((1, 1, 2, 2), -65504, np.float16)
    result = run_alone(Pool("l", "max", (2, 2), (1, 1), (1, 1, 1, 1)), x)
    np.testing.assert_array_equal(result, np.full((1, 1, 3, 3), -65504, np.float16))


IMAGE = np.zeros((1, 2, 4, 6), np.float32)


@pytest.mark.parametrize(
    ("x", "p", "message"),
    [
        (np.zeros((3, 4, 5), np.float32), full((1, 1)), r"x must be \[B, C, H, W\], got shape \(3, 4, 5\)"),
        (np.zeros((1, 2, 4, 4), np.int32), full((2, 2)), "x must be float32, bfloat16 or float16, got int32"),
        (IMAGE, full((5, 2)), "a window that spans 5 rows does not fit 4 with padding 0 and 0"),
        (IMAGE, full((2, 4), dilation=(1, 2)), "a window that spans 7 columns does not fit 6"),
        (IMAGE, full((2, 0)), "window, stride and dilation must be at least 1, got 0, 1 and 1 columns"),
        (IMAGE, full((2, 2), stride=(0, 1)), "window, stride and dilation must be at least 1, got 2, 0 and 1 rows"),
        (
            IMAGE,
            full((2, 2), padding=(2, 0, 0, 0)),
            r"padding must be smaller than the 2x2 that a window spans, got \(2",
        ),
        (np.zeros((1, 1, 1, 16385), np.float16), full((1, 16385)), "a window may span at most 16384 columns"),
    ],
)
def test_arguments_that_do_not_fit(x: NDArray[Any], p: dict[str, Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        simulator.run(average_pool, x, **p)


def test_a_mean_over_nothing_is_refused() -> None:
    x = np.zeros((1, 1, 1, 4), np.float32)
    with pytest.raises(AssertionError, match="the window of output 0 contains only padding"):
        simulator.run(average_pool, x, window=(2, 1), padding=(2, 0, 2, 0), dilation=(3, 1))
