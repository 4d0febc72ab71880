"""The default form of a convolution, and the errors of each form."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from conv2d_errors import convolve, exact
from trninfer import simulator
from trninfer.kernels import fused_conv2d_maxpool

BFLOAT16 = ml_dtypes.bfloat16


def latency(dtype: Any, cin: int, cout: int, side: int, form: str, target: str = "trn2", k: int = 3) -> float:
    """Return the predicted time in microseconds, or infinity if the form is not available."""
    shapes = (1, cin, side, side), (cout, cin, k, k), (cout,)
    arrays = [np.zeros(shape, dtype) for shape in shapes]
    try:
        run = simulator.run(fused_conv2d_maxpool, *arrays, functional=False, padding=1, form=form, target=target)
    except AssertionError:
        return float("inf")
    return float(run.latency_us)


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(
    ("cin", "cout", "side"),
    [(64, 64, 56), (128, 128, 14), (128, 128, 28), (256, 256, 28), (256, 128, 64), (512, 512, 14)],
)
def test_the_quickest_is_quick(dtype: Any, cin: int, cout: int, side: int, target: str) -> None:
    """The kernel's rule is never slower than the direct form, and at most 15 % slower than the best form."""
    direct, *others = (latency(dtype, cin, cout, side, form, target) for form in ("direct", "pairs", "squares"))
    assert latency(dtype, cin, cout, side, "quickest", target) <= min(direct, 1.15 * min(others))


def test_filters_that_do_not_fit_in_one_form_take_the_next() -> None:
    """Transformed for squares, 512 x 512 filters take 128 KiB per partition; for pairs they take 96 KiB."""
    assert latency(np.float32, 512, 512, 28, "squares") == float("inf")
    assert latency(np.float32, 512, 512, 28, "quickest") == latency(np.float32, 512, 512, 28, "pairs")


@pytest.mark.parametrize(("dtype", "form"), [(np.float32, "squares"), (np.float16, "pairs"), (BFLOAT16, "pairs")])
def test_large_images_of_many_channels_take_fewer_matmuls(dtype: Any, form: str) -> None:
    quickest = latency(dtype, 256, 256, 112, "quickest")
    assert quickest == latency(dtype, 256, 256, 112, form)
    assert quickest < 0.85 * latency(dtype, 256, 256, 112, "direct")


def test_other_filters_and_few_channels_are_direct() -> None:
    for cin, k in ((256, 5), (3, 3), (40, 3)):
        assert latency(np.float32, cin, 16, 64, "quickest", k=k) == latency(np.float32, cin, 16, 64, "direct", k=k)
        assert latency(np.float32, cin, 16, 64, "pairs", k=k) == float("inf")


def test_a_form_that_there_is_not_is_refused() -> None:
    zeros = np.zeros((1, 4, 5, 5), np.float32), np.zeros((2, 4, 3, 3), np.float32), np.zeros(2, np.float32)
    with pytest.raises(AssertionError, match="form must be one of quickest, direct, pairs, squares, got cubes"):
        convolve(*zeros, form="cubes")


@pytest.mark.parametrize("kind", ["relu", "uniform", "normal"])
@pytest.mark.parametrize(
    ("dtype", "form"), [(np.float32, "pairs"), (np.float32, "squares"), (np.float16, "pairs"), (BFLOAT16, "pairs")]
)
def test_errors_are_at_most_twice_those_of_the_direct_form(dtype: Any, form: str, kind: str) -> None:
    """Root mean square errors against float64."""
    rng = np.random.default_rng(1)
    draw = {"relu": lambda shape: np.maximum(rng.standard_normal(shape), 0), "uniform": rng.random}
    x = draw.get(kind, rng.standard_normal)((1, 128, 34, 66)).astype(dtype)
    w = (rng.standard_normal((64, 128, 3, 3)) / 34).astype(dtype)
    expected = exact(x, w)
    errors = [
        np.sqrt(np.square(convolve(x, w, np.zeros(64, dtype), form=one) - expected).mean()) for one in ("direct", form)
    ]
    assert errors[1] <= 2 * errors[0]


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16])
@pytest.mark.parametrize("mean", [1, 16])
def test_errors_of_filters_that_sum_to_zero_grow_with_the_mean(dtype: Any, mean: int) -> None:
    """As documented in docs/convolutions.md: 1.3 times the mean divided by the standard deviation, if that ratio is
    large."""
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((1, 128, 18, 34)) + mean).astype(dtype)
    w = rng.standard_normal((64, 128, 3, 3))
    w = ((w - w.mean((2, 3), keepdims=True)) / 34).astype(dtype)
    expected = exact(x, w)[..., 1:-1, 1:-1]
    direct, pairs = (
        np.sqrt(np.square(convolve(x, w, np.zeros(64, dtype), form=form)[..., 1:-1, 1:-1] - expected).mean())
        for form in ("direct", "pairs")
    )
    assert mean <= pairs / direct <= 1.86 + 1.3 * mean
