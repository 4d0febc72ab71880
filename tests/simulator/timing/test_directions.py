"""Predictions change in the same direction as the machine: the tests check directions and rough sizes, never absolute
times."""

from __future__ import annotations

from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import pytest
from trninfer import simulator
from trninfer.kernels import (
    matmul_hoist_load,
    matmul_tiled,
    transpose,
    vector_add_direct_allocation,
    vector_add_stream,
    vector_add_tiled,
)
from trninfer.simulator import TensorSpec
from trninfer.simulator.timing.constants import (
    MARKS,
    TARGETS,
    constants,
    fitted_constants,
    machine,
    override,
    scaled_note,
)


@nki.jit
def matmuls(left: Any, right: Any, count: Any, columns: Any, stride: Any = 1, rows: Any = 128) -> Any:
    """Run `count` matmuls of `columns` moving columns; adjacent elements of the stationary operand are `stride`
    elements apart."""
    stationary = nl.ndarray((128, 128, stride), dtype=left.dtype, buffer=nl.sbuf)
    moving = nl.ndarray((128, 512), dtype=left.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=stationary, src=left[:, 0 : 128 * stride].reshape((128, 128, stride)))
    nisa.dma_copy(dst=moving, src=right)
    sums = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.psum)
    for i in range(count):
        nisa.nc_matmul(
            dst=sums, stationary=stationary[0:rows, :, 0], moving=moving[0:rows, 0:columns], accumulate=i > 0
        )
    result = nl.ndarray((128, columns), dtype=left.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=sums)
    out = nl.ndarray((128, columns), dtype=left.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=result)
    return out


@nki.jit
def elementwise(a: Any, count: Any, unit: Any, functions: Any = 1, ordered: Any = False) -> Any:
    """Run `count` operations on one tile, on one engine, alternating between `functions` activation functions."""
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    other = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    for i in range(count):
        if unit == "scalar":
            nisa.activation(dst=other, op=nl.exp if i % functions == 0 else nl.tanh, data=tile)
        else:
            nisa.tensor_tensor(dst=other, data1=tile, data2=tile, op=nl.add)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=other)
    return out


@nki.jit
def load_tiles(a: Any, columns: Any, count: Any) -> Any:
    """Load windows of 128 rows with the given number of columns, one after the other from the top."""
    out = nl.ndarray((128, columns), dtype=a.dtype, buffer=nl.shared_hbm)
    for i in range(count):
        tile = nl.ndarray((128, columns), dtype=a.dtype, buffer=nl.sbuf)
        start = i * 128 % a.shape[0]
        nisa.dma_copy(dst=tile, src=a[start : start + 128, 0:columns])
        if i == count - 1:
            nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def chains(a: Any, count: Any, ordered: Any) -> Any:
    """Load, compute and store `count` independent tiles, in an order that would serialise them."""
    out = nl.ndarray((count, 128, 512), dtype=a.dtype, buffer=nl.shared_hbm)
    for i in range(count):
        tile = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
        if ordered:
            with nl.no_reorder():
                nisa.dma_copy(dst=tile, src=a)
                nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
                nisa.dma_copy(dst=out[i, :, :], src=tile)
        else:
            nisa.dma_copy(dst=tile, src=a)
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
            nisa.dma_copy(dst=out[i, :, :], src=tile)
    return out


def walk(kernel: Any, *shapes: Any, dtype: str = "float32", **parameters: Any) -> simulator.Run:
    specs = [TensorSpec(shape, dtype) for shape in shapes]
    return simulator.run(kernel, *specs, functional=False, **parameters)


def work(run: simulator.Run) -> float:
    """Return the microseconds without the launch."""
    return run.latency_us - run.launch_us


