"""The rows that a band reads, compared with a count of the rows that each output row depends on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lowered import after, assert_right, decide, graph_of, number_of
from random_networks import conv, ending_in_dense
from trninfer.kernels.convolution.forms import Form
from trninfer.kernels.program import (
    Affine,
    AveragePool,
    Border,
    Combine,
    Convolution,
    DenseHead,
    MaxPool,
    Operation,
    Pad,
    Slope,
)
from trninfer.lowering.emission.bands import BandPlan, Reach, banded, can_band, reach_of, windows_of
from trninfer.lowering.emission.schedule import Region
from trninfer.lowering.graph.graph import Graph, Node, Unsupported
from trninfer.lowering.passes.load_taps import load_taps
from trninfer.models.layers import Combine as CombineLayer
from trninfer.models.layers import Concat, Conv2d, Layer, Pool, Transpose
from trninfer.models.layers import Pad as PadLayer


def node_of(operation: Operation, rows: int) -> Node:
    before = (operation.channels, rows, 5)
    return Node(operation, "", before, (before, operation.shape))


@st.composite
def moving(draw: st.DrawFn) -> Node:
    """Draw a convolution or a pool with any stride and padding along the rows."""
    rows = draw(st.integers(1, 30))
    kernel, stride, dilation = draw(st.integers(1, 5)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
    top, bottom = draw(st.tuples(st.integers(0, 3), st.integers(0, 3)))
    outputs = (rows + top + bottom - dilation * (kernel - 1) - 1) // stride + 1
    fields = {
        "name": "a",
        "channels": 4,
        "columns": 5,
        "sources": ((-1,),),
        "kernel": (kernel, 1),
        "stride": (stride, 1),
        "dilation": (dilation, 1),
        "padding": (top, 0, bottom, 0),
    }
    pool_size = draw(st.sampled_from([1, 2]))
    if outputs < pool_size:
        fields |= {"kernel": (1, 1), "padding": (0, 0, 0, 0), "stride": (1, 1)}
        outputs, pool_size = rows, 1
    if draw(st.booleans()):
        return node_of(Convolution(**fields, rows=outputs // pool_size, pool_size=pool_size), rows)
    return node_of(MaxPool(**fields, rows=outputs), rows)


def read_by(node: Node, row: int) -> Iterator[int]:
    """Return the rows of the padded input on which an output row depends."""
    operation = node.operation
    assert isinstance(operation, (Convolution, MaxPool))
    pool_size = getattr(operation, "pool_size", 1)
    for inner in range(row * pool_size, (row + 1) * pool_size):
        for tap in range(operation.kernel[0]):
            yield inner * operation.stride[0] - operation.padding[0] + tap * operation.dilation[0]


@given(moving(), st.data())
def test_a_band_reads_all_that_its_rows_reach_and_no_more(node: Node, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, node.operation.rows - 1))
    end = data.draw(st.integers(first + 1, node.operation.rows))
    reach = reach_of(node, (first, end))
    read = [row for output in range(first, end) for row in read_by(node, output)]
    assert (reach.first, reach.end) == (min(read), max(read) + 1)
    band = banded(node, (first, end), reach)
    assert isinstance(band, (Convolution, MaxPool))
    if max(read) < 0 or min(read) >= reach.rows:
        with pytest.raises(Unsupported, match="only padding"):
            reach.inside  # noqa: B018
        return
    start, last = reach.inside
    # The band's own outputs depend exactly on the given rows and the padding.
    inner = node_of(band, last - start)
    again = reach_of(inner, (0, band.rows))
    assert (again.first + start, again.end + start) == (reach.first, reach.end)
    assert band.rows == end - first


def test_what_is_beyond_the_image_is_padding() -> None:
    reach = Reach(-2, 9, 8)
    assert reach.inside == (0, 8) and reach.padding((5, 1, 5, 2)) == (2, 1, 1, 2)
    assert Reach(3, 6, 8).padding((5, 1, 5, 2)) == (0, 1, 0, 2)


def test_rows_that_are_computed_together_are_in_one_band() -> None:
    fields = {"name": "a", "channels": 4, "rows": 9, "columns": 5, "sources": ((-1,),)}
    direct = node_of(Convolution(**fields), 9)
    pairs = node_of(Convolution(**fields, form=Form.PAIRS), 9)
    rows_at_once = node_of(Convolution(**fields, rows_at_once=4), 9)
    assert [node.operation.whole_rows((3, 5)) for node in (direct, pairs, rows_at_once)] == [(3, 5), (2, 6), (0, 8)]
    assert pairs.operation.whole_rows((7, 9)) == (6, 9)


def test_operations_of_a_whole_image_are_not_cut() -> None:
    image = {"name": "a", "channels": 4, "rows": 8, "columns": 5, "sources": ((-1,),)}
    whole = [
        AveragePool(**{**image, "rows": 1}, kernel=(8, 5)),
        AveragePool(**image, kernel=(3, 1), padding=(1, 0, 1, 0)),  # averages of two rows at the border
        AveragePool(**image, kernel=(2, 2), ceil_mode=True),
        Affine(**image, by_element=True),
        *(one_row(**{**image, "rows": 1}) for one_row in (Affine, Slope)),
        AveragePool(**{**image, "rows": 1}, kernel=(8, 1)),
        DenseHead(**{**image, "rows": 1}),
    ]
    cut = [
        AveragePool(**image, kernel=(3, 1), padding=(1, 0, 1, 0), count_include_pad=True),
        MaxPool(**image, kernel=(3, 3), padding=(1, 1, 1, 1)),
        MaxPool(**image, kernel=(2, 2), ceil_mode=True),
        Affine(**image),
        Combine(**image),
    ]
    assert [can_band(node_of(operation, 8)) for operation in whole] == [False] * len(whole)
    assert [can_band(node_of(operation, 8)) for operation in cut] == [True] * len(cut)


def of_residual() -> Graph:
    layers = [
        conv("a", 3, 8, 3, inputs=("input",)),
        conv("b", 8, 8, 5),
        Conv2d("c", 8, 8, (1, 1)),
        CombineLayer("sum", "multiply", inputs=("c", "a")),
    ]
    return after(graph_of(ending_in_dense((3, 16, 5), layers)))


def test_a_value_has_the_rows_that_any_reader_needs() -> None:
    graph = of_residual()
    last = number_of(graph, "sum") + 1
    plan = BandPlan(graph, 0, last, (4, 8))
    assert [plan.rows[number] for number in range(last)] == [(2, 10), (4, 8), (4, 8), (4, 8)]
    assert plan.reaches[0].inside == (1, 11)
    # The sum reads rows 4 to 7 of both values, one of which is stored from row 2 on.
    assert windows_of(graph, last - 1, plan, 0) == (((0, 4),), ((2, 6),))


@pytest.mark.parametrize("bands", [2, 3, 8])
@pytest.mark.parametrize("batch", [1, 3])
def test_parts_of_an_operand_from_different_rows_on(bands: int, batch: int) -> None:
    """More rows of the first operand are stored, because the second layer reads them."""
    layers = [
        conv("a", 3, 40, 3),
        conv("b", 40, 100, 3),
        Concat("both", inputs=("a", "b")),
        conv("c", 140, 8, 3),
        Pool("pool", "max", (2, 2), (2, 2)),
    ]
    network = ending_in_dense((3, 18, 5), layers)
    graph = after(graph_of(network).with_ids(), load_taps)
    first, end = number_of(graph, "a"), number_of(graph, "c") + 1
    assert any(len(parts) == 2 for node in graph.nodes[:end] for parts in node.sources)
    decisions = decide(graph, regions=(Region(first, end, bands),), at_once=2)
    assert_right(network, decisions, batch)


def test_a_value_that_goes_around_is_padded_as_a_whole() -> None:
    operation = Pad(name="a", channels=4, rows=16, columns=5, padding=(3, 0, 5, 0), border=Border.WRAP)
    assert not can_band(node_of(operation, 8))


@pytest.mark.parametrize("border", [Border.NUMBER, Border.EDGE, Border.REFLECT])
def test_a_padded_value_by_its_own_rows_has_them_in_each_band(border: Border) -> None:
    """The border rows are copies of rows that the band contains."""
    node = node_of(Pad(name="a", channels=4, rows=40, columns=5, padding=(3, 0, 5, 0), border=border), 32)
    assert can_band(node)
    own = 1 if border is Border.NUMBER else 2
    assert node.operation.whole_rows((0, 1)) == (0, 3 * own + 1)
    assert node.operation.whole_rows((39, 40)) == (40 - 5 * own - 1, 40)
    assert node.operation.whole_rows((20, 21)) == (20, 21)
    reach = reach_of(node, (0, 7))
    assert reach.inside == (0, 4) and reach.padding((3, 0, 5, 0)) == (3, 0, 0, 0)


@pytest.mark.slow
@settings(max_examples=15)
@given(
    st.sampled_from([("constant", (2, 1, -1, 0)), ("constant", (5, 0, 6, 1))])
    | st.tuples(st.sampled_from(["edge", "reflect"]), st.tuples(*[st.integers(0, 5)] * 4)),
    st.sampled_from([(2, 2), (3, 1), (1, 2)]),
    st.sampled_from([2, 3, 8]),
    st.sampled_from([1, 3]),
    st.sampled_from(["pad", "turn", "b"]),
)
def test_padding_and_rows_that_take_turns_in_bands(
    around: tuple[str, tuple[int, int, int, int]], step: tuple[int, int], bands: int, batch: int, last: str
) -> None:
    (mode, padding), (down, across) = around, step
    pad = PadLayer("pad", padding, mode=mode)
    rows, columns = 14 + padding[0] + padding[2], 7 + padding[1] + padding[3]
    split = (8, down, across, rows, columns)
    layers: list[Layer] = [
        conv("a", 3, 8, 3),
        pad,
        conv("up", 8, 8 * down * across, 3),
        Transpose("turn", split, (0, 3, 1, 4, 2), (8, rows * down, columns * across)),
        conv("b", 8, 4, 3),
    ]
    network = ending_in_dense((3, 14, 7), layers)
    graph = after(graph_of(network).with_ids(), load_taps)
    first, end = number_of(graph, "a"), number_of(graph, last) + 1
    assert all(can_band(node) for node in graph.nodes[first:end])
    decisions = decide(graph, regions=(Region(first, end, bands),), at_once=2)
    assert_right(network, decisions, batch)


@pytest.mark.parametrize("side", [15, 16, 17, 18, 19])
@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("bands", [2, 3])
def test_windows_that_hang_over_the_edge_in_bands(side: int, padding: int, bands: int) -> None:
    pool = Pool("pool", "max", (3, 3), (2, 2), (padding,) * 4, ceil_mode=True)
    layers = [conv("a", 3, 40, 3, padding=(1, 1, 1, 1)), pool]
    network = ending_in_dense((3, side, 7), layers)
    graph = after(graph_of(network).with_ids(), load_taps)
    end = number_of(graph, "pool") + 1
    for batch in (1, 3):
        assert_right(network, decide(graph, regions=(Region(number_of(graph, "a"), end, bands),)), batch)
