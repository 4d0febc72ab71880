"""Values in HBM, and values in bands."""

import pytest
from lowered import assert_right, decide, graph_of, nodes_of, number_of
from random_networks import conv, ending_in_dense
from trninfer.kernels.program import Memory
from trninfer.lowering.graph.graph import NodeId
from trninfer.lowering.passes.assign_memory import assign_memory
from trninfer.lowering.passes.stream_input import GROUP_BYTES
from trninfer.models.layers import Concat
from trninfer.models.network import Network


def three(side: int = 20) -> Network:
    return ending_in_dense((3, side, side), [conv("a", 3, 8, 3), conv("b", 8, 12, 3), conv("c", 12, 4, 3)])


def test_convolutions_read_what_is_in_hbm_in_groups() -> None:
    graph = assign_memory(graph_of(three()).with_ids(), [NodeId(0)])
    assert [node.memory for node in graph.nodes[:3]] == [Memory.HBM, Memory.SBUF, Memory.SBUF]
    sizes = [getattr(node.operation, "group_bytes", 0) for node in graph.nodes]
    assert sizes == [0, GROUP_BYTES, *[0] * (len(sizes) - 2)]
    assert graph.is_from_hbm(graph.nodes[1]) and not graph.is_from_hbm(graph.nodes[2])


def test_the_last_value_of_a_region_is_put_together_from_bands() -> None:
    graph = assign_memory(graph_of(three()).with_ids(), [NodeId(1)], [NodeId(1)])
    assert [(node.memory, node.in_bands) for node in graph.nodes[:3]] == [
        (Memory.SBUF, False),
        (Memory.HBM, True),
        (Memory.SBUF, False),
    ]


@pytest.mark.parametrize("name", ["a", "b"])
@pytest.mark.parametrize("batch", [1, 3])
def test_values_in_hbm_are_what_the_golden_model_has(name: str, batch: int) -> None:
    network = three(60)
    number = number_of(graph_of(network), name)
    plan = assert_right(network, decide(in_hbm=(number,)), batch, at_once=1)
    assert nodes_of(plan.graph, name)[-1].memory is Memory.HBM


@pytest.mark.parametrize("number", [0, 1])
def test_a_value_in_hbm_may_be_read_together_with_one_in_sbuf(number: int) -> None:
    """The value in HBM is then loaded as a whole."""
    layers = [conv("a", 3, 8, 3), conv("b", 8, 4, 3), Concat("ab", inputs=("a", "b")), conv("c", 12, 4, 3)]
    network = ending_in_dense((3, 8, 5), layers)
    graph = graph_of(network).with_ids()
    both = graph.nodes[2]
    assert [node.name for node in graph.nodes[:3]] == ["a", "b", "ab"] and both.sources == ((0, 1),)
    placed = assign_memory(graph, [NodeId(number)])
    assert not placed.is_from_hbm(placed.nodes[2])
    assert_right(network, decide(in_hbm=(number,)), 2, at_once=1)
