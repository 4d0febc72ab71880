"""Which layers slices, shuffles and concatenations leave in a launch, and that they change no answer."""

import ml_dtypes
import numpy as np
import pytest
from random_networks import conv, labels, model_of, picture
from trninfer.models.checks import Shape
from trninfer.models.golden import run_network
from trninfer.models.inputs import FeatureInput
from trninfer.models.layers import (
    Affine,
    ChannelShuffle,
    ChannelSlice,
    Combine,
    Concat,
    Conv2d,
    Dense,
    Flatten,
    GroupNorm,
    Layer,
    LayerNorm,
    Pool,
    PRelu,
    Reshape,
    Transpose,
)
from trninfer.models.network import Network
from trninfer.runtime.network.drawing import draw
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend

TOLERANCES = {"float32": 2e-5, "float16": 1e-2, "bfloat16": 6e-2}


def checked(layers: list[Layer], channels: int, ends: bool = True, batch: int = 2) -> list[str]:
    """The kinds of the layers of the launch, whose answers are those of the golden model in all dtypes."""
    image = picture(channels, 6)
    shapes: dict[str, Shape] = {"input": image.shape}
    for layer, before in zip(layers, ["input", *(layer.name for layer in layers)]):
        shapes[layer.name] = layer.output_shape(*[shapes[name] for name in layer.inputs or (before,)])
    last = shapes[layers[-1].name]
    if ends:
        mean = Pool("mean", "average", last[1:], (1, 1))  # type: ignore[arg-type]
        layers = [*layers, mean, Flatten("flat"), Dense("dense", last[0], 4)]
        last = (4,)
    model = model_of(Network("n", image, tuple(layers), labels(last[0])))
    x = np.random.default_rng(4).standard_normal((batch, *image.shape)).astype(np.float32)
    expected = run_network(model.network, model.tensors, x).probabilities
    for dtype, tolerance in TOLERANCES.items():
        session = Session(model, SimulatedBackend("trn2"), dtype, batch)
        assert session.rows[0].kernel == "run_network", session
        result = session.run(x)
        np.testing.assert_allclose(result.probabilities, expected, atol=tolerance, rtol=0)
        assert [row.name for row in result.layers] == [row.name for row in session.rows]
        network_shapes = {name: shape for name, shape in model.network.shapes().items() if len(shape) == 3}
        for row in session.rows[1:]:  # the table tells shapes as the network has them
            assert row.name not in network_shapes or row.output_shape in (
                (-1, *network_shapes[row.name]),
                (-1, network_shapes[row.name][0]),
            )
    return [layer.shown for layer in draw(model, np.dtype(ml_dtypes.bfloat16), image.shape)]


def depthwise(name: str, channels: int, **fields: object) -> Conv2d:
    return conv(name, channels, channels, 3, groups=channels, **fields)


@pytest.mark.parametrize("half", [1, 12, 65])
def test_a_unit_of_shufflenet_has_its_convolutions_alone(half: int) -> None:
    whole = 2 * half
    layers: list[Layer] = [conv("stem", 3, whole, 3)]
    before = "stem"
    for n in range(3):
        layers += [
            ChannelSlice(f"left{n}", 0, half, inputs=(before,)),
            ChannelSlice(f"right{n}", half, whole, inputs=(before,)),
            conv(f"a{n}", half, half, 1, inputs=(f"right{n}",)),
            depthwise(f"b{n}", half),
            conv(f"c{n}", half, half, 1),
            Concat(f"cat{n}", inputs=(f"left{n}", f"c{n}")),
            ChannelShuffle(f"shuffle{n}", 2),
        ]
        before = f"shuffle{n}"
    kinds = checked(layers, 3)
    assert set(kinds) <= {"conv2d", "average_pool", "dense"} and kinds.count("conv2d") == 10


