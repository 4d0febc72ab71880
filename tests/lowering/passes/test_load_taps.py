"""Inputs that a separate operation loads: small images once for each filter column, others unchanged."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lowered import ALL, applicable, assert_right, decide, decided, graph_of
from random_networks import conv, ending_in_dense, labels, picture, two_of_few_channels
from trninfer.kernels.program import Convolution, Copies, Load, TapsLoad
from trninfer.kernels.tiling.packing import Taps
from trninfer.lowering.decisions import Choice, Decisions, Kind
from trninfer.lowering.graph.arrangement import Arrangement
from trninfer.lowering.passes.load_taps import load_input, load_taps
from trninfer.lowering.passes.pack_taps import strides_of_filled
from trninfer.models import load_model
from trninfer.models.inputs import FeatureInput
from trninfer.models.layers import Combine, Conv2d, Dense, Flatten, Pool
from trninfer.models.network import Network


@pytest.mark.slow
@settings(max_examples=80)
@given(
    two_of_few_channels(),
    st.sampled_from(["float32", "float16", "bfloat16"]),
    st.sampled_from([1, 2, 3, 17, 33]),
    st.sampled_from([1, 4, 16]),
    st.booleans(),
    st.sampled_from([(), ALL]),
    st.sampled_from([None, 0, -1]),
)
def test_any_taps_against_the_golden_model(
    network: Network, dtype: str, batch: int, packed: int, phases: bool, copied: tuple[int, ...], filled: int | None
) -> None:
    decisions = applicable(network, decide(splits_phases=phases, packed=packed, copied=copied), batch)
    if filled is not None:  # one of the strides that a single DMA supports
        strides = strides_of_filled(decided(network, decisions, batch, dtype).graph)
        decisions = decisions.having(Choice(Kind.FILL_TAPS, value=strides[filled] if strides else 0))
    assert_right(network, decisions, batch, dtype)


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("stride", "partitions"), [(3, 9), (33, 99)])
def test_one_dma_fills_the_partitions_between_taps(target: str, dtype: str, stride: int, partitions: int) -> None:
    model, decisions = load_model("digits-cnn"), decide(filled_taps=stride)
    load, first = (node.operation for node in decided(model, decisions).graph.nodes[:2])
    assert isinstance(load, TapsLoad) and isinstance(first, Convolution)
    assert load.fills and load.copies.count * load.copies.stride == partitions and first.taps == Taps(3, 1, stride)
    for batch in (1, 3):
        assert_right(model, decisions, batch, dtype, target=target, tolerance=0.03 if dtype == "bfloat16" else 1e-4)


def test_filters_that_taps_are_a_part_of_are_not_filled() -> None:
    model = load_model("digits-cnn")
    assert strides_of_filled(decided(model, Decisions()).graph) == [3, 33]
    assert strides_of_filled(decided(model, decide(packed=8), 8).graph) == [24]
    assert strides_of_filled(decided(model, decide(packed=16), 16).graph) == []  # two of three rows fit
    assert strides_of_filled(graph_of(ending_in_dense((16, 8, 8), [conv("a", 16, 16, 3)]))) == []


def test_the_zeros_of_a_small_image_come_with_it() -> None:
    graph = decided(load_model("digits-cnn"), Decisions()).graph
    assert (graph.image, graph.arrangement) == ((1, 34, 34), Arrangement((1, 1, 1, 1)))
    load, first = (node.operation for node in graph.nodes[:2])
    assert isinstance(load, TapsLoad) and isinstance(first, Convolution)
    assert (load.channels, load.kernel_columns, load.copies) == (3, 3, Copies(3, 1, 42))  # three columns, three rows
    assert (first.kernel, first.padding, first.taps) == ((3, 1), (0, 0, 0, 0), Taps(3, 1, 42))


@pytest.mark.parametrize(
    ("shape", "layer"),
    [
        ((1, 80, 80), Conv2d("a", 1, 8, (3, 3), (1, 1, 1, 1))),  # loaded in groups of rows
        # 48 columns of taps would leave space for only two images
        ((16, 8, 8), Conv2d("a", 16, 16, (3, 3), (1, 1, 1, 1))),
        ((4, 8, 8), Conv2d("a", 4, 16, (3, 3), (1, 1, 1, 1), groups=2)),
        ((1, 8, 8), Conv2d("a", 1, 8, (3, 1))),  # no columns
    ],
)
def test_other_images_come_as_they_are(shape: tuple[int, int, int], layer: Conv2d) -> None:
    graph = graph_of(ending_in_dense(shape, [layer]))
    assert load_taps(graph) == graph


def test_an_input_that_several_read_is_loaded_once() -> None:
    one, other = (Conv2d(name, 3, 8, (3, 3), (1, 1, 1, 1), inputs=("input",)) for name in "ab")
    layers = [one, other, Combine("sum", "multiply", inputs=("a", "b"))]
    network = ending_in_dense((3, 8, 9), layers)
    graph = load_input(graph_of(network))
    load, *others = (node.operation for node in graph.nodes)
    assert isinstance(load, Load) and load.shape == (3, 8, 9) and load.sources == ((-1,),)
    assert [each.sources for each in others[:3]] == [((0,),), ((0,),), ((1,), (2,))]
    assert_right(network, Decisions(), 3)


@pytest.mark.parametrize("first", [Pool("first", "max", (2, 2), (2, 2)), conv("first", 3, 3, 3)])
def test_convolutions_and_scores_read_what_is_in_hbm(first: Pool | Conv2d) -> None:
    graph = graph_of(ending_in_dense((3, 8, 9), [first]))
    assert isinstance(load_input(graph).nodes[0].operation, Load) == isinstance(first, Pool)


def test_features_are_read_where_they_are() -> None:
    graph = graph_of(Network("n", FeatureInput(9), (Dense("a", 9, 4),), labels(4)))
    assert load_input(graph) == graph and load_taps(graph) == graph
    flat = graph_of(Network("n", picture(3, 3, 3), (Flatten("flat"), Dense("a", 27, 4)), labels(4)))
    assert load_input(flat) == flat
