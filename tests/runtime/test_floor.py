"""The lower bound of a network's time, computed by hand, and that no prediction is below it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import chains, graphs, model_of
from trninfer.models.files import Model
from trninfer.models.inputs import FeatureInput, ImageInput
from trninfer.models.layers import Conv2d, Dense, Flatten, Pool
from trninfer.models.network import Network
from trninfer.models.outputs import Output
from trninfer.runtime.floor import floor_of
from trninfer.runtime.launch_options import LaunchOptions
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import open_simulated_backend
from trninfer.simulator.timing.constants import machine

pytestmark = pytest.mark.slow


def image(channels: int, side: int) -> ImageInput:
    return ImageInput(channels, side, side, "none", (0.0,) * channels, (1.0,) * channels)


def beside_work(target: str = "trn2") -> float:
    """Return the time of the launch, the first load and the last store, in nanoseconds."""
    m = machine(target)
    first = min(m.load_first_byte_ns, m.load_first_byte_static_ns) + m.load_landing_ns
    return m.launch_ns + first + min(m.store_first_byte_ns, m.store_first_byte_static_ns) + m.store_landing_ns


def test_weights_that_cross_hbm_bound_a_single_row() -> None:
    network = Network("n", FeatureInput(2000), (Dense("a", 2000, 3000),), (), Output("values"))
    floor = floor_of(network, "bfloat16", 1, "trn2")
    assert floor.bound_by == "hbm"
    moved = 2 * (2000 * 3000 + 2000)
    assert floor.latency_us == pytest.approx((beside_work() + moved / machine("trn2").dma_sustained) / 1000)


@pytest.mark.parametrize(("dtype", "passes", "left"), [("bfloat16", 1, 2 / 3), ("float32", 4, 4 / 9)])
def test_multiply_accumulates_bound_a_large_batch(dtype: str, passes: int, left: float) -> None:
    layers = (Conv2d("a", 64, 128, (3, 3), (1, 1, 1, 1)), Flatten("f"), Dense("b", 128 * 36, 2))
    network = Network("n", image(64, 6), layers, (), Output("values"))
    floor = floor_of(network, dtype, 5000, "trn2")
    assert floor.bound_by == "tensor"
    inside = (6 * 3 - 2) ** 2  # taps that do not read padding, for six outputs in a row
    work = 5000 * (inside * 128 * 64 * left + 128 * 36 * 2)
    assert floor.latency_us == pytest.approx((beside_work() + passes * work / 128**2 / 2.4) / 1000)


def test_minimal_filtering_is_excluded_on_trn1_for_squares_and_16_bits() -> None:
    network = Network("n", image(64, 6), (Conv2d("a", 64, 128, (3, 3)), Flatten("f")), (), Output("values"))
    trn1 = [
        floor_of(network, dtype, 5000, "trn1").latency_us - beside_work("trn1") / 1000
        for dtype in ("float32", "float16")
    ]
    products = 5000 * 16 * 9 * 128 * 64 / 128**2 / 2.8 / 1000
    assert trn1 == pytest.approx([4 * products * 2 / 3, products])


def test_floor_excludes_pixels_that_a_strided_convolution_skips() -> None:
    def floor(stride: int) -> float:
        layers = (Conv2d("a", 64, 1, (1, 1), stride=(stride, stride)), Flatten("f"))
        return floor_of(Network("n", image(64, 64), layers, (), Output("values")), "float32", 64, "trn2").latency_us

    moved = (floor(1) - beside_work() / 1000) / (floor(2) - beside_work() / 1000)
    assert moved == pytest.approx(4, rel=1e-3)


def test_depthwise_convolutions_are_not_the_tensor_engines() -> None:
    layers = (Conv2d("a", 64, 64, (5, 5), groups=64), Flatten("f"))
    network = Network("n", image(64, 32), layers, (), Output("values"))
    assert floor_of(network, "float32", 5000, "trn2").bound_by == "hbm"


def times_floor(model: Model, dtype: str, batch: int, target: str, per: Any = "network") -> float:
    session = Session(model, open_simulated_backend(target), dtype, batch, LaunchOptions(per=per))
    return session.time(batch).total_us / floor_of(model.network, dtype, batch, target).latency_us


@settings(max_examples=40)
@given(
    chains() | graphs(),
    st.sampled_from(["float32", "bfloat16"]),
    st.sampled_from([1, 3, 40]),
    st.sampled_from(["trn1", "trn2", "trn3"]),
    st.sampled_from(["network", "layer"]),
)
def test_no_random_network_runs_in_less(network: Network, dtype: str, batch: int, target: str, per: str) -> None:
    assert times_floor(model_of(network), dtype, batch, target, per) >= 1


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("channels", "side"), [(128, 56), (256, 28)])
def test_convolutions_by_minimal_filtering_run_in_no_less(channels: int, side: int, dtype: str) -> None:
    """Six of them used to be reported as 0.54 times a bound that counted nominal operations."""
    convolutions = [Conv2d(f"c{n}", channels, channels, (3, 3), (1, 1, 1, 1)) for n in range(6)]
    layers = (*convolutions, Pool("p", "average", (side, side), (side, side)), Flatten("f"), Dense("d", channels, 10))
    network = Network("six", image(channels, side), layers, (), Output("values"))
    tensors = {name: np.zeros(shape, np.float32) for name, shape in network.tensor_shapes().items()}
    assert 1 <= times_floor(Model(network, tensors, {}), dtype, 4, "trn2") < 2
