"""The critical path: its steps cover the time without gaps, follow from the scheduler's records, and add up exactly."""

from __future__ import annotations

from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_programs import all_steps, large, small, targets, walk
from trninfer import kernels, simulator
from trninfer.simulator.timing.critical_path import RESOURCES, WAITS
from trninfer.simulator.timing.dependencies import ORDER
from trninfer.simulator.timing.scheduled import DESCRIPTORS, ENGINE, KINDS, PIPE, PORT, TABLE, Schedule

KERNELS = (
    ("vector_add_stream", [(128 * 4096,)] * 2, {"free": 512}),
    ("matmul_tiled", [(256, 128), (256, 512)], {}),
    ("matmul_fully_optimized", [(1024, 512), (1024, 1024)], {}),
    ("transpose", [(513, 127)], {}),
    ("bias_activation", [(129, 513), (1, 513)], {"activation": "softmax"}),
    ("argmax", [(3, 1000)], {}),
    ("fused_conv2d_maxpool", [(2, 3, 32, 32), (64, 3, 3, 3), (64,)], {"pool_size": 2}),
)


def check_sums(run: simulator.Run) -> None:
    """Check that steps cover 0 to the makespan without gaps, and that the latency by resource and by line adds up in
    whole picoseconds."""
    steps, end = run.critical_path, 0.0
    for step in steps:
        assert step.start_ns == end < step.end_ns and step.resource in RESOURCES
        end = step.end_ns
        instruction = run.program[step.position]
        assert (step.op, step.line) == (instruction.op, instruction.line)
    assert end == run.prediction.makespan
    by_resource, by_line = run.critical
    assert round(sum(by_resource.values()), 6) == run.latency_us
    assert round(sum(sum(spent.values()) for spent in by_line.values()), 6) == run.latency_us
    for name, time in by_resource.items():
        assert round(sum(spent.get(name, 0.0) for spent in by_line.values()), 6) == round(time, 6)
    assert by_resource[run.bound_by] == max(by_resource.values())


def check_causes(run: simulator.Run) -> None:
    """Check that every instruction started when its last dependency ended, plus a semaphore or a table load."""
    s: Schedule = run.prediction.schedule
    hops = [value for name, value in vars(run.prediction.machine).items() if name.startswith(("hop_", "landed_"))]
    for index, packed in enumerate(s.cause):
        before, kind = packed // KINDS, packed & (KINDS - 1)
        if before < 0:
            assert s.since[index] == 0.0
            assert s.start[index] == (run.prediction.machine.table_load_ns if kind == TABLE else 0.0)
            continue
        gap = s.start[index] - s.since[index]
        assert kind in WAITS and s.since[index] in (s.start[before], s.end[before], s.done[before])
        if kind in (ENGINE, PORT):
            assert gap == 0 and s.since[index] == s.end[before]
            assert kind == PORT or s.queue[index] == s.queue[before]
        elif kind == TABLE:
            assert gap == pytest.approx(run.prediction.machine.table_load_ns)
        else:
            assert gap == 0 or any(gap == pytest.approx(hop) for hop in hops)
            assert kind != ORDER or gap == 0


@settings(max_examples=80)
@given(all_steps, small | large, targets, st.booleans())
def test_the_steps_of_random_programs_add_up(steps: Any, widths: Any, target: str, dge: bool) -> None:
    run = walk(steps, widths, target, dge)
    check_sums(run)
    check_causes(run)


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize(("name", "shapes", "parameters"), KERNELS)
def test_the_steps_of_our_kernels_add_up(name: str, shapes: Any, parameters: Any, target: str) -> None:
    specs = [simulator.TensorSpec(shape, "bfloat16") for shape in shapes]
    run = simulator.run(kernels.kernel(name), *specs, target=target, functional=False, **parameters)
    check_sums(run)
    check_causes(run)


