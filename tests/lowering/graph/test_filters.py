"""Transformed filters, compared with the convolutions that they represent."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trninfer.kernels.convolution.forms import Form
from trninfer.lowering.graph.filters import combined, ungroup, ungrouped
from trninfer.lowering.graph.lazy import LazyArray
from trninfer.models.layers import Conv2d


@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 4), st.sampled_from([(1, 1), (3, 2)]))
def test_grouped_filters_of_all_channels_compute_the_same(
    groups: int, each_in: int, each_out: int, kernel: tuple[int, int]
) -> None:
    random = np.random.default_rng(1)
    filters = random.standard_normal((groups * each_out, each_in, *kernel)).astype(np.float32)
    x = random.standard_normal((2, groups * each_in, 4, 5)).astype(np.float32)
    whole = ungroup(filters, groups)
    assert whole.shape == ungrouped(LazyArray.of(filters), groups).shape == (len(filters), x.shape[1], *kernel)
    assert np.count_nonzero(whole) == np.count_nonzero(filters)
    layers = [Conv2d("a", x.shape[1], len(filters), kernel, groups=count) for count in (1, groups)]
    bias = np.zeros(len(filters), np.float32)
    one, other = (layer.run({"weight": w, "bias": bias}, x) for layer, w in zip(layers, (whole, filters)))
    np.testing.assert_allclose(one, other, atol=1e-5)


def test_filters_of_one_group_are_not_copied() -> None:
    filters = np.ones((4, 3, 3, 3), np.float32)
    assert ungroup(filters, 1) is filters and combined(filters, Form.DIRECT) is filters


def test_pairs_of_outputs_are_four_products_of_combined_taps() -> None:
    """Minimal filtering F(2, 3): two outputs of three taps from four products."""
    random = np.random.default_rng(2)
    filters, row = random.standard_normal((1, 1, 1, 3)), random.standard_normal(4)
    expected = [row[place : place + 3] @ filters[0, 0, 0] for place in range(2)]
    first, sums, differences, last = combined(filters.astype(np.float32), Form.PAIRS)[0, 0, 0]
    products = (
        (row[0] - row[2]) * first,
        (row[1] + row[2]) / 2 * sums,
        (row[2] - row[1]) / 2 * differences,
        (row[1] - row[3]) * last,
    )
    given = [products[0] + products[1] + products[2], products[1] - products[2] - products[3]]
    np.testing.assert_allclose(given, expected, rtol=1e-5)


@pytest.mark.parametrize(("form", "shape"), [(Form.PAIRS, (4, 2, 3, 4)), (Form.SQUARES, (4, 2, 4, 4))])
def test_combinations_are_float32_before_they_are_rounded(form: Form, shape: tuple[int, ...]) -> None:
    filters = np.random.default_rng(3).standard_normal((4, 2, 3, 3)).astype(np.float16)
    found = combined(filters, form)
    assert (found.shape, found.dtype) == (shape, np.float32)
    np.testing.assert_array_equal(found, combined(filters.astype(np.float32), form))
