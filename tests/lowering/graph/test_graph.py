"""Graphs: the readers of values, and the tiles of values."""

from dataclasses import replace

from lowered import graph_of, number_of
from random_networks import conv, ending_in_dense
from trninfer.kernels.program import Load, Memory
from trninfer.lowering.graph.graph import Node, prepend
from trninfer.models.layers import Combine, Concat, Pool

TWO = graph_of(
    ending_in_dense(
        (3, 6, 5),
        [
            conv("a", 3, 200, 1),
            Pool("p", "max", (2, 2), (1, 1)),
            conv("b", 200, 8, 1, inputs=("p",)),
            conv("c", 200, 8, 1, inputs=("p",)),
            Combine("m", "maximum", inputs=("b", "c")),
            Concat("all", inputs=("m", "p")),
        ],
    )
)


def test_readers_are_reported_by_node_and_operand() -> None:
    a, p, b, c, m = (number_of(TWO, name) for name in "apbcm")
    last = len(TWO.nodes) - 1
    assert TWO.readers(a) == [(p, 0)] and TWO.readers(-1) == [(a, 0)]
    assert TWO.readers(p) == [(b, 0), (c, 0), (last, 0)] and TWO.readers(c) == [(m, 1)]
    assert TWO.last_readers()[p] == last and last not in TWO.last_readers()
    assert TWO.outputs == (last,)


def test_an_operation_that_keeps_channels_has_the_tiles_of_what_it_reads() -> None:
    a, p, m = (number_of(TWO, name) for name in "apm")
    assert TWO.heights((a,)) == TWO.heights((p,)) == [128, 72]
    assert TWO.heights((m, p)) == [8, 128, 72] and TWO.pieces((m, p)) == [8, 200]
    assert TWO.heights((-1,)) == [3]


def test_what_is_in_hbm_is_read_in_tiles_of_all_channels() -> None:
    p = number_of(TWO, "p")
    nodes = [replace(node, memory=Memory.HBM) if n == p else node for n, node in enumerate(TWO.nodes)]
    graph = TWO.with_nodes(nodes)
    assert graph.is_in_hbm(p) and graph.is_in_hbm(-1) and not TWO.is_in_hbm(p)
    assert graph.is_from_hbm(graph.nodes[number_of(graph, "b")]) and not graph.is_from_hbm(graph.nodes[p])
    assert " in hbm " in graph.lines()[p] and " in hbm " not in TWO.lines()[p]


def test_a_node_in_front_takes_the_place_of_the_input() -> None:
    load = Load(name="a", sources=((-1,),), channels=3, rows=6, columns=5)
    first = Node(load, "load", (3, 6, 5), ((3, 6, 5), (3, 6, 5)))
    nodes = prepend(first, TWO.nodes)
    assert nodes[0] is first and [node.sources for node in nodes[1:3]] == [((0,),), ((1,),)]
    assert nodes[-1].sources == (tuple(part + 1 for part in TWO.nodes[-1].sources[0]),)


def test_lines_name_node_operation_operands_shape_fields_and_layer() -> None:
    lines = TWO.lines()
    assert lines[0].startswith("   0  Convolution(x0) -> 200x6x5  activation=(relu,()) ") and lines[0].endswith("  # a")
    m, b, c = (number_of(TWO, name) for name in "mbc")
    assert f"Combine(%{b} + %{c}) -> 8x5x4  " in lines[m]
    assert f"DenseHead(%{m},%1)" in lines[-1]
