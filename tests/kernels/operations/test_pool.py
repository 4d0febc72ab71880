"""Pools of a program, compared with NumPy, from SBUF to SBUF."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view
from random_arrays import normal
from single_operations import load_of, run_operations
from trninfer.kernels.program import AveragePool, MaxPool, Pool
from trninfer.kernels.tiling.windows import Window, make_sweep


def pooled(kind: type[Pool], x: Any, kernel: tuple[int, int], packed: int = 1, **fields: Any) -> Any:
    """Pool [B, C, H, W]; the output size follows from the windows."""
    stride, dilation = fields.get("stride", (1, 1)), fields.get("dilation", (1, 1))
    top, left, bottom, right = fields.get("padding", (0, 0, 0, 0))
    ceil_mode = fields.get("ceil_mode", False)
    sizes = [
        make_sweep(
            "rows", x.shape[2 + axis], Window(kernel[axis], stride[axis], dilation[axis], sides, ceil_mode)
        ).outputs
        for axis, sides in enumerate(((top, bottom), (left, right)))
    ]
    pool = kind(
        name="p",
        channels=x.shape[1],
        rows=sizes[0],
        columns=sizes[1],
        packed=packed,
        kernel=kernel,
        sources=((0,),),
        **fields,
    )
    return run_operations([load_of(x, 0, packed), pool], x, packed=packed)


def windows(x: Any, found: Any, kernel: tuple[int, int], fill: float, **fields: Any) -> Any:
    """Return [B, C, H', W', window], padded with `fill` where windows extend beyond the padding."""
    stride, dilation = fields["stride"], fields["dilation"]
    top, left, _, _ = fields["padding"]
    reach = [(size - 1) * apart + 1 for size, apart in zip(kernel, dilation)]
    over = [(found.shape[2 + a] - 1) * stride[a] + reach[a] for a in range(2)]
    wide = np.full((*x.shape[:2], *(max(over[a], x.shape[2 + a] + (top, left)[a]) for a in range(2))), fill)
    wide[:, :, top : top + x.shape[2], left : left + x.shape[3]] = x
    view = sliding_window_view(wide, reach, axis=(2, 3))[..., :: dilation[0], :: dilation[1]]
    view = view[:, :, :: stride[0], :: stride[1]][:, :, : found.shape[2], : found.shape[3]]
    return view.reshape(*found.shape, -1)


PAIR = st.tuples(st.integers(1, 3), st.integers(1, 3))


@settings(max_examples=30)
@given(st.data())
def test_any_window(data: st.DataObject) -> None:
    kernel, dilation = data.draw(PAIR), data.draw(PAIR)
    padding = tuple(data.draw(st.integers(0, size // 2)) for size in kernel * 2)
    fields: dict[str, Any] = {"stride": data.draw(PAIR), "dilation": dilation, "padding": padding}
    reach = [(size - 1) * apart + 1 for size, apart in zip(kernel, dilation)]
    shape = (4, data.draw(st.sampled_from([1, 5, 129])), *(data.draw(st.integers(least, 9)) for least in reach))
    x = normal(shape, np.float32)
    packed, ceil_mode = data.draw(st.sampled_from([1, 2])) if shape[1] < 64 else 1, data.draw(st.booleans())
    found = pooled(MaxPool, x, kernel, packed, ceil_mode=ceil_mode, **fields)
    np.testing.assert_array_equal(found, windows(x, found, kernel, -np.inf, **fields).max(axis=-1))
    found = pooled(AveragePool, x, kernel, packed, ceil_mode=ceil_mode, **fields)
    expected = np.nanmean(windows(x, found, kernel, np.nan, **fields), axis=-1)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_padding_counts_where_it_should() -> None:
    x = np.ones((1, 2, 3, 3), np.float32)
    found = pooled(AveragePool, x, (2, 2), padding=(1, 1, 0, 0), count_include_pad=True)
    np.testing.assert_allclose(found[0, 1], [[0.25, 0.5, 0.5], [0.5, 1, 1], [0.5, 1, 1]])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_padding_is_below_all_numbers(dtype: Any) -> None:
    lowest = ml_dtypes.finfo(dtype).min
    x = np.full((1, 1, 2, 2), lowest).astype(dtype)
    assert (pooled(MaxPool, x, (2, 2), padding=(1, 1, 1, 1)) == lowest).all()


@pytest.mark.parametrize("shape", [(3, 4, 120, 60), (7, 4, 20, 30)])
def test_images_and_rows_in_bands(shape: tuple[int, int, int, int]) -> None:
    """More rows than are pooled at a time, with padding only above the first band and below the last."""
    x = normal(shape, np.float32)
    fields: dict[str, Any] = {"stride": (1, 1), "dilation": (1, 1), "padding": (1, 1, 1, 1)}
    found = pooled(MaxPool, x, (3, 3), **fields)
    np.testing.assert_array_equal(found, windows(x, found, (3, 3), -np.inf, **fields).max(axis=-1))
