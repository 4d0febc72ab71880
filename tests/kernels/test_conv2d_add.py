"""The convolution fused with a residual sum, compared with the unfused one and the golden model."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from trninfer import simulator
from trninfer.kernels import fused_conv2d_add_packed, fused_conv2d_maxpool_packed
from trninfer.models import golden
from trninfer.models.layout import pack_conv2d

HALF_TOLERANCE = {np.dtype(np.float16): 1e-3, np.dtype(ml_dtypes.bfloat16): 8e-3}  # one rounding of the result


def draw(dtype: Any, *shapes: tuple[int, ...]) -> list[NDArray[Any]]:
    rng = np.random.default_rng(sum(shapes[0]))
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def add(x: NDArray[Any], added: NDArray[Any], w: NDArray[Any], target: str = "trn2", **parameters: Any) -> Any:
    """Return the output of the kernel for a bias of 0.25."""
    packed = pack_conv2d(w, np.full(len(w), 0.25, np.float32), parameters.get("groups", 1))
    given = {"in_channels": x.shape[1], "kernel_size": w.shape[2:], "out_channels": len(w), **parameters}
    return simulator.run(fused_conv2d_add_packed, x, added, *packed, target=target, **given).outputs[0]


@settings(max_examples=60)
@given(
    st.integers(1, 3),
    st.sampled_from([(1, 1, 1), (3, 8, 1), (129, 130, 1), (64, 257, 1), (6, 9, 3)]),
    st.tuples(st.sampled_from([1, 3, 17, 40]), st.sampled_from([1, 2, 19])),
    st.sampled_from([1, 3]),
    st.sampled_from([1, 2]),
    st.sampled_from([np.float32, np.float16, ml_dtypes.bfloat16]),
    st.sampled_from(["trn1", "trn2", "trn3"]),
)
def test_a_tensor_is_added_before_the_activation(
    batch: int, channels: tuple[int, int, int], size: tuple[int, int], k: int, stride: int, dtype: Any, target: str
) -> None:
    cin, cout, groups = channels
    sides = [(side + 2 * (k // 2) - k) // stride + 1 for side in size]
    x, w, added = draw(dtype, (batch, cin, *size), (cout, cin // groups, k, k), (batch, cout, *sides))
    common = {"groups": groups, "padding": (k // 2,) * 4, "stride": (stride, stride), "out_channels": cout}
    result = add(x, added, w, target, activation="relu", **common)
    packed = pack_conv2d(w.astype(np.float32), np.full(cout, 0.25, np.float32), groups)
    wide = simulator.run(
        fused_conv2d_maxpool_packed, x.astype(np.float32), *packed, in_channels=cin, kernel_size=(k, k), **common
    ).outputs[0]
    assert wide is not None and result.dtype == dtype and result.shape == added.shape
    tolerance = HALF_TOLERANCE.get(np.dtype(dtype), 1e-5)
    expected = np.maximum(wide + added.astype(np.float32), 0)
    np.testing.assert_allclose(result.astype(np.float32), expected, rtol=tolerance, atol=10 * tolerance)


def test_images_larger_than_sbuf_and_columns_in_pairs() -> None:
    x, w, added = draw(np.float32, (1, 64, 120, 250), (64, 64, 3, 3), (1, 64, 120, 250))
    result = add(x, added, w, "trn1", padding=1)
    expected = golden.conv2d(x, w, np.full(64, 0.25, np.float32), 1, 1, "identity") + added
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("added", "message"),
    [
        (np.zeros((1, 4, 5, 6), np.float32), r"added must have the shape \(1, 4, 5, 5\) of the result"),
        (np.zeros((1, 4, 5, 5), np.float16), "added must have the dtype of x, float32, got float16"),
    ],
)
def test_arguments_that_do_not_fit(added: NDArray[Any], message: str) -> None:
    x, w = draw(np.float32, (1, 3, 5, 5), (4, 3, 1, 1))
    with pytest.raises(AssertionError, match=message):
        add(x, added, w)


def test_weights_that_fit_only_without_pairs_of_columns() -> None:
    """The last stage of a residual network with several images at a time: filters transformed for pairs would fill
    SBUF."""
    x, w, added = draw(np.float32, (4, 512, 8, 8), (512, 512, 3, 3), (4, 512, 8, 8))
    result = add(x, added, w / 64, padding=(1, 1, 1, 1))
    expected = golden.conv2d(x, w / 64, np.full(512, 0.25, np.float32), 1) + added
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-4)
