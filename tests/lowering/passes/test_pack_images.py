"""Images packed along the partitions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lowered import after, applicable, assert_right, decide, decided, graph_of, nanoseconds
from random_networks import chains, ending_in_dense, graphs, joined_channels, of_kind
from trninfer.kernels.program import Convolution
from trninfer.lowering.graph.graph import Graph
from trninfer.lowering.passes.load_taps import load_input, load_taps
from trninfer.lowering.passes.pack_images import MOST_IMAGES, choices_of, pack_images
from trninfer.models import load_model
from trninfer.models.inputs import FeatureInput
from trninfer.models.layers import Combine, Concat, Conv2d, Dense, Layer
from trninfer.models.network import Network

NO_PADDING = (0, 0, 0, 0)


def ready(network: Network) -> Graph:
    """Return a graph as the pass receives it."""
    return after(graph_of(network), load_input, load_taps)


@settings(max_examples=40)
@given(
    st.one_of(chains(), graphs(), joined_channels()),
    st.sampled_from(["float32", "float16", "bfloat16"]),
    st.sampled_from([2, 3, 5, 17]),
    st.sampled_from([2, 4, 16]),
    st.integers(1, 3),
)
def test_any_network_of_packed_images(network: Network, dtype: str, batch: int, packed: int, at_once: int) -> None:
    decisions = applicable(network, decide(packed=packed), batch)
    assert_right(network, decisions, batch, dtype, at_once=at_once)


def test_as_many_images_are_packed_as_channels_leave_room_for() -> None:
    graph = ready(load_model("digits-cnn").network)
    assert [node.operation.packed for node in pack_images(graph, 16).nodes] == [16, 16, 4, 2, 2, 1, 1]
    assert [node.operation.packed for node in pack_images(graph, 2).nodes] == [2, 2, 2, 2, 2, 1, 1]
    assert pack_images(graph, 1) == graph


@pytest.mark.parametrize(
    ("batch", "choices"),
    [(1, [2, 4, 8]), (4, [2, 4, 8]), (5, [2, 4, 8, 16]), (1000, [2, 4, 8, 16])],
)
def test_hardly_more_images_are_packed_than_a_batch_has(batch: int, choices: list[int]) -> None:
    assert choices_of(ready(load_model("digits-cnn").network), batch) == choices
    assert max(choices) <= MOST_IMAGES


@pytest.mark.parametrize(
    ("shape", "layers"),
    [
        ((65, 6, 5), [Conv2d("a", 65, 4, (1, 1))]),  # two inputs would take 130 partitions
        ((3, 6, 5), [Conv2d("a", 3, 65, (1, 1))]),  # as would two outputs of the first convolution
        (
            (3, 6, 5),
            [Conv2d("a", 3, 8, (1, 1)), Conv2d("b", 8, 130, (1, 1))],
        ),  # a tile plus two channels
    ],
)
def test_images_that_do_not_fit_are_not_packed(shape: tuple[int, int, int], layers: list[Layer]) -> None:
    assert choices_of(ready(ending_in_dense(shape, layers)), 64) == []


def test_parts_whose_channels_follow_one_another_hold_as_many_images() -> None:
    layers: list[Layer] = [
        Conv2d("a", 3, 40, (1, 1), inputs=("input",)),
        Conv2d("b", 3, 8, (1, 1), inputs=("input",)),
        Concat("both", inputs=("a", "b")),
        Conv2d("last", 48, 4, (1, 1)),
    ]
    network = ending_in_dense((3, 6, 5), layers)
    packed = pack_images(ready(network), 4)
    assert [node.operation.packed for node in packed.nodes[:3]] == [4, 2, 2]  # the input, both parts
    for images in (2, 4):
        assert_right(network, decide(packed=images), 5)


def test_the_filters_of_groups_are_on_the_diagonal_of_each_image() -> None:
    grouped = Conv2d("a", 8, 8, (3, 3), (1, 1, 1, 1), groups=4)
    network = ending_in_dense((8, 6, 5), [Conv2d("stem", 8, 8, (1, 1)), grouped])
    graph = ready(network)
    (node,) = [node for node in pack_images(graph, 4).nodes if node.name == "a"]
    operation = node.operation
    assert isinstance(operation, Convolution) and operation.groups == 1
    assert node.filters is not None and node.filters.make().shape == (8, 8, 3, 3)
    assert_right(network, decide(packed=4), 4)


def test_features_are_not_packed() -> None:
    features = Network("n", FeatureInput(7), (Dense("a", 7, 2),), ("x", "y"))
    assert choices_of(ready(features), 64) == []


@pytest.mark.parametrize("kind", ["layer_norm", "group_norm"])
def test_each_packed_image_is_normalised_by_itself(kind: str) -> None:
    model = of_kind(kind, 16)
    assert_right(model, decide(packed=4), 6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_packed_images_are_quicker_where_channels_are_few(dtype: str) -> None:
    model = load_model("digits-cnn")
    packed, alone = (decided(model, decide(packed=images), 32, dtype) for images in (16, 1))
    assert nanoseconds(packed, dtype) < 0.7 * nanoseconds(alone, dtype)


def test_a_sum_has_both_operands_packed_alike() -> None:
    layers: list[Layer] = [
        Conv2d("a", 3, 64, (1, 1)),
        Conv2d("b", 64, 16, (1, 1)),
        Conv2d("c", 16, 64, (1, 1)),
        Combine("sum", "multiply", inputs=("a", "c")),
    ]
    network = ending_in_dense((3, 6, 5), layers)
    for images in choices_of(ready(network), 64):
        assert_right(network, decide(packed=images), 4)
