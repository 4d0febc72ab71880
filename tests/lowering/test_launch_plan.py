"""The fastest launch of some nodes: search, cache, two cores, and display."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import trninfer.lowering.search.candidates
from lowered import answers, convolution_of, decide, graph_of, id_of, nanoseconds
from random_networks import conv, ending_in_dense, labels, model_of, picture
from trninfer.kernels.convolution.forms import Form
from trninfer.lowering.config import LoweringConfig
from trninfer.lowering.decisions import Decisions, Kind
from trninfer.lowering.graph.graph import Graph, Unsupported
from trninfer.lowering.launch_plan import LaunchPlanner
from trninfer.lowering.launch_sequence import LaunchSequence
from trninfer.lowering.pipeline import LaunchPlan, Pipeline
from trninfer.lowering.plan_cache import PlanCache, TuningRecord
from trninfer.lowering.search.candidates import Candidates
from trninfer.lowering.search.cost_model import CostModel
from trninfer.lowering.search.search import Search
from trninfer.models.golden import run_network
from trninfer.models.layers import Conv2d, Dense, Flatten, Pool
from trninfer.models.network import Network

NETWORK = ending_in_dense((3, 8, 8), [conv("a", 3, 16, 3), conv("b", 16, 8, 3)])
MODEL, GRAPH = model_of(NETWORK), graph_of(NETWORK)
ROOM = LoweringConfig("trn2", 4, cache=PlanCache(None)).budget_bytes
F4 = np.dtype(np.float32)


@dataclass(frozen=True)
class Limited(LoweringConfig):
    """Settings of a chip with `budget_bytes` of SBUF for a launch."""

    budget_bytes: int = ROOM


def planner(
    graph: Graph = GRAPH,
    cores: int = 1,
    cache: PlanCache | None = None,
    forms: tuple[Form, ...] = (),
    budget_bytes: int = ROOM,
) -> LaunchPlanner:
    return LaunchPlanner(graph, Limited("trn2", 4, forms, cache or PlanCache(None), cores, budget_bytes=budget_bytes))


CACHE, OF_TWO = PlanCache(None), PlanCache(None)


@pytest.fixture(scope="module")
def one() -> LaunchPlanner:
    """Return a planner for one core, whose plans all tests share."""
    return planner(cache=CACHE)


@pytest.fixture(scope="module")
def plans(one: LaunchPlanner) -> dict[int, LaunchPlan]:
    """Return the launches of batches of the given sizes."""
    return {pictures: one.plan(pictures) for pictures in (1, 6)}


def test_a_plan_is_right_and_costs_what_it_says(plans: dict[int, LaunchPlan]) -> None:
    for pictures, plan in plans.items():
        assert plan.program.pictures == pictures and plan.cores == 1
        assert plan.nanoseconds == pytest.approx(nanoseconds(plan)) and plan.instructions > 0
        x = np.random.default_rng(1).standard_normal((pictures, 3, 8, 8)).astype(np.float32)
        expected = run_network(MODEL.network, MODEL.tensors, x).probabilities
        np.testing.assert_allclose(answers(MODEL, plan, x), expected, atol=1e-5)


def test_a_plan_is_quicker_than_the_plainest_launch(plans: dict[int, LaunchPlan]) -> None:
    pipeline = Pipeline(GRAPH, (), ROOM)
    for pictures, plan in plans.items():
        for at_once in {1, pictures}:
            plain = pipeline.launch(decide(at_once=at_once), pictures)
            assert plan.nanoseconds <= nanoseconds(plain) * 1.0001
    assert plans[6].nanoseconds < 6 * plans[1].nanoseconds


def refusing(made: LaunchPlanner, monkeypatch: pytest.MonkeyPatch) -> LaunchPlanner:
    """Return a planner for which every simulation fails."""

    def refuse(*_: object) -> None:
        raise AssertionError("priced")

    monkeypatch.setattr(made._config.cost_model, "walk", refuse)
    monkeypatch.setattr(made._config.cost_model, "cost", refuse)
    return made


def test_what_was_decided_before_is_not_priced_again(one: LaunchPlanner, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = one.plan(6)
    assert one.plan(6) is plan
    again = refusing(planner(cache=CACHE), monkeypatch).plan(6)
    assert (again.decisions, again.program) == (plan.decisions, plan.program)
    assert (again.nanoseconds, again.instructions) == (plan.nanoseconds, plan.instructions)
    for other in (planner(cache=CACHE, forms=(Form.PAIRS,)), planner(cache=CACHE, budget_bytes=ROOM - 1024)):
        with pytest.raises(AssertionError, match="priced"):
            refusing(other, monkeypatch).plan(6)
    with pytest.raises(AssertionError, match="priced"):
        refusing(planner(cache=CACHE), monkeypatch).plan(5)


def test_a_record_that_does_not_apply_is_made_anew(plans: dict[int, LaunchPlan]) -> None:
    cache = PlanCache(None)
    made = planner(cache=cache)
    cache.put(made._key_of(1), TuningRecord(decide(pads_channels=True, splits_phases=True), 1.0, 1))
    plan = made.plan(1)
    assert plan.decisions == plans[1].decisions and plan.nanoseconds == plans[1].nanoseconds
    record = cache.get(made._key_of(1))
    assert record is not None and record.decisions == plan.decisions


def test_operands_are_laid_out_once_and_nobody_writes_to_them(one: LaunchPlanner) -> None:
    first, second = (one.operands(one.plan(1), F4) for _ in range(2))
    assert first is second and [operand.flags.writeable for operand in first.values()] == [False] * len(first)
    narrow = one.operands(one.plan(1), np.dtype(np.float16))
    assert narrow["weights"].dtype == np.float16 and narrow["weights"].shape == first["weights"].shape
    with pytest.raises(ValueError, match="read-only"):
        first["weights"][...] = 0


def test_inputs_are_arranged_for_all_pictures(one: LaunchPlanner) -> None:
    x = np.ones((5, 3, 8, 8), np.float32)
    assert len(one.arrange(x, one.plan(6), F4)) == one.plan(6).images
    assert one.output == (5, 1, 1) and one.last == "dense"


def test_a_launch_is_shown_with_its_name_and_its_passes(one: LaunchPlanner) -> None:
    shown = one.show(6)
    assert (shown.name, shown.kernel, shown.pictures) == ("a to dense", "run_network", 6)
    assert shown.passes[0].name == "layers" and shown.passes[-1].name == "lay_out_weights"
    single = planner(graph_of(Network("n", picture(3, 4, 4), (Flatten("f"), Dense("only", 48, 3)), labels(3))))
    assert single.show(1).name == "only"


def test_what_no_room_holds_is_reported() -> None:
    with pytest.raises(Unsupported, match=r"KiB of an SBUF partition; \d+ are available"):
        planner(budget_bytes=13 * 1024).plan(1)


def shapes_of(network: Network) -> set[str]:
    """Return the packed rows of the candidates for a network."""
    candidates = Candidates(Pipeline(graph_of(network), (), ROOM), CostModel("trn2", 4), 1)
    shapes = candidates.shapes()
    return {each.value(Kind.PACK_ROWS, default="") for each in shapes}


def test_rows_are_packed_with_their_expansions_where_they_can_be_or_not_at_all() -> None:
    few = ending_in_dense((3, 24, 24), [conv("a", 3, 16, 3), conv("b", 16, 16, 3)])
    assert shapes_of(few) == {"few_channels", ""}
    inverted = [
        conv("stem", 3, 16, 3),
        Conv2d("expand", 16, 96, (1, 1), activation="relu"),
        Conv2d("each", 96, 96, (3, 3), (1, 1, 1, 1), activation="relu", groups=96),
        Conv2d("project", 96, 16, (1, 1)),
        Pool("mean", "average", (24, 24), (1, 1)),
    ]
    assert shapes_of(ending_in_dense((3, 24, 24), inverted)) == {"expansions", ""}
    wide = ending_in_dense((65, 4, 4), [conv("a", 65, 65, 3)])
    assert shapes_of(wide) == {""}


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[Decisions]:
    """Return the candidates that searches simulate, in order."""
    found: list[Decisions] = []
    walk = Search.try_out

    def keep(search: Search, decisions: Decisions) -> bool:
        found.append(decisions)
        return walk(search, decisions)

    monkeypatch.setattr(Search, "try_out", keep)
    return found


def test_two_cores_have_half_of_the_pictures_each() -> None:
    plan = planner(cores=2, cache=OF_TWO).plan(5)
    assert (plan.cores, plan.program.pictures, plan.program.alone) == (2, 3, False)
    assert plan.images == 2 * plan.program.packed * -(-3 // plan.program.packed)


def test_one_picture_is_left_to_one_core(one: LaunchPlanner) -> None:
    plan, alone = planner(cores=2, cache=OF_TWO).plan(1), one.plan(1)
    assert plan.program == replace(alone.program, alone=True)
    assert (plan.images, plan.nanoseconds) == (alone.images, alone.nanoseconds)
    again = planner(cores=2, cache=OF_TWO).plan(1)
    assert (again.program, again.nanoseconds, again.cores) == (plan.program, plan.nanoseconds, plan.cores)


def test_the_copies_of_a_plan_are_those_that_its_decisions_make(tried: list[Decisions]) -> None:
    layers = [conv("a", 3, 24, 3), conv("b", 24, 24, 3), conv("c", 24, 8, 3)]
    few = graph_of(ending_in_dense((3, 10, 10), layers))
    plan = planner(few).plan(1)
    copied = plan.decisions.of(Kind.COPIES)
    assert set(copied) == {id_of(plan.graph, "b"), id_of(plan.graph, "c")}
    assert any(each.of(Kind.COPIES) for each in tried[:2])  # from the costs of single operations, before any simulation
    assert all(convolution_of(plan.graph, name).taps.count > 1 for name in "bc")
    assert Pipeline(few, (), ROOM).launch(plan.decisions, 1).program == plan.program


@pytest.mark.slow
@pytest.mark.parametrize("channels", [5, 16, 40])
@pytest.mark.parametrize("side", [9, pytest.param(28, marks=pytest.mark.by_hand)])
def test_one_picture_takes_no_longer_than_two_or_four(channels: int, side: int) -> None:
    layers = [conv("a", 3, channels, 3), conv("b", channels, channels, 3, groups=channels), conv("c", channels, 12, 1)]
    network = ending_in_dense((3, side, side), [*layers])
    tried = planner(replace(graph_of(network), is_whole=True))
    one, *more = (tried.plan(pictures).nanoseconds for pictures in (1, 2, 4))
    # a launch that includes a blank picture may differ slightly
    assert all(one <= 1.02 * each for each in more), (one, more)


def test_a_batch_that_fits_is_planned_without_one_picture() -> None:
    cache = PlanCache(None)
    config = LoweringConfig("trn2", 4, cache=cache)
    sequence = LaunchSequence(model_of(NETWORK), np.dtype(np.float32), config, 50_000, 2)
    assert len(sequence.segments) == 1 and [key[-2:] for key in cache.records] == ["-2"]
    fewer = sequence.segments[0].plan(2).instructions - 1
    cut = LaunchSequence(model_of(NETWORK), np.dtype(np.float32), config, fewer, 2)
    assert cut.images(2) == 1 and [segment.plan(1).instructions <= fewer for segment in cut.segments] == [True]


def test_drafts_that_are_far_slower_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    candidates = Candidates(Pipeline(GRAPH, (), ROOM), CostModel("trn2", 4), 4)
    times = [draft.nanoseconds for draft in candidates._drafts()]
    assert times == sorted(times) and times[-1] > 1.01 * times[0]
    monkeypatch.setattr(trninfer.lowering.search.candidates, "FAR_SLOWER", 1.01)
    assert [draft.nanoseconds for draft in candidates._drafts()] == [time for time in times if time <= 1.01 * times[0]]