def test_each_kind_of_layer_takes_an_order_of_channels() -> None:
    """Pools, numbers for each channel and depthwise convolutions work on channels as they lie."""
    layers: list[Layer] = [
        conv("stem", 3, 24, 3),
        ChannelShuffle("turned", 4),
        depthwise("by itself", 24),
        Conv2d("twice", 24, 48, (3, 3), (1, 1, 1, 1), groups=24),
        Affine("affine", (48,)),
        ChannelSlice("some", 5, 40),
        Affine("log", (35,), "sigmoid"),
        Pool("pool", "max", (2, 2), (2, 2)),
        Affine("after", (35,), "exp"),
    ]
    assert checked(layers, 3)[:7] == ["conv2d", "conv2d", "conv2d", "affine", "affine", "max_pool", "affine"]


def test_groups_in_another_order() -> None:
    layers: list[Layer] = [
        conv("stem", 3, 24, 3),
        ChannelShuffle("turned", 4),
        conv("grouped", 24, 12, 1, groups=3),
        ChannelSlice("some", 2, 8),
        depthwise("by itself", 6),
    ]
    assert checked(layers, 3)[:3] == ["conv2d"] * 3


def test_wide_groups_in_another_order_are_laid_out_anew() -> None:
    layers: list[Layer] = [conv("stem", 3, 140, 1), ChannelShuffle("turned", 2), conv("grouped", 140, 140, 3, groups=4)]
    assert checked(layers, 3)[:3] == ["conv2d", "channel_shuffle", "conv2d"]


def test_channels_that_lie_apart_are_laid_out_anew_for_sums_and_products() -> None:
    layers: list[Layer] = [
        conv("a", 3, 12, 3, inputs=("input",)),
        conv("b", 3, 20, 3, inputs=("input",)),
        Concat("ab", inputs=("a", "b")),
        Concat("ba", inputs=("b", "a")),
        Combine("product", "multiply", "relu", inputs=("ab", "ba")),
        ChannelShuffle("turned", 2),
        Conv2d("plain", 32, 32, (1, 1), inputs=("product",)),
        Combine("sum", "add", "gelu", inputs=("plain", "turned")),
        Combine("again", "divide", "sigmoid", inputs=("sum", "sum")),
    ]
    kinds = checked(layers, 3)
    assert kinds[:7] == ["conv2d", "conv2d", "concat", "concat", "combine", "channel_shuffle", "conv2d"]


def test_the_input_may_be_joined_and_sliced() -> None:
    layers: list[Layer] = [
        ChannelSlice("one", 1, 2, inputs=("input",)),
        conv("a", 1, 3, 3),
        Concat("all", inputs=("input", "a", "one")),
        conv("b", 7, 6, 3),
    ]
    checked(layers, 3)


def test_a_channel_that_is_read_twice() -> None:
    layers: list[Layer] = [
        conv("a", 3, 4, 3),
        ChannelSlice("some", 1, 3),
        Concat("twice", inputs=("some", "a")),
        conv("b", 6, 5, 1, inputs=("twice",)),
        Affine("c", (6,), "tanh", inputs=("twice",)),
        Concat("all", inputs=("b", "c")),
    ]
    assert checked(layers, 3)[:3] == ["conv2d", "conv2d", "affine"]


def test_a_network_that_ends_in_a_shuffle() -> None:
    window = Pool("mean", "average", (6, 5), (1, 1))
    checked([conv("a", 3, 12, 3), window, ChannelShuffle("turned", 3), Flatten("flat")], 3, ends=False)


def test_norms_of_channels_in_another_order() -> None:
    """Layer norm takes any order of all channels; groups, and channels that others stand between, are laid out anew."""
    layers: list[Layer] = [
        conv("stem", 3, 24, 3),
        ChannelShuffle("turned", 4),
        LayerNorm("layer", 24),
        GroupNorm("group", 24, 3),
        ChannelSlice("some", 3, 20),
        LayerNorm("again", 17),
    ]
    assert checked(layers, 3)[:6] == ["conv2d", "layer_norm", "gather", "group_norm", "channel_slice", "layer_norm"]


@pytest.mark.parametrize(("channels", "groups"), [(130, 13), (192, 32), (260, 2), (300, 1), (300, 300)])
def test_groups_over_several_tiles(channels: int, groups: int) -> None:
    layers: list[Layer] = [conv("stem", 3, channels, 1), GroupNorm("norm", channels, groups), PRelu("slopes", channels)]
    assert checked(layers, 3, batch=3)[:3] == ["conv2d", "group_norm", "prelu"]


