"""Convolutions and dense layers that read channels in any order."""

import pytest
from lowered import assert_right, graph_of, kinds_of, nodes_of
from random_networks import conv, ending_in_dense, labels, picture
from trninfer.kernels.program import Convolution
from trninfer.lowering.decisions import Decisions
from trninfer.models.inputs import FeatureInput
from trninfer.models.layers import Affine, ChannelShuffle, ChannelSlice, Concat, Conv2d, Dense, Flatten, Layer, Pool
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


@pytest.mark.parametrize(
    ("sizes", "each", "groups", "nodes"),
    [
        ((40, 128), 1, 1, 2),
        ((104, 128, 128), 1, 8, 3),
        ((200, 128), 2, 2, 2),
        ((128, 24), 1, 1, 1),
        ((24, 24), 1, 1, 1),
    ],
)
def test_a_depthwise_convolution_of_unaligned_parts_is_split(
    sizes: tuple[int, ...], each: int, groups: int, nodes: int
) -> None:
    """As in RDNet: the tiles of the parts would otherwise overlap two tiles of the concatenation each."""
    total = sum(sizes)
    layers: list[Layer] = [conv("stem", 3, 8, 3)]
    layers += [conv(f"part{n}", 8, size, 1, inputs=("stem",)) for n, size in enumerate(sizes)]
    layers += [
        Concat("all", inputs=tuple(f"part{n}" for n in range(len(sizes)))),
        ChannelShuffle("turned", groups),
        conv("by itself", total, total * each, 3, groups=total),
        conv("mixed", total * each, 8, 1),
    ]
    network = ending_in_dense((3, 5, 4), layers)
    assert len(nodes_of(graph_of(network), "by itself")) == nodes
    for batch in (1, 2, 3, 4, 7, 16):
        assert_right(network, Decisions(), batch, ("float32", "bfloat16", "float16")[batch % 3])
