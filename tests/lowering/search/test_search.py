"""The fastest of the simulated candidates within a budget."""

from dataclasses import replace
from unittest.mock import Mock

import pytest
from lowered import ALL, decide, nanoseconds, pipeline_of
from random_networks import conv, ending_in_dense, model_of
from trninfer.lowering.decisions import Choice, Decisions, Kind
from trninfer.lowering.emission.schedule import StageOf, scaled
from trninfer.lowering.graph.graph import Unsupported
from trninfer.lowering.search import search as searching
from trninfer.lowering.search.cost_model import MOST_PRICED, Cost, CostModel
from trninfer.lowering.search.search import Search

MODEL = model_of(ending_in_dense((3, 12, 12), [conv("a", 3, 16, 3), conv("b", 16, 16, 3)]))


def search_of(pictures: int = 4) -> Search:
    return Search(pipeline_of(MODEL), CostModel("trn2", 4), pictures)


def staged(at_once: int) -> Decisions:
    return decide(at_once=at_once)


def test_the_quickest_is_kept_with_the_time_of_a_walk() -> None:
    search = search_of()
    times = []
    for at_once in (1, 4, 2):
        search.try_out(staged(at_once))
        times.append(nanoseconds(pipeline_of(MODEL).launch(staged(at_once), 4)))
    assert search.best is not None and search.best.nanoseconds == pytest.approx(min(times))
    assert not search.try_out(staged(4))  # known already


def test_improving_never_makes_it_slower() -> None:
    search = search_of()
    assert search.try_out(staged(1)) and search.best is not None
    before = search.best.nanoseconds
    search.improve(search._near)
    assert search.best.nanoseconds < before  # more images at a time, or copies for taps


def test_what_cannot_be_quicker_is_not_walked() -> None:
    search, cost_model = search_of(), CostModel("trn2", 4)
    graph = pipeline_of(MODEL).lower(staged(4)).graph
    search._cost_model = cost_model
    assert search.try_out(staged(1)) and search.best is not None
    for number in range(len(graph.nodes)):
        cost_model.cost(graph, number, 4)
    least = cost_model.least(graph, 4)
    search.best = replace(search.best, nanoseconds=least.nanoseconds)
    cost_model.walk = Mock(side_effect=AssertionError("walked"))  # type: ignore[method-assign]
    left = search._left
    assert not search.try_out(staged(4)) and search._left == left - least.instructions
    search.best = replace(search.best, nanoseconds=least.nanoseconds + 1)
    with pytest.raises(AssertionError, match="walked"):
        search.try_out(decide(at_once=4, fp8=ALL))


def test_what_does_not_apply_is_not_the_quickest_and_says_why() -> None:
    search = search_of()
    assert not search.try_out(decide(splits_phases=True)) and search.best is None
    assert str(search.reason) == "split_phases does not apply"


def test_candidates_that_are_not_the_best_are_improved_too(monkeypatch: pytest.MonkeyPatch) -> None:
    search, times = search_of(16), {staged(1): 1000.0, staged(4): 1001.0, staged(8): 500.0}
    monkeypatch.setattr(
        search, "_walk", lambda plan: replace(plan, nanoseconds=times.get(plan.decisions, 2000.0), instructions=1)
    )
    assert search.find([staged(1), staged(4)]).decisions == staged(8)


@pytest.mark.parametrize(("most", "found"), [(10, 8), (6, 1)])
def test_a_launch_of_far_too_many_instructions_is_not_improved(
    most: int, found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = Search(pipeline_of(MODEL), CostModel("trn2", 4), 16, most)
    monkeypatch.setattr(search, "_least", lambda plan: Cost(0.0, 0))  # no costs are known
    times = {staged(1): 1000.0, staged(8): 500.0}
    monkeypatch.setattr(
        search, "_walk", lambda plan: replace(plan, nanoseconds=times.get(plan.decisions, 2000.0), instructions=10)
    )
    assert search.find([staged(1), staged(8)]).decisions == staged(found)


@pytest.mark.parametrize(("pictures", "is_simulated"), [(16, False), (1, True)])
def test_several_pictures_of_far_too_many_instructions_are_not_simulated(pictures: int, is_simulated: bool) -> None:
    """The number of instructions is estimated from the costs of the operations."""
    graph, cost_model = pipeline_of(MODEL).lower(staged(pictures)).graph, CostModel("trn2", 4)
    for number in range(len(graph.nodes)):
        cost_model.cost(graph, number, min(pictures, MOST_PRICED))
    plan = search_of(pictures).find([staged(pictures)])
    cost_model.walk = Mock(side_effect=Unsupported("simulated"))  # type: ignore[method-assign]
    search = Search(pipeline_of(MODEL), cost_model, pictures, most=5)
    if is_simulated:
        with pytest.raises(Unsupported, match="simulated"):
            search.find([staged(pictures)])
    else:
        assert search.find([staged(pictures)]).instructions == pytest.approx(plan.instructions, rel=0.5)


def test_two_passes_become_one_where_that_is_quicker() -> None:
    search = search_of(2)
    assert search.try_out(staged(1)) and search.best is not None and search.best.passes == (2,)
    search.improve(search._near)
    assert search.best.passes == (1,)


def test_a_budget_that_is_used_up_walks_the_fewest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "WALKED_INSTRUCTIONS", 1)
    search = search_of(16)
    walked = [search.try_out(staged(at_once)) for at_once in (1, 2, 4, 8, 16)]
    assert walked[0] and not any(walked[searching.FEWEST_WALKED :])


def test_of_many_alike_passes_two_are_walked() -> None:
    few, many = search_of(2), search_of(40)
    few.try_out(staged(1)), many.try_out(staged(1))
    assert few.best is not None and many.best is not None
    whole = nanoseconds(pipeline_of(MODEL).launch(staged(1), 40))
    assert many.best.nanoseconds == pytest.approx(whole, rel=0.05) and many.best.instructions > few.best.instructions


def test_a_program_is_simulated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds whatever candidate leads to it; its instructions count again, so that the search ends at the same
    point."""
    search, walked = search_of(1), list[int]()
    walk = search._walk
    monkeypatch.setattr(search, "_walk", lambda plan: walked.append(search._left) or walk(plan))
    for kind in (Kind.FP8, Kind.CLASSES_ON_PARTITIONS):  # choices that apply to no node
        search.try_out(staged(1).having(Choice(kind)))
    assert len(walked) == 1 and search.best is not None
    assert search._left == walked[0] - 2 * search.best.instructions


def test_stages_are_scaled_to_one_image_at_least() -> None:
    stages = decide(stages=[StageOf(2, 1)], at_once=9)
    assert scaled(stages, 1, 2) == decide(stages=[StageOf(2, 1)], at_once=4)
    assert scaled(stages, 2, 1) == decide(stages=[StageOf(2, 2)], at_once=18)


@pytest.mark.parametrize("reason", ["too little SBUF", "too far apart"])
def test_a_launch_that_cannot_be_simulated_is_refused(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For example, it exceeds SBUF although its estimated footprint does not."""
    search = search_of(1)
    monkeypatch.setattr(search._cost_model, "walk", Mock(side_effect=Unsupported(reason)))
    assert not search.try_out(staged(1)) and search.best is None
    with pytest.raises(Unsupported, match=reason):
        search.find([staged(1)])
