"""Phases of an image as channels, for strided first convolutions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lowered import applicable, assert_right, convolution_of, decide, decided, graph_of, nanoseconds, planned
from random_networks import conv, labels, picture
from trninfer.lowering.decisions import Decisions, Kind
from trninfer.lowering.graph.arrangement import Arrangement
from trninfer.lowering.passes.split_phases import split_phases
from trninfer.models.layers import Combine, Conv2d, Dense, Flatten
from trninfer.models.network import Network

PHASES = decide(splits_phases=True)


def strided(shape: tuple[int, int, int], first: Conv2d) -> Network:
    outputs = int(np.prod(first.output_shape(shape)))
    return Network("n", picture(*shape), (first, Flatten("flat"), Dense("dense", outputs, 4)), labels(4))


@settings(max_examples=60)
@given(
    st.tuples(st.sampled_from([1, 3, 5]), st.integers(1, 40), st.integers(1, 40)),
    st.tuples(*[st.integers(1, 9)] * 2),
    st.tuples(*[st.integers(1, 8)] * 2),
    st.tuples(*[st.integers(0, 3)] * 4),
    st.sampled_from([1, 2]),
    st.sampled_from([1, 3]),
    st.sampled_from(["float32", "bfloat16"]),
)
def test_first_filters_of_any_stride_against_the_golden_model(
    shape: tuple[int, int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int, int, int],
    pool_size: int,
    batch: int,
    dtype: str,
) -> None:
    first = Conv2d("first", shape[0], 6, kernel, padding, pool_size, "relu", stride=stride)
    try:
        network = strided(shape, first)
    except ValueError:  # the image becomes empty
        return
    assert_right(network, applicable(network, PHASES), batch, dtype)


@pytest.mark.parametrize(
    ("kernel", "stride", "taps"),
    [((3, 3), (2, 2), (2, 2)), ((11, 11), (4, 4), (3, 3)), ((7, 5), (2, 1), (4, 5)), ((2, 2), (3, 3), (1, 1))],
)
def test_filters_move_by_one_over_an_image_of_phases(
    kernel: tuple[int, int], stride: tuple[int, int], taps: tuple[int, int]
) -> None:
    graph = split_phases(graph_of(strided((3, 40, 40), Conv2d("first", 3, 8, kernel, (1, 1, 1, 1), stride=stride))))
    assert graph is not None
    first = convolution_of(graph, "first")
    channels = 3 * stride[0] * stride[1]
    assert (first.kernel, first.stride, first.padding) == (taps, (1, 1), (0, 0, 0, 0))
    assert graph.arrangement.phases == stride and graph.arrangement.zeros[:2] == (1, 1)
    assert graph.image == (channels, first.rows + taps[0] - 1, first.columns + taps[1] - 1)
    filters = graph.nodes[0].filters
    assert filters is not None and filters.shape == filters.make().shape == (8, channels, *taps)


def test_phases_are_quicker_where_channels_are_few() -> None:
    """12 channels with two taps per side instead of three with three; no DMA then reads every second element of a
    row."""
    network = strided((3, 40, 40), Conv2d("first", 3, 8, (3, 3), stride=(2, 2)))
    assert nanoseconds(decided(network, PHASES)) < nanoseconds(decided(network, Decisions()))
    assert planned(network).decisions.value(Kind.SPLIT_PHASES)


def test_whatever_is_quicker_is_chosen_where_channels_are_many() -> None:
    """256 channels with two taps per side take more matmuls than 64 with three."""
    network = strided((64, 40, 40), Conv2d("first", 64, 8, (3, 3), stride=(2, 2)))
    choice = nanoseconds(planned(network))
    assert choice <= min(nanoseconds(decided(network, decisions)) for decisions in (PHASES, Decisions()))


def test_other_inputs_come_as_they_are() -> None:
    first = conv("first", 3, 8, 3, stride=(2, 2))
    assert split_phases(graph_of(strided((3, 40, 40), conv("first", 3, 8, 3)))) is None
    assert split_phases(graph_of(strided((3, 40, 40), conv("first", 3, 9, 3, stride=(2, 2), groups=3)))) is None
    assert split_phases(graph_of(strided((3, 40, 40), conv("first", 3, 8, 3, stride=(2, 2), dilation=(2, 2))))) is None
    other = Conv2d("other", 3, 8, (3, 3), (1, 1, 1, 1), stride=(2, 2), inputs=("input",))
    both = Combine("sum", "add", "relu", inputs=("first", "other"))
    layers = (first, other, both, Flatten("flat"), Dense("dense", 8 * 400, 4))
    twice = Network("n", picture(3, 40, 40), layers, labels(4))
    assert split_phases(graph_of(twice)) is None  # two read it
    plan = planned(twice)
    assert (plan.graph.image, plan.graph.arrangement) == ((3, 40, 40), Arrangement())
