"""Settings of planning: the SBUF budget of a launch, and the components of planners."""

from pathlib import Path

import pytest
from lowered import graph_of
from random_networks import conv, ending_in_dense
from trninfer.kernels.convolution.forms import Form
from trninfer.lowering.cache_folder import CACHE_VARIABLE
from trninfer.lowering.config import LoweringConfig
from trninfer.lowering.decisions import Decisions, Kind
from trninfer.lowering.launch_plan import LaunchPlanner
from trninfer.lowering.plan_cache import PlanCache
from trninfer.simulator.machine.chip import PARTITIONS, TARGETS

GRAPH = graph_of(ending_in_dense((128, 16, 16), [conv("a", 128, 128, 3), conv("b", 128, 128, 3)]))


@pytest.mark.parametrize("target", TARGETS)
def test_a_launch_leaves_an_eighth_of_sbuf_and_room_for_an_identity(target: str) -> None:
    """The compiler's transposes multiply by a matrix of 128 16-bit numbers per partition."""
    usable = TARGETS[target].usable_sbuf_bytes
    budget_bytes = LoweringConfig(target, 4, cache=PlanCache(None)).budget_bytes
    assert usable - budget_bytes == pytest.approx(0.12 * usable + 2 * PARTITIONS, abs=1)


def test_the_clock_is_of_the_target_and_of_all_cores() -> None:
    one, two = (LoweringConfig("trn3", 2, cache=PlanCache(None), cores=cores) for cores in (1, 2))
    assert (one.cost_model.target, one.cost_model.cores, two.cost_model.cores) == ("trn3", 1, 2)


def test_planners_have_the_forms_the_room_and_the_cache_in_common() -> None:
    cache = PlanCache(None)
    config = LoweringConfig("trn2", 4, (Form.PAIRS,), cache)
    plan = LaunchPlanner(GRAPH, config).plan(1)
    plain = LaunchPlanner(GRAPH, LoweringConfig("trn2", 4, (), PlanCache(None))).plan(1)
    assert {form for form, _ in plan.decisions.of(Kind.FORM).values()} == {
        "pairs"
    } and plan.nanoseconds < plain.nanoseconds
    assert not plain.decisions.of(Kind.FORM)
    again = LaunchPlanner(GRAPH, LoweringConfig("trn2", 4, (Form.PAIRS,), cache)).plan(1)
    assert (again.decisions, again.nanoseconds) == (plan.decisions, plan.nanoseconds) != (Decisions(), 0)


def test_plans_are_kept_in_the_users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    small = graph_of(ending_in_dense((3, 4, 4), [conv("a", 3, 4, 3)]))
    LaunchPlanner(small, LoweringConfig("trn2", 4)).plan(1)
    assert len(list((tmp_path / "plans").iterdir())) == 1
