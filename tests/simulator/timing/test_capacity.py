"""The SBUF and PSUM usage of programs."""

import nki.isa as nisa
import nki.language as nl
import pytest
from made_by_hand import tensor
from nki_tensors import new
from trninfer import simulator
from trninfer.simulator import CapacityError
from trninfer.simulator.instructions.core import NeuronCore
from trninfer.simulator.machine.chip import TARGETS, find_target
from trninfer.simulator.machine.memory import PSUM
from trninfer.simulator.running.kernel import execute
from trninfer.simulator.timing.capacity import Banks


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("buffer", [nl.sbuf, nl.psum])
def test_live_tiles_are_counted_and_named(target, buffer):
    found = find_target(target)
    whole = found.usable_sbuf_bytes if buffer is nl.sbuf else found.psum_bytes

    def kernel(tiles):
        kept = [nl.ndarray((128, whole // 8 // 4), nl.float32, buffer, name=f"kept{i}") for i in range(tiles)]
        for tile in kept:
            nisa.memset(tile, 1.0, engine=nisa.engine.vector)
        last = new((128, 1), buffer=nl.psum if buffer is nl.sbuf else nl.sbuf)
        nisa.tensor_reduce(last, nl.add, kept[-1], axis=1)
        for tile in kept:  # all need the last one, so none can be freed early
            nisa.tensor_scalar(tile, tile, nl.add, last)

    execute(NeuronCore(found), kernel, (8,), {})
    with pytest.raises(
        CapacityError, match=f"{buffer.name.upper()} of {target} is full: kept8 .*alive: kept0"
    ) as error:
        execute(NeuronCore(found), kernel, (9,), {})
    assert "test_capacity.py:" in str(error.value)


@pytest.mark.parametrize("partitions, tiles", [(1, 4), (32, 4), (33, 2), (64, 2), (65, 1), (128, 1)])
def test_tiles_of_few_partitions_share_columns(partitions, tiles):
    found = find_target("trn2")
    columns = found.usable_sbuf_bytes // 2 - 64  # in 16 bits, nearly a whole partition

    def kernel(count):
        kept = [nl.ndarray((partitions, columns), nl.bfloat16) for _ in range(count)]
        for tile in kept:
            nisa.memset(tile[:, 0:2], 1.0)
        for tile in kept:
            nisa.tensor_scalar(tile[:, 0:1], tile[:, 1:2], nl.add, 1.0)

    execute(NeuronCore(found, functional=False), kernel, (tiles,), {})
    with pytest.raises(CapacityError, match="SBUF of trn2 is full"):
        execute(NeuronCore(found, functional=False), kernel, (tiles + 1,), {})


def test_tiles_of_psum_are_within_a_bank_or_occupy_consecutive_banks():
    banks, bank = Banks(), 2048
    quarters = [tensor(PSUM, bank // 4) for _ in range(6)]
    assert all(banks.take(tile) for tile in quarters) and banks.used() == 2
    banks.free(quarters[1])
    banks.free(quarters[2])
    half = tensor(PSUM, bank // 2)
    assert banks.take(half) and banks.used() == 2  # in place of the second and the third
    large, whole = tensor(PSUM, 5 * bank + 4), tensor(PSUM, bank)
    assert banks.take(large) and banks.used() == 8  # six banks: half of the second remains in use
    assert not banks.take(whole) and banks.take(tensor(PSUM, bank // 2))
    for tile in (half, quarters[0]):
        banks.free(tile)
    assert banks.used() == 8 and not banks.take(whole)  # others are still in that bank
    banks.free(large)
    assert banks.used() == 2 and banks.take(whole) and not banks.take(tensor(PSUM, 6 * bank))
    banks.free(tensor(PSUM, 4))  # it was never allocated
    assert banks.used() == 3


def sums(tiles, apart):
    """Write `tiles` sums in PSUM, one bank each, then copy them; without `apart`, each copy also needs the last sum."""
    weights = new((128, 128))
    nisa.memset(weights, 1.0)
    kept = [nl.ndarray((128, 512), nl.float32, nl.psum, name=f"sum{i}") for i in range(tiles)]
    for tile in kept:
        nisa.nc_matmul(tile[:, 0:128], weights, weights)
    term = weights[:, 0:1]
    if not apart:
        term = new((128, 1))
        nisa.tensor_copy(term, kept[-1][:, 0:1])
    for tile in kept:
        nisa.tensor_scalar(new((128, 128)), tile[:, 0:128], nl.add, term)


def test_sums_that_a_compiler_may_evict_one_by_one_need_no_bank_each():
    """nki-library's bwmm_shard_on_I computes twelve sums of one bank each before it reads the first."""
    run = simulator.run(sums, tiles=12, apart=True)
    assert run.memory.psum_banks <= 8
    assert simulator.run(sums, tiles=6, apart=True).latency_us < run.latency_us
    with pytest.raises(CapacityError, match="PSUM of trn2 is full: sum8"):
        execute(NeuronCore(find_target("trn2")), sums, (12, False), {})


def test_tiles_that_a_compiler_may_fill_one_by_one_need_no_room_each():
    """nki-library's bwmm_shard_on_block fills tiles long before it uses them. More than the capacity of SBUF is
    rejected."""

    def kernel(a, together):
        out = nl.ndarray((128, 1), nl.float32, nl.shared_hbm)
        kept = [nl.ndarray(a.shape, a.dtype, nl.sbuf, name=f"kept{i}") for i in range(20)]
        for tile in kept:
            nisa.dma_copy(tile, a)
        total = new((128, 1))
        nisa.memset(total, 0.0)
        for tile in kept:
            nisa.tensor_scalar(total, total, nl.add, tile[:, 0:1])
        for tile in kept if together else ():  # all are needed again after the last addition
            nisa.tensor_scalar(tile, tile, nl.add, total)
        nisa.dma_copy(out, total)
        return out

    # 10,800 bytes per partition: 20 tiles take 216,000 of 212,984 and 229,376
    a = simulator.TensorSpec((128, 2700), "float32")
    assert simulator.run(kernel, a, functional=False, together=False).memory.sbuf_bytes <= 2 * 10800
    larger = simulator.TensorSpec((128, 2900), "float32")  # 20 tiles take 232,000
    for spec, together in ((a, True), (larger, False)):
        with pytest.raises(CapacityError, match="SBUF of trn2 is full"):
            simulator.run(kernel, spec, functional=False, together=together)