def product(
    count: int = 400, columns: int = 512, stride: int = 1, dtype: str = "float32", **more: Any
) -> simulator.Run:
    return walk(
        matmuls, (128, 128 * stride), (128, 512), count=count, columns=columns, stride=stride, dtype=dtype, **more
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_twice_the_matmuls_take_twice_the_time(target: str, dtype: str) -> None:
    once, twice = (product(count, dtype=dtype, target=target) for count in (2000, 4000))
    assert once.bound_by == twice.bound_by == "tensor"
    assert work(twice) / work(once) == pytest.approx(2, rel=0.05)


def test_twice_the_columns_take_twice_the_time() -> None:
    assert work(product(columns=512)) / work(product(columns=256)) == pytest.approx(2, rel=0.1)


@pytest.mark.parametrize("unit", ["scalar", "vector"])
def test_twice_the_elements_take_twice_the_time_of_a_bound_engine(unit: str) -> None:
    once, twice = (walk(elementwise, (128, n), count=300, unit=unit) for n in (2000, 4000))
    assert once.bound_by == unit
    assert work(twice) / work(once) == pytest.approx(2, rel=0.1)


@pytest.mark.parametrize("target", TARGETS)
def test_float32_matmuls_take_four_times_as_long_as_16_bits(target: str) -> None:
    wide, narrow = (product(2000, dtype=dtype, target=target) for dtype in ("float32", "float16"))
    assert 3.4 < work(wide) / work(narrow) < 4.2


def test_few_moving_columns_are_bound_by_loading_weights() -> None:
    """Half the columns do not halve the time of narrow float32 matmuls."""
    assert work(product(2000, columns=28)) < 1.1 * work(product(2000, columns=14))
    assert work(product(2000, columns=256)) > 1.8 * work(product(2000, columns=128))


def test_two_rows_to_a_psum_tile_beat_one() -> None:
    """As published: 444 instead of 222 columns per matmul, with a strided stationary operand."""
    assert work(product(1000, columns=444, stride=36)) < 0.85 * work(product(2000, columns=222, stride=36))


def test_a_strided_stationary_operand_costs_what_the_loads_cost() -> None:
    assert work(product(2000, columns=64, stride=9)) > 1.8 * work(product(2000, columns=64))
    assert work(product(2000, columns=512, stride=9)) == pytest.approx(work(product(2000, columns=512)), rel=0.02)


def test_the_first_matmuls_run_at_half_clock() -> None:
    events = [e for e in product(200, dtype="bfloat16").timeline if e.op == "nc_matmul"]
    first, last = (e.end_ns - e.start_ns for e in (events[0], events[-1]))
    assert 1.9 < first / last < 2.1
    trn1 = [e for e in product(200, dtype="bfloat16", target="trn1").timeline if e.op == "nc_matmul"]
    assert trn1[0].end_ns - trn1[0].start_ns == pytest.approx(trn1[-1].end_ns - trn1[-1].start_ns)


def test_half_filled_rows_never_warm_up() -> None:
    assert work(product(2000, rows=64)) / work(product(2000)) == pytest.approx(2, rel=0.1)


def test_loading_once_beats_loading_for_every_matmul() -> None:
    """As published: 51.8 to 43.0 ms on trn1, 39.9 to 28.2 ms on trn2."""
    for target, dtype, least in (("trn1", "bfloat16", 1.05), ("trn2", "float32", 1.25)):
        tiled, hoisted = (
            walk(kernel, (2048, 512), (2048, 2048), dtype=dtype, target=target)
            for kernel in (matmul_tiled, matmul_hoist_load)
        )
        assert tiled.latency_us > least * hoisted.latency_us


def test_small_dmas_are_bound_by_their_issue_and_dge_makes_it_slower() -> None:
    on, off = (walk(vector_add_stream, (25600,), (25600,), free=2, dge=dge) for dge in (True, False))
    assert on.bound_by == "gpsimd"  # it generates the descriptors for arguments and outputs
    assert 4 < work(on) / work(off) < 7


def test_dge_does_not_matter_for_large_transfers() -> None:
    on, off = (walk(vector_add_stream, (128 * 40_000,), (128 * 40_000,), free=4000, dge=dge) for dge in (True, False))
    assert work(on) == pytest.approx(work(off), rel=0.05)


def test_trn1_has_no_hardware_dge() -> None:
    on, off = (walk(vector_add_stream, (25600,), (25600,), free=2, dge=dge, target="trn1") for dge in (True, False))
    assert on.latency_us == off.latency_us


def test_more_partitions_to_a_dma_pay() -> None:
    """Tiles of 128 rows take little more than a hundredth of the time of tiles of one row: both are bound by
    triggers."""
    one, all_ = (walk(vector_add_tiled, (2560,), (2560,), rows=rows, dge=False) for rows in (1, 128))
    assert 60 < work(one) / work(all_) < 128


def test_two_tiles_overlap_and_one_does_not() -> None:
    one, two = (walk(vector_add_stream, (256_000,), (256_000,), free=free, dge=False) for free in (2000, 1000))
    assert work(two) < work(one)


def test_chosen_addresses_are_not_renamed() -> None:
    """With one address per tensor, nothing overlaps. With four addresses, loads run ahead."""
    one, four = (
        walk(vector_add_direct_allocation, (1_024_000,), (1_024_000,), free=1000, tiles=tiles) for tiles in (1, 4)
    )
    assert work(one) > 1.3 * work(four)


def test_rows_whose_pitch_is_a_power_of_two_meet_in_few_channels_of_trn1() -> None:
    odd, even = (walk(load_tiles, (2048, columns), columns=256, count=64, target="trn1") for columns in (4100, 4096))
    assert work(even) > 1.8 * work(odd)
    odd, even = (walk(load_tiles, (2048, columns), columns=256, count=64, target="trn2") for columns in (4100, 4096))
    assert work(even) == pytest.approx(work(odd), rel=0.01)


def test_long_rows_use_dma_better_than_short_ones() -> None:
    short, long = (
        walk(load_tiles, (2048, 4100), columns=columns, count=count, dge=False)
        for columns, count in ((16, 1024), (1024, 16))
    )
    assert work(short) > 3 * work(long)


def test_changing_the_activation_function_loads_a_table() -> None:
    same, changing = (walk(elementwise, (128, 64), count=50, unit="scalar", functions=n) for n in (1, 2))
    tables = [e for e in changing.timeline if e.op == "load_table"]
    assert len(tables) == 50
    assert work(changing) > work(same) + 48 * machine("trn2").table_load_ns / 1000


def test_16_bit_copies_and_additions_are_faster_on_trn2_only_where_documented() -> None:
    for target, ratio in (("trn2", 2), ("trn1", 2), ("trn3", 2)):
        wide, narrow = (
            walk(elementwise, (128, 4000), count=300, unit="vector", dtype=dtype, target=target)
            for dtype in ("float32", "bfloat16")
        )
        assert work(wide) / work(narrow) == pytest.approx(ratio, rel=0.15)


def test_a_profile_counts_more_of_the_launch() -> None:
    for target in TARGETS:
        benchmark, profile = (
            walk(vector_add_stream, (25600,), (25600,), free=200, target=target, profiled=profiled)
            for profiled in (False, True)
        )
        assert work(profile) == pytest.approx(work(benchmark))
        assert profile.latency_us > benchmark.latency_us + 1


def test_keeping_order_costs_overlap() -> None:
    free, ordered = (walk(chains, (128, 512), count=16, ordered=ordered, dge=False) for ordered in (False, True))
    assert work(ordered) > 2 * work(free)


def test_a_transpose_takes_time_by_its_bytes() -> None:
    once, fourfold = (walk(transpose, (n, n)) for n in (2048, 4096))
    assert work(fourfold) / work(once) == pytest.approx(4, rel=0.2)


def test_constants_have_sources() -> None:
    for target in TARGETS:
        for name, constant in constants(target).items():
            assert constant.mark in MARKS, name
            assert constant.source, name
            assert constant.rows or constant.mark != "fitted", name
    assert {target for target, _, _ in fitted_constants()} == {"trn1", "trn2"}
    of_trn3 = {name for name, c in constants("trn3").items() if c.mark in ("measured", "third-party")}
    assert {name for name in of_trn3 if name.endswith("_ns")} <= {"swdge_descriptor_ns"}
    assert scaled_note("trn3") and not scaled_note("trn2") and not scaled_note("trn1")
    assert walk(vector_add_stream, (256,), (256,), free=2, target="trn3").note == scaled_note("trn3")


def test_an_override_acts_on_later_predictions() -> None:
    before = walk(vector_add_stream, (2560,), (2560,), free=2)
    try:
        override("trn2", "swdge_ns", 10_000)
        changed = walk(vector_add_stream, (2560,), (2560,), free=2)
        assert changed.latency_us > 5 * before.latency_us
    finally:
        override("trn2", "swdge_ns", None)
    assert walk(vector_add_stream, (2560,), (2560,), free=2).latency_us == before.latency_us
    with pytest.raises(KeyError):
        override("trn2", "no_such_constant", 1)
