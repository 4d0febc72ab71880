"""Outputs of the forms of a convolution, and their errors relative to float64."""

from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from trninfer import simulator
from trninfer.kernels import fused_conv2d_maxpool, fused_conv2d_maxpool_packed
from trninfer.models.layout import pack_conv2d

Numbers = NDArray[Any]
DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16]
SETTINGS: dict[str, Any] = {"deadline": None, "max_examples": 30}


def convolutions(in_channels: list[int]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw arguments of `check_form`: small images, 3x3 filters, all dtypes and targets."""
    return st.fixed_dictionaries(
        {
            "packed": st.booleans(),
            "dtype": st.sampled_from(DTYPES),
            "shape": st.tuples(st.integers(1, 3), st.sampled_from(in_channels), st.integers(1, 20), st.integers(1, 40)),
            "outputs": st.sampled_from([1, 128, 130]),
            "padding": st.integers(1, 3),
            "pool_size": st.sampled_from([1, 2]),
            "target": st.sampled_from(["trn1", "trn2", "trn3"]),
        }
    )


def convolve(x: Numbers, w: Numbers, bias: Numbers, packed: bool = False, **parameters: Any) -> Numbers:
    """Return the output of either kernel."""
    if packed:
        sizes = {"in_channels": w.shape[1], "kernel_size": w.shape[2]}
        launch = simulator.run(fused_conv2d_maxpool_packed, x, *pack_conv2d(w, bias), **sizes, **parameters)
    else:
        launch = simulator.run(fused_conv2d_maxpool, x, w, bias, **parameters)
    output = launch.outputs[0]
    assert isinstance(output, np.ndarray)
    return output


def exact(x: Numbers, w: Numbers, padding: int = 0) -> Numbers:
    """Return the convolution in float64."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = sliding_window_view(padded, w.shape[2:], axis=(2, 3))
    return np.einsum("bchwij,ocij->bohw", windows, w.astype(np.float64), optimize=True)


def check_form(form: str, dtype: Any, shape: tuple[int, ...], outputs: int, padding: int, **parameters: Any) -> None:
    """Compare a form with float64, with pooling if requested, based on the error of random roundings."""
    rng = np.random.default_rng(sum(shape) + outputs)
    padding = max(padding, -((min(shape[2:]) - 2 - parameters.get("pool_size", 1)) // 2))
    x = rng.standard_normal(shape).astype(dtype)
    w = (rng.standard_normal((outputs, shape[1], 3, 3)) / (3 * shape[1] ** 0.5)).astype(dtype)
    bias = rng.standard_normal(outputs).astype(np.float32 if parameters.get("packed") else dtype)
    output = convolve(x, w, bias, form=form, padding=padding, **parameters)
    expected = exact(x, w, padding) + bias.astype(np.float64)[:, None, None]
    size = np.sqrt(exact(np.square(x.astype(np.float64)), np.square(w.astype(np.float64)), padding)) + abs(expected)
    # The inputs of adjacent outputs are rounded together, also at a border, where one output has fewer of them.
    around = np.pad(size, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="edge")
    size = sliding_window_view(around, (3, 3), axis=(2, 3)).max(axis=(4, 5))
    pool_size = parameters.get("pool_size", 1)
    if pool_size == 2:
        rows, columns = (side // 2 * 2 for side in expected.shape[2:])
        cut = (*expected.shape[:2], rows // 2, 2, columns // 2, 2)
        expected = expected[:, :, :rows, :columns].reshape(cut).max(axis=(3, 5))
        size = size[:, :, :rows, :columns].reshape(cut).max(axis=(3, 5))
    assert output.shape == expected.shape and output.dtype == x.dtype
    unit = {2: 2.0**-8 if np.dtype(dtype).name == "bfloat16" else 2.0**-11, 4: 2.0**-22}[np.dtype(dtype).itemsize]
    np.testing.assert_array_less(np.abs(output.astype(np.float64) - expected), 8 * unit * size + 1e-7)
