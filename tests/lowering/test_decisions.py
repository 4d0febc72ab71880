"""Decisions: the same launch can be lowered again without estimating costs."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lowered import assert_right, graph_of, pipeline_of, planned
from random_networks import conv, ending_in_dense, residual
from trninfer.kernels.convolution.forms import Form
from trninfer.lowering.decisions import PACKED, PADDED, Choice, Decisions, Kind, Option, Question, one_of
from trninfer.lowering.emission.schedule import Schedule, StageOf
from trninfer.lowering.graph.graph import NodeId
from trninfer.models import load_model

COUNT = st.integers(1, 300)
IDS = st.builds(NodeId, COUNT, st.lists(st.sampled_from(["tail", "load"]), max_size=2).map(tuple))
VALUES: dict[Kind, st.SearchStrategy[Any]] = {
    **dict.fromkeys(Kind, st.just(True)),
    **dict.fromkeys((Kind.PACK_IMAGES, Kind.FILL_TAPS, Kind.STAGE), COUNT),
    Kind.PAD_CHANNELS: st.sampled_from(PADDED),
    Kind.PACK_ROWS: st.sampled_from(PACKED),
    Kind.FORM: st.tuples(st.sampled_from([form.value for form in Form]), COUNT),
    Kind.BANDS: st.tuples(IDS, COUNT),
    Kind.WARM_UP: st.lists(st.tuples(COUNT, COUNT), min_size=1, max_size=3).map(tuple),
}
CHOICES = st.sampled_from(Kind).flatmap(lambda kind: st.builds(Choice, st.just(kind), st.none() | IDS, VALUES[kind]))


@given(st.lists(CHOICES, max_size=8))
def test_decisions_are_written_and_read_in_any_order(choices: list[Choice]) -> None:
    decisions = Decisions(tuple(choices))
    read = Decisions.from_json(json.loads(json.dumps(decisions.to_json())))
    assert read == decisions == Decisions(tuple(reversed(choices))) and hash(read) == hash(decisions)


STAGE = Choice(Kind.STAGE, NodeId(2, ("tail",)), 3).to_json()


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"kind": "stage"},
        {**STAGE, "kind": "surprise"},
        {**STAGE, "value": "x"},
        {**STAGE, "value": None},
        {**STAGE, "node": 1},
        {**STAGE, "node": []},
        {**STAGE, "kind": "copies", "value": 2},
        {**STAGE, "kind": "pad_channels", "value": True},
        {**STAGE, "kind": "form", "value": ["pairs"]},
        {**STAGE, "kind": "bands", "value": [1, 2]},
        {**STAGE, "kind": "warm_up", "value": [["x", 1]]},
    ],
)
def test_what_are_no_decisions_is_refused(data: dict[str, object]) -> None:
    assert Decisions.from_json([STAGE]).of(Kind.STAGE) == {NodeId(2, ("tail",)): 3}
    with pytest.raises((TypeError, ValueError, KeyError)):
        Decisions.from_json([STAGE, data])


def test_a_choice_takes_the_place_of_another_of_its_kind_and_node() -> None:
    one, other = NodeId(1), NodeId(1, ("tail",))
    decisions = Decisions((Choice(Kind.STAGE, one, 2), Choice(Kind.STAGE, other, 3), Choice(Kind.PACK_ROWS)))
    changed = decisions.having(Choice(Kind.STAGE, one, 5), Choice(Kind.COPIES, one))
    assert changed.of(Kind.STAGE) == {one: 5, other: 3} and changed.value(Kind.COPIES, one) is True
    assert changed.without(Kind.STAGE, Kind.COPIES) == Decisions((Choice(Kind.PACK_ROWS),))
    assert changed.without_choice(Choice(Kind.STAGE, one, 5)).of(Kind.STAGE) == {other: 3}
    assert changed.value(Kind.SPLIT_MEANS) == 0 and changed.value(Kind.PACK_IMAGES, default=1) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("name", "batch"), [("digits-cnn", 1), ("residual", 3)])
def test_a_launch_is_lowered_again_by_its_decisions(name: str, batch: int) -> None:
    """The decisions describe the result of the search completely, including forms and copies, and the results are
    correct."""
    model = residual() if name == "residual" else load_model(name)
    forms = (Form.PAIRS, Form.SQUARES)
    plan = planned(model, batch, forms=forms)
    again = pipeline_of(model, forms=forms).launch(Decisions.from_json(plan.decisions.to_json()), batch)
    assert again.program == plan.program
    assert again.layout.arrangement == plan.layout.arrangement
    assert_right(model, plan.decisions, batch, forms=forms, tolerance=1e-4)


def test_options_are_answered_by_their_values_for_a_node_or_for_all() -> None:
    graph = graph_of(ending_in_dense((3, 8, 8), [conv("a", 3, 8, 3), conv("b", 8, 8, 3)])).with_ids()
    options = [
        Option(value, {} if value is None else {1: graph.nodes[1].changed(group_bytes=value[1])})
        for value in (None, ("pairs", 100), ("pairs", 200), ("squares", 100))
    ]
    question = Question(Kind.FORM, graph, 1, options, (1,))
    assert Decisions().answer(question) is options[0]
    for option in options[1:]:
        assert Decisions((question.choice(option),)).answer(question) is option
        assert Decisions((Choice(Kind.FORM, NodeId(0), option.value),)).answer(question) is options[0]
        assert Decisions((Choice(Kind.FORM, None, option.value),)).answer(question) is option
    assert Decisions((Choice(Kind.FORM, NodeId(1), ("pairs", 300)),)).answer(question) is options[0]
    changed = one_of(lambda question: question.options[2], question)
    assert changed.nodes[1].convolution.group_bytes == 200 and one_of(Decisions().answer, question) is graph


def test_without_stages_all_nodes_run_image_by_image() -> None:
    graph = graph_of(ending_in_dense((3, 8, 8), [conv("a", 3, 8, 3), conv("b", 8, 8, 3)])).with_ids()
    count = len(graph.nodes)
    assert Schedule.of(Decisions(), graph).stages == (StageOf(count, 1),)
    staged = Decisions((Choice(Kind.STAGE, NodeId(1), 3), Choice(Kind.STAGE, None, 2)))
    schedule = Schedule.of(staged, graph)
    assert schedule == Schedule((StageOf(2, 3), StageOf(count, 2))) and schedule.stage_of(2) == 1
