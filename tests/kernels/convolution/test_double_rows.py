"""Matmuls of 8-bit operands that contract over two planes: two input tiles or two taps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from random_networks import model_of, picture
from trninfer.kernels.convolution import double_rows
from trninfer.models.layers import Conv2d, Flatten, Layer
from trninfer.models.layers import Dense as DenseLayer
from trninfer.models.network import Network
from trninfer.models.outputs import Output
from trninfer.runtime.backend import EIGHT_BITS
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend


def chain(channels: int, kernel: int, stride: int = 1, size: int = 9) -> Network:
    """Return two inner convolutions, the second of which reads 8-bit tiles with the given number of channels."""
    side = (size + 2 * (kernel // 2) - kernel) // stride + 1
    layers: tuple[Layer, ...] = (
        Conv2d("first", 3, 40, (1, 1), activation="relu"),
        Conv2d("wide", 40, channels, (1, 1), activation="relu"),
        Conv2d("inner", channels, 72, (kernel, kernel), (kernel // 2,) * 4, 1, "relu", (stride, stride)),
        Flatten("flat"),
        DenseLayer("last", 72 * side * side, 7),
    )
    return Network("n", picture(3, size, size), layers, (), Output("values"))


def run(network: Network, batch: int, target: str = "trn2") -> np.ndarray:
    x = np.random.default_rng(1).standard_normal((batch, *network.input.shape), np.float32)
    return Session(model_of(network), SimulatedBackend(target), EIGHT_BITS, batch).run(x).probabilities


@pytest.mark.parametrize(
    ("channels", "kernel", "stride"), [(256, 1, 1), (128, 3, 1), (384, 3, 2), (300, 3, 1), (64, 5, 1)]
)
@pytest.mark.parametrize("batch", [1, 3])
def test_sums_of_two_planes_are_those_of_single_rows(
    channels: int, kernel: int, stride: int, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = chain(channels, kernel, stride)
    doubled = run(network, batch)
    monkeypatch.setattr(double_rows, "_is_narrow", lambda tile, unit: False)
    np.testing.assert_allclose(doubled, run(network, batch), rtol=2e-2, atol=2e-2 * np.abs(doubled).max())


@pytest.mark.parametrize(
    ("channels", "kernel", "pairs"), [(256, 1, 1), (512, 1, 2), (128, 3, 4), (256, 3, 9), (384, 3, 9 + 4), (128, 1, 0)]
)
def test_tiles_are_paired_then_taps(channels: int, kernel: int, pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(tile: Any, apart: int) -> Any:
        calls.append(apart)
        return double_rows.doubled(tile, apart)

    monkeypatch.setattr("trninfer.kernels.convolution.sums.doubled", counted)
    network = chain(channels, kernel)
    session = Session(model_of(network), SimulatedBackend("trn2"), EIGHT_BITS, 1)
    x = np.zeros((1, *network.input.shape), np.float32)
    session.run(x)  # plans too
    calls.clear()
    session.run(x)
    assert len(calls) == 2 * pairs and min(calls, default=1) > 0


def test_another_plane_is_another_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    network = chain(256, 3)
    right = run(network, 1)
    whole = double_rows.doubled
    monkeypatch.setattr("trninfer.kernels.convolution.sums.doubled", lambda tile, apart: whole(tile, max(1, apart - 1)))
    assert np.abs(run(network, 1) - right).max() > 0.25 * np.abs(right).max()


def test_trn1_has_no_double_rows() -> None:
    network = chain(256, 3)
    np.testing.assert_allclose(run(network, 1, "trn1"), run(network, 1, "trn2"), atol=0.3)
