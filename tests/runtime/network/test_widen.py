"""Channels that are zeros, so that two rows lie side by side."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import labels, model_of, picture
from trninfer.models.golden import run_network
from trninfer.models.layers import Combine, Conv2d, Dense, Flatten, Layer, Pool
from trninfer.models.network import Network
from trninfer.runtime.network.cut import NetworkPlan
from trninfer.runtime.network.program import Planned
from trninfer.runtime.network.widen import widened
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend

FLOAT32 = np.dtype(np.float32)


def blocks(channels: int, end: str, activation: str = "relu") -> Network:
    """A residual block and what comes after it."""
    layers: list[Layer] = [
        Conv2d("stem", 2, channels, (3, 3), (1, 1, 1, 1), activation=activation),
        Conv2d("a", channels, channels, (3, 3), (1, 1, 1, 1), activation=activation),
        Conv2d("b", channels, channels, (3, 3), (1, 1, 1, 1)),
        Combine("sum", "add", "relu", inputs=("b", "stem")),
    ]
    window = (12, 7)
    if end == "smaller":
        layers.append(Conv2d("next", channels, 20, (3, 3), (1, 1, 1, 1), activation="relu", stride=(2, 2)))
        channels, window = 20, (6, 4)
    elif end == "pool":
        layers.append(Pool("pool", "max", (2, 2), (2, 2)))
        window = (6, 3)
    elif end == "product":
        layers += [Conv2d("c", channels, channels, (1, 1)), Combine("product", "multiply", inputs=("c", "sum"))]
    layers += [Pool("mean", "average", window, (1, 1)), Flatten("flat"), Dense("dense", channels, 4)]
    return Network("n", picture(2, 12, 7), tuple(layers), labels(4))


@settings(max_examples=30)
@given(
    st.sampled_from([33, 40, 48, 63]),
    st.sampled_from(["", "smaller", "pool", "product"]),
    st.sampled_from(["relu", "sigmoid", "silu"]),
    st.sampled_from([1, 5, 40]),
    st.sampled_from(["float32", "bfloat16"]),
)
def test_networks_of_such_channels_give_what_the_golden_model_gives(
    channels: int, end: str, activation: str, batch: int, dtype: str
) -> None:
    model = model_of(blocks(channels, end, activation))
    x = np.random.default_rng(4).standard_normal((batch, 2, 12, 7)).astype(np.float32)
    given = Session(model, SimulatedBackend("trn2"), dtype, batch).run(x).probabilities
    expected = run_network(model.network, model.tensors, x).probabilities
    np.testing.assert_allclose(given, expected, atol=2e-5 if dtype == "float32" else 4e-2, rtol=0)


@pytest.mark.parametrize(
    ("end", "wide"),
    [
        ("", ["stem", "a", "b", "mean"]),
        ("smaller", ["stem", "a", "b"]),
        ("pool", ["stem", "a", "b", "pool", "mean"]),
        ("product", ["a"]),  # a product of tensors has as many channels as both
    ],
)
def test_what_is_read_as_it_is_keeps_its_channels(end: str, wide: list[str]) -> None:
    layers = NetworkPlan(model_of(blocks(40, end)), FLOAT32).layers
    with_zeros = widened(layers)
    assert with_zeros is not None
    assert [layer.name for layer in with_zeros if layer.channels == 64] == wide
    for before, after in zip(layers, with_zeros):
        if before.filters is not None and after.filters is not None:
            assert after.filters.shape == (after.channels, after.before[0], *after.kernel)
            outputs, inputs = before.filters.shape[:2]
            np.testing.assert_array_equal(after.filters[:outputs, :inputs], before.filters)
            assert np.count_nonzero(after.filters) == np.count_nonzero(before.filters)


def test_nothing_is_wider_where_zeros_would_not_stay_harmless() -> None:
    assert widened([Planned("conv2d", "a", ((-1,),), 40, activation="log", before=(3, 9, 9), after=(40, 9, 9))]) is None
    assert widened(NetworkPlan(model_of(blocks(32, "")), FLOAT32).layers) is None


def test_pairs_of_rows_are_taken_for_a_batch_of_40_channels() -> None:
    (segment,) = NetworkPlan(model_of(blocks(40, "")), FLOAT32).segments
    layers = {layer.name: layer for layer in segment.launch(8).laid_out.layers}
    assert (layers["a"].kernel, layers["a"].after[0]) == ((2, 3), 128)
