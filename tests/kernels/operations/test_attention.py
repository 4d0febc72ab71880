"""Attention in a program, compared with float64: heads, lengths, dtypes, targets, biases, and sequences by rows."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from single_operations import LaidOut, load_of, run_operations
from trninfer.kernels.attention_operation import Attention

TOLERANCE = {np.dtype(np.float32): 2e-5, np.dtype(np.float16): 4e-3, np.dtype(ml_dtypes.bfloat16): 3e-2}
pytestmark = pytest.mark.filterwarnings("error")  # warnings about rules of the chip

BF16, F16, F32 = ml_dtypes.bfloat16, np.float16, np.float32


def check(
    heads: int,
    features: tuple[int, int],
    image: tuple[int, int],
    others: tuple[int, int] | None = None,
    dtype: Any = F32,
    by_rows: bool = False,
    bias: tuple[int, int] | None = None,
    scale: float = 0.3,
    batch: int = 2,
    target: str = "trn2",
    margin: tuple[int, int, int, int] = (0, 0, 0, 0),
    tolerance: float = 0.0,
    is_linear: bool = False,
) -> None:
    """`features`: the number of features of a head, for queries and for values. `others`: the image that provides the
    keys. `bias`: its numbers of heads and rows."""
    rng = np.random.default_rng(heads * image[1] + features[0])
    others = others or image
    shapes = [(features[0], image), (features[0], others), (features[1], others)]
    q, k, v = (rng.standard_normal((batch, heads * count, *size)).astype(dtype) for count, size in shapes)
    rows = image[0] if by_rows else 1
    tokens = image[0] * image[1] // rows, others[0] * others[1] // rows
    shape = (*bias, *tokens) if bias else ()
    numbers = (3 * rng.standard_normal(shape)).astype(dtype) if bias else None
    operation = Attention(
        name="a",
        channels=heads * features[1],
        rows=image[0],
        columns=image[1],
        sources=((0,), (1,), (2,)),
        heads=heads,
        scale=scale,
        by_rows=by_rows,
        bias_shape=shape,
        is_linear=is_linear,
        margin=margin,
    )
    loads = [load_of(x, number, margin=margin) for number, x in enumerate((q, k, v))]
    found = run_operations(
        [*loads, operation], q, k, v, weights=() if numbers is None else LaidOut(numbers.ravel(), ()), target=target
    )

    def split(x: Any) -> Any:
        own = x.astype(np.float64).reshape(batch, heads, x.shape[1] // heads, rows, -1)
        return own.transpose(0, 1, 3, 4, 2)  # [batch, head, row, token, feature]

    scores = scale * split(q) @ split(k).swapaxes(3, 4) + (0 if numbers is None else numbers.astype(np.float64))
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = (scores if is_linear else weights / weights.sum(-1, keepdims=True)) @ split(v)
    expected = mixed.transpose(0, 1, 4, 2, 3).reshape(batch, -1, *image)
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=0, atol=tolerance or TOLERANCE[np.dtype(dtype)])


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("dtype", [F32, BF16, F16])
@pytest.mark.parametrize("tokens", [1, 3, 49, 197, 257])
def test_lengths_dtypes_and_targets(tokens: int, dtype: Any, target: str) -> None:
    check(3, (64, 64), (1, tokens), dtype=dtype, target=target, batch=1 + (tokens < 100))


@pytest.mark.parametrize("dtype", [F32, BF16])
def test_more_keys_than_banks_of_psum_hold(dtype: Any) -> None:
    check(1, (32, 32), (1, 70), (1, 1025), dtype=dtype, batch=1)
    check(2, (16, 48), (1, 1025), dtype=dtype, batch=1)


@pytest.mark.parametrize(
    ("heads", "features"), [(1, (8, 8)), (4, (36, 36)), (8, (48, 48)), (5, (20, 70)), (2, (150, 300))]
)
@pytest.mark.parametrize("dtype", [F32, F16])
def test_heads_that_share_tiles_or_cross_them(heads: int, features: tuple[int, int], dtype: Any) -> None:
    check(heads, features, (1, 9), (1, 11), dtype=dtype)


@pytest.mark.parametrize("margin", [(0, 0, 0, 0), (1, 1, 1, 1), (0, 2, 1, 0)])
def test_pixels_of_images_with_zeros_around_them(margin: tuple[int, int, int, int]) -> None:
    check(2, (32, 64), (5, 7), margin=margin)
    check(2, (24, 24), (5, 7), margin=margin, by_rows=True)


@pytest.mark.parametrize("bias", [(1, 1), (3, 1), (3, 6), (1, 6)])
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_rows_as_sequences_with_a_bias(bias: tuple[int, int], dtype: Any) -> None:
    check(3, (32, 32), (6, 49), dtype=dtype, by_rows=True, bias=bias)


def test_biases_of_long_sequences_and_of_one_token() -> None:
    check(2, (32, 32), (1, 150), (1, 700), bias=(2, 1), batch=2)
    check(2, (32, 32), (1, 1), (1, 6), bias=(2, 1), dtype=F16)


def test_large_scores_of_either_sign() -> None:
    """The maximum of each row is subtracted before the exponential; otherwise the sums would overflow or underflow."""
    check(1, (64, 64), (1, 60), scale=40.0, tolerance=2e-3)
    check(1, (64, 64), (1, 200), scale=-40.0, tolerance=2e-3)


@pytest.mark.parametrize("keys", [1, 40, 700])
def test_products_without_a_softmax(keys: int) -> None:
    check(3, (16, 17), (1, 50), (1, keys), is_linear=True, tolerance=1e-4)
    check(3, (16, 17), (2, 9), (2, 9), by_rows=True, is_linear=True)


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_random_attention(data: st.DataObject) -> None:
    heads = data.draw(st.integers(1, 9))
    rows = data.draw(st.integers(1, 4))
    by_rows = data.draw(st.booleans())
    has_bias = data.draw(st.booleans())
    keys = data.draw(st.integers(1, 140))
    check(
        heads,
        (data.draw(st.integers(1, 70)), data.draw(st.integers(1, 70))),
        (rows, data.draw(st.integers(1, 140))),
        (rows, keys) if by_rows else (1, keys),
        dtype=data.draw(st.sampled_from([F32, BF16, F16])),
        by_rows=by_rows,
        bias=(data.draw(st.sampled_from([1, heads])), data.draw(st.sampled_from([1, rows])) if by_rows else 1)
        if has_bias
        else None,
        batch=data.draw(st.integers(1, 3)),
    )


@pytest.mark.parametrize("dtype", [BF16, F16])
@pytest.mark.parametrize(("heads", "tokens"), [(13, 100), (3, 130), (1, 40), (2, 250)])
def test_weights_of_16_bits_are_summed_by_a_product(heads: int, tokens: int, dtype: Any) -> None:
    """With 13 heads and few keys, one head is alone in its group. The weights of the other heads are divided by their
    sums."""
    check(heads, (6, 10), (1, tokens), dtype=dtype, scale=2.0, batch=1)


@pytest.mark.parametrize(
    ("heads", "features", "image"),
    [(16, (32, 32), (2, 144)), (13, (32, 64), (5, 129)), (8, (64, 64), (4, 129)), (16, (64, 64), (2, 196))],
)
def test_sums_of_many_tiles_of_channels_leave_psum_to_the_scores(
    heads: int, features: tuple[int, int], image: tuple[int, int]
) -> None:
    """The sums of several rows, together with the weights of each, would fill all banks."""
    check(heads, features, image, dtype=BF16, by_rows=True, batch=1)


def test_sums_of_many_rows_with_few_keys_leave_psum_to_the_scores() -> None:
    check(32, (32, 32), (11, 49), by_rows=True, batch=1)
