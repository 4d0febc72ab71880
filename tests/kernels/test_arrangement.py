"""Permuted axes, compared with NumPy bit by bit."""

from typing import Any

import ml_dtypes
import nki
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from trninfer import simulator
from trninfer.kernels.arrangement import permute_images

DTYPES = [np.float32, ml_dtypes.bfloat16, np.float16]
dtypes, targets = st.sampled_from(DTYPES), st.sampled_from(["trn1", "trn2", "trn3"])


def numbered(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    return (np.arange(np.prod(shape)).reshape(shape) % 251).astype(dtype)


@nki.jit
def permute(x, split, order):  # type: ignore[no-untyped-def]
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    permute_images(out, x, split, order)
    return out


def run(x: Any, **given: Any) -> Any:
    (result,) = simulator.run(permute, x.reshape(len(x), -1), **given).outputs
    return result


@given(
    st.sampled_from([1, 3]),
    st.lists(st.sampled_from([1, 2, 3, 5, 17]), min_size=1, max_size=5),
    st.randoms(use_true_random=False),
    dtypes,
    targets,
)
def test_permute(batch: int, split: list[int], random: Any, dtype: Any, target: str) -> None:
    order = list(range(len(split)))
    random.shuffle(order)
    x = numbered((batch, int(np.prod(split))), dtype)
    expected = x.reshape(batch, *split).transpose(0, *(axis + 1 for axis in order)).reshape(batch, -1)
    np.testing.assert_array_equal(run(x, target=target, split=tuple(split), order=tuple(order)), expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_channels_go_last_and_first(dtype: Any) -> None:
    x = numbered((2, 129, 13, 11), dtype)
    last = run(x, split=(129, 13, 11), order=(1, 2, 0))
    np.testing.assert_array_equal(last, x.transpose(0, 2, 3, 1).reshape(2, -1))
    np.testing.assert_array_equal(run(last, split=(13, 11, 129), order=(2, 0, 1)), x.reshape(2, -1))


def test_more_axes_than_a_dma_has_are_refused() -> None:
    with pytest.raises(AssertionError, match="at most 5 axes can move on their own"):
        run(numbered((1, 64), np.float32), split=(2,) * 6, order=(5, 4, 3, 2, 1, 0))
