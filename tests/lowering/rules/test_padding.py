"""Padding with a number and with the image's own pixels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lowered import applicable, assert_right, decide, kinds_of
from random_networks import conv, ending_in_dense
from trninfer.models.layers import ChannelShuffle, ChannelSlice, Layer, Pad


@given(
    st.tuples(*[st.integers(-2, 3)] * 4),
    st.sampled_from([0.0, -1.5, 2.0]),
    st.sampled_from([1, 3]),
    st.sampled_from([1, 4]),
    st.sampled_from(["float32", "bfloat16"]),
)
def test_any_padding(padding: tuple[int, int, int, int], value: float, batch: int, packed: int, dtype: str) -> None:
    layers: list[Layer] = [conv("a", 3, 8, 3), Pad("pad", padding, value), conv("b", 8, 4, 3)]
    assert_right(ending_in_dense((3, 6, 5), layers), decide(packed=packed if batch > 1 else 1), batch, dtype)


@given(
    st.tuples(*[st.integers(0, 4)] * 4),
    st.sampled_from(["edge", "reflect", "wrap"]),
    st.sampled_from([(1, 1), (3, 1), (3, 2), (5, 4)]),
    st.sampled_from([8, 130]),
    st.sampled_from(["float32", "bfloat16"]),
)
def test_pixels_of_its_own(
    padding: tuple[int, int, int, int], mode: str, images: tuple[int, int], channels: int, dtype: str
) -> None:
    batch, packed = images
    layers: list[Layer] = [conv("a", 3, channels, 3), Pad("pad", padding, mode=mode), conv("b", channels, 4, 3)]
    network = ending_in_dense((3, 6, 5), layers)
    assert_right(network, applicable(network, decide(packed=packed), batch), batch, dtype)


@pytest.mark.parametrize("first", [True, False])
def test_channels_in_another_order_are_padded_as_they_are(first: bool) -> None:
    pad = Pad("pad", (1, 2, 0, 1), 0.5)
    stem = [pad] if first else [conv("a", 3, 12, 3), ChannelShuffle("turned", 3), ChannelSlice("some", 2, 9), pad]
    kinds = kinds_of([*stem, conv("b", 3 if first else 7, 4, 3)])
    assert kinds == [*(["pad"] if first else ["conv2d", "pad"]), "conv2d", "average_pool", "dense"]
