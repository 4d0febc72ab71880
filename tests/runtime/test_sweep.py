"""Points of a sweep: throughput, bottlenecks, cores that share HBM, and the best point within a limit."""

from __future__ import annotations

import pytest
from trninfer.runtime.sweep import SweepPoint, marked, shared_hbm, sweep_point, with_cores
from trninfer.runtime.timing import LayerTiming
from trninfer.simulator.timing.constants import machine


def row(latency: float, peak: int | None = None, **critical: float) -> LayerTiming:
    return LayerTiming(
        "row", "kernel", (1,), (1,), 0, 0, latency, None, 0.5, None, None, critical=critical, sbuf_peak_bytes=peak
    )


def point(batch: int, total: float, network: str = "a", target: str = "trn2", dtype: str = "float32") -> SweepPoint:
    return sweep_point(network, target, dtype, batch, [row(total)])


def test_a_point_adds_its_rows_up() -> None:
    rows = [row(30.0, 100, dma=20.0, tensor=10.0), row(10.0, 700, tensor=8.0, launch=2.0), row(0.0)]
    made = sweep_point("net", "trn2", "bfloat16", 8, rows, floor_us=16.0)
    assert (made.total_us, made.us_per_input, made.times_floor) == (40.0, 5.0, 2.5)
    assert made.inputs_per_second == pytest.approx(8 / 40e-6)
    assert made.sbuf_peak_bytes == 700
    assert made.bound_by == "dma"  # 20 of 40 us, although two rows wait for the Tensor Engine
    assert made.cores is made.within_limit is None and not made.best


def test_a_point_of_which_nothing_is_known() -> None:
    made = sweep_point("net", "trn2", "float32", 1, [])
    assert (made.total_us, made.inputs_per_second) == (0.0, 0.0)
    assert made.sbuf_peak_bytes is made.bound_by is made.times_floor is made.mfu is None


def test_cores_each_have_batches_of_their_own() -> None:
    made = with_cores(point(4, 20.0), 3, 25.0)
    assert (made.cores, made.cores_total_us, made.total_us) == (3, 25.0, 20.0)
    assert made.cores_inputs_per_second == pytest.approx(3 * 4 / 25e-6)


def test_cores_share_a_stack_of_hbm_as_far_as_there_are_so_many() -> None:
    """Two cores of a trn2 share a stack; the DMA engines of one cannot use its full bandwidth."""
    assert shared_hbm("trn2", 1)["dma_sustained"] == machine("trn2").dma_sustained
    for cores in (2, 8):
        assert shared_hbm("trn2", cores)["dma_sustained"] == machine("trn2").hbm_stack_rate / 2
    assert shared_hbm("trn1", 2)["dma_sustained"] == machine("trn1").dma_sustained


def test_the_best_of_each_network_target_and_dtype() -> None:
    points = [
        point(1, 10), point(4, 20), point(8, 50),  # 100,000, 200,000 and 160,000 per second
        point(1, 50, "b"), point(1, 40, target="trn1"), point(1, 30, dtype="bfloat16"),
    ]  # fmt: skip
    found = marked(points, None)
    assert [p.best for p in found] == [False, True, False, True, True, True]
    assert {p.within_limit for p in found} == {None}


def test_the_best_point_respects_the_latency_limit() -> None:
    found = marked([point(1, 10), point(2, 15), point(4, 20), point(1, 50, "b")], 15)
    assert [(p.within_limit, p.best) for p in found] == [(True, False), (True, True), (False, False), (False, False)]


def test_of_two_alike_the_first_is_the_best() -> None:
    assert [p.best for p in marked([point(1, 10), point(2, 20)], None)] == [True, False]
