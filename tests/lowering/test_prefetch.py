"""Loads of weights before earlier operations: answers stay, nothing is loaded twice, and SBUF has room for all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from lowered import applicable, assert_right, decide, decided, pipeline_of, tensor_spec
from random_networks import (
    chains,
    conv,
    ending_in_dense,
    few_channels,
    graphs,
    model_of,
)
from trninfer import kernels, simulator
from trninfer.kernels.program import Convolution, DenseHead, Prefetch
from trninfer.kernels.tensor_names import TensorName
from trninfer.lowering.decisions import Choice, Decisions, Kind
from trninfer.lowering.footprint import Footprint
from trninfer.lowering.graph import Unsupported
from trninfer.lowering.pipeline import LaunchPlan
from trninfer.lowering.schedule import Region
from trninfer.models.network import Network
from trninfer.runtime.backend import LaunchTime
from trninfer.runtime.layer_launches import specs_of
from trninfer.runtime.layer_times import layer_parts, layer_times

WIDE = model_of(ending_in_dense((3, 8, 8), [conv("a", 3, 200, 3), conv("b", 200, 300, 3), conv("c", 300, 140, 1)]))


def prefetches(plan: LaunchPlan) -> list[Prefetch]:
    return [load for stage in plan.program.stages for loads in stage.prefetches for load in loads]


def run_of(plan: LaunchPlan, dtype: str = "float32") -> simulator.Run:
    specs = {name: tensor_spec(spec) for name, spec in specs_of(plan, np.dtype(dtype)).items()}
    return simulator.run(kernels.kernel("run_network"), **specs, functional=False, program=plan.program)


def times_of(plan: LaunchPlan) -> tuple[LaunchTime, dict[str, LaunchTime]]:
    run = run_of(plan)
    return layer_times(run, layer_parts(run, plan.program.layers))


def weights_loaded(run: simulator.Run) -> int:
    loads = [each for each in run.program if each.dma is not None and each.dma.load]
    return sum(each.dma.bytes for each in loads if each.dma is not None)


@settings(max_examples=60)
@given(
    st.one_of(chains(), graphs(), few_channels()),
    st.data(),
    st.sampled_from([1, 2, 3, 4, 7, 16]),
    st.sampled_from(["float32", "bfloat16", "float16"]),
    st.integers(1, 9),
)
@pytest.mark.slow
def test_answers_are_right_however_early_weights_come(
    network: Network, data: st.DataObject, batch: int, dtype: str, ahead: int
) -> None:
    flags = decide(
        packs_rows=data.draw(st.booleans()),
        splits_phases=data.draw(st.booleans()),
        packed=data.draw(st.sampled_from([1, 2, 4])),
    )
    try:
        decisions = applicable(network, flags, batch).having(Choice(Kind.PREFETCH, value=ahead))
        plan = assert_right(network, decisions, batch, dtype, at_once=data.draw(st.integers(0, 2)))
    except Unsupported:
        event("does not fit")
        return
    event(f"{min(3, len(prefetches(plan)))} or more early loads")


@pytest.mark.parametrize(("batch", "at_once"), [(1, 1), (3, 1), (3, 3)])
def test_each_weight_is_loaded_once_a_pass_into_memory_that_has_room(batch: int, at_once: int) -> None:
    late, early = (decided(WIDE, decide(ahead=ahead), batch, at_once=at_once) for ahead in (0, 8))
    assert not prefetches(late) and len(prefetches(early)) >= 3
    runs = [run_of(plan) for plan in (late, early)]
    assert weights_loaded(runs[0]) == weights_loaded(runs[1])
    passes = -(-batch // at_once)
    names = {access.allocation.identity[0] for each in runs[1].program for access in each.writes}
    shared = {early.program.operations[each.operation].weights.loads[each.load].run for each in prefetches(early)}
    assert sum(isinstance(name, TensorName) and name.is_early for name in names) == passes * len(shared)


def test_loads_keep_their_order_and_come_after_the_first_operation_that_has_any() -> None:
    plan = decided(WIDE, decide(ahead=8))
    (stage,) = plan.program.stages
    order = [(early.operation, early.load) for early in prefetches(plan)]
    assert order == sorted(order)
    loading = [n for n, each in enumerate(stage.operations) if isinstance(each, (Convolution, DenseHead))]
    places = [n for n, loads in enumerate(stage.prefetches) if loads]
    assert min(places) > loading[0] and max(places) < loading[-1]


@pytest.mark.parametrize("kib", [40, 60, 80, 120])
def test_they_take_no_more_room_than_they_are_given(kib: int) -> None:
    pipeline = replace(pipeline_of(WIDE), budget_bytes=8 * kib * 1024)
    plan = pipeline.launch(decide(ahead=1), 1)
    most = Footprint(plan.emitted, plan.layout).peak[0]
    peak = run_of(plan).memory.sbuf_bytes
    assert peak <= max(kib * 1024, most)
    assert len(prefetches(plan)) <= len(prefetches(pipeline.launch(decide(ahead=8), 1)))


def test_weights_of_bands_come_when_the_first_band_needs_them() -> None:
    plan = assert_right(WIDE.network, decide(decided(WIDE, Decisions()).graph, regions=(Region(1, 3, 2),), ahead=8))
    operations = plan.program.operations
    resident_weights = [isinstance(each, (Convolution, DenseHead)) and each.weights.are_resident for each in operations]
    assert any(resident_weights) and not any(resident_weights[early.operation] for early in prefetches(plan))


def test_the_time_and_bytes_of_a_load_are_those_of_the_layer_that_multiplies() -> None:
    late, early = (times_of(decided(WIDE, decide(ahead=ahead))) for ahead in (0, 8))
    assert {name: time.hbm_bytes for name, time in late[1].items()} == {
        name: time.hbm_bytes for name, time in early[1].items()
    }
