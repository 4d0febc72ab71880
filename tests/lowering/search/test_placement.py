"""Bands of rows and values in HBM if SBUF cannot hold everything: what can be reduced, and what cannot."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from lowered import (
    assert_right,
    decide,
    decided,
    graph_of,
    id_of,
    nodes_of,
    number_of,
    pipeline_of,
    regions_of,
    spilled_of,
)
from random_networks import conv, ending_in_dense, graphs, labels, model_of, picture, residual
from trninfer.kernels.convolution.forms import Form
from trninfer.lowering.decisions import Choice, Decisions, Kind
from trninfer.lowering.emission.emit import BAND_UNIT
from trninfer.lowering.emission.schedule import Region
from trninfer.lowering.graph.graph import Unsupported
from trninfer.lowering.passes.choose_forms import COMBINED_BYTES
from trninfer.lowering.pipeline import LaunchPlan
from trninfer.lowering.search.footprint import Footprint
from trninfer.lowering.search.placement import (
    BANDS,
    SHARE,
    borders,
    can_run_in_bands,
    computed_again,
    cut_region,
    make_smaller,
    whole_bytes,
)
from trninfer.models.layers import Combine, Conv2d, Dense, Flatten, Pool
from trninfer.models.network import Network

LAYERS = [
    conv("a", 3, 16, 3),
    conv("b", 16, 16, 3, stride=(2, 2)),
    conv("c", 16, 16, 3, stride=(2, 2)),
    conv("d", 16, 8, 3),
]


def network(side: int = 64) -> Network:
    """Return convolutions whose values shrink to a sixteenth, global average pooling and a dense layer."""
    quarter = (side // 4, (side - 1) // 4 + 1)
    layers = (*LAYERS, Pool("mean", "average", quarter, (1, 1)), Flatten("flat"), Dense("dense", 8, 3))
    return Network("n", picture(3, side, side), layers, labels(3))


def smaller(plan: LaunchPlan, budget_bytes: int) -> tuple[Decisions, list[Choice]]:
    return make_smaller(plan, Footprint(plan.emitted, plan.layout), [], budget_bytes)


def smaller_at(plan: LaunchPlan, number: int, budget_bytes: int) -> Decisions:
    """Return the decisions that follow if SBUF is fullest at a node."""
    footprint = Footprint(plan.emitted, plan.layout)
    at = next(n for n in range(len(plan.program.operations)) if footprint.node_of(n) == number)
    footprint.__dict__["peak"] = (1 << 20, at)
    return make_smaller(plan, footprint, [], budget_bytes)[0]


def peak(plan: LaunchPlan) -> int:
    return Footprint(plan.emitted, plan.layout).peak[0]


def test_borders_are_where_nothing_reaches_over() -> None:
    """The sum of a residual block also reads the output of the previous block."""
    graph = graph_of(residual(blocks=2))
    names = [graph.nodes[number].name for number in borders(graph)]
    assert names == ["stem", "b0", "b1", "mean", "dense"]
    assert borders(graph)[-1] == len(graph.nodes) - 1
    assert len(borders(graph_of(network()))) == len(graph_of(network()).nodes)  # in a chain, everywhere


def test_a_value_takes_its_rows_and_columns_in_each_of_its_tiles() -> None:
    graph = graph_of(ending_in_dense((3, 10, 7), [conv("a", 3, 128, 3), conv("b", 128, 129, 3)]))
    assert whole_bytes(graph, number_of(graph, "a")) == 10 * 7 * 4
    assert whole_bytes(graph, number_of(graph, "b")) == 2 * 10 * 7 * 4
    assert whole_bytes(replace(graph, itemsize=2), number_of(graph, "a")) == 10 * 7 * 2


def test_what_a_launch_returns_is_whole_but_for_the_last_of_a_region() -> None:
    graph = graph_of(network())
    a, c = number_of(graph, "a"), number_of(graph, "c")
    returned = graph.with_nodes(
        replace(node, output=1) if number == a + 1 else node for number, node in enumerate(graph.nodes)
    )
    assert can_run_in_bands(graph, a, c + 1)
    assert not can_run_in_bands(returned, a, c + 1)
    assert can_run_in_bands(returned, a, a + 2) and can_run_in_bands(returned, a + 2, c + 1)
    assert not can_run_in_bands(graph, a, len(graph.nodes))  # a dense layer reads its whole input


def test_a_value_of_one_row_that_all_rows_read_is_not_in_a_region_with_its_reader() -> None:
    layers = [
        conv("a", 3, 8, 3),
        Pool("means", "average", (16, 1), (1, 1)),
        Combine("product", "multiply", inputs=("a", "means")),
        conv("b", 8, 8, 3),
    ]
    network = ending_in_dense((3, 16, 5), layers)
    graph = graph_of(network).with_ids()
    a, means, product, b = (number_of(graph, name) for name in ("a", "means", "product", "b"))
    assert not can_run_in_bands(graph, a, b + 1)
    assert not can_run_in_bands(graph, means, product + 1)
    assert can_run_in_bands(graph, product, b + 1)
    assert_right(network, decide(graph, regions=(Region(product, b + 1, 2),)))
    two_rows = [
        replace(node, operation=replace(node.operation, rows=2)) if number == means else node
        for number, node in enumerate(graph.nodes)
    ]
    assert not can_run_in_bands(graph.with_nodes(two_rows), means, product + 1)  # even if it could itself be split


def test_a_region_begins_with_two_bands_and_has_as_few_more_as_it_needs() -> None:
    """As in planning: whenever the launch does not fit, the part with the highest SBUF use is reduced."""
    plan = decided(network(128), Decisions(), at_once=1)
    budget_bytes = peak(plan) * 4 // 5
    bands, plans = [], [plan]
    while peak(plans[-1]) > budget_bytes:
        decisions, refused = smaller(plans[-1], budget_bytes)
        assert refused == []
        (region,) = regions_of(decisions, plan.graph)
        bands.append(region.bands)
        plans.append(decided(network(128), decisions.without(Kind.STAGE), at_once=1))
    assert bands == list(BANDS[: len(bands)]) and len(bands) > 1
    assert peak(plans[-1]) < peak(plan)
    assert_right(network(128), plans[-1].decisions.without(Kind.STAGE), at_once=1)


def test_a_region_grows_over_values_that_are_too_large_to_be_whole() -> None:
    """The values at its ends are small enough to stay in SBUF; if even those are too large, they go through HBM."""
    plan = decided(network(), Decisions(), at_once=1)
    graph = plan.graph
    a, b, c = (whole_bytes(graph, number_of(graph, name)) for name in "abc")
    assert a == 4 * b == 16 * c
    found = {}
    for name, size in (("b", b), ("c", c)):
        decisions, _ = smaller(plan, SHARE * size)
        (region,) = regions_of(decisions, graph)
        found[name] = graph.nodes[region.end - 1].name
        assert not decisions.of(Kind.SPILL)
    assert found == {"b": "b", "c": "c"}
    tiny, _ = smaller(plan, SHARE * 4)
    (region,) = regions_of(tiny, graph)
    last = graph.nodes[region.end - 1]
    assert last.name == "d" and spilled_of(tiny, graph) == (region.end - 1,)


def test_a_region_is_no_larger_than_it_must_be() -> None:
    """It extends between the borders around the node with the highest SBUF use, or from anywhere to the end if all
    values are large."""
    plan = decided(network(), Decisions(), at_once=1)
    numbers = {name: number_of(plan.graph, name) for name in "abcd"}
    for name in "bc":
        own = (Region(numbers[name], numbers[name] + 1, 2),)
        assert regions_of(smaller_at(plan, numbers[name], 1 << 20), plan.graph) == own
    for name in "abcd":
        decisions = smaller_at(plan, numbers[name], SHARE * 4)
        assert regions_of(decisions, plan.graph) == (Region(0, numbers["d"] + 1, 2),)
        assert spilled_of(decisions, plan.graph) == (numbers["d"],)


def test_a_gate_runs_in_bands_without_the_mean_beside_it() -> None:
    """The average of the whole image is between its borders, and cannot run in bands."""
    layers = (
        conv("a", 3, 8, 3),
        Pool("mean", "average", (32, 32), (1, 1)),
        Conv2d("squeeze", 8, 4, (1, 1), activation="relu"),
        Conv2d("excite", 4, 8, (1, 1), activation="sigmoid"),
        Combine("gate", "multiply", inputs=("a", "excite")),
        conv("b", 8, 4, 3),
        Pool("last", "average", (32, 32), (1, 1)),
        Flatten("flat"),
        Dense("dense", 4, 3),
    )
    plan = decided(Network("n", picture(3, 32, 32), layers, labels(3)), Decisions(), at_once=1)
    (region,) = regions_of(smaller_at(plan, number_of(plan.graph, "gate"), 1 << 20), plan.graph)
    names = [node.name for node in plan.graph.nodes[region.first : region.end]]
    assert names == ["gate", "b"]


@settings(max_examples=25)
@given(graphs(), st.sampled_from([12, 1 << 20]))
def test_what_is_inside_of_a_region_is_read_there_alone(random_network: Network, budget_bytes: int) -> None:
    """The value of its last node is complete; other nodes read no other value of the region."""
    try:
        plan = decided(random_network, Decisions(), at_once=1)
    except Unsupported:
        reject()
    last = plan.graph.last_readers()
    for number in {Footprint(plan.emitted, plan.layout).node_of(n) for n in range(len(plan.program.operations))}:
        try:
            (region, *_) = regions_of(smaller_at(plan, number, budget_bytes), plan.graph) or (None,)
        except Unsupported:
            continue
        if region is not None:
            around = {number, *(reader for reader, _ in plan.graph.readers(number))}  # for a load: its readers
            assert around & set(range(region.first, region.end))
            assert can_run_in_bands(plan.graph, region.first, region.end)
            assert all(last.get(n, n) < region.end for n in range(region.first, region.end - 1))


def test_another_region_does_not_reach_into_the_first() -> None:
    plan = decided(network(), Decisions(), at_once=1)
    first = Region(0, number_of(plan.graph, "b") + 1, 2)
    with_one = decided(network(), decide(plan.graph, regions=(first,)), at_once=1)
    number = number_of(with_one.graph, "d")
    footprint = Footprint(with_one.emitted, with_one.layout)
    at = next(n for n in range(len(with_one.program.operations)) if footprint.node_of(n) == number)
    footprint.__dict__["peak"] = (1 << 20, at)  # as if SBUF were fullest at d
    decisions, _ = make_smaller(with_one, footprint, [], 12)
    one, other = regions_of(decisions, plan.graph)
    assert one == first and (other.first, other.end) == (first.end, number + 1)
    assert first.end - 1 in spilled_of(decisions, plan.graph)
    enough, _ = make_smaller(
        with_one, footprint, [], SHARE * whole_bytes(with_one.graph, number_of(with_one.graph, "b"))
    )
    assert not enough.of(Kind.SPILL)  # a value that takes exactly its share stays in SBUF


def test_a_form_that_takes_too_much_is_refused_before_anything_is_cut() -> None:
    wide = ending_in_dense((128, 16, 16), [conv("a", 128, 128, 3), conv("b", 128, 128, 3)])
    pipeline = pipeline_of(model_of(wide), forms=(Form.SQUARES,))
    number, named = (find(pipeline.lower(Decisions()).graph, "b") for find in (number_of, id_of))
    for budget_bytes in COMBINED_BYTES:
        plan = pipeline.launch(decide(forms=((named, "squares", budget_bytes),)), 1)
        if nodes_of(plan.graph, "b")[0].operation.form is Form.DIRECT:  # type: ignore[attr-defined]
            continue  # all transforms fit in the smaller buffer
        footprint = Footprint(plan.emitted, plan.layout)
        at = next(n for n in range(len(plan.program.operations)) if footprint.node_of(n) == number)
        footprint.__dict__["peak"] = (1 << 20, at)
        earlier = [Choice(Kind.FORM, id_of(plan.graph, "a"), ("pairs", 1))]
        decisions, refused = make_smaller(plan, footprint, earlier, 1)
        assert decisions == plan.decisions
        assert refused == [*earlier, Choice(Kind.FORM, named, ("squares", budget_bytes))]
        break
    else:
        raise AssertionError("no room takes the form")


def test_what_cannot_be_cut_is_reported_with_its_needs() -> None:
    dense = Network("n", picture(3, 60, 60), (Flatten("flat"), Dense("wide", 3 * 60 * 60, 900)), labels(900))
    plan = decided(dense, Decisions())
    with pytest.raises(
        Unsupported, match=r"layer 'wide' \(dense\) needs \d+ KiB of an SBUF partition; 2 are available"
    ):
        smaller(plan, 2048)


def test_images_side_by_side_do_not_run_in_bands() -> None:
    few = ending_in_dense((3, 32, 32), [Conv2d("a", 3, 8, (3, 3)), Conv2d("b", 8, 8, (3, 3))])
    plan = decided(few, decide(packed=4), 4)
    assert plan.graph.packed == 4
    with pytest.raises(Unsupported, match="KiB of an SBUF partition"):
        smaller(plan, 1024)


def test_regions_have_no_more_bands_than_their_rows_allow() -> None:
    """They are cut repeatedly, until each region is a single node with the maximum number of bands."""
    graph = decided(network(), Decisions(), at_once=1).graph
    end = number_of(graph, "b") + 1
    decisions = decide(graph, splits_means=True, regions=(Region(0, end, BANDS[0]),), in_hbm=(end - 1,))
    while True:
        plan = decided(network(), decisions, at_once=1)
        for region in regions_of(decisions, plan.graph):
            assert plan.graph.nodes[region.end - 1].operation.rows > BAND_UNIT * (region.bands - 1)
        try:
            decisions, _ = smaller(plan, 16)
        except Unsupported as why:
            assert "KiB of an SBUF partition; 0 are available" in str(why)
            break
    assert [region.end - region.first for region in regions_of(decisions, plan.graph)[:end]] == [1] * end


def test_whole_values_that_leave_bands_little_room_go_to_hbm() -> None:
    """The value of `b` takes 4 KiB, which is more than half of 6 KiB and less than half of 16 KiB."""
    plan = decided(network(), Decisions(), at_once=1)
    end = number_of(plan.graph, "b") + 1
    banded = decided(network(), decide(plan.graph, regions=(Region(0, end, BANDS[0]),)), at_once=1)
    assert whole_bytes(banded.graph, end - 1) == 32 * 32 * 4
    spilled, _ = smaller(banded, 6 * 1024)
    assert spilled == banded.decisions.having(Choice(Kind.SPILL, id_of(plan.graph, "b")))
    more, _ = smaller(banded, 16 * 1024)
    assert more == banded.decisions.having(*decide(plan.graph, regions=[Region(0, end, BANDS[1])]).choices)


def test_halos_are_computed_again() -> None:
    """For a band of four rows of `c`, `b` computes nine rows instead of eight and `a` nineteen instead of sixteen, with
    half as many columns each."""
    graph = decided(network(), Decisions(), at_once=1).graph
    first, end = number_of(graph, "a"), number_of(graph, "c") + 1
    share = 64 * 64 * 19 / 16 + 32 * 32 * 9 / 8 + 16 * 16
    expected = share / (64 * 64 + 32 * 32 + 16 * 16)
    assert computed_again(graph, Region(first, end, 4)) == pytest.approx(expected)
    assert computed_again(graph, Region(first, end, 1)) == pytest.approx(1)


def test_a_region_is_cut_at_its_smallest_value() -> None:
    """`c` is a quarter of `b`; a residual block cannot be cut inside, because its sum reads the value before it."""
    graph = decided(network(), Decisions(), at_once=1).graph
    first, b, c, d = (number_of(graph, name) for name in "abcd")
    region = Region(first, d + 1, 8)
    cut = cut_region(graph, decide(graph, regions=(region,)), region)
    assert cut is not None
    assert cut == decide(graph, regions=(Region(first, c + 1, 2), Region(c + 1, d + 1, 2)), in_hbm=(c,))
    again = cut_region(graph, cut, regions_of(cut, graph)[0])
    assert again is not None and spilled_of(again, graph) == (b, c)
    assert regions_of(again, graph)[0] == Region(first, b + 1, 2)
    assert cut_region(graph, decide(graph, regions=(Region(c, d, 8),)), Region(c, d, 8)) is None  # one node
    blocks = decided(residual(blocks=2), Decisions(), at_once=1).graph
    stem, end = number_of(blocks, "stem"), number_of(blocks, "b1") + 1
    whole = Region(stem, end, 2)
    halves = cut_region(blocks, decide(blocks, regions=(whole,)), whole)
    assert halves is not None and set(spilled_of(halves, blocks)) <= {stem, number_of(blocks, "b0")}