@settings(max_examples=40)
@given(all_steps, large, targets)
def test_a_dma_in_a_queue_begins_when_the_one_before_it_ends(steps: Any, widths: Any, target: str) -> None:
    run = walk(steps, widths, target)
    s = run.prediction.schedule
    free = [0.0] * (PIPE + 1)
    for index, phases in s.phases.items():
        assert s.start[index] < phases.first_byte <= phases.last < s.done[index]
        for engine in (*range(phases.place, phases.place + len(phases.begins)), PIPE):
            assert phases.begun(engine) == max(phases.could_begin(engine), free[engine])
        ends = [begin + time for begin, time in zip(phases.begins, _engine_times(run, index))]
        free[phases.place : phases.place + len(ends)] = ends
        transfer, machine = run.program[index].dma, run.prediction.machine
        free[PIPE] = phases.pipe_begin + transfer.bytes / (
            machine.pitched_rate if transfer.pitched else machine.dma_sustained
        )
        assert phases.last >= max(*ends, free[PIPE])


def _engine_times(run: simulator.Run, index: int) -> tuple[float, ...]:
    from trninfer.simulator.timing.dma import engine_times

    return engine_times(run.program[index].dma, run.prediction.machine)[1]


@nki.jit
def chain(a: Any) -> Any:
    """A load, an exponential, a sum of two and a store, each depending on the previous one."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a, dge_mode=nisa.dge_mode.hwdge)
    raised = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.activation(dst=raised, op=nl.exp, data=tile)
    total = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=raised, data2=tile, op=nl.add)
    nisa.dma_copy(dst=out, src=total, dge_mode=nisa.dge_mode.hwdge)
    return out


def test_a_chain_spends_its_time_step_by_step() -> None:
    run = simulator.run(chain, simulator.TensorSpec((128, 512), "float32"), functional=False)
    found = [(step.op, step.resource, step.waited) for step in run.critical_path]
    load = [("dma_copy", name, "") for name in ("dma_issue", "dma_latency", "dma_bandwidth", "dma_latency")]
    store = [("dma_copy", name, "operand") for name in ("semaphore", "dma_issue", "dma_latency", "dma_bandwidth")]
    assert found == [
        *load,
        ("activation", "semaphore", "operand"),
        ("activation", "scalar", "operand"),
        ("tensor_tensor", "semaphore", "operand"),
        ("tensor_tensor", "vector", "operand"),
        *store,
        ("dma_copy", "dma_latency", "operand"),
    ]
    s = run.prediction.schedule
    spent = run.critical.by_resource
    assert spent["scalar"] == pytest.approx((s.done[1] - s.start[1]) / 1000, abs=1e-6)
    assert spent["vector"] == pytest.approx((s.done[2] - s.start[2]) / 1000, abs=1e-6)


@nki.jit
def every_second(a: Any) -> Any:
    """A load and a store of every second column: one descriptor for each element."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((a.shape[0], a.shape[1] // 2), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a[:, ::2], dge_mode=nisa.dge_mode.hwdge)
    nisa.dma_copy(dst=out[:, ::2], src=tile, dge_mode=nisa.dge_mode.hwdge)
    return out


def test_a_dma_bound_by_its_descriptors_ends_with_the_last_of_them() -> None:
    spec, each_ns = simulator.TensorSpec((128, 16), "float32"), 1000.0
    run = simulator.run(every_second, spec, functional=False, constants={"dge_descriptor_ns": each_ns})
    check_sums(run)
    m, s = run.prediction.machine, run.prediction.schedule
    for index, landing_ns in enumerate((m.load_landing_ns, m.store_landing_ns)):
        dma, steps = s.phases[index], [step for step in run.critical_path if step.position == index][-3:]
        assert dma.bound == DESCRIPTORS
        assert [step.resource for step in steps] == ["dma_issue", "dma_latency", "dma_latency"]
        expected = [m.dge_ns + 16 * m.dge_ring_ns + 128 * 8 * each_ns, dma.latency, landing_ns]
        assert [step.end_ns - step.start_ns for step in steps] == pytest.approx(expected)


