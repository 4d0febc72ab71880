"""What two cores share of one picture, against the golden model, and which way to share is chosen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import event, given, reject, settings
from hypothesis import strategies as st
from lowered import answers, applicable, assert_right, decided, nanoseconds, number_of, pipeline_of
from random_networks import chains, conv, ending_in_dense, few_channels, graphs, labels, model_of, picture, with_outputs
from trninfer import kernels, simulator
from trninfer.kernels.program import Exchange
from trninfer.lowering.decisions import Decisions
from trninfer.lowering.graph import DoesNotFit, Graph
from trninfer.lowering.launch_plan import LaunchPlanner
from trninfer.lowering.network_plan import NetworkPlan
from trninfer.lowering.placement import borders
from trninfer.lowering.plan_cache import PlanCache
from trninfer.lowering.planning import Planning
from trninfer.lowering.schedule import Split
from trninfer.lowering.sharing import can_share_channels, can_share_rows
from trninfer.models.files import Model
from trninfer.models.layers import Combine, Conv2d, Dense, Flatten, Layer, Pool
from trninfer.models.network import Network
from trninfer.models.outputs import NamedOutput, Output
from trninfer.runtime.layer_launches import specs_of
from trninfer.simulator.sanitizer import SanitizerFinding
from trninfer.simulator.timing.constants import machine


@st.composite
def splits_of(draw: st.DrawFn, graph: Graph) -> tuple[Split, ...]:
    """Regions between borders of whose rows, and convolutions of whose channels, each core computes half."""
    found: list[Split] = []
    ends = borders(graph)
    for first, end in zip([-1, *ends], ends):
        if can_share_rows(graph, first + 1, end + 1) and draw(st.booleans()):
            found.append(Split(first + 1, end + 1))
            continue
        for number in range(first + 1, end + 1):
            if can_share_channels(graph, number) and draw(st.booleans()):
                found.append(Split(number, number + 1, by_channels=True))
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
    assert len(numbers) == 4  # but for the scores
    splits = tuple(Split(number, number + 1, by_channels=True) for number in numbers)
    plan = assert_right(wide(), Decisions(splits=splits), batch, dtype)
    exchanges = [each for each in plan.program.operations if isinstance(each, Exchange)]
    assert [each.by_tiles for each in exchanges] == [True] * 4
    halves = plan.program.of_core(1).operations
    assert [each.sent for each in exchanges] == [each.received for each in halves if isinstance(each, Exchange)]
    assert len(halves) < len(plan.program.operations)  # core 0 alone computes the scores


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


def races(model: Model, splits: tuple[Split, ...]) -> list[SanitizerFinding]:
    """Return what the sanitizer finds in a launch of one picture that cores share."""
    plan = decided(model, Decisions(splits=splits))
    x = np.random.default_rng(0).standard_normal((1, *model.network.input.shape)).astype(np.float32)
    arrays = (plan.arrange(x, x.shape[1:], x.dtype), *plan.layout.operands(x.dtype))
    kernel = kernels.kernel("run_network")
    run = simulator.run(kernel, *arrays, target="trn2", lnc=2, sanitize=True, program=plan.program)
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
    specs = [simulator.TensorSpec(spec.shape, np.dtype(spec.dtype).name) for spec in specs_of(plan, np.dtype("f4"))]
    kernel = kernels.kernel("run_network")
    return simulator.run(kernel, *specs, target="trn2", lnc=2, functional=False, program=plan.program)
