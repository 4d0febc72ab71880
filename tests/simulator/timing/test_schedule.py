"""Assumptions of the schedule about DMA descriptors, unspecified engines, and the compiler's order."""

import csv
from itertools import pairwise

import nki
import nki.isa as nisa
import nki.language as nl
import pytest
from made_by_hand import Listing, part, tensor
from trninfer import simulator
from trninfer.benchmarks.measurements import DATA
from trninfer.simulator import TensorSpec
from trninfer.simulator.machine.instruction import Transfer
from trninfer.simulator.machine.memory import MemoryRegion
from trninfer.simulator.timing.constants import machine
from trninfer.simulator.timing.schedule import schedule

M = machine("trn2")
TRN2 = simulator.TARGETS["trn2"]
TABLE = TensorSpec((64, 128, 512), "bfloat16")
INDEX = TensorSpec((1, 8), "int32")


def test_independent_instruction_starts_immediately():
    """Instructions of four engines that need no buffer; each engine runs them in order."""
    program, out = Listing(), tensor(MemoryRegion.shared_hbm)
    for unit in ("tensor", "vector", "scalar", "gpsimd", "vector"):
        program.add(unit, reads=(part(tensor(placed=True)),))
    program.add("dma", (part(out),), dma=Transfer(8192, 128, 128, load=False, dge=False))
    times = schedule(program, TRN2)
    assert times.start == [0, 0, 0, 0, 100, 0]
    assert schedule([], TRN2).makespan == 0


@nki.jit
def picks(table, index, mode="unknown"):
    """Copy eight tiles whose address is known only at run time, or not."""
    out = nl.ndarray((128, 512), dtype=table.dtype, buffer=nl.shared_hbm)
    chosen = nl.ndarray((1, 8), dtype=index.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=chosen, src=index)
    for k in range(8):
        tile = nl.ndarray((128, 512), dtype=table.dtype, buffer=nl.sbuf)
        if mode == "static":
            nisa.dma_copy(dst=tile, src=table[k, 0:128, 0:512], dge_mode=nisa.dge_mode.hwdge)
        else:
            place = chosen.ap(pattern=[[8, 1], [1, 1]], offset=k)
            source = table.ap(pattern=[[512, 128], [1, 512]], offset=0, scalar_offset=place, indirect_dim=0)
            nisa.dma_copy(dst=tile, src=source, dge_mode=getattr(nisa.dge_mode, mode))
        if k == 7:
            nisa.dma_copy(dst=out, src=tile, dge_mode=nisa.dge_mode.none)
    return out


def timed(mode, **more):
    return simulator.run(picks, TABLE, INDEX, mode=mode, functional=False, **more)


def test_an_address_known_at_run_time_takes_gpsimd_and_delays_the_trigger():
    dynamic, hardware, static = timed("unknown"), timed("hwdge"), timed("static")
    made = [e for e in dynamic.timeline if e.op == "descriptors"]
    assert len(made) == 8 and {e.engine for e in made} == {"gpsimd"}
    each = M.address_load_ns + M.address_ns + M.swdge_ns
    assert made[0].end_ns - made[0].start_ns == pytest.approx(each)
    for other in (hardware, static):
        assert other.engines["gpsimd"].busy_ns == 0 and other.latency_us < dynamic.latency_us


def test_dynamic_addresses_take_gpsimd_with_dge_off_too():
    assert timed("unknown", dge=False).engines["gpsimd"].busy_ns == timed("unknown").engines["gpsimd"].busy_ns


@nki.jit
def copies(a, count, unit=None):
    """Make `count` independent copies of a tile."""
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
    assert engines_of("trn1")[1] == {"vector"}  # its Scalar Engine has no copy instruction


@nki.jit
def late_and_early(a, count):
    """A copy that waits for a long chain, then `count` copies on the same engine that could run at once."""
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


@nki.jit
def late_broadcast(a, column, count):
    """Large loads that keep the DMA engines busy, then one that reads 128 numbers eight times each."""
    out = nl.ndarray((128, 8), dtype=column.dtype, buffer=nl.shared_hbm)
    for k in range(count):
        tile = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a[k], dge_mode=nisa.dge_mode.hwdge)
    wide = nl.ndarray((128, 8), dtype=column.dtype, buffer=nl.sbuf)
    source = column.ap(pattern=[[1, 128], [0, 8]], offset=0)
    nisa.dma_copy(dst=wide, src=source, dge_mode=nisa.dge_mode.hwdge)
    nisa.dma_copy(dst=out, src=wide)
    return out


def test_elements_of_one_channel_take_their_time_once_the_engines_are_free():
    """It is measured from the first read, as in profiles, rather than from when the first read could have started."""
    column, loads = TensorSpec((128,), "bfloat16"), TensorSpec((16, 128, 512), "float32")
    moving = []
    for count in (0, 16):
        run = simulator.run(late_broadcast, loads, column, count=count, functional=False, constants={"loads_by_use": 0})
        load = [e for e in run.timeline if e.load][-1]
        moving.append(load.done_ns - load.start_ns)
    assert moving[0] == pytest.approx(moving[1], rel=0.05) and moving[0] > 1024 * M.small_element_ns


