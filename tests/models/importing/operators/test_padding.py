"""Padding by zeros, by numbers and by an image's own pixels, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx_chain import Chain, assert_imports

SETTINGS = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


def features(chain: Chain, folder: Path, opset: int = 20, batch: int = 2) -> None:
    """What comes out as features, compared as it is."""
    chain.add("Flatten")
    assert_imports(chain, folder, opset, batch)


def test_rows_and_columns_are_cut_and_skipped_and_channels_padded(tmp_path: Path) -> None:
    """The shortcut of residual networks for CIFAR: every other pixel, and zeros for the new channels."""
    chain = Chain(3, 9, 8)
    ends, axes, steps = chain.constant([1 << 62, 7]), chain.constant([2, 3]), chain.constant([2, 2])
    chain.add("Slice", chain.constant([0, -8]), ends, axes, steps)
    chain.add("Pad", chain.constant([0, 1, 0, 0, 0, 2, 0, 0]), chain.constant(0.0))
    chain.add("Pad", chain.constant([0, 0, 1, 0, 0, 0, 0, 2]), chain.constant(1.5))
    features(chain, tmp_path)


@SETTINGS
@given(
    side=st.tuples(st.integers(3, 6), st.integers(3, 6)),
    pads=st.tuples(*[st.integers(0, 2)] * 4),
    mode=st.sampled_from(["reflect", "edge", "wrap"]),
)
def test_padding_by_pixels(side, pads, mode, tmp_path: Path) -> None:
    chain = Chain(3, *side)
    chain.add("Pad", chain.constant([0, 0, *pads[:2], 0, 0, *pads[2:]]), mode=mode)
    features(chain, tmp_path)


def test_channels_last_are_padded_by_pixels(tmp_path: Path) -> None:
    chain = Chain(5, 6, 3)
    chain.add("Pad", chain.constant([0, 1, 2, 0, 0, 2, 1, 0]), mode="reflect")
    chain.add("Transpose", perm=[0, 3, 1, 2])
    chain.conv((3, 4))
    features(chain, tmp_path)
