"""What two cores share of one picture, against the golden model, and which way to share is chosen."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import event, given, reject, settings
from hypothesis import strategies as st
from lowered import answers, applicable, assert_right, decided, nanoseconds, number_of, pipeline_of, tensor_spec
from random_networks import chains, conv, ending_in_dense, few_channels, graphs, labels, model_of, picture, with_outputs
from trninfer import kernels, simulator
from trninfer.kernels.program import Exchange, Scores
from trninfer.lowering.bands import halos_of, shares_of_rows
from trninfer.lowering.decisions import Decisions
from trninfer.lowering.graph import DoesNotFit, Graph
from trninfer.lowering.launch_plan import LaunchPlanner
from trninfer.lowering.network_plan import NetworkPlan
from trninfer.lowering.placement import borders
from trninfer.lowering.plan_cache import PlanCache
from trninfer.lowering.planning import Planning
from trninfer.lowering.schedule import Split
from trninfer.lowering.sharing import (
    _moved,
    _without_first,
    _without_last,
    can_share_channels,
    can_share_rows,
    can_share_scores,
)
from trninfer.models.files import Model
from trninfer.models.layers import Combine, Conv2d, Dense, Flatten, Layer, Pool
from trninfer.models.network import Network
from trninfer.models.outputs import NamedOutput, Output
from trninfer.runtime.layer_launches import specs_of
from trninfer.simulator.checking.sanitizer import SanitizerFinding
from trninfer.simulator.timing.constants import machine


@st.composite
def splits_of(draw: st.DrawFn, graph: Graph) -> tuple[Split, ...]:
    """Regions between borders of whose rows, and convolutions of whose channels, each core computes half."""
    found: list[Split] = []
    ends = borders(graph)
    for first, end in zip([-1, *ends], ends):
        if can_share_rows(graph, first + 1, end + 1) and draw(st.booleans()):
            found.append(Split(first + 1, end + 1, beside=draw(st.booleans())))
            continue
        for number in range(first + 1, end + 1):
            if can_share_channels(graph, number) and draw(st.booleans()):
                found.append(Split(number, number + 1, by_channels=True, beside=draw(st.booleans())))
    last = len(graph.nodes) - 1
    if can_share_scores(graph, last) and draw(st.booleans()):
        found.append(Split(last, last + 1, by_channels=True))
    return tuple(found)


@settings(max_examples=25)
@given(
    with_outputs(st.one_of(chains(), graphs(), few_channels())),
    st.data(),
    st.sampled_from([1, 1, 3]),
    st.sampled_from(["float32", "bfloat16"]),
)
def test_any_rows_can_be_shared(network: Network, data: st.DataObject, batch: int, dtype: str) -> None:
    flags = Decisions(packs_rows=data.draw(st.booleans()), splits_phases=data.draw(st.booleans()))
    try:
        decisions = applicable(network, flags, batch)
    except DoesNotFit:  # too many channels to be laid out anew
        reject()
    graph = pipeline_of(model_of(network), dtype).run(decisions)[-1][1]
    splits = data.draw(splits_of(graph))
    event(f"{len(splits)} splits")
    try:
        plan = assert_right(network, Decisions(**{**vars(decisions), "splits": splits}), batch, dtype)
    except DoesNotFit:
        event("does not fit")
    else:
        assert bool(plan.program.partner) == bool(splits)


def wide(channels: int = 256, rows: int = 7) -> Model:
    """Layers of whose channels each core can compute half, a sum among them, and dense ones."""
    layers: list[Layer] = [
        Conv2d("a", 3, channels, (3, 3), (1, 1, 1, 1), 1, "relu"),
        Conv2d("b", channels, 2 * channels, (3, 3), (1, 1, 1, 1), 1, "relu"),
        Conv2d("c", 2 * channels, channels, (1, 1), (0, 0, 0, 0), 1),
        Combine("sum", "add", "relu", inputs=("c", "a")),
        Pool("pool", "max", (2, 2), (2, 2)),
        Flatten("flat"),
        Dense("d", channels * (rows // 2) * (rows // 2), 512, "relu"),
        Dense("e", 512, 9),
    ]
    return model_of(Network("wide", picture(3, rows, rows), tuple(layers), labels(9)))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("batch", [1, 3])
def test_channels_can_be_shared(dtype: str, batch: int) -> None:
    graph = pipeline_of(wide(), dtype).run(Decisions())[-1][1]
    numbers = [number for number in range(len(graph.nodes)) if can_share_channels(graph, number)]
    assert len(numbers) == 4
    splits = tuple(Split(number, number + 1, by_channels=True) for number in numbers)
    plan = assert_right(wide(), Decisions(splits=splits), batch, dtype)
    exchanges = [each for each in plan.program.operations if isinstance(each, Exchange)]
    assert [each.by_tiles for each in exchanges] == [True] * 4
    halves = plan.program.of_core(1).operations
    assert [each.sent for each in exchanges] == [each.received for each in halves if isinstance(each, Exchange)]
    assert len(halves) < len(plan.program.operations)  # core 0 alone computes the scores


@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("channels, batch, dtype", [(256, 1, "bfloat16"), (512, 1, "float32"), (256, 130, "float32")])
@pytest.mark.parametrize("scores", ["softmax", "log_softmax", "raw"])
def test_scores_can_be_shared(is_shared: bool, channels: int, batch: int, dtype: str, scores: str) -> None:
    """Each core multiplies half of the input channels, which it may have computed alone."""
    layers: list[Layer] = [
        conv("a", 3, channels, 3),
        Conv2d("b", channels, channels, (1, 1), (0, 0, 0, 0), 1),
        Pool("mean", "average", (2, 2), (1, 1)),
        Flatten("flat"),
        Dense("d", channels * 4, 9),
    ]
    model = model_of(Network("n", picture(3, 3, 3), tuple(layers), labels(9), Output(scores=scores)))
    graph = pipeline_of(model, dtype).run(Decisions())[-1][1]
    last = len(graph.nodes) - 1
    numbers = [number_of(graph, "b"), last] if is_shared else [last]
    splits = tuple(Split(number, number + 1, by_channels=True) for number in numbers)
    plan = assert_right(model, Decisions(splits=splits), batch, dtype)
    own = [each.operations[-1] for each in (plan.program, plan.program.of_core(1))]
    assert [isinstance(each, Scores) and each.is_part for each in own] == [True, True]
    if dtype == "float32" and batch == 1:
        assert races(model, splits) == []


@pytest.mark.parametrize("classes", [129, 256, 1000])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_scores_with_classes_on_the_partitions_can_be_shared(classes: int, dtype: str) -> None:
    layers: list[Layer] = [conv("a", 3, 256, 3), Flatten("flat"), Dense("d", 1024, classes)]
    model = model_of(Network("n", picture(3, 2, 2), tuple(layers), labels(classes), Output(scores="raw")))
    last = len(pipeline_of(model, dtype).run(Decisions())[-1][1].nodes) - 1
    decisions = Decisions(turns_scores=True, splits=(Split(last, last + 1, by_channels=True),))
    plan = assert_right(model, decisions, dtype=dtype)
    own = [each.operations[-1] for each in (plan.program, plan.program.of_core(1))]
    assert [isinstance(each, Scores) and each.is_part and each.by_columns for each in own] == [True, True]
    if dtype == "float32":
        assert races(model, decisions.splits, decisions) == []


@pytest.mark.parametrize("channels", [3, 128, 129, 300])
def test_scores_of_any_number_of_channels_in_two_tiles_or_more_can_be_shared(channels: int) -> None:
    layers: list[Layer] = [conv("a", 3, channels, 3), Flatten("flat"), Dense("d", channels * 4, 9)]
    model = model_of(Network("n", picture(3, 2, 2), tuple(layers), labels(9)))
    graph = pipeline_of(model).run(Decisions())[-1][1]
    last = len(graph.nodes) - 1
    assert can_share_scores(graph, last) == (channels > 128)
    if channels > 128:
        assert_right(model, Decisions(splits=(Split(last, last + 1, by_channels=True),)), 2)


def narrow(channels: int = 64, rows: int = 24) -> Model:
    """3x3 filters one after the other, a sum and a stride among them, whose rows are packed in pairs."""
    layers: list[Layer] = [
        conv("a", 3, channels, 3),
        conv("b", channels, channels, 3),
        Conv2d("c", channels, channels, (3, 3), (1, 1, 1, 1), 1),
        Combine("sum", "add", "relu", inputs=("c", "a")),
        conv("d", channels, channels, 3),
        Conv2d("e", channels, channels, (3, 3), (1, 1, 1, 1), 2, "relu"),
        conv("f", channels, channels, 3),
        Flatten("flat"),
        Dense("g", channels * (rows // 2) ** 2, 9),
    ]
    return model_of(Network("narrow", picture(3, rows, rows), tuple(layers), labels(9)))


@pytest.mark.parametrize("packs_rows", [False, True])
@pytest.mark.parametrize("rows", [24, 23])
@pytest.mark.parametrize("batch, dtype", [(1, "float32"), (3, "bfloat16")])
def test_regions_behind_each_other_exchange_the_rows_around_their_border(
    packs_rows: bool, rows: int, batch: int, dtype: str
) -> None:
    model = narrow(rows=rows)
    flags = Decisions(packs_rows=packs_rows)
    graph = pipeline_of(model, dtype).run(flags)[-1][1]
    regions = [(first + 1, end + 1) for first, end in itertools.pairwise([-1, *borders(graph)])]
    splits = tuple(Split(first, end) for first, end in regions if can_share_rows(graph, first, end))
    assert [split.end for split in splits[:-1]] == [split.first for split in splits[1:]] and len(splits) >= 4
    groups = {graph.nodes[split.end - 1].operation.row_groups.count for split in splits}  # type: ignore[attr-defined]
    assert (2 in groups) == packs_rows
    plan = assert_right(model, replace(flags, splits=splits), batch, dtype)
    exchanges = [each for each in plan.program.operations if isinstance(each, Exchange)]
    assert all(each.sent[1] - each.sent[0] <= 2 for each in exchanges[:-1])
    assert exchanges[-1].sent[1] - exchanges[-1].sent[0] == exchanges[-1].rows // 2
    if dtype == "float32":
        assert races(model, splits, flags) == []


def test_rows_that_nodes_beyond_the_next_region_read_too_are_all_exchanged() -> None:
    graph = pipeline_of(narrow()).run(Decisions())[-1][1]
    first, end = number_of(graph, "b"), number_of(graph, "c")
    own = shares_of_rows(graph.nodes[first - 1])[0]
    assert halos_of(graph, (first, end), own) is None  # the sum reads them
    assert halos_of(graph, (first, end + 1), own) == ((10, 12), (12, 14))


@pytest.mark.parametrize(
    "rows, batch, beside, messages",
    [
        (7, 1, False, 1),
        (7, 3, False, 2),
        (14, 1, True, 2),
        (28, 1, True, 8),
        (28, 1, False, 0),
        (14, 6, True, 0),
        (7, 40, True, 0),
    ],
)
def test_parts_too_large_for_gpsimds_dma_engines_queue_behind_loads(
    rows: int, batch: int, beside: bool, messages: int
) -> None:
    """They move 256 elements of a partition at a time; here are 2 tiles."""
    layers: list[Layer] = [conv("a", 3, 512, 3), Pool("mean", "average", (rows, rows), (1, 1)), Flatten("flat")]
    model = model_of(Network("n", picture(3, rows, rows), (*layers, Dense("d", 512, 5)), labels(5)))
    number = number_of(pipeline_of(model).run(Decisions())[-1][1], "a")
    splits = (Split(number, number + 1, by_channels=True, beside=beside),)
    plan = assert_right(model, Decisions(splits=splits), batch)
    sent = [each for each in _timed(plan).prediction.programs[0] if each.op == "sendrecv"]
    assert [each.dma is not None and each.dma.beside for each in sent] == ([True] * messages or [False])


def test_what_two_cores_share_is_no_race() -> None:
    graph = pipeline_of(wide()).run(Decisions())[-1][1]
    late = [number for number in range(2, len(graph.nodes)) if can_share_channels(graph, number)]
    assert races(wide(), (Split(0, 2), *(Split(number, number + 1, by_channels=True) for number in late))) == []


def test_core_0_alone_writes_an_output_before_the_last_split() -> None:
    layers: list[Layer] = [
        Conv2d("a", 3, 256, (3, 3), (1, 1, 1, 1), 1, "relu"),
        Pool("mean", "average", (7, 7), (1, 1)),
        Flatten("mean flat"),
        Dense("aside", 256, 6),
        Conv2d("b", 256, 256, (3, 3), (1, 1, 1, 1), 1, "relu", inputs=("a",)),
        Flatten("flat"),
        Dense("last", 256 * 49, 9),
    ]
    aside = NamedOutput("aside", "aside", (6,), Output("values"))
    model = model_of(Network("n", picture(3, 7, 7), tuple(layers), labels(9), Output(scores="raw"), (aside,)))
    last = number_of(pipeline_of(model).run(Decisions())[-1][1], "b")
    splits = (Split(last, last + 1, by_channels=True),)
    assert_right(model, Decisions(splits=splits))
    assert races(model, splits) == []


def races(model: Model, splits: tuple[Split, ...], flags: Decisions | None = None) -> list[SanitizerFinding]:
    """Return what the sanitizer finds in a launch of one picture that cores share."""
    plan = decided(model, replace(flags or Decisions(), splits=splits))
    x = np.random.default_rng(0).standard_normal((1, *model.network.input.shape)).astype(np.float32)
    given = plan.arrange(x, x.shape[1:], x.dtype)
    operands = plan.layout.operands(x.dtype)
    kernel = kernels.kernel("run_network")
    run = simulator.run(kernel, given, **operands, target="trn2", lnc=2, sanitize=True, program=plan.program)
    return [finding for finding in run.findings if finding.kind in ("race", "uninitialised", "unwritten")]


def test_a_launch_whose_weights_take_longest_is_shared() -> None:
    layers: list[Layer] = [conv("a", 3, 16, 3), Flatten("f"), Dense("d", 1024, 1024, "relu"), Dense("e", 1024, 2048)]
    model = model_of(Network("n", picture(3, 8, 8), (*layers, Dense("g", 2048, 5)), labels(5)))
    two, single = (_segment(model, cores) for cores in (2, 1))
    for batch in (1, 3):
        both, one = two.plan(batch), single.plan(batch)
        assert both.decisions.splits and both.nanoseconds < 0.9 * one.nanoseconds
        x = np.random.default_rng(0).standard_normal((batch, 3, 8, 8)).astype(np.float32)
        np.testing.assert_allclose(answers(model, both, x), answers(model, one, x), atol=1e-5)


def test_a_launch_that_does_not_pay_on_two_cores_takes_as_long_as_on_one() -> None:
    model = model_of(ending_in_dense((3, 8, 8), [conv("a", 3, 16, 3)]))
    both, one = (_segment(model, cores).plan(1) for cores in (2, 1))
    assert not both.decisions.splits and both.program.partner and not both.program.of_core(1).operations
    run = _timed(both)
    assert run.latency_us == pytest.approx(machine("trn2").launch_ns / 1000 + nanoseconds(one) / 1000)


def _segment(model: Model, cores: int) -> LaunchPlanner:
    planning = Planning("trn2", 4, (), PlanCache(None), cores)
    (segment,) = NetworkPlan(model, np.dtype(np.float32), planning, 50_000).segments
    return segment


def _timed(plan) -> simulator.Run:
    specs = {name: tensor_spec(spec) for name, spec in specs_of(plan, np.dtype("f4")).items()}
    kernel = kernels.kernel("run_network")
    return simulator.run(kernel, **specs, target="trn2", lnc=2, functional=False, program=plan.program)


def test_neighbours_of_splits_have_fewer_channels_or_other_cuts() -> None:
    rows, channels = (Split(0, 4), Split(4, 8), Split(8, 12)), (Split(12, 13, True), Split(14, 15, True))
    splits, ends = (*rows, *channels), [0, 2, 4, 6, 8, 12]
    assert _without_last(splits) == [splits[:-1]] and _without_last(rows) == []
    assert _without_first(splits) == [(*rows, channels[1])] and _without_first(rows) == []
    moved = [(Split(0, 4), Split(4, 6), Split(6, 12), *channels)]
    assert _moved(splits, ends, -2) == moved
    assert _moved(splits, ends, -3) == [(Split(0, n), Split(n, 8), rows[2], *channels) for n in (2, 6)]
    assert _moved(splits, ends, -4) == [] == _moved(channels, ends, -2)
