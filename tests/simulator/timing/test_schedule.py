"""What the schedule assumes of DMAs' descriptors, of engines left open, and of the compiler's order."""

import nki
import nki.isa as nisa
import nki.language as nl
import pytest
from trninfer import simulator
from trninfer.simulator import TensorSpec
from trninfer.simulator.timing.constants import machine
from trninfer.simulator.timing.expected_error import expected_error

M = machine("trn2")
TABLE = TensorSpec((64, 128, 256), "bfloat16")
INDEX = TensorSpec((1, 8), "int32")


@nki.jit
def picks(table, index, mode="unknown"):
    """Eight tiles whose place is known only at run time, or not."""
    out = nl.ndarray((128, 256), dtype=table.dtype, buffer=nl.shared_hbm)
    chosen = nl.ndarray((1, 8), dtype=index.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=chosen, src=index)
    for k in range(8):
        tile = nl.ndarray((128, 256), dtype=table.dtype, buffer=nl.sbuf)
        if mode == "static":
            nisa.dma_copy(dst=tile, src=table[k, 0:128, 0:256])
        else:
            place = chosen.ap(pattern=[[8, 1], [1, 1]], offset=k)
            source = table.ap(pattern=[[256, 128], [1, 256]], offset=0, scalar_offset=place, indirect_dim=0)
            nisa.dma_copy(dst=tile, src=source, dge_mode=getattr(nisa.dge_mode, mode))
        if k == 7:
            nisa.dma_copy(dst=out, src=tile)
    return out


def timed(mode, **more):
    return simulator.run(picks, TABLE, INDEX, mode=mode, functional=False, **more)


def test_an_address_known_at_run_time_takes_gpsimd_and_delays_the_trigger():
    dynamic, hardware, static = timed("unknown"), timed("hwdge"), timed("static")
    made = [e for e in dynamic.timeline if e.op == "descriptors"]
    assert len(made) == 8 and {e.engine for e in made} == {"gpsimd"}
    each = M.address_load_ns + M.address_ns + M.swdge_ns + 128 * M.swdge_descriptor_ns
    assert made[0].end_ns - made[0].start_ns == pytest.approx(each)
    for other in (hardware, static):
        assert other.engines["gpsimd"].busy_ns == 0 and other.latency_us < dynamic.latency_us


def test_dynamic_addresses_take_gpsimd_with_dge_off_too():
    assert timed("unknown", dge=False).engines["gpsimd"].busy_ns == timed("unknown").engines["gpsimd"].busy_ns


@nki.jit
def copies(a, count, unit=None):
    """`count` copies of a tile that do not depend on each other."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    for _ in range(count):
        other = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        if unit is None:
            nisa.tensor_copy(dst=other, src=tile)
        else:
            nisa.tensor_copy(dst=other, src=tile, engine=getattr(nisa.engine, unit))
    nisa.dma_copy(dst=out, src=other)
    return out


def engines_of(target, **more):
    run = simulator.run(copies, TensorSpec((128, 512), "float32"), count=60, target=target, functional=False, **more)
    return run, {e.engine for e in run.timeline if e.op == "tensor_copy"}


def test_copies_left_open_are_shared_out_and_named_engines_kept():
    shared, engines = engines_of("trn2")
    assert engines == {"vector", "scalar"}
    vector, scalar = (shared.engines[unit].busy_ns for unit in ("vector", "scalar"))
    assert 0.7 < vector / scalar < 1.5
    for unit in ("vector", "scalar"):
        named, engines = engines_of("trn2", unit=unit)
        assert engines == {unit} and named.latency_us > shared.latency_us
    assert engines_of("trn1")[1] == {"vector"}  # its Scalar Engine has no copy


@nki.jit
def late_and_early(a, count):
    """A copy that waits for a long chain, then `count` that could run at once, on the same engine."""
    out = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    chain = tile
    for _ in range(40):
        step = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
        nisa.activation(dst=step, op=nl.exp, data=chain)
        chain = step
    nisa.tensor_tensor(dst=tile, data1=chain, data2=chain, op=nl.add)
    for _ in range(count):
        other = nl.ndarray((128, 8), dtype=a.dtype, buffer=nl.sbuf)
        nisa.memset(dst=other, value=0.0)
    nisa.dma_copy(dst=out, src=tile)
    return out


def test_the_order_runs_ahead_of_the_kernel_only_so_far():
    run = simulator.run(late_and_early, TensorSpec((128, 512), "float32"), count=100, functional=False)
    waits = next(e.start_ns for e in run.timeline if e.op == "tensor_tensor")
    early = sum(e.start_ns < waits for e in run.timeline if e.op == "memset")
    assert early == M.lookahead - 1
    free = simulator.run(
        late_and_early, TensorSpec((128, 512), "float32"), count=100, functional=False, constants={"lookahead": 1000}
    )
    assert all(e.start_ns < waits for e in free.timeline if e.op == "memset")


def test_small_elements_cost_by_the_piece_where_hardware_makes_the_descriptors():
    @nki.jit
    def spread(a):
        out = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.shared_hbm)
        column = nl.ndarray((128, 1), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=column, src=a)
        tile = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=column.ap(pattern=[[1, 128], [0, 128]], offset=0))
        nisa.dma_copy(dst=out, src=tile)
        return out

    on, off = (
        simulator.run(spread, TensorSpec((128, 1), "float32"), dge=dge, functional=False) for dge in (True, False)
    )
    assert on.engines["dma_engines"].busy_ns > 1024 * M.small_element_ns
    assert off.engines["dma_engines"].busy_ns < on.engines["dma_engines"].busy_ns / 4


def test_a_prediction_says_how_sure_it_is():
    run = timed("unknown")
    assert 0 < run.latency_error < 0.5
    assert timed("unknown", target="trn3").latency_error is None
    assert timed("unknown", constants={"dma_sustained": 100}).latency_error is None
    launch = expected_error("trn2", "latency", False, launch_us=10.0, latency_us=12.0)
    short = expected_error("trn2", "tensor", False, launch_us=10.0, latency_us=50.0)
    long = expected_error("trn2", "tensor", False, launch_us=10.0, latency_us=5000.0)
    assert max(long, launch) < short
