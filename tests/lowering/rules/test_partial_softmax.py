"""Softmax within a network, over channels in any order and over any tiles."""

import pytest
from lowered import assert_right, decide, kinds_of
from random_networks import conv, labels, picture
from trninfer.models.layers import (
    ChannelShuffle,
    ChannelSlice,
    ChannelSoftmax,
    Conv2d,
    Dense,
    Flatten,
    Layer,
    Pool,
    RowSoftmax,
)
from trninfer.models.network import Network


def test_channels_in_another_order_are_laid_out_anew() -> None:
    layers: list[Layer] = [
        conv("stem", 3, 24, 3),
        ChannelShuffle("turned", 4),
        RowSoftmax("rows"),
        ChannelSoftmax("groups", 6),
        ChannelSlice("some", 3, 20),
        ChannelSoftmax("all", 17),
    ]
    kinds = kinds_of(layers, 3)
    assert kinds[:5] == ["conv2d", "row_softmax", "gather", "channel_softmax", "channel_slice"]


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 7, 16])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_bins_of_box_sides(batch: int, dtype: str) -> None:
    """As in YOLO's heads: a softmax over 16 bins for each of four sides, and their weighted mean."""
    layers: tuple[Layer, ...] = (
        conv("stem", 3, 64, 3),
        ChannelSoftmax("bins", 16),
        Conv2d("means", 64, 4, (1, 1), groups=4),
        Pool("pool", "max", (2, 2), (2, 2)),
        Flatten("flat"),
        Dense("dense", 4 * 4 * 3, 5),
    )
    network = Network("n", picture(3, 8, 6), layers, labels(5))
    for packed in (1, 2):
        assert_right(network, decide(packed=packed), batch, dtype)