def test_the_order_runs_ahead_of_the_kernel_only_so_far():
    run = simulator.run(late_and_early, TensorSpec((128, 512), "float32"), count=100, functional=False)
    waits = next(e.start_ns for e in run.timeline if e.op == "tensor_tensor")
    early = sum(e.start_ns < waits for e in run.timeline if e.op == "memset")
    assert early == M.lookahead - 1
    free = simulator.run(
        late_and_early, TensorSpec((128, 512), "float32"), count=100, functional=False, constants={"lookahead": 1000}
    )
    assert all(e.start_ns < waits for e in free.timeline if e.op == "memset")


def test_small_elements_have_a_fixed_cost_with_hardware_descriptors():
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


@nki.jit
def narrow_loads(a, step):
    """Load a tile of two elements per partition, which are `step` elements apart in HBM; adjacent elements belong to
    adjacent partitions."""
    out = nl.ndarray((128, 2), dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 2), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a.ap(pattern=[[1, 128], [step, 2]], offset=0), dge_mode=nisa.dge_mode.hwdge)
    nisa.dma_copy(dst=out, src=tile)
    return out


def test_short_elements_of_one_channel_of_hbm_are_read_one_after_the_other():
    """256 reads of 4 B in one channel, in two, or in all 32."""
    ends = []
    for step in (128, 300, 100_000):
        run = simulator.run(narrow_loads, TensorSpec((200_000,), "float32"), step=step, functional=False)
        load = next(e for e in run.timeline if e.load)
        ends.append(load.done_ns - load.start_ns - M.load_landing_ns)
    assert ends[0] == pytest.approx(256 * M.small_element_ns, rel=0.02)
    assert ends[1] == pytest.approx(ends[0] / 2, rel=0.02) and ends[2] < ends[1]


@nki.jit
def transposes(a, count, together, tile_of=None):
    """Transpose `count` tiles of a quarter of a bank each; `together` are written before the first of them is copied
    out.

    tile_of: the number of tiles used in turn, instead of a new one each time."""
    out = nl.ndarray((128, 128 * count), dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.sbuf)
    rows = nl.ndarray((128, 128 * count), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    tiles = []
    for _ in range(tile_of or 0):
        tiles.append(nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.psum))
    for first in range(0, count, together):
        turned = []
        for k in range(together):
            sums = tiles[(first + k) % tile_of] if tile_of else nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.psum)
            nisa.nc_transpose(dst=sums, data=tile)
            turned.append(sums)
        for k in range(together):
            column = 128 * (first + k)
            nisa.tensor_copy(dst=rows[0:128, column : column + 128], src=turned[k], engine=nisa.engine.vector)
    nisa.dma_copy(dst=out, src=rows)
    return out


def most_at_once(run):
    """Return the maximum number of tiles that are written and not yet read."""
    written = [e.start_ns for e in run.timeline if e.op == "nc_transpose"]
    read = [e.done_ns for e in run.timeline if e.op == "tensor_copy"]
    return max(number - sum(done <= start for done in read) for number, start in enumerate(written, 1))


SQUARE = TensorSpec((128, 128), "float32")


def test_a_tile_in_psum_takes_a_bank_however_small():
    free = {"constants": {"lookahead": 1000}, "functional": False}
    assert most_at_once(simulator.run(transposes, SQUARE, count=60, together=1, **free)) == 8


@pytest.mark.parametrize("tiles", [1, 2, 3])
def test_a_tile_in_psum_has_one_address_however_often_it_is_written(tiles):
    free = {"constants": {"lookahead": 1000}, "functional": False}
    run = simulator.run(transposes, SQUARE, count=60, together=1, tile_of=tiles, **free)
    assert tiles <= most_at_once(run) <= tiles + 1  # one is written while the copy that reads it ends
    assert run.latency_us >= simulator.run(transposes, SQUARE, count=60, together=1, **free).latency_us


def test_tiles_in_psum_share_banks_if_there_are_more_than_banks():
    @nki.jit
    def last_first(a, count):
        out = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a)
        turned = []
        for _ in range(count):
            sums = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.psum)
            nisa.nc_transpose(dst=sums, data=tile)
            turned.append(sums)
        total = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=total, src=turned[count - 1])
        for k in range(count - 1):
            nisa.tensor_tensor(dst=total, data1=total, data2=turned[count - 2 - k], op=nl.add)
        nisa.dma_copy(dst=out, src=total)
        return out

    run = simulator.run(last_first, SQUARE, count=12, functional=False)
    first_read = min(e.start_ns for e in run.timeline if e.op == "tensor_copy")
    assert sum(e.start_ns < first_read for e in run.timeline if e.op == "nc_transpose") == 12
    assert 12 * 512 <= run.prediction.schedule.psum_peak <= 16384


