"""Rows in pairs: folded layers give what the golden model gives, and are taken where channels are few."""

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from random_networks import conv, few_channels, labels, model_of, picture
from trninfer.models.golden import run_network
from trninfer.models.network import Combine, Conv2d, Dense, Flatten, Network, Pool
from trninfer.runtime.network.plan import NetworkPlan
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend


@settings(max_examples=60)
@given(few_channels(), st.sampled_from([1, 3]), st.sampled_from(["trn1", "trn2"]))
def test_folded_networks_give_what_the_golden_model_gives(network: Network, batch: int, target: str) -> None:
    model = model_of(network)
    (segment,) = NetworkPlan(model, np.dtype(np.float32)).segments
    event(f"{sum(layer.name != 'stem' and layer.before[0] in (64, 128) for layer in segment.layers)} folded")
    x = np.random.default_rng(4).standard_normal((batch, *network.input.shape)).astype(np.float32)
    result = Session(model, SimulatedBackend(target), "float32", batch).run(x)
    expected = run_network(network, model.tensors, x).probabilities
    np.testing.assert_allclose(result.probabilities, expected, atol=2e-5, rtol=0)


def block(rows: int, channels: int = 64) -> Network:
    """As residual networks begin."""
    layers = (
        conv("stem", 3, channels, 7, stride=(2, 2)),
        Pool("pool", "max", (3, 3), (2, 2), (1, 1, 1, 1)),
        conv("a", channels, channels, 3),
        Conv2d("b", channels, channels, (3, 3), (1, 1, 1, 1)),
        Combine("sum", "add", "relu", inputs=("b", "pool")),
        conv("down", channels, 128, 3, stride=(2, 2)),
        Pool("mean", "average", (rows // 8, rows // 8), (1, 1)),
        Flatten("flat"),
        Dense("dense", 128, 4),
    )
    return Network("n", picture(3, rows, rows), layers, labels(4))


def test_a_residual_block_of_64_channels_takes_two_rows_of_taps() -> None:
    (segment,) = NetworkPlan(model_of(block(128)), np.dtype(np.float32)).segments
    layers = {layer.name: layer for layer in segment.layers}
    assert layers["stem"].kernel == (9, 3) and layers["stem"].stride == (4, 2)
    assert [layers[name].kernel for name in ("a", "b", "down")] == [(2, 3)] * 3
    assert [layers[name].after[0] for name in ("stem", "pool", "a", "b", "down")] == [128] * 5
    assert layers["pool"].kind == "folded_pool"


@pytest.mark.parametrize(("rows", "channels"), [(48, 64), (128, 48)])
def test_small_images_and_odd_numbers_of_channels_stay_as_they_are(rows: int, channels: int) -> None:
    (segment,) = NetworkPlan(model_of(block(rows, channels)), np.dtype(np.float32)).segments
    assert {layer.name: layer for layer in segment.layers}["a"].kernel == (3, 3)
