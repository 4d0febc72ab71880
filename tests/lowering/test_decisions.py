"""Decisions: the same launch again, without pricing anything."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lowered import assert_right, pipeline_of, planned
from random_networks import residual
from trninfer.kernels.convolution.forms import Form
from trninfer.kernels.program import Convolution
from trninfer.lowering.decisions import Decisions, forms_of
from trninfer.lowering.graph import Graph, Node
from trninfer.lowering.schedule import Region, StageOf
from trninfer.models import load_model

count = st.integers(1, 300)
counts = st.lists(count, max_size=3).map(tuple)
DECISIONS = st.builds(
    Decisions,
    pads_channels=st.booleans(),
    packs_rows=st.booleans(),
    splits_phases=st.booleans(),
    packed=count,
    forms=st.lists(st.tuples(count, st.sampled_from([form.value for form in Form]), count), max_size=3).map(tuple),
    copied=counts,
    in_hbm=counts,
    regions=st.lists(st.builds(Region, first=count, end=count, bands=count), max_size=3).map(tuple),
    stages=st.lists(st.builds(StageOf, end=count, at_once=count), max_size=3).map(tuple),
    staying=counts,
)


@given(DECISIONS)
def test_decisions_are_written_and_read(decisions: Decisions) -> None:
    read = Decisions.from_json(json.loads(json.dumps(decisions.to_json())))
    assert read == decisions and hash(read) == hash(decisions)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {**Decisions().to_json(), "surprise": 1},
        {**Decisions().to_json(), "forms": [[1, "pairs"]]},
        {**Decisions().to_json(), "regions": [{"first": 1}]},
        {**Decisions().to_json(), "stages": [[1, 2]]},
        {**Decisions().to_json(), "copied": ["one"]},
        {**Decisions().to_json(), "copied": None},
    ],
)
def test_what_are_no_decisions_is_refused(data: dict[str, object]) -> None:
    with pytest.raises((TypeError, ValueError, KeyError, AttributeError)):
        Decisions.from_json(data)


@pytest.mark.parametrize(("name", "batch"), [("digits-cnn", 1), ("residual", 3)])
def test_a_launch_is_lowered_again_by_its_decisions(name: str, batch: int) -> None:
    """What the search found is what its decisions say, form and copies included; and it is right."""
    model = residual() if name == "residual" else load_model(name)
    forms = (Form.PAIRS, Form.SQUARES)
    plan = planned(model, batch, forms=forms)
    again = pipeline_of(model, forms=forms).launch(Decisions.from_json(plan.decisions.to_json()), batch)
    assert again.program == plan.program
    assert again.layout.arrangement == plan.layout.arrangement
    assert_right(model, plan.decisions, batch, forms=forms, tolerance=1e-4)


def test_forms_are_picked_by_number_form_and_room() -> None:
    direct = Convolution(name="a", channels=4, rows=2, columns=2)
    shape = (4, 2, 2)
    candidates = [
        Node(operation, "conv2d", shape, (shape, shape))
        for operation in (
            direct,
            replace(direct, form=Form.PAIRS, group_bytes=100),
            replace(direct, form=Form.PAIRS, group_bytes=200),
            replace(direct, form=Form.SQUARES, group_bytes=100),
        )
    ]
    graph = Graph((candidates[0], candidates[2]), shape, 4)
    assert forms_of(graph) == ((1, "pairs", 200),)
    for number, candidate in enumerate(candidates[1:], 1):
        chosen = Decisions(forms=forms_of(Graph((candidates[0], candidate), shape, 4)))
        assert chosen.pick_form(graph, 1, candidates) is candidates[number]
        assert chosen.pick_form(graph, 0, candidates) is candidates[0]
    assert Decisions(forms=((1, "pairs", 300),)).pick_form(graph, 1, candidates) is candidates[0]


def test_without_stages_all_nodes_run_image_by_image() -> None:
    assert Decisions().schedule(5).stages == (StageOf(5, 1),)
    assert Decisions(stages=(StageOf(2, 3), StageOf(5, 1))).schedule(5).stage_of(2) == 1
