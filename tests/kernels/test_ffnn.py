"""The feed-forward network, compared with NumPy in float64."""

from typing import Any

import numpy as np
import pytest
from ffnn_networks import DTYPES, error_of, golden, network
from hypothesis import given, settings
from hypothesis import strategies as st
from trninfer import simulator
from trninfer.kernels import ffnn_forward, ffnn_predict

MATMULS = ["fused", "tiled", "hoist_load", "block_free_dimension", "fully_optimized"]
EXTENTS = st.one_of(st.sampled_from([1, 3, 127, 128, 129]), st.integers(1, 260))


@settings(max_examples=25)
@given(
    n=EXTENTS,
    d=EXTENTS,
    h=EXTENTS,
    c=EXTENTS,
    dtype=st.sampled_from(DTYPES),
    same_dtype=st.booleans(),
    matmul=st.sampled_from(MATMULS),
    target=st.sampled_from(["trn1", "trn2", "trn3"]),
)
def test_any_shape(n: int, d: int, h: int, c: int, dtype: Any, same_dtype: bool, matmul: str, target: str) -> None:
    arrays = network(n, d, h, c, dtype, dtype if same_dtype else np.float32)
    outputs, probabilities = golden(*arrays)
    tolerance = error_of(dtype)

    (result,) = simulator.run(ffnn_forward, *arrays, target=target, matmul=matmul).outputs
    assert result is not None
    assert result.dtype == dtype
    np.testing.assert_allclose(result.astype(np.float64), probabilities, rtol=0, atol=tolerance)

    (classes,) = simulator.run(ffnn_predict, *arrays, target=target, matmul=matmul).outputs
    assert classes is not None
    assert classes.dtype == np.int32
    assert classes.shape == (n,)
    # The class must have the largest output, up to rounding.
    chosen = outputs[np.arange(n), classes]
    assert np.all(outputs.max(axis=1) - chosen <= 4 * tolerance * (1 + np.abs(chosen)))


@pytest.mark.parametrize("matmul", MATMULS)
def test_the_digits_network_s_shape(matmul: str) -> None:
    arrays = network(1797, 64, 32, 10, np.float32, np.float32)
    outputs, probabilities = golden(*arrays)
    (result,) = simulator.run(ffnn_forward, *arrays, matmul=matmul).outputs
    (classes,) = simulator.run(ffnn_predict, *arrays, matmul=matmul).outputs
    np.testing.assert_allclose(result, probabilities, rtol=0, atol=2e-6)
    np.testing.assert_array_equal(classes, outputs.argmax(axis=1))


def test_several_hidden_units_on_a_partition() -> None:
    arrays = network(20, 30, 700, 10, np.float32, np.float32)
    (result,) = simulator.run(ffnn_forward, *arrays).outputs
    np.testing.assert_allclose(result, golden(*arrays)[1], rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    ("changed", "shape", "message"),
    [
        (0, (5,), "x must have 2 dimensions"),
        (1, (7, 6), "w1 must have 8 rows"),
        (2, (1, 7), r"b1 must be a row \[1, 6\], got shape \(1, 7\)"),
        (2, (6,), "b1 must have 2 dimensions"),
        (3, (7, 4), "w2 must have 6 rows"),
        (4, (4, 1), r"b2 must be a row \[1, 4\]"),
    ],
)
def test_shapes_that_do_not_fit(changed: int, shape: tuple[int, ...], message: str) -> None:
    arrays = network(5, 8, 6, 4, np.float32, np.float32)
    arrays[changed] = np.zeros(shape, np.float32)
    for kernel in (ffnn_forward, ffnn_predict):
        with pytest.raises(AssertionError, match=message):
            simulator.run(kernel, *arrays)


@pytest.mark.parametrize(
    ("changed", "dtype", "message"),
    [
        (1, np.float16, "w1 and w2 must have the float32 of x, got float16 and float32"),
        (2, np.float16, "b1 must be float32 or the float32 of x, got float16"),
    ],
)
def test_dtypes_that_do_not_fit(changed: int, dtype: Any, message: str) -> None:
    arrays = network(5, 8, 6, 4, np.float32, np.float32)
    arrays[changed] = arrays[changed].astype(dtype)
    with pytest.raises(AssertionError, match=message):
        simulator.run(ffnn_forward, *arrays)


def test_an_unknown_matmul() -> None:
    with pytest.raises(AssertionError, match=r"matmul must be .* got naive"):
        simulator.run(ffnn_forward, *network(5, 8, 6, 4, np.float32, np.float32), matmul="naive")
