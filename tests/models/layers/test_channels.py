"""Concatenated, selected and reordered channels."""

from __future__ import annotations

import numpy as np
from onnx_layer import run_onnx
from trninfer.models.layers.channels import ChannelShuffle, ChannelSlice, Concat

X = np.arange(2 * 6 * 3 * 4, dtype=np.float32).reshape(2, 6, 3, 4)


def test_shuffle() -> None:
    shuffled = ChannelShuffle("s", 2).run({}, X)
    assert shuffled[0, :, 0, 0].tolist() == X[0, [0, 3, 1, 4, 2, 5], 0, 0].tolist()


def test_slice_and_concat() -> None:
    np.testing.assert_array_equal(ChannelSlice("c", 1, 4).run({}, X), X[:, 1:4])
    np.testing.assert_array_equal(Concat("c").run({}, X, X[:, :2]), run_onnx("Concat", X, X[:, :2], axis=1))