@pytest.mark.parametrize("batch", [1, 70])
def test_norms_and_slopes_of_features(batch: int) -> None:
    layers: tuple[Layer, ...] = (
        Dense("a", 20, 130),
        LayerNorm("norm", 130, 1e-6),
        PRelu("slopes", 130),
        Dense("b", 130, 5),
        LayerNorm("last", 5),
    )
    assert_right(Network("n", FeatureInput(20), layers, labels(5)), (20,), batch)


@pytest.mark.parametrize("shape", [(12, 1, 9), (108,)])
def test_the_host_turns_the_axes_of_an_input(shape: Shape) -> None:
    """Tokens by channels, as [9, 12], become channels by tokens, or features in another order."""
    turn = Transpose("turn", (9, 12), (1, 0), shape)
    first = conv("a", 12, 30, 1) if len(shape) == 3 else Dense("a", 108, 30)
    after: tuple[Layer, ...] = (LayerNorm("norm", 30), Flatten("flat"), Dense("b", 270 if len(shape) == 3 else 30, 5))
    assert_right(Network("n", picture(1, 9, 12), (turn, first, *after), labels(5)), (1, 9, 12), 3)


def assert_right(network: Network, shape: Shape, batch: int) -> None:
    """In one launch, in all dtypes."""
    model = model_of(network)
    x = np.random.default_rng(4).standard_normal((batch, *shape)).astype(np.float32)
    expected = run_network(model.network, model.tensors, x).probabilities
    for dtype, tolerance in TOLERANCES.items():
        session = Session(model, SimulatedBackend("trn2"), dtype, batch)
        assert session.launches_note is None
        np.testing.assert_allclose(session.run(x).probabilities, expected, atol=tolerance, rtol=0)


def test_features_in_slices() -> None:
    layers = (Dense("a", 20, 30, "relu"), ChannelSlice("some", 7, 29), Dense("b", 22, 5))
    assert_right(Network("n", FeatureInput(20), layers, labels(5)), (20,), 3)


def test_slices_of_a_flattened_image() -> None:
    """Whole channels of it are a slice of channels; a part of one has no place of its own."""
    for first, last, note in ((60, 150, False), (10, 150, True)):
        layers = (
            conv("a", 3, 6, 3),
            Flatten("flat"),
            ChannelSlice("some", first, last),
            Dense("b", last - first, 5),
        )
        model = model_of(Network("n", picture(3, 6), layers, labels(5)))
        x = np.random.default_rng(4).standard_normal((2, 3, 6, 5)).astype(np.float32)
        session = Session(model, SimulatedBackend("trn2"), "float32", 2)
        assert (session.launches_note is not None) == note
        expected = run_network(model.network, model.tensors, x).probabilities
        np.testing.assert_allclose(session.run(x).probabilities, expected, atol=2e-5)


def test_a_gate_of_dense_layers_is_no_other_launch() -> None:
    """Squeeze and excite as it was first written: features go back to an image of one pixel."""
    kinds = checked(
        [
            conv("a", 3, 12, 3),
            Pool("squeeze", "average", (6, 5), (6, 5)),
            Flatten("flatten"),
            Dense("less", 12, 3, "relu"),
            Dense("more", 3, 12, "sigmoid"),
            Reshape("gate", (12, 1, 1)),
            Combine("b", "multiply", inputs=("a", "gate")),
        ],
        3,
    )
    assert kinds == ["conv2d", "average_pool", "dense", "dense", "combine", "average_pool", "dense"]


def test_an_image_in_other_sizes_is_another_launch() -> None:
    layers = (conv("a", 3, 4, 1), Reshape("b", (6, 4, 5)), Flatten("flat"), Dense("dense", 120, 4))
    model = model_of(Network("n", picture(3, 6), layers, labels(4)))
    note = Session(model, SimulatedBackend("trn2")).launches_note
    assert note is not None and "there is no body for layer 'b' (reshape)" in note
