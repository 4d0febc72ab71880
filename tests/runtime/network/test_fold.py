"""Rows in pairs: folded layers give what the golden model gives, and are taken where channels are few."""

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from random_networks import labels, model_of
from trninfer.models.golden import run_network
from trninfer.models.network import Combine, Conv2d, Dense, Flatten, ImageInput, Layer, Network, Pool
from trninfer.runtime.network.plan import NetworkPlan
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend


def picture(channels: int, rows: int, columns: int = 5) -> ImageInput:
    return ImageInput(channels, rows, columns, "none", (0.0,) * channels, (1.0,) * channels)


def conv(name: str, before: int, after: int, size: int, **fields: object) -> Conv2d:
    padding = fields.pop("padding", (size // 2, min(size, 3) // 2) * 2)
    return Conv2d(name, before, after, (size, min(size, 3)), padding, activation="relu", **fields)  # type: ignore[arg-type]


@st.composite
def few_channels(draw: st.DrawFn) -> Network:
    """A stem, then convolutions, residual blocks and pools of 64 or 32 channels, then more channels or a mean."""
    image = picture(
        draw(st.sampled_from([1, 3, 48])), draw(st.sampled_from([33, 34, 39])), draw(st.sampled_from([5, 8]))
    )
    channels = draw(st.sampled_from([64, 64, 64, 32]))
    stride = draw(st.sampled_from([(1, 1), (2, 2)]))
    size = draw(st.sampled_from([1, 3, 7]))
    padding = draw(st.sampled_from([(size // 2,) * 4, (size // 2, 1, size // 2 + 1, 1)]))
    layers: list[Layer] = [conv("stem", image.channels, channels, size, stride=stride, padding=padding)]
    for number in range(draw(st.integers(1, 3))):
        before, name = layers[-1].name, f"l{number}"
        kind = draw(st.sampled_from(["conv", "conv", "sum", "pool"]))
        size = draw(st.sampled_from([1, 2, 3]))
        if kind == "conv":
            pool = draw(st.sampled_from([1, 1, 2]))
            layers.append(conv(name, channels, channels, size, pool_size=pool, padding=(1, 1, 1, 1)))
        elif kind == "pool":
            window = draw(st.sampled_from([2, 3]))
            layers.append(Pool(name, "max", (window, window), (2, 2), (window // 2,) * 4))
        else:
            layers.append(conv(f"{name}a", channels, channels, 3))
            layers.append(Conv2d(f"{name}b", channels, channels, (3, 3), (1, 1, 1, 1)))
            layers.append(Combine(name, "add", "relu", inputs=(f"{name}b", before)))
    wide = draw(st.sampled_from([20, 128, 256]))
    layers.append(conv("wide", channels, wide, 3, stride=draw(st.sampled_from([(1, 1), (2, 2)]))))
    shapes: dict[str, tuple[int, ...]] = {"input": image.shape}
    for layer, before in zip(layers, ["input", *(layer.name for layer in layers)]):
        shapes[layer.name] = layer.output_shape(*[shapes[name] for name in layer.inputs or (before,)])
    layers += [Pool("mean", "average", shapes["wide"][1:], (1, 1)), Flatten("flat"), Dense("dense", wide, 4)]  # type: ignore[arg-type]
    return Network("n", image, tuple(layers), labels(4))


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
