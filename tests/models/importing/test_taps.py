"""Filters lose the taps that always read padding, and compute the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from onnx_chain import Chain, assert_imports
from trninfer.models.importing import ImportOptions
from trninfer.models.importing.taps import drop_unmet_taps
from trninfer.models.layers import Conv2d


@pytest.mark.parametrize(("dilation", "kernel"), [(12, (1, 1)), (8, (1, 1)), (7, (3, 3)), (1, (3, 3))])
def test_a_filter_wider_than_the_image_becomes_its_middle(
    dilation: int, kernel: tuple[int, int], tmp_path: Path
) -> None:
    chain = Chain(3, 8, 8)
    chain.conv((3, 4), dilations=[dilation] * 2, pads=[dilation] * 4)
    layers = assert_imports(chain, tmp_path, options=ImportOptions(output_kind="values")).network.layers
    assert [layer.kernel_size for layer in layers if isinstance(layer, Conv2d)] == [kernel]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    side=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    kernel=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    dilation=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    padding=st.tuples(*[st.integers(0, 12)] * 4),
)
def test_answers_stay(side, kernel, stride, dilation, padding) -> None:
    layer = Conv2d("c", 2, 3, kernel, padding, 1, stride=stride, dilation=dilation)
    reach = [(taps - 1) * apart + 1 for taps, apart in zip(kernel, dilation)]
    assume(all(side[axis] + padding[axis] + padding[axis + 2] >= reach[axis] for axis in (0, 1)))
    random = np.random.default_rng(0)
    weight = random.standard_normal((3, 2, *kernel)).astype(np.float32)
    x = random.standard_normal((2, 2, *side)).astype(np.float32)
    found = drop_unmet_taps(layer, weight, (2, *side))
    if found is not None:
        smaller, less = found
        assert smaller.kernel_size != layer.kernel_size and less.shape[2:] == smaller.kernel_size
        bias = np.ones(3, np.float32)
        expected = layer.run({"weight": weight, "bias": bias}, x)
        np.testing.assert_allclose(smaller.run({"weight": less, "bias": bias}, x), expected, atol=1e-5)
