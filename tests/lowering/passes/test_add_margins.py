"""Zeros around values, for the operations that read them."""

import pytest
from lowered import after, convolution_of, graph_of, operation_of
from random_networks import ending_in_dense
from trninfer.lowering.passes.add_margins import add_margins
from trninfer.lowering.passes.load_taps import load_input
from trninfer.models.layers import Combine, Conv2d, Layer

STEM = Conv2d("stem", 3, 8, (1, 1))


def margin_of_stem(*layers: Layer, forms: bool = False) -> tuple[int, ...]:
    network = ending_in_dense((3, 7, 9), [STEM, *layers])
    return operation_of(after(graph_of(network), lambda graph: add_margins(graph, forms)), "stem").margin


@pytest.mark.parametrize("padding", [(0, 0, 0, 0), (1, 1, 1, 1), (3, 0, 1, 2)])
def test_a_value_has_the_zeros_that_its_reader_pads_with(padding: tuple[int, int, int, int]) -> None:
    assert margin_of_stem(Conv2d("a", 8, 4, (3, 3), padding)) == padding


def test_a_value_that_several_read_has_the_most_zeros_of_each_side() -> None:
    one = Conv2d("one", 8, 4, (3, 3), (2, 0, 0, 1), inputs=("stem",))
    other = Conv2d("other", 8, 4, (3, 3), (1, 1, 1, 0), inputs=("stem",))
    assert margin_of_stem(one, other, Combine("sum", "add", inputs=("one", "other"))) == (2, 1, 1, 1)


@pytest.mark.parametrize(
    ("padding", "pool_size", "margin"),
    [
        ((1, 1, 1, 1), 1, (1, 1, 2, 2)),  # 7 rows and 9 columns of outputs become 8 and 10
        ((1, 1, 2, 2), 1, (1, 1, 2, 2)),  # 8 and 10
        ((1, 1, 1, 1), 2, (1, 1, 1, 1)),  # six and eight after pooling
    ],
)
def test_filters_that_may_be_combined_have_an_even_number_of_outputs(
    padding: tuple[int, int, int, int], pool_size: int, margin: tuple[int, int, int, int]
) -> None:
    layer = Conv2d("a", 8, 4, (3, 3), padding, pool_size)
    assert margin_of_stem(layer) == padding
    assert margin_of_stem(layer, forms=True) == margin


def test_filters_that_cannot_be_combined_have_their_own_padding() -> None:
    for layer in (Conv2d("a", 8, 4, (3, 3), (1, 1, 1, 1), groups=2), Conv2d("a", 8, 4, (5, 5), (2, 2, 2, 2))):
        graph = graph_of(ending_in_dense((3, 7, 9), [STEM, layer]))
        (node,) = [node for node in graph.nodes if node.name == "a"]
        assert not node.operation.can_be_combined
        assert node.operation.widest_zeros(node.operation) == layer.padding


def test_outputs_before_pooling() -> None:
    graph = graph_of(ending_in_dense((3, 7, 9), [STEM, Conv2d("a", 8, 4, (3, 3), (1, 1, 1, 1), 2)]))
    assert convolution_of(graph, "a").outputs_at_once == (6, 8)


def test_an_input_in_hbm_has_no_margin() -> None:
    graph = graph_of(ending_in_dense((3, 7, 9), [Conv2d("a", 3, 4, (3, 3), (1, 1, 1, 1))]))
    assert [node.operation.margin for node in add_margins(graph, True).nodes] == [(0,) * 4] * len(graph.nodes)
    twice = ending_in_dense(
        (3, 7, 9),
        [
            Conv2d("a", 3, 4, (3, 3), (1, 1, 1, 1), inputs=("input",)),
            Conv2d("b", 3, 4, (1, 1), inputs=("input",)),
            Combine("c", "multiply", inputs=("a", "b")),
        ],
    )
    loaded = after(graph_of(twice), load_input, lambda graph: add_margins(graph, False))
    assert loaded.nodes[0].operation.margin == (1, 1, 1, 1)  # the loaded value has a margin
