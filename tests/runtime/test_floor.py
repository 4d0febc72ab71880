"""The floor of a network, by hand."""

import pytest
from trninfer.models.inputs import FeatureInput, ImageInput
from trninfer.models.layers import Conv2d, Dense, Flatten
from trninfer.models.network import Network
from trninfer.models.outputs import Output
from trninfer.runtime.floor import floor_of
from trninfer.simulator.timing.constants import machine


def test_weights_that_cross_hbm_bound_a_single_row() -> None:
    network = Network("n", FeatureInput(2000), (Dense("a", 2000, 3000),), (), Output("values"))
    constants = machine("trn2")
    floor = floor_of(network, "bfloat16", 1, "trn2")
    assert floor.bound_by == "hbm"
    moved = 2 * (2000 * 3000 + 3000 + 2000 + 3000)
    assert floor.latency_us == pytest.approx((constants.launch_ns + moved / constants.dma_sustained) / 1000)


@pytest.mark.parametrize(("dtype", "passes"), [("bfloat16", 1), ("float16", 1), ("float32", 4)])
def test_multiply_accumulates_bound_a_large_batch(dtype: str, passes: int) -> None:
    layers = (Conv2d("a", 64, 128, (3, 3), (1, 1, 1, 1)), Flatten("f"), Dense("b", 128 * 36, 2))
    image = ImageInput(64, 6, 6, "none", (0.0,) * 64, (1.0,) * 64)
    network = Network("n", image, layers, (), Output("values"))
    floor = floor_of(network, dtype, 5000, "trn2")
    assert floor.bound_by == "tensor"
    work = 5000 * (36 * 128 * 64 * 9 + 128 * 36 * 2)
    assert floor.latency_us == pytest.approx((machine("trn2").launch_ns + passes * work / 128**2 / 2.4) / 1000)
