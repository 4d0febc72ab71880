"""The last channels of an expansion as layers of their own."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import labels, model_of, picture
from trninfer.models.golden import run_network
from trninfer.models.layers import Activation, Combine, Conv2d, Dense, Flatten, Layer, Pool
from trninfer.models.network import Network
from trninfer.runtime.network.cut import NetworkPlan
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend

BF16 = np.dtype(ml_dtypes.bfloat16)


def expanded(channels: int, size: int = 3, stride: int = 1, gate: bool = False) -> Network:
    """An expansion, a filter for each channel and a projection, with a gate between them or without."""
    layers: list[Layer] = [
        Conv2d("expand", 8, channels, (1, 1), activation="silu"),
        Conv2d(
            "each", channels, channels, (size, size), (size // 2,) * 4, 1, "relu", (stride, stride), groups=channels
        ),
    ]
    side = (12 + 2 * (size // 2) - size) // stride + 1
    if gate:
        layers += [
            Pool("mean", "average", (side, side), (1, 1)),
            Conv2d("squeeze", channels, channels, (1, 1)),
            Activation("excite", "sigmoid"),
            Combine("gate", "multiply", inputs=("each", "excite")),
        ]
    layers += [Conv2d("project", channels, 4, (1, 1)), Flatten("flat"), Dense("dense", 4 * side * side, 5)]
    return Network("n", picture(8, 12, 12), tuple(layers), labels(5))


@settings(max_examples=30)
@given(
    st.sampled_from([129, 144, 160, 161, 192, 193, 255, 256, 272]),
    st.sampled_from([1, 2, 3, 5]),
    st.sampled_from([1, 2]),
    st.booleans(),
    st.sampled_from([1, 3]),
    st.sampled_from(["float32", "bfloat16"]),
)
def test_any_tail_against_the_golden_model(
    channels: int, size: int, stride: int, gate: bool, batch: int, dtype: str
) -> None:
    model = model_of(expanded(channels, size, stride, gate))
    x = np.random.default_rng(4).standard_normal((batch, 8, 12, 12)).astype(np.float32)
    given = Session(model, SimulatedBackend("trn2"), dtype, batch).run(x).probabilities
    expected = run_network(model.network, model.tensors, x).probabilities
    np.testing.assert_allclose(given, expected, atol=2e-5 if dtype == "float32" else 4e-2, rtol=0)


@pytest.mark.parametrize(
    ("channels", "size", "parts"),
    [(144, 3, [128, 16]), (272, 5, [256, 16]), (192, 3, [128, 64]), (240, 3, [240]), (128, 3, [128]), (144, 1, [144])],
)
def test_a_tail_is_apart_where_it_leaves_room_for_copies(channels: int, size: int, parts: list[int]) -> None:
    (segment,) = NetworkPlan(model_of(expanded(channels, size)), BF16).segments
    layers = segment.launch(1).laid_out.layers
    assert [layer.channels for layer in layers if layer.name == "each"] == parts
    assert [layer.channels for layer in layers if (layer.kind, layer.name) == ("conv2d", "expand")] == parts
    if parts[-1] == 16:
        assert [layer.copies[0] > 1 for layer in layers if layer.name == "expand"][-2:] == [False, True]


def test_the_table_has_a_row_for_both_parts() -> None:
    session = Session(model_of(expanded(144)), SimulatedBackend("trn2"), "bfloat16", 1)
    rows = [row.name for row in session.time(1).layers]
    assert rows.count("expand") == rows.count("each") == 1
    assert sum(row.latency_us for row in session.time(1).layers) == pytest.approx(session.time(1).total_us)
