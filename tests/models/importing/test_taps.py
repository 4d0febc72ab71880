"""Filters lose the taps that always read padding, and compute the same."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
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


class Axis(NamedTuple):
    """An axis of an image, and taps that fit in it with its padding."""

    side: int
    taps: int
    dilation: int
    before: int
    after: int


@st.composite
def axes(draw: st.DrawFn) -> Axis:
    side, before, after = draw(st.integers(1, 6)), draw(st.integers(0, 12)), draw(st.integers(0, 12))
    padded = side + before + after
    taps = draw(st.integers(1, min(5, padded)))
    farthest = min(7, (padded - 1) // (taps - 1)) if taps > 1 else 7
    return Axis(side, taps, draw(st.integers(1, farthest)), before, after)


@settings(max_examples=150)
@given(axes(), axes(), st.tuples(st.integers(1, 3), st.integers(1, 3)))
def test_answers_stay(rows: Axis, columns: Axis, stride: tuple[int, int]) -> None:
    kernel, side = (rows.taps, columns.taps), (rows.side, columns.side)
    padding = (rows.before, columns.before, rows.after, columns.after)
    layer = Conv2d("c", 2, 3, kernel, padding, 1, stride=stride, dilation=(rows.dilation, columns.dilation))
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
