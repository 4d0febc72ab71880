"""Convolutions and dense layers that read channels in any order."""

from lowered import graph_of, kinds_of
from random_networks import conv, labels, picture
from trninfer.kernels.program import Convolution
from trninfer.models.inputs import FeatureInput
from trninfer.models.layers import Affine, ChannelShuffle, ChannelSlice, Conv2d, Dense, Flatten, Layer, Pool
from trninfer.models.network import Network


def depthwise(name: str, channels: int, **fields: object) -> Conv2d:
    return conv(name, channels, channels, 3, groups=channels, **fields)


def test_each_kind_of_layer_takes_an_order_of_channels() -> None:
    """Pools, channel-wise numbers and depthwise convolutions keep the order of the channels."""
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
    assert kinds_of(layers, 3)[:7] == ["conv2d", "conv2d", "conv2d", "affine", "affine", "max_pool", "affine"]


def test_groups_in_another_order() -> None:
    layers: list[Layer] = [
        conv("stem", 3, 24, 3),
        ChannelShuffle("turned", 4),
        conv("grouped", 24, 12, 1, groups=3),
        ChannelSlice("some", 2, 8),
        depthwise("by itself", 6),
    ]
    assert kinds_of(layers, 3)[:3] == ["conv2d"] * 3


def test_wide_groups_in_another_order_are_laid_out_anew() -> None:
    layers: list[Layer] = [conv("stem", 3, 140, 1), ChannelShuffle("turned", 2), conv("grouped", 140, 140, 3, groups=4)]
    assert kinds_of(layers, 3)[:3] == ["conv2d", "channel_shuffle", "conv2d"]


def test_a_dense_layer_is_a_convolution_of_the_whole_image() -> None:
    layers = (Flatten("flat"), Dense("a", 90, 20, "relu"), Dense("b", 20, 4))
    first, last = graph_of(Network("n", picture(3, 6), layers, labels(4))).nodes
    # an input that is only read flattened is treated as features
    assert (first.before, last.before) == ((90, 1, 1), (20, 1, 1))
    after = (conv("stem", 3, 8, 1), Flatten("flat"), Dense("a", 240, 20), Dense("b", 20, 4))
    node = graph_of(Network("n", picture(3, 6), after, labels(4))).nodes[1]
    assert isinstance(node.operation, Convolution) and node.operation.kernel == (6, 5)
    assert node.filters is not None and node.filters.make().shape == (20, 8, 6, 5)


def test_features_are_images_of_one_pixel() -> None:
    first = graph_of(Network("n", FeatureInput(7), (Dense("a", 7, 3), Dense("b", 3, 2)), labels(2))).nodes[0]
    assert isinstance(first.operation, Convolution)
    assert (first.operation.kernel, first.operation.shape) == ((1, 1), (3, 1, 1))
