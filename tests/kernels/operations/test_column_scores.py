"""The scores of one picture with the classes on the partitions, compared with NumPy."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_arrays import normal, small_integers
from single_operations import columns_of, lay_out_weights, load_of, run_operations
from trninfer.kernels.program import DenseHead, Load

F32 = np.float32


def scored(x: Any, w: Any, bias: Any, target: str = "trn2") -> Any:
    """Return (scores, classes) of a dense layer on [1, C, H, W] with weights [classes, C, H, W]."""
    classes, channels = w.shape[:2]
    steps = w.reshape(classes, channels, -1).transpose(1, 2, 0)
    units = {t: steps[first : first + 128] for t, first in enumerate(range(0, channels, 128))}
    last = DenseHead(
        name="s",
        channels=classes,
        rows=1,
        columns=1,
        kernel=w.shape[2:],
        bias=1,
        by_columns=True,
        sources=((0,),),
    )
    constants = columns_of([9.0], bias, np.arange(128))
    return run_operations([load_of(x), last], x, weights=lay_out_weights([units]), constants=constants, target=target)


@settings(max_examples=40)
@given(
    st.sampled_from([129, 130, 160, 255, 256, 257, 1000, 1024, 1030]),
    st.sampled_from([(1, 1), (3, 2), (64, 1), (128, 1), (130, 1), (300, 1)]),
    st.sampled_from([F32, ml_dtypes.bfloat16, np.float16]),
    st.sampled_from(["trn1", "trn2", "trn3"]),
    st.integers(0, 1000),
)
def test_scores_and_the_first_of_the_largest(
    classes: int, inputs: tuple[int, int], dtype: Any, target: str, seed: int
) -> None:
    """Small integers, whose maximum is often shared by several classes."""
    channels, side = inputs
    x = small_integers(1, channels, side, side, dtype=dtype, seed=seed)
    w = small_integers(classes, channels, side, side, seed=seed + 1)
    w[:, 2:] = 0  # keeps sums exact, with few distinct values
    bias = small_integers(classes, seed=seed + 2).astype(F32)
    scores, found = scored(x, w.astype(F32), bias, target=target)
    logits = np.einsum("bchw,nchw->bn", x.astype(F32), w.astype(F32)) + bias
    np.testing.assert_array_equal(scores.astype(F32), logits)
    assert found.tolist() == [logits.argmax()]


@pytest.mark.parametrize("largest", [(5, 133), (133, 6), (250, 251), (0, 128, 256), (299,), (127, 128), (290, 35)])
def test_of_equal_classes_the_first_stands_whatever_partition_it_is_in(largest: tuple[int, ...]) -> None:
    bias = normal((300,), F32)
    bias[list(largest)] = 99.0
    scores, found = scored(np.zeros((1, 3, 1, 1), F32), np.zeros((300, 3, 1, 1), F32), bias)
    np.testing.assert_array_equal(scores[0], bias)
    assert found.tolist() == [min(largest)]


@pytest.mark.parametrize("everywhere", [-np.inf, np.inf, np.nan, -3e38, 3e38])
def test_the_class_is_one_of_them_whatever_the_numbers_are(everywhere: float) -> None:
    bias = np.full(300, everywhere, F32)
    with np.errstate(all="ignore"):
        _, found = scored(np.zeros((1, 3, 1, 1), F32), np.zeros((300, 3, 1, 1), F32), bias)
    assert 0 <= found[0] < 300


def test_several_pictures_are_refused() -> None:
    x, w = np.zeros((2, 3, 1, 1), F32), np.zeros((300, 3, 1, 1), F32)
    assert isinstance(load_of(x), Load)
    with pytest.raises(AssertionError, match="scores by columns require one picture, got 2 images of 1"):
        scored(x, w, np.zeros(300))
