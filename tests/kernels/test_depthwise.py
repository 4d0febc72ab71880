"""Depthwise convolution against NumPy in float64: any filter, stride, padding and dilation, in each dtype."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from trninfer import simulator
from trninfer.kernels import depthwise_conv2d
from trninfer.kernels.depthwise import bank_pieces, tensor_engine_taps

DTYPES = [np.float32, ml_dtypes.bfloat16, np.float16]
TARGETS = ["trn1", "trn2", "trn3"]
ROUNDING = {np.float32: 1e-6, ml_dtypes.bfloat16: 2.0**-8, np.float16: 2.0**-11}


def golden(x: NDArray[Any], w: NDArray[Any], bias: NDArray[Any], p: dict[str, Any]) -> NDArray[np.float64]:
    top, left, bottom, right = p["padding"]
    data = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    (down, across), dilation, stride = w.shape[2:], p["dilation"], p["stride"]
    reaches = ((down - 1) * dilation[0] + 1, (across - 1) * dilation[1] + 1)
    every = sliding_window_view(data, reaches, axis=(2, 3))[:, :, :: stride[0], :: stride[1]]
    taps = every[..., :: dilation[0], :: dilation[1]]
    return np.einsum("bcyxij,cij->bcyx", taps, w[:, 0].astype(np.float64)) + bias[:, None, None]


def assert_convolves(
    shape: tuple[int, ...], kernel: tuple[int, int], p: dict[str, Any], dtype: Any, target: str = "trn2"
) -> None:
    rng = np.random.default_rng([*shape, *kernel])
    p = {"stride": (1, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1), **p}
    x = rng.standard_normal(shape).astype(dtype)
    w = rng.standard_normal((shape[1], 1, *kernel)).astype(dtype)
    bias = rng.standard_normal(shape[1]).astype(np.float32)
    (result,) = simulator.run(
        depthwise_conv2d, x, w, bias, target=target, activation="leaky_relu", parameters=(0.2,), **p
    ).outputs
    assert result is not None and result.dtype == x.dtype
    sums = golden(x, w, bias, p)
    expected = np.where(sums > 0, sums, 0.2 * sums)
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=ROUNDING[dtype], atol=1e-6 * w[0].size)


@st.composite
def axes(draw: Any) -> tuple[int, int, int, int, int, int]:
    """(extent, filter, stride, dilation, before, after) of an axis, such that there is an output."""
    size, dilation = draw(st.sampled_from([1, 2, 3, 3, 5])), draw(st.sampled_from([1, 1, 2]))
    before, after = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    extent = max(1, (size - 1) * dilation + 1 - before - after) + draw(st.integers(0, 14))
    return extent, size, draw(st.sampled_from([1, 1, 2, 3])), dilation, before, after


@given(
    planes=st.sampled_from([(1, 1), (2, 3), (1, 127), (1, 129), (3, 130), (1, 513), (130, 2)]),
    rows=axes(),
    columns=axes(),
    dtype=st.sampled_from(DTYPES),
    target=st.sampled_from(TARGETS),
)
def test_any_filter(planes: tuple[int, int], rows: Any, columns: Any, dtype: Any, target: str) -> None:
    (height, *down), (width, *across) = rows, columns
    kernel, stride, dilation, before, after = zip(down, across)
    p = {"stride": stride, "dilation": dilation, "padding": (*before, *after)}
    assert_convolves((*planes, height, width), kernel, p, dtype, target)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "kernel", "p"),
    [
        ((1, 32, 60, 61), (3, 3), {"padding": (1, 1, 1, 1)}),  # many pieces of a bank
        ((1, 5, 127, 129), (3, 3), {"stride": (2, 2), "padding": (0, 0, 1, 1)}),  # several blocks of rows
        ((1, 2, 4, 1100), (3, 3), {"padding": (1, 1, 1, 1)}),  # rows longer than a bank
        ((1, 2, 3, 3000), (3, 3), {"padding": (1, 1, 1, 1)}),  # blocks of columns
        ((1, 130, 20, 20), (7, 7), {"padding": (3, 3, 3, 3)}),
        ((2, 3, 40, 40), (11, 11), {"padding": (5, 5, 5, 5)}),  # more taps than there are diagonals for
        ((2, 3, 100, 92), (3, 3), {"dilation": (45, 40)}),  # spans more than a chunk
        ((5, 300, 7, 7), (3, 3), {"padding": (1, 1, 1, 1)}),  # several channels of several images on a partition
        ((1, 1, 1, 1), (1, 1), {"padding": (2, 0, 0, 1)}),
    ],
)
def test_sizes_that_take_another_path(
    shape: tuple[int, ...], kernel: tuple[int, int], p: dict[str, Any], dtype: Any
) -> None:
    assert_convolves(shape, kernel, p, dtype)


def test_taps_are_shared_out() -> None:
    shares = {tensor_engine_taps(9, 3136, dtype) for dtype in ("float32", "bfloat16", "float16")}
    assert shares == {4, 7}
    assert tensor_engine_taps(9, 49, "bfloat16") == tensor_engine_taps(1, 3136, "bfloat16") == 0
    assert tensor_engine_taps(3969, 3136, "bfloat16") == 64


def test_pieces_cover_an_output_once() -> None:
    for shape in [(1, 1, 1), (3, 7, 7), (1, 56, 56), (2, 5, 1030), (1, 513, 3)]:
        seen = np.zeros(shape, int)
        for images, rows, columns in bank_pieces(*shape):
            part = seen[images.start : images.end, rows.start : rows.end, columns.start : columns.end]
            assert 0 < part.size <= 512
            part += 1
        assert (seen == 1).all()


IMAGE, FILTER, BIAS = np.zeros((1, 2, 4, 6), np.float32), np.zeros((2, 1, 3, 3), np.float32), np.zeros(2, np.float32)


@pytest.mark.parametrize(
    ("x", "w", "bias", "p", "message"),
    [
        (IMAGE[0], FILTER, BIAS, {}, r"x must be \[B, C, H, W\], got shape \(2, 4, 6\)"),
        (IMAGE.astype(np.int32), FILTER, BIAS, {}, "x must be float32, bfloat16 or float16, got int32"),
        (IMAGE, FILTER[:1], BIAS, {}, r"w must be \[2, 1, kh, kw\] for x of shape"),
        (IMAGE, FILTER.astype(np.float16), BIAS, {}, "w must have the float32 of x, got float16"),
        (IMAGE, FILTER, BIAS[:1], {}, r"bias must be \[2\], got shape"),
        (IMAGE, FILTER, BIAS.astype(np.float16), {}, "bias must be float32 or the float32 of x, got float16"),
        (IMAGE, FILTER, BIAS, {"dilation": (2, 1)}, "a window that spans 5 rows does not fit 4 with padding 0 and 0"),
        (
            IMAGE,
            FILTER,
            BIAS,
            {"stride": (0, 1)},
            "window, stride and dilation must be at least 1, got 3, 0 and 1 rows",
        ),
        (IMAGE, FILTER, BIAS, {"padding": (-1, 0, 0, 0)}, "padding must be at least 0 rows, got -1 and 0"),
        (np.zeros((1, 2, 99, 99), np.float32), FILTER, BIAS, {"dilation": (49, 49)}, "may span at most 8192 pixels"),
    ],
)
def test_arguments_that_do_not_fit(x: Any, w: Any, bias: Any, p: dict[str, Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        simulator.run(depthwise_conv2d, x, w, bias, **p)
