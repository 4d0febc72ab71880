"""Attention in one launch with the computation of its operands, whose channels may be in any order."""

import pytest
from lowered import assert_right, kinds_of
from random_networks import conv, ending_in_dense
from trninfer.lowering.decisions import Decisions
from trninfer.models.layers import Attention, ChannelShuffle, ChannelSlice, Layer, LayerNorm


def layers_of(heads: int, size: int, by_rows: bool, bias: tuple[int, ...] = ()) -> list[Layer]:
    """Return layers in which the pixels of an image attend to each other, after a convolution that computes queries,
    keys and values by head."""
    return [
        conv("stem", 3, size, 3),
        LayerNorm("norm", size),
        conv("qkv", size, 3 * size, 1),
        ChannelShuffle("turned", 3 if heads > 1 else 1),
        ChannelSlice("q", 0, size, inputs=("turned",)),
        ChannelSlice("k", size, 2 * size, inputs=("turned",)),
        ChannelSlice("v", 2 * size, 3 * size, inputs=("turned",)),
        Attention("attention", heads, 0.2, by_rows, bias, inputs=("q", "k", "v")),
        conv("out", size, 8, 3, inputs=("attention",)),
    ]


@pytest.mark.parametrize("batch", [1, 2, 3, 7, 16])
def test_pixels_of_an_image(batch: int) -> None:
    network = ending_in_dense((3, 4, 5), layers_of(2, 24, by_rows=False))
    for dtype in ("float32", "bfloat16", "float16"):
        assert_right(network, Decisions(), batch, dtype)


@pytest.mark.parametrize("heads", [1, 3])
def test_rows_of_an_image_with_a_bias(heads: int) -> None:
    network = ending_in_dense((3, 4, 5), layers_of(heads, 132, by_rows=True, bias=(heads, 4, 5, 5)))
    assert_right(network, Decisions(), 3)


def test_what_the_launch_has() -> None:
    kinds = kinds_of(layers_of(2, 24, by_rows=False), 3)
    assert kinds.count("attention") == 1
