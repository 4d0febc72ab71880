"""The graph of a single layer."""

import numpy as np
import pytest
from random_networks import conv, ending_in_dense, model_of
from trninfer.kernels.program import Combine as CombineOperation
from trninfer.kernels.program import Load, Rearrange
from trninfer.lowering.builder import RULES
from trninfer.lowering.graph.graph import Graph, Unsupported
from trninfer.lowering.layer_graph import as_image, computes_nothing, lower_layer
from trninfer.models.layers import ChannelShuffle, Combine, Concat, Layer, Pool, Reshape

FIRST, SECOND = conv("a", 3, 4, 3), conv("b", 4, 4, 3)


def graph_of(*layers: Layer) -> Graph:
    """Return the graph of the last layer, which follows two convolutions."""
    network = ending_in_dense((3, 6, 5), [FIRST, SECOND, *layers])
    layer = next(each for each in network.layers if each.name == layers[-1].name)
    return lower_layer(model_of(network), np.dtype(np.float32), layer, network.shapes())


def test_each_input_is_loaded_once() -> None:
    graph = graph_of(Combine("m", "add", inputs=("a", "b")))
    assert [type(node.operation) for node in graph.nodes] == [Load, Load, CombineOperation]
    assert [node.sources for node in graph.nodes] == [((-1,),), ((-2,),), ((0,), (1,))]
    assert graph.inputs == ((4, 6, 5), (4, 6, 5)) and not graph.from_host and graph.outputs == (2,)
    twice = graph_of(Combine("m", "multiply", inputs=("b", "b")))
    assert len(twice.inputs) == 1 and twice.nodes[-1].sources == ((0,), (0,))


@pytest.mark.parametrize("layer", [Concat("l", inputs=("a", "b")), ChannelShuffle("l", 2)], ids=lambda each: each.kind)
def test_channels_of_several_parts_or_in_another_order_are_laid_out(layer: Layer) -> None:
    graph = graph_of(layer)
    assert graph.nodes[-1].output == 0 and graph.nodes[-1].kind == "gather" and graph.nodes[-1].filters is not None
    assert not computes_nothing(graph)


def test_a_view_computes_nothing() -> None:
    same, other = graph_of(Reshape("r", (4, 6, 5))), graph_of(Reshape("r", (2, 12, 5)))
    assert computes_nothing(same) and computes_nothing(other) and isinstance(other.nodes[-1].operation, Rearrange)
    assert not computes_nothing(graph_of(Pool("p", "max", (2, 2), (2, 2))))


def test_a_kind_without_a_rule_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(RULES, Pool)
    with pytest.raises(Unsupported, match=r"layer 'p' \(pool\) has no lowering rule"):
        graph_of(Pool("p", "max", (2, 2), (2, 2)))


def test_shapes_as_images() -> None:
    assert [as_image(shape) for shape in ((7,), (3, 9), (2, 4, 5))] == [(7, 1, 1), (3, 1, 9), (2, 4, 5)]
