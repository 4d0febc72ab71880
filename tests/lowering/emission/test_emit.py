"""Programs of graphs with stages, bands of rows, and values in HBM."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import event, given, reject, settings
from hypothesis import strategies as st
from lowered import applicable, assert_right, decide, decided, graph_of, pipeline_of
from random_networks import chains, conv, ending_in_dense, few_channels, graphs, joined_channels, model_of, with_outputs
from trninfer.kernels.program import (
    Buffer,
    Convolution,
    DenseHead,
    Load,
    MaxPool,
    Memory,
    Operation,
    Program,
    Store,
    TapsLoad,
)
from trninfer.lowering.decisions import Decisions, Kind
from trninfer.lowering.emission.emit import BAND_UNIT, band_rows, emit
from trninfer.lowering.emission.schedule import Region, Schedule, StageOf
from trninfer.lowering.graph.graph import Graph, Unsupported
from trninfer.lowering.search.placement import borders, can_run_in_bands
from trninfer.models.layers import Conv2d, Pool
from trninfer.models.network import NamedOutput, Network
from trninfer.models.outputs import Output
from trninfer.simulator import CapacityError


def runs_of(graph: Graph) -> list[tuple[int, int]]:
    """Return the ranges of nodes between borders that can run in bands."""
    ends = borders(graph)
    runs = [(first + 1, last + 1) for first, last in zip([-1, *ends], ends)]
    return [(first, end) for first, end in runs if can_run_in_bands(graph, first, end)]


@st.composite
def schedules(draw: st.DrawFn, graph: Graph, decisions: Decisions) -> Decisions:
    """Draw decisions with a schedule for a graph: regions between borders, values in HBM, and stages."""
    count = len(graph.nodes)
    regions: list[Region] = []
    is_packed = bool(decisions.value(Kind.PACK_IMAGES))
    if not is_packed:
        for first, end in runs_of(graph):
            if draw(st.booleans()):
                before = regions[-1].first if regions and regions[-1].end == first else first
                if before < first and can_run_in_bands(graph, before, end) and draw(st.booleans()):
                    first = regions.pop().first
                regions.append(Region(first, end, draw(st.sampled_from([2, 3, 8]))))
    inner = {number for region in regions for number in range(region.first, region.end - 1)}
    ends = [number for number in borders(graph)[:-1] if number not in inner]
    in_hbm = [n for n in ends if not is_packed and can_be_in_hbm(graph, n) and draw(st.booleans())]
    cuts = [number + 1 for number in range(count - 1) if number not in inner]
    stages = sorted(draw(st.sets(st.sampled_from(cuts), max_size=3))) if cuts else []
    passes = [StageOf(end, draw(st.integers(1, 3))) for end in stages]
    last = draw(st.integers(1, 3))
    made = decide(graph, regions=regions, in_hbm=in_hbm, stages=passes, at_once=last)
    return decisions.having(*made.choices)


def can_be_in_hbm(graph: Graph, number: int) -> bool:
    return not isinstance(graph.nodes[number].operation, (DenseHead, TapsLoad, Load))


@pytest.mark.slow
@settings(max_examples=100)
@given(
    with_outputs(st.one_of(chains(), graphs(), joined_channels(), few_channels())),
    st.data(),
    st.sampled_from([1, 2, 5]),
    st.sampled_from(["float32", "bfloat16"]),
)
def test_any_schedule_computes_what_the_golden_model_does(
    network: Network, data: st.DataObject, batch: int, dtype: str
) -> None:
    flags = decide(
        packs_rows=data.draw(st.booleans()),
        splits_phases=data.draw(st.booleans()),
        packed=data.draw(st.sampled_from([1, 1, 4])),
    )
    try:
        decisions = applicable(network, flags, batch)
    except Unsupported:  # too many channels to rearrange
        reject()
    graph = pipeline_of(model_of(network), dtype).run(decisions)[-1][1]
    decisions = data.draw(schedules(graph, decisions))
    event(f"{len(decisions.of(Kind.STAGE))} stages")
    event(f"{len(decisions.of(Kind.BANDS))} regions")
    try:
        assert_right(network, decisions, batch, dtype)
    except (Unsupported, CapacityError):  # too large for SBUF, so the search would reject the launch when estimating it
        event("does not fit")


def emitted(graph: Graph, schedule: Schedule, pictures: int = 6) -> Program:
    return emit(graph, pictures, schedule).program


def three() -> Graph:
    """Return two convolutions with a pool between them, and the scores."""
    layers = [conv("a", 3, 8, 3), Pool("b", "max", (2, 2), (2, 2)), conv("c", 8, 4, 3)]
    return graph_of(ending_in_dense((3, 20, 12), layers))


def kinds_of(program: Program) -> list[type[Operation]]:
    return [type(operation) for operation in program.operations]


def test_nodes_of_one_stage_are_its_operations() -> None:
    program = emitted(three(), Schedule((StageOf(4, 4),)))
    assert kinds_of(program) == [Convolution, MaxPool, Convolution, DenseHead]
    assert [operation.sources for operation in program.operations] == [((-1,),), ((0,),), ((1,),), ((2,),)]
    assert [stage.at_once for stage in program.stages] == [4]
    assert emitted(three(), Schedule((StageOf(4, 40),))).stages[0].at_once == 6  # at most as many as exist


def test_a_value_that_a_later_stage_reads_has_a_room_for_the_batch() -> None:
    program = emitted(three(), Schedule((StageOf(2, 2), StageOf(4, 3))))
    assert kinds_of(program) == [Convolution, Buffer, MaxPool, Convolution, DenseHead]
    buffer, pool, last = program.operations[1:4]
    assert isinstance(buffer, Buffer) and buffer.whole_batch and buffer.memory is Memory.SBUF and buffer.heights == (8,)
    assert pool.into is not None and pool.into.buffer == 1 and last.sources == ((1,),)
    assert [len(stage.operations) for stage in program.stages] == [3, 2]


def test_the_last_value_of_a_region_is_put_together_from_bands() -> None:
    program = emitted(three(), Schedule((StageOf(4, 2),), (Region(0, 2, 3),)))
    assert kinds_of(program) == [Buffer, *[Convolution, MaxPool] * 3, Convolution, DenseHead]
    bands = [operation for operation in program.operations if isinstance(operation, MaxPool)]
    assert [(each.into.first[0], each.rows) for each in bands if each.into] == [(0, 4), (4, 4), (8, 2)]
    convolutions = [operation for operation in program.operations[1:7] if isinstance(operation, Convolution)]
    assert [each.rows for each in convolutions] == [8, 8, 4] and all(each.weights.are_resident for each in convolutions)
    assert [each.windows for each in convolutions] == [(((0, 9),),), (((7, 17),),), (((15, 20),),)]  # with halos
    assert [each.padding for each in convolutions] == [(1, 1, 0, 1), (0, 1, 0, 1), (0, 1, 1, 1)]
    assert program.operations[7].sources == ((0,),)


def test_values_in_hbm_are_stored_and_loaded() -> None:
    graph = three()
    nodes = list(graph.nodes)
    for number in (0, 1):
        nodes[number] = replace(nodes[number], memory=Memory.HBM)
    program = emitted(graph.with_nodes(nodes), Schedule((StageOf(4, 1),)))
    # A convolution writes to and reads from HBM itself; a pool is stored, and its input is loaded.
    assert kinds_of(program) == [Buffer, Convolution, Load, Buffer, MaxPool, Store, Convolution, DenseHead]
    first, _, load, second, pool, store, last, _ = program.operations
    assert isinstance(first, Buffer) and isinstance(second, Buffer)
    assert {first.memory, second.memory} == {Memory.HBM} and not first.heights
    assert (load.sources, pool.sources, store.sources, last.sources) == (((0,),), ((2,),), ((4,),), ((3,),))


def test_the_loads_of_bands_have_the_margin_of_the_image_at_its_edges_alone() -> None:
    graph = three()
    first, *others = graph.nodes
    first = replace(first, operation=replace(first.operation, margin=(1, 2, 3, 4)), memory=Memory.HBM)
    program = emitted(graph.with_nodes([first, *others]), Schedule((StageOf(4, 1),), (Region(1, 2, 3),)))
    loads = [operation for operation in program.operations if isinstance(operation, Load)]
    assert [load.windows for load in loads] == [(((0, 8),),), (((8, 16),),), (((16, 20),),)]
    assert [load.margin for load in loads] == [(1, 2, 0, 4), (0, 2, 0, 4), (0, 2, 3, 4)]


def test_the_last_value_of_a_part_of_a_network_is_returned() -> None:
    first, last = three().nodes[:2]
    program = emitted(three().with_nodes([first, replace(last, output=0)]), Schedule((StageOf(2, 2),)))
    assert kinds_of(program) == [Convolution, Buffer, MaxPool, Store]
    buffer = program.operations[1]
    assert isinstance(buffer, Buffer) and buffer.memory is Memory.OUTPUT


def test_a_value_that_is_read_and_returned_is_stored_beside() -> None:
    first, *others = three().nodes
    program = emitted(three().with_nodes([replace(first, output=1), *others]), Schedule((StageOf(4, 2),)))
    assert kinds_of(program) == [Convolution, Buffer, Store, MaxPool, Convolution, DenseHead]
    assert program.operations[3].sources == ((0,),)


def test_a_value_in_hbm_that_is_returned_is_read_there() -> None:
    first, *others = three().nodes
    graph = three().with_nodes([replace(first, output=1, memory=Memory.HBM), *others])
    program = emitted(graph, Schedule((StageOf(4, 2),)))
    assert kinds_of(program) == [Buffer, Convolution, Load, MaxPool, Convolution, DenseHead]
    assert program.operations[0].memory is Memory.OUTPUT and program.operations[2].sources == ((0,),)


def test_each_operation_is_of_a_node() -> None:
    found = emit(three(), 2, Schedule((StageOf(2, 2), StageOf(4, 1)), (Region(0, 2, 2),)))
    names = [three().nodes[number].name for number in found.nodes]
    assert names == [operation.name for operation in found.program.operations]


def test_a_later_stage_does_not_read_taps() -> None:
    graph = decided(ending_in_dense((1, 12, 12), [conv("a", 1, 8, 3)]), Decisions()).graph
    assert isinstance(graph.nodes[0].operation, TapsLoad)
    with pytest.raises(Unsupported, match="the input taps"):
        emit(graph, 2, Schedule((StageOf(1, 1), StageOf(len(graph.nodes), 1))))


@given(st.integers(1, 500), st.integers(1, 64))
def test_bands_cover_the_rows_in_order(rows: int, bands: int) -> None:
    cover = list(band_rows(rows, bands))
    assert [row for first, end in cover for row in range(first, end)] == list(range(rows))
    assert len(cover) <= bands and all((end - first) % BAND_UNIT == 0 for first, end in cover[:-1])


@pytest.mark.parametrize("batch", [1, 5])
def test_a_stage_for_the_whole_batch_after_one_image_at_a_time(batch: int) -> None:
    network = ending_in_dense((3, 20, 12), [conv("a", 3, 8, 3), Conv2d("b", 8, 4, (3, 3), stride=(3, 3))])
    decisions = decide(stages=[StageOf(1, 1)], at_once=batch)
    plan = assert_right(network, decisions, batch)
    assert plan.passes == (batch, 1)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("side", [11, 13])  # an output with more than 2,048 numbers is rearranged through HBM
def test_an_input_may_be_an_output_too(side: int, batch: int) -> None:
    count = 16 * side * side
    network = ending_in_dense((16, side, side), [])
    flat = next(layer.name for layer in network.layers if layer.kind == "flatten")
    other = NamedOutput("flat", flat, (count,), Output("values"))
    assert_right(replace(network, others=(other,)), Decisions(), batch, "float32")
