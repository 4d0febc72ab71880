"""Softmax over runs of channels and over rows, compared with ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_layer import TOLERANCE, normal, run_onnx
from trninfer.models.errors import ModelError
from trninfer.models.layers import ChannelSoftmax, RowSoftmax


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(("length", "inner"), [(12, 1), (3, 1), (3, 4), (2, 3)])
def test_runs_of_channels(length: int, inner: int, log: bool) -> None:
    x = normal(1, 2, 12, 3, 5, scale=5)
    runs = run_onnx("LogSoftmax" if log else "Softmax", x.reshape(2, -1, length, inner, 15), axis=2)
    found = ChannelSoftmax("s", length, inner, log).run({}, x)
    np.testing.assert_allclose(found, runs.reshape(x.shape), **TOLERANCE)


@pytest.mark.parametrize("log", [False, True])
def test_rows(log: bool) -> None:
    x = normal(2, 2, 4, 3, 5, scale=5)
    expected = run_onnx("LogSoftmax" if log else "Softmax", x, axis=3)
    np.testing.assert_allclose(RowSoftmax("s", log).run({}, x), expected, **TOLERANCE)


def test_runs_that_do_not_divide_the_channels_are_refused() -> None:
    with pytest.raises(ModelError, match="groups of 2 x 3 channels do not divide 8"):
        ChannelSoftmax("s", 2, 3).output_shape((8, 4, 4))
