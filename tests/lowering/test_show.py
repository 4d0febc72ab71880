"""Display of launches with their graphs after each pass."""

import numpy as np
import pytest
from lowered import graph_of
from random_networks import conv, ending_in_dense, model_of
from trninfer.kernels.convolution.forms import Form
from trninfer.lowering.config import LoweringConfig
from trninfer.lowering.decisions import Kind
from trninfer.lowering.launch_sequence import LaunchSequence
from trninfer.lowering.pipeline import Pipeline
from trninfer.lowering.plan_cache import PlanCache
from trninfer.lowering.show import LAYERS, show_passes

NETWORK = ending_in_dense((3, 12, 12), [conv("a", 3, 8, 3), conv("b", 8, 8, 3)])


def plan_of(most: int = 50_000) -> LaunchSequence:
    config = LoweringConfig("trn2", 4, (Form.PAIRS,), PlanCache(None))
    return LaunchSequence(model_of(NETWORK), np.dtype(np.float32), config, most)


@pytest.mark.parametrize("batch", [pytest.param(1, marks=pytest.mark.slow), 5])
def test_the_last_graph_is_the_one_that_runs(batch: int) -> None:
    network = plan_of()
    (segment,) = network.segments
    plan = segment.plan(batch)
    (shown,) = network.show(batch)
    graphs = [each.nodes for each in shown.passes if each.nodes is not None]
    assert shown.passes[0].name == LAYERS and graphs[0] == tuple(network.graph.lines())
    assert graphs[-1] == tuple(plan.graph.lines()) and len(graphs) > 2
    assert (shown.name, shown.pictures, shown.predicted_us) == ("a to dense", batch, plan.nanoseconds / 1000)
    assert shown.decisions == tuple(plan.decisions.to_json()) and shown.instructions == plan.instructions
    assert len(shown.schedule) == len(plan.program.stages) + len(plan.decisions.of(Kind.BANDS))


@pytest.mark.slow
def test_each_kind_of_launch_is_shown_once() -> None:
    network = plan_of()
    limited = plan_of(network.segments[0].plan(3).instructions)
    step = limited.images(21)
    assert 1 < step < 21 and [each.pictures for each in limited.show(21)] == [step, 21 % step]
    assert [each.pictures for each in limited.show(2 * step)] == [step]
    cut = plan_of(1)
    assert [each.name for each in cut.show(1)] == [segment.last for segment in cut.segments] == ["a", "b", "dense"]


def test_a_graph_is_shown_where_it_differs_from_the_one_before() -> None:
    one, other = (
        graph_of(NETWORK),
        Pipeline(graph_of(NETWORK), (), 1 << 17).run(plan_of().segments[0].plan(1).decisions),
    )
    shown = show_passes([("x", one), ("y", one), ("z", other[-1][1]), ("w", one)])
    assert [each.name for each in shown] == ["x", "y", "z", "w"]
    assert [each.nodes is None for each in shown] == [False, True, False, False]
