"""Zeros that the Tensor Engine multiplies while it waits."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from batched_networks import RandomNetwork
from depthwise_networks import expansions
from hypothesis import given, settings
from hypothesis import strategies as st
from lowered import TOLERANCES, answers, applicable, assert_right, decide, decided, planned
from trninfer.kernels.convolution.forms import worthwhile
from trninfer.kernels.program import Convolution
from trninfer.lowering.config import LoweringConfig
from trninfer.lowering.decisions import Choice, Decisions, Kind
from trninfer.lowering.emission import warmup
from trninfer.lowering.emission.warmup import added, is_cold, zeros_of
from trninfer.lowering.graph.graph import NodeId
from trninfer.lowering.launch_sequence import LaunchSequence
from trninfer.lowering.plan_cache import PlanCache
from trninfer.lowering.search.cost_model import CostModel
from trninfer.models.files import Model
from trninfer.models.importing import ImportOptions, import_network
from trninfer.runtime.backend import DTYPES

GATED = expansions(28)
SMALL = expansions(12)


def imported(seed: int) -> Model:
    with tempfile.TemporaryDirectory() as folder:
        path = RandomNetwork(seed, most=20).saved(Path(folder))
        found = import_network(path, options=ImportOptions(output_kind="values"))
    return Model(found.network, found.tensors, {})


def with_zeros(model: Model, decisions: Decisions, batch: int, counts: list[int]) -> Decisions:
    """Return decisions with `counts` multiplications of zeros before the convolutions, in order."""
    plan = decided(model, decisions, batch)
    numbers = [n for n, each in enumerate(plan.program.operations) if isinstance(each, Convolution)]
    zeros = tuple((number, counts[n % len(counts)]) for n, number in enumerate(numbers))
    warm = warmup.with_zeros(decisions, zeros, plan.emitted, plan.graph)
    assert warmup.zeros_by(warm, plan.emitted, plan.graph) == zeros
    return warm


@settings(max_examples=6, deadline=None)
@given(
    seed=st.integers(0, 2**20),
    dtype=st.sampled_from(sorted(TOLERANCES)),
    batch=st.sampled_from((1, 2, 3, 4, 7, 16)),
    packs_rows=st.booleans(),
    counts=st.lists(st.integers(1, 5), min_size=1, max_size=4),
)
def test_zeros_change_no_answer(seed: int, dtype: str, batch: int, packs_rows: bool, counts: list[int]) -> None:
    model = SMALL if seed % 3 == 0 else imported(seed)
    decisions = applicable(model, decide(packs_rows=packs_rows, packed=batch), batch)
    warm = with_zeros(model, decisions, batch, counts)
    plan = assert_right(model, warm, batch, dtype)
    x = np.random.default_rng(seed).standard_normal((batch, *model.network.input.shape)).astype(np.float32)
    cold = answers(model, decided(model, decisions, batch, dtype), x, dtype)
    np.testing.assert_array_equal(answers(model, plan, x, dtype), cold)


def test_a_gated_network_is_quicker_with_zeros() -> None:
    forms = worthwhile(False, 2)
    plan = planned(GATED, 1, "bfloat16", forms=forms)
    assert plan.decisions.of(Kind.WARM_UP)
    numbers = [number for number, _ in plan.program.warmup_matmuls]
    assert all(isinstance(plan.program.operations[number], Convolution) for number in numbers)
    without = replace(plan.program, warmup_matmuls=())
    cost_model = CostModel("trn2", 2)
    walked = cost_model.walk(plan.program, plan.layout), cost_model.walk(without, plan.layout)
    assert walked[0].nanoseconds == pytest.approx(plan.nanoseconds)
    assert walked[0].nanoseconds < walked[1].nanoseconds


@pytest.mark.slow
def test_zeros_keep_to_the_instructions_of_a_launch() -> None:
    model = GATED
    plan = planned(model, 1, "bfloat16", forms=worthwhile(False, 2))
    config = LoweringConfig("trn2", 2, worthwhile(False, 2), PlanCache(None))
    least = plan.instructions - sum(count for _, count in plan.program.warmup_matmuls)
    for most, has_zeros in ((plan.instructions, True), (plan.instructions - 1, None), (least, False)):
        (segment,) = LaunchSequence(model, DTYPES["bfloat16"], config, most).segments
        assert has_zeros in (None, bool(segment.plan(1).program.warmup_matmuls))
        assert segment.plan(1).instructions <= most


def test_a_clock_that_never_changes_takes_no_zeros() -> None:
    plan = planned(GATED, 1, "bfloat16", "trn1")
    cost_model = CostModel("trn1", 2)
    cost_model.walk(plan.program, plan.layout)
    run = cost_model.walked()
    assert not plan.program.warmup_matmuls and run is not None and not is_cold(run)


def test_what_is_foreseen_fills_waits_alone() -> None:
    plan = decided(GATED, Decisions(), 1, "bfloat16")
    cost_model = CostModel("trn2", 2)
    before = cost_model.walk(plan.program, plan.layout).nanoseconds
    run = cost_model.walked()
    assert run is not None and cost_model.walked() is None
    zeros, foreseen = zeros_of(plan.program, run)
    assert zeros and foreseen < before
    first = next(n for n, each in enumerate(plan.program.operations) if isinstance(each, Convolution))
    assert first not in dict(zeros)  # it has separate zeros


def test_zeros_of_two_rounds_are_added_up() -> None:
    assert added((), ()) == ()
    assert added(((4, 2), (9, 1)), ((2, 3), (9, 5))) == ((2, 3), (4, 2), (9, 6))


def test_decisions_with_zeros_are_kept_on_disk() -> None:
    decisions = Decisions((Choice(Kind.WARM_UP, NodeId(2, ("tail",)), ((0, 12), (3, 1))),))
    data = decisions.to_json()
    assert Decisions.from_json(data) == decisions
    data[0]["value"] = [["x", 1]]
    with pytest.raises(ValueError):
        Decisions.from_json(data)
