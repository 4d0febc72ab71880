"""Norms of channels in any order, over any tiles."""

import pytest
from lowered import assert_right, graph_of, kinds_of
from random_networks import conv, ending_in_dense, labels, picture
from trninfer.lowering.decisions import Decisions
from trninfer.lowering.graph.graph import Unsupported
from trninfer.models.inputs import FeatureInput
from trninfer.models.layers import (
    ChannelShuffle,
    ChannelSlice,
    Concat,
    Dense,
    Flatten,
    GroupNorm,
    Layer,
    LayerNorm,
    LocalResponseNorm,
    PRelu,
)
from trninfer.models.network import Network


def test_norms_of_channels_in_another_order() -> None:
    """Layer norm supports any order of all channels; groups, and channels interleaved with others, are rearranged."""
    layers: list[Layer] = [
        conv("stem", 3, 24, 3),
        ChannelShuffle("turned", 4),
        LayerNorm("layer", 24),
        GroupNorm("group", 24, 3),
        ChannelSlice("some", 3, 20),
        LayerNorm("again", 17),
    ]
    assert kinds_of(layers, 3)[:6] == ["conv2d", "layer_norm", "gather", "group_norm", "channel_slice", "layer_norm"]


@pytest.mark.parametrize(("channels", "groups"), [(130, 13), (192, 32), (260, 2), (300, 1), (300, 300)])
def test_groups_over_several_tiles(channels: int, groups: int) -> None:
    layers: list[Layer] = [conv("stem", 3, channels, 1), GroupNorm("norm", channels, groups), PRelu("slopes", channels)]
    assert kinds_of(layers, 3, batch=3)[:3] == ["conv2d", "group_norm", "prelu"]


@pytest.mark.parametrize("batch", [1, 70])
def test_norms_and_slopes_of_features(batch: int) -> None:
    layers: tuple[Layer, ...] = (
        Dense("a", 20, 130),
        LayerNorm("norm", 130, 1e-6),
        PRelu("slopes", 130),
        Dense("b", 130, 5),
        LayerNorm("last", 5),
    )
    network = Network("n", FeatureInput(20), layers, labels(5))
    for dtype in ("float32", "float16", "bfloat16"):
        assert_right(network, Decisions(), batch, dtype)


@pytest.mark.parametrize(("channels", "size"), [(3, 5), (24, 3), (140, 5)])
def test_responses_of_channels_around(channels: int, size: int) -> None:
    layers: list[Layer] = [
        conv("a", 3, channels, 3, inputs=("input",)),
        LocalResponseNorm("norm", size, 1e-1, 0.75, 2.0),
        conv("b", 3, 4, 3, inputs=("input",)),
        Concat("both", inputs=("b", "norm")),
        LocalResponseNorm("again", size),
    ]
    kinds = kinds_of(layers)
    assert kinds.count("local_response_norm") == 2
    assert_right(ending_in_dense((3, 6, 5), layers), Decisions(), 3)


def test_numbers_of_a_flattened_image_are_not_normalised_together() -> None:
    layers = (conv("a", 3, 4, 3), Flatten("flat"), LayerNorm("norm", 120), Dense("b", 120, 5))
    with pytest.raises(Unsupported, match=r"layer 'norm' \(layer_norm\) normalises the values of a flattened image"):
        graph_of(Network("n", picture(3, 6), layers, labels(5)))
