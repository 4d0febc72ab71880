"""Rows in groups: folded layers give what the golden model gives, and are taken where channels are few."""

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from random_networks import conv, few_channels, labels, model_of, picture
from trninfer.models.golden import run_network
from trninfer.models.layers import Combine, Conv2d, Dense, Flatten, Layer, Pool
from trninfer.models.network import Network
from trninfer.runtime.network.cut import NetworkPlan
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend


@settings(max_examples=60)
@given(few_channels(), st.sampled_from([1, 3]), st.sampled_from(["trn1", "trn2"]))
def test_folded_networks_give_what_the_golden_model_gives(network: Network, batch: int, target: str) -> None:
    model = model_of(network)
    (segment,) = NetworkPlan(model, np.dtype(np.float32)).segments
    layers = segment.launch(batch).laid_out.layers
    event(f"{sum(layer.name != 'stem' and layer.before[0] in (64, 128) for layer in layers)} folded")
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
    layers = {layer.name: layer for layer in segment.launch(1).laid_out.layers}
    assert layers["stem"].kernel == (3, 2)  # nine rows and three columns, of phases of four and two
    assert [layers[name].kernel for name in ("a", "b", "down")] == [(2, 3)] * 3
    assert [layers[name].after[0] for name in ("stem", "pool", "a", "b", "down")] == [128] * 5
    assert layers["pool"].kind == "folded_pool"


@st.composite
def depthwise(draw: st.DrawFn) -> Network:
    """As networks of depthwise convolutions begin: 32 channels and less, then an expansion or a smaller image."""
    rows = draw(st.sampled_from([32, 33, 35, 38, 64, 67]))
    stride = draw(st.sampled_from([(1, 1), (2, 2)])) if rows > 38 else (1, 1)
    activation = draw(st.sampled_from(["relu", "silu", "clip"]))
    fields: dict[str, object] = {"activation": activation}
    if activation == "clip":
        fields["activation_parameters"] = (0.0, 6.0)
    layers: list[Layer] = [conv("stem", 3, 32, 3, stride=stride)]
    channels = 32
    for number in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["depthwise", "depthwise", "project", "sum", "groups", "gate"]))
        name, before, size = f"l{number}", layers[-1].name, draw(st.sampled_from([2, 3, 5]))
        padding = (size // 2,) * 4
        if kind == "project":
            after = draw(st.sampled_from([8, 16, 24, 32, 64]))
            layers.append(Conv2d(name, channels, after, (1, 1), **fields))
            channels = after
        elif kind == "gate":
            layers += _gate(name, channels, before, _given(layers, picture(3, rows).shape)[1:])
        elif kind == "sum":
            layers.append(Conv2d(f"{name}a", channels, channels, (1, 1)))
            layers.append(Combine(name, "add", "relu", inputs=(f"{name}a", before)))
        else:
            groups = channels if kind == "depthwise" else channels // 4
            stride = draw(st.sampled_from([(1, 1), (1, 1), (2, 1)]))
            layers.append(
                Conv2d(name, channels, channels, (size, size), padding, groups=groups, stride=stride, **fields)
            )
    wide = draw(st.sampled_from([20, 96, 128, 144]))
    size = draw(st.sampled_from([1, 3]))
    layers.append(conv("wide", channels, wide, size, stride=draw(st.sampled_from([(1, 1), (2, 2), (4, 4)]))))
    image = picture(3, rows)
    layers += [
        Pool("mean", "average", _given(layers, image.shape)[1:], (1, 1)),
        Flatten("flat"),
        Dense("dense", wide, 4),
    ]  # type: ignore[arg-type]
    return Network("n", image, tuple(layers), labels(4))


def _gate(name: str, channels: int, before: str, window: tuple[int, ...]) -> list[Layer]:
    """Squeeze and excite."""
    return [
        Pool(f"{name}mean", "average", window, (1, 1), inputs=(before,)),  # type: ignore[arg-type]
        Conv2d(f"{name}squeeze", channels, 5, (1, 1), activation="relu"),
        Conv2d(f"{name}excite", 5, channels, (1, 1), activation="sigmoid"),
        Combine(name, "multiply", inputs=(before, f"{name}excite")),
    ]


def _given(layers: list[Layer], shape: tuple[int, ...]) -> tuple[int, ...]:
    """What the last layer gives, of an image of that shape."""
    shapes: dict[str, tuple[int, ...]] = {}
    for layer in layers:
        shape = layer.output_shape(*[shapes[name] for name in layer.inputs] or [shape])
        shapes[layer.name] = shape
    return shape


@settings(max_examples=60)
@given(depthwise(), st.sampled_from([1, 3]), st.sampled_from(["float32", "bfloat16", "float16"]))
def test_folded_depthwise_layers_give_what_the_golden_model_gives(network: Network, batch: int, dtype: str) -> None:
    model = model_of(network)
    (segment,) = NetworkPlan(model, np.dtype(np.float32)).segments
    event(
        f"{sum(layer.before[0] != 3 and layer.blank[2] == 4 for layer in segment.launch(batch).laid_out.layers)} folded"
    )
    x = np.random.default_rng(4).standard_normal((batch, *network.input.shape)).astype(np.float32)
    result = Session(model, SimulatedBackend("trn2"), dtype, batch).run(x)
    expected = run_network(network, model.tensors, x).probabilities
    np.testing.assert_allclose(result.probabilities, expected, atol=2e-5 if dtype == "float32" else 4e-2, rtol=0)


def test_a_depthwise_layer_of_32_channels_takes_two_rows_of_taps_for_four() -> None:
    layers = (
        conv("stem", 3, 32, 3, stride=(2, 2)),
        Conv2d("each", 32, 32, (3, 3), (1, 1, 1, 1), 1, "relu", groups=32),
        Conv2d("project", 32, 16, (1, 1)),
        Conv2d("expand", 16, 96, (1, 1), activation="relu"),
        Pool("mean", "average", (64, 64), (1, 1)),
        Flatten("flat"),
        Dense("dense", 96, 4),
    )
    network = Network("n", picture(3, 128, 128), layers, labels(4))
    (segment,) = NetworkPlan(model_of(network), np.dtype(np.float32)).segments
    each, project, expand = segment.launch(1).laid_out.layers[-5:-2]
    assert (each.kernel, each.groups, each.after) == ((2, 3), 1, (128, 16, 64))
    assert (project.kernel, project.after, project.blank) == ((1, 1), (64, 16, 64), (0, 0, 4))
    assert (expand.kernel, expand.after, expand.unfold) == ((1, 1), (96, 64, 64), 4)


@pytest.mark.parametrize(("rows", "channels"), [(8, 64), (128, 65)])
def test_small_images_and_odd_numbers_of_channels_stay_as_they_are(rows: int, channels: int) -> None:
    (segment,) = NetworkPlan(model_of(block(rows, channels)), np.dtype(np.float32)).segments
    assert {layer.name: layer for layer in segment.launch(1).laid_out.layers}["a"].kernel == (3, 3)
