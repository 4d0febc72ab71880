"""The order of passes, and a launch from the host's view: rearranged inputs, shares of cores, and ordered outputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from lowered import decide, decided, pipeline_of
from random_networks import conv, ending_in_dense, labels, model_of, picture, residual
from trninfer.kernels.convolution.forms import Form
from trninfer.lowering.decisions import Decisions
from trninfer.lowering.graph.graph import Unsupported
from trninfer.lowering.passes.base import in_order
from trninfer.lowering.passes.pack_images import PackImages
from trninfer.lowering.pipeline import LaunchPlan, Pipeline
from trninfer.models.layers import Conv2d, Dense, Flatten
from trninfer.models.network import Network
from trninfer.models.outputs import NamedOutput, Output

SMALL = ending_in_dense((3, 8, 8), [conv("a", 3, 8, 3), conv("b", 8, 8, 3)])
ROWS = ending_in_dense((3, 32, 32), [conv("a", 3, 32, 3, stride=(2, 2)), conv("b", 32, 32, 3), conv("c", 32, 130, 3)])
WIDE = ending_in_dense((128, 16, 16), [conv("a", 128, 128, 3), conv("b", 128, 128, 3)])
F4 = np.dtype(np.float32)


def test_passes_run_in_the_order_of_their_needs() -> None:
    """Each pass follows all passes that it needs; passes that are not chosen leave the graph unchanged."""
    pipeline = pipeline_of(model_of(ROWS))
    plain, both = (pipeline.run(each) for each in (Decisions(), decide(packs_rows=True, splits_phases=True)))
    names = [name for name, _ in both]
    assert names == [name for name, _ in plain] == [each.name for each in pipeline.passes]
    for each in pipeline.passes:
        assert all(names.index(needed) < names.index(each.name) for needed in each.needs)
    before = dict(zip(names[1:], (graph for _, graph in plain)))
    assert all(dict(plain)[name] is before[name] for name in ("pad_channels", "pack_rows", "split_phases"))
    assert dict(both)["pack_rows"] != dict(plain)["pack_rows"]


def test_needs_that_are_circular_or_missing_are_reported() -> None:
    class First(PackImages):
        name, needs = "first", ("second",)

    class Second(PackImages):
        name, needs = "second", ("first",)

    with pytest.raises(ValueError, match="passes first, second depend on each other, or on a missing pass"):
        in_order([First(), Second()])
    with pytest.raises(ValueError, match="passes second"):
        in_order([Second()])


@pytest.mark.parametrize(
    ("decisions", "name"),
    [(decide(pads_channels=True), "pad_channels"), (decide(splits_phases=True), "split_phases")],
)
def test_a_pass_that_does_not_apply_is_reported(decisions: Decisions, name: str) -> None:
    with pytest.raises(Unsupported, match=f"^{name} does not apply$"):
        pipeline_of(model_of(ending_in_dense((64, 5, 5), [conv("a", 64, 128, 3)]))).run(decisions)


def test_the_first_passes_run_once_for_all_that_share_them() -> None:
    """Candidates that differ only in packed images share the graph before that pass."""
    pipeline = pipeline_of(model_of(ROWS))
    one, two = (dict(pipeline.run(decide(packed=packed))) for packed in (1, 2))
    assert one["load_taps"] is two["load_taps"] and one["pack_images"] is not two["pack_images"]
    assert dict(pipeline.run(decide(packs_rows=True)))["load_taps"] is not one["load_taps"]
    assert (one["pack_images"].packed, two["pack_images"].packed) == (1, 2)


def test_a_layout_that_is_known_is_taken() -> None:
    pipeline = pipeline_of(model_of(SMALL))
    layout = pipeline.lower(Decisions())
    assert pipeline.launch(Decisions(), 2, layout).layout is layout
    assert pipeline.launch(decide(at_once=2), 2).layout is layout  # computed with the same choices of passes
    assert pipeline.launch(decide(packed=2), 2).layout is not layout
    assert pipeline.lower(Decisions(), lambda question: question.options[0]) is not layout


def test_forms_are_asked_for_and_else_those_of_the_decisions() -> None:
    pipeline = pipeline_of(model_of(WIDE), forms=(Form.PAIRS,))
    forms = [
        {getattr(node.operation, "form", None) for node in pipeline.lower(Decisions(), ask).graph.nodes}
        for ask in (None, lambda question: question.options[-1])
    ]
    assert Form.PAIRS not in forms[0] and Form.PAIRS in forms[1]


def test_channels_in_other_tiles_are_not_combined() -> None:
    """A sum with 130 channels in tiles of 128 and 2 cannot be combined with a value whose tiles contain two images of
    65 channels."""
    graph = pipeline_of(residual(blocks=1)).run(Decisions())[-1][1]
    number = next(n for n, node in enumerate(graph.nodes) if len(node.sources) > 1)
    other = graph.nodes[number].sources[1][0]
    wider = graph.with_nodes(node.changed(channels=200) if n == other else node for n, node in enumerate(graph.nodes))
    pipeline = Pipeline(wider, (), 1 << 17)
    with pytest.raises(Unsupported, match=r"layer '.*' \(.*\) combines are in different tiles"):
        pipeline.run(Decisions())


def launch(pictures: int, decisions: Decisions = Decisions(), cores: int = 1) -> LaunchPlan:  # noqa: B008
    return replace(decided(SMALL, decisions, pictures), cores=cores)


@pytest.mark.parametrize(
    ("pictures", "packed", "cores", "images"),
    [(1, 1, 1, 1), (5, 1, 1, 5), (5, 2, 1, 6), (5, 4, 1, 8), (3, 2, 2, 8), (3, 1, 2, 6)],
)
def test_a_launch_has_images_for_all_pictures_of_all_cores(pictures: int, packed: int, cores: int, images: int) -> None:
    """For each core, their number is a multiple of the number of packed images."""
    plan = launch(pictures, decide(packed=packed), cores)
    assert plan.images == images
    x = np.arange(pictures * cores, dtype=np.float32)[:, None, None, None] + np.ones((1, 3, 8, 8), np.float32)
    arranged = plan.arrange(x, (3, 8, 8), F4)
    assert len(arranged) == images and arranged.dtype == F4
    firsts = arranged.reshape(cores, images // cores, -1).max(axis=2)
    for core in range(cores):
        own = [1.0 + pictures * core + n for n in range(pictures)]
        assert firsts[core].tolist() == own + [0.0] * (images // cores - pictures)


def test_the_last_core_may_have_fewer_pictures() -> None:
    plan = launch(3, cores=2)
    arranged = plan.arrange(np.ones((5, 3, 8, 8), np.float32), (3, 8, 8), F4)
    assert arranged.reshape(6, -1).max(axis=1).tolist() == [1, 1, 1, 1, 1, 0]


def test_pictures_of_an_output_leave_out_what_fills_it_up() -> None:
    plan = launch(3, decide(packed=2), cores=2)
    output = np.arange(8)[:, None] * np.ones((1, 4))
    assert plan.pictures_of(output)[:, 0].tolist() == [0, 1, 2, 4, 5, 6]
    assert plan.pictures_of(output).shape == (6, 4)
    shared = launch(3).on_one_core()
    assert replace(shared, cores=2).pictures_of(np.arange(4)[:, None]).tolist() == [[0], [1], [2]]


def test_an_input_from_another_launch_is_filled_up_and_stays_if_it_is() -> None:
    plan = launch(3, decide(packed=2))
    left = np.ones((3, 3, 64), np.float32)
    filled = plan.arrange_input(0, left, F4)
    assert filled.shape == (4, 3, 8, 8) and filled[:3].all() and not filled[3].any()
    whole = np.ones((4, 3, 64), np.float32)
    assert np.shares_memory(plan.arrange_input(0, whole, F4), whole)
    more = np.ones((6, 192), np.float32)
    assert plan.arrange_input(0, more, F4).shape == (6, 3, 8, 8)
    later = replace(plan, layout=replace(plan.layout, graph=replace(plan.graph, from_host=False)))
    assert np.shares_memory(later.arrange(whole, (3, 8, 8), F4), whole)


@pytest.mark.parametrize(
    ("pictures", "packed", "at_once", "passes"), [(8, 1, 3, 3), (9, 1, 3, 3), (9, 2, 2, 3), (1, 1, 4, 1)]
)
def test_stages_have_as_many_passes_as_their_images_take(pictures: int, packed: int, at_once: int, passes: int) -> None:
    pipeline = pipeline_of(model_of(SMALL))
    plan = pipeline.launch(decide(packed=packed, at_once=at_once), pictures)
    assert plan.passes == (passes,)


def test_one_of_two_cores_may_have_nothing_to_do() -> None:
    plan = launch(3)
    alone = plan.on_one_core()
    assert alone.program == replace(plan.program, alone=True) and alone.images == plan.images


def test_outputs_are_in_the_order_of_the_network_whatever_comes_first() -> None:
    """The last layer's classes and probabilities precede the values of another output, which is computed earlier."""
    layers = (
        Conv2d("a", 3, 4, (3, 3), (1, 1, 1, 1), activation="relu"),
        Flatten("flat aside"),
        Dense("aside", 4 * 64, 6),
        Flatten("flat", inputs=("a",)),
        Dense("last", 4 * 64, 5),
    )
    aside = NamedOutput("aside", "aside", (6,), Output("values"))
    model = model_of(Network("n", picture(3, 8, 8), layers, labels(5), Output(scores="raw"), (aside,)))
    plan = decided(model, Decisions(), 2)
    operations = [operation.name for operation in plan.program.operations]
    assert operations.index("aside") < operations.index("last")
    found = plan.outputs(["aside", "probabilities", "classes"])
    assert found == [("probabilities", "classes"), ("aside", None)]
