"""A resource that is twice as fast saves at most half of its critical time, up to the effect of a new order.

Engines take whatever can start first, so with other times they may execute instructions in a different order, which
alone can gain or lose time. Few programs change by more than a hundredth; the tolerance for any single one is stated
here and in docs/predictions.md.
"""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_programs import KINDS, TILES, all_steps, large, small, targets, walk
from trninfer import kernels, simulator
from trninfer.simulator.timing.constants import TABLE, machine
from trninfer.simulator.timing.critical_path import RESOURCES
from trninfer.simulator.timing.what_if import faster_machine

TOLERANCE = 0.25  # of the kernel's time without its launch, for any one program
USUAL, USUAL_SHARE = 0.01, 0.94  # this share of all experiments is within this tolerance
NOT_OF_A_RESOURCE = {  # sizes, limits and policies; the launch; costs determined by the program
    *("launch_ns", "launch_before_ns", "launch_after_ns", "lookahead", "hbm_channels", "hbm_interleave"),
    *("loads_by_use", "tile_renaming", "hbm_shared_efficiency", "descriptor_choice"),
    *(
        "least_element",
        "packet",
        "swdge_gathered",
        "partial_write",
        "dma_compute_passes",
        "pitch",
        "wide_stride",
        "warm_window_ns",
    ),
    *("dma_transpose_hbm", "dma_transpose_sbuf", "barrier_ns", "register_ns", "cold_clock"),
}
_OF_INSTRUCTIONS = (
    *("matmul_", "stationary_", "transpose_", "background_", "vector_", "memset_", "scalar_", "gpsimd_"),
    *("strided_pace", "scan_pace", "bn_aggr_pace", "exponential_pace", "reciprocal_cycles", "topk_pace"),
)


def excess(run: simulator.Run, resource: str, times: float = 2.0) -> float:
    """Return by how much the saved time is outside the range from 0 to the limit given by the critical time, as a share
    of the kernel's time."""
    saved = run.latency_us - run.what_if(resource, times)
    allowed = run.critical.by_resource.get(resource, 0.0) * (1 - 1 / times)
    return max(saved - allowed, -saved, 0.0) / (run.latency_us - run.launch_us)


@settings(max_examples=40)
@given(all_steps, small | large, targets, st.booleans(), st.sampled_from(RESOURCES), st.sampled_from([1.5, 2.0, 4.0]))
def test_a_faster_resource_saves_what_its_critical_time_allows(
    steps: Any, widths: Any, target: str, dge: bool, resource: str, times: float
) -> None:
    run = walk(steps, widths, target, dge)
    assert excess(run, resource, times) <= TOLERANCE


def test_of_many_programs_nearly_all_save_what_their_critical_time_allows() -> None:
    found = []
    rng = random.Random(0)
    for _ in range(120):
        steps = [(rng.choice(KINDS), rng.randrange(TILES), rng.randrange(TILES)) for _ in range(rng.randint(1, 30))]
        run = walk(steps, [rng.randint(8, 600) for _ in range(TILES)], rng.choice(["trn1", "trn2", "trn3"]))
        found += [excess(run, resource) for resource in RESOURCES]
    assert sum(value <= USUAL for value in found) >= USUAL_SHARE * len(found)
    assert max(found) <= TOLERANCE


def test_a_resource_with_all_of_the_time_saves_half() -> None:
    spec = [simulator.TensorSpec((2048, 2048), "bfloat16")] * 2
    run = simulator.run(kernels.matmul_fully_optimized, *spec, functional=False)
    share = run.critical.by_resource["tensor"]
    assert run.bound_by == "tensor"
    saved = run.latency_us - run.what_if("tensor")
    assert 0.9 * share / 2 <= saved <= share / 2 + 0.01 * run.latency_us
    assert run.what_if("launch") == pytest.approx(run.latency_us - run.launch_us / 2)
    assert run.what_if("tensor", 1.0) == run.latency_us
    assert run.what_if("gpsimd") == run.latency_us


@pytest.mark.parametrize(
    ("resource", "times", "told"),
    [("dma", 2.0, "must be one of launch"), ("tensor", 0.0, "positive"), ("tensor", math.nan, "positive")],
)
def test_unknown_resource_or_invalid_factor_is_refused(resource: str, times: float, told: str) -> None:
    run = simulator.run(lambda a: a, simulator.TensorSpec((2, 2), "float32"), functional=False)
    with pytest.raises(simulator.NkiValidationError, match=told):
        run.what_if(resource, times)


def test_every_constant_belongs_to_a_resource_or_is_listed_as_an_exception() -> None:
    before = machine("trn2")
    changing = set()
    for resource in RESOURCES:
        after = faster_machine(before, resource, 2.0)
        changing |= {name for name in TABLE if getattr(after, name) != getattr(before, name)}
    rest = {name for name in TABLE if name not in changing and not name.startswith(_OF_INSTRUCTIONS)}
    zero = {name for name in rest if not getattr(before, name)}
    assert rest - zero == NOT_OF_A_RESOURCE - zero
