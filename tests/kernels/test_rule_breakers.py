"""Kernels that deliberately break rules compute the documented results, and the simulator warns of reported rules."""

import warnings

import ml_dtypes
import numpy as np
import pytest
from trninfer import simulator
from trninfer.kernels import psum_half_word, sbuf_without_fallback, single_column
from trninfer.simulator.machine.errors import ReportedOnChipWarning


def run(kernel, *arrays):
    """Return the result of a kernel and the number of reported rules that it breaks."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        (result,) = simulator.run(kernel, *arrays).outputs
    return result, sum(each.category is ReportedOnChipWarning for each in caught)


@pytest.mark.parametrize(("dtype", "breaks"), [(np.float32, False), (ml_dtypes.bfloat16, True), (np.float16, True)])
@pytest.mark.parametrize("rows", [1, 3, 127])
def test_rules_of_16_bits_are_broken_and_the_result_is_right(dtype, breaks, rows) -> None:
    a = np.random.default_rng(0).standard_normal((rows, 8)).astype(dtype)
    result, warned = run(psum_half_word, a)
    np.testing.assert_array_equal(result, a.T)
    assert bool(warned) == breaks
    result, warned = run(single_column, a[:, :1].copy())
    np.testing.assert_array_equal(result, 2 * a[:, :1])
    assert bool(warned) == breaks


@pytest.mark.parametrize("blocks", [1, 3])
def test_blocks_are_held_and_come_back_in_reverse(blocks) -> None:
    a = np.random.default_rng(0).standard_normal((blocks * 128, 5)).astype(np.float32)
    result, warned = run(sbuf_without_fallback, a)
    np.testing.assert_array_equal(result, a.reshape(blocks, 128, 5)[::-1].reshape(a.shape))
    assert warned == 0 and sbuf_without_fallback.configs.compile_config.nki_alloc_fallback is False


@pytest.mark.parametrize(
    ("kernel", "shape", "told"),
    [
        (psum_half_word, (129, 4), "at most 128 rows and columns"),
        (single_column, (4, 2), r"a must be \[1 to 128, 1\]"),
        (sbuf_without_fallback, (127, 4), "a multiple of 128 rows, got 127"),
    ],
)
def test_other_shapes_are_refused(kernel, shape, told) -> None:
    with pytest.raises(AssertionError, match=told):
        simulator.run(kernel, np.zeros(shape, np.float32))