@nki.jit
def two_functions(a: Any) -> Any:
    """Two functions whose tables are loaded one after the other."""
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=0.0)
    for op in (nl.exp, nl.tanh):
        nisa.activation(dst=tile, op=op, data=tile)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def test_the_load_of_a_table_is_the_scalar_engines() -> None:
    run = simulator.run(two_functions, simulator.TensorSpec((128, 64), "float32"), functional=False)
    tables = [step for step in run.critical_path if step.waited == "table"]
    assert {step.resource for step in tables} == {"scalar"} and len(tables) == 4
    loads = 2 * run.prediction.machine.table_load_ns / 1000
    assert loads < run.critical.by_resource["scalar"] < loads + 1
    assert run.bound_by == "launch"


def test_a_kernel_without_instructions_is_all_launch() -> None:
    run = simulator.run(lambda a: a, np.ones((2, 2), np.float32))
    assert run.critical_path == () and run.bound_by == "launch"
    assert run.critical.by_resource == {"launch": run.latency_us} and list(run.critical.by_line) == [("", 0)]


@nki.jit
def unequal(a: Any) -> Any:
    """Core 1 computes for a long time before a barrier, core 0 only after it."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=0.0, engine=nisa.engine.vector)
    for _ in range(40 * nl.program_id(0)):
        nisa.activation(dst=tile, op=nl.exp, data=tile)
    if nl.program_id(0):
        nisa.dma_copy(dst=out, src=tile)
    nisa.core_barrier(data=out, cores=(0, 1))
    if not nl.program_id(0):
        nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)
        other = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=other, src=out)
        nisa.tensor_tensor(dst=other, data1=tile, data2=other, op=nl.add)
        nisa.dma_copy(dst=out, src=other)
    return out


def test_the_path_continues_on_the_core_that_arrived_later() -> None:
    run = simulator.run(unequal[2], simulator.TensorSpec((128, 512), "float32"), functional=False)
    check_sums(run)
    second = len(run.prediction.programs[0])
    positions = [step.position for step in run.critical_path]
    assert positions[0] >= second > positions[-1]
    assert run.critical.by_resource["scalar"] > 0.8 * 40 * 512 / 1.2 / 1000
    assert run.critical.by_resource["other_core"] == pytest.approx(run.prediction.machine.barrier_ns / 1000, rel=0.1)
    saved = run.latency_us - run.what_if("scalar")
    assert saved == pytest.approx(run.critical.by_resource["scalar"] / 2, rel=0.01)


@nki.jit
def loaded_by_gpsimd(a: Any) -> Any:
    """A load triggered by the GpSimd Engine, and a store."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a, dge_mode=nisa.dge_mode.swdge)
    nisa.dma_copy(dst=out, src=tile, dge_mode=nisa.dge_mode.hwdge)
    return out


@nki.jit
def exchanged(a: Any) -> Any:
    """Each of two cores sends a tile to the other by the DMA engines of GpSimd."""
    rank = nl.program_id(0)
    tile, received = nl.load(a[rank]), nl.ndarray(a.shape[1:], dtype=a.dtype, buffer=nl.sbuf)
    nisa.sendrecv(tile, received, 1 - rank, 1 - rank, 0, nisa.dma_engine.gpsimd_dma)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out[rank], src=received)
    return out


def test_moving_data_on_the_dma_engines_of_gpsimd_is_bandwidth() -> None:
    run = simulator.run(exchanged[2], simulator.TensorSpec((2, 128, 256), "float32"), functional=False)
    check_sums(run)
    (step,) = (s for s in run.critical_path if s.op == "sendrecv" and s.resource == "dma_bandwidth")
    rate = run.prediction.machine.gpsimd_dma_rate
    assert step.end_ns - step.start_ns == pytest.approx(128 * 256 * 4 / rate)


def test_a_dma_that_gpsimd_triggers_is_its_time() -> None:
    run = simulator.run(loaded_by_gpsimd, simulator.TensorSpec((128, 512), "float32"), functional=False)
    assert run.critical_path[0].resource == "gpsimd"
    assert "dma_issue" in {step.resource for step in run.critical_path}