@nki.jit
def halves(a, banks):
    """Two matmuls into one bank or two; then the Vector and the Scalar Engine copy one each, 20 times."""
    out = nl.ndarray((128, 256), dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    both = nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.psum)
    copies = nl.ndarray((128, 256), dtype=a.dtype, buffer=nl.sbuf)
    places = (0, 512 if banks == 2 else 256)
    for place in places:
        nisa.nc_matmul(dst=both[:, place : place + 128], stationary=tile, moving=tile)
    for _ in range(20):
        for place, unit in zip(places, (nisa.engine.vector, nisa.engine.scalar)):
            where = min(place, 128)
            nisa.tensor_copy(dst=copies[:, where : where + 128], src=both[:, place : place + 128], engine=unit)
    nisa.dma_copy(dst=out, src=copies)
    return out


def test_two_engines_at_one_bank_of_psum_take_turns():
    one, two = (
        simulator.run(halves, SQUARE, banks=banks, functional=False, constants={"lookahead": 1000}) for banks in (1, 2)
    )
    overlaps = []
    for run in (one, two):
        vector, scalar = (
            [e for e in run.timeline if e.op == "tensor_copy" and e.engine == u] for u in ("vector", "scalar")
        )
        assert len(vector) == len(scalar) == 20
        overlaps.append(any(v.start_ns < s.end_ns and s.start_ns < v.end_ns for v in vector for s in scalar))
    assert overlaps == [False, True] and one.latency_us > two.latency_us


@nki.jit
def small_loads(a, engines):
    """64 small loads with hardware-generated descriptors, triggered by the engines in turn."""
    out = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.sbuf)
    for i in range(64):
        unit = getattr(nisa.engine, engines[i % len(engines)])
        nisa.dma_copy(dst=tile[:, i : i + 1], src=a[:, i : i + 1], dge_mode=nisa.dge_mode.hwdge, engine=unit)
    nisa.dma_copy(dst=out, src=tile)
    return out


def test_the_scalar_engines_descriptor_generator_works_beside_the_other():
    a = TensorSpec((128, 64), "float32")
    sync, scalar, both = (
        simulator.run(small_loads, a, engines=engines, functional=False)
        for engines in (("sync",), ("scalar",), ("sync", "scalar"))
    )
    for one in (sync, scalar):
        assert both.prediction.makespan < 0.7 * one.prediction.makespan
        assert one.engines["dma_issue"].busy_ns > 1.8 * both.engines["dma_issue"].busy_ns
    assert scalar.engines["scalar"].busy_ns == 0


@nki.jit
def handed_over(a):
    """Pass a tile from the Scalar Engine to each of the others and back; the last reader's tile is then overwritten."""
    out = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.shared_hbm)
    tiles = [nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.sbuf) for _ in range(5)]
    nisa.dma_copy(dst=tiles[0], src=a)
    nisa.activation(dst=tiles[1], op=nl.exp, data=tiles[0])
    nisa.tensor_scalar(dst=tiles[2], data=tiles[1], op0=nl.add, operand0=1.0)
    product = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=product, stationary=tiles[2], moving=tiles[2])
    nisa.activation(dst=tiles[3], op=nl.exp, data=product)
    nisa.iota(tiles[4], pattern=[[1, 128]], offset=0, channel_multiplier=1)
    nisa.tensor_tensor(dst=tiles[4], data1=tiles[3], data2=tiles[3], op=nl.add, engine=nisa.engine.gpsimd)
    nisa.activation(dst=tiles[0], op=nl.exp, data=tiles[4])
    nisa.memset(dst=tiles[4], value=0.0)
    nisa.dma_copy(dst=out, src=tiles[0])
    return out


def test_a_hand_over_takes_what_profiles_show():
    """From the end of an instruction to the start of a dependent one on another engine: between the 10th percentiles of
    the fastest and the slowest producer in hops.csv."""
    run = simulator.run(handed_over, TensorSpec((128, 128), "float32"), functional=False)
    events = [e for e in run.timeline if e.op in ("activation", "tensor_scalar", "nc_matmul", "tensor_tensor")]
    with (DATA / "measured" / "hops.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if int(row["n"]) >= 10 and row["producer_engine"] != "DMA"]
    names = {"vector": "DVE", "tensor": "PE", "scalar": "ACT", "gpsimd": "POOL"}
    assert [e.engine for e in events] == ["scalar", "vector", "tensor", "scalar", "gpsimd", "scalar"]
    for producer, consumer in pairwise(events):
        measured = [float(row["p10"]) for row in rows if row["consumer_engine"] == names[consumer.engine]]
        assert min(measured) <= consumer.start_ns - producer.done_ns <= max(measured), consumer.engine


def test_write_waits_for_the_semaphore_of_the_reader():
    """A write after a read waits for the end of the reading instruction, as for any other result."""
    run = simulator.run(handed_over, TensorSpec((128, 128), "float32"), functional=False)
    reader = [e for e in run.timeline if e.op == "activation"][-1]
    writer = next(e for e in run.timeline if e.op == "memset")
    assert reader.engine != writer.engine
    assert writer.start_ns == pytest.approx(reader.end_ns + M.hop_vector_ns)
