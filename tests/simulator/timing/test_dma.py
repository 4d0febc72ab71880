"""The time that DMAs keep their engines busy, on a machine with round numbers."""

from dataclasses import dataclass

import pytest
from made_by_hand import another_machine
from trninfer.simulator.machine.instruction import Transfer
from trninfer.simulator.timing.dma import channel_time, element_time, engine_times

M = another_machine(
    dma_peak=10,
    descriptor_ns=5,
    semaphore_ns=1,
    partial_write=64,
    small_element_ns=100,
    least_element=32,
    packet=4096,
    partial_write_ns=45,
    hbm_channels=8,
    hbm_interleave=1000,
    swdge_element_ns=7,
    swdge_gathered=1001,
    dma_transpose_hbm=0.5,
    dma_transpose_sbuf=0.25,
)


@dataclass
class Case:
    """A transfer, the first engine that it uses, and the busy time of each."""

    transfer: Transfer
    first: int
    times: tuple[float, ...]


def moved(descriptors: int, partitions: int, size: int = 1000, **more: object) -> Transfer:
    """Return a load of the given number of pieces of `size` bytes with prepared descriptors: 100 ns for the bytes of
    each."""
    fields = {"load": True, "dge": False, **more}
    return Transfer(size * descriptors, descriptors, partitions, **fields)  # type: ignore[arg-type]


HARD = 105.0  # nanoseconds for 1000 bytes of a hardware-generated descriptor


@pytest.mark.parametrize(
    ("size", "single", "narrow", "time"),
    [
        (1000, True, False, 105),
        (64, True, False, 100),  # the minimum for an element
        (63, True, False, 100),
        (63, True, True, 100),
        (8192, False, False, 819.2 + 5),  # longer than a packet, with a separate descriptor
        (4096, False, False, 409.6 + 5),
        (2048, False, False, 204.8 + 2.5),  # two share a descriptor
        (32, False, False, 3.2 + 5 / 128),
        (4, False, False, 3.2 + 5 / 128),  # takes as long as 32 bytes
        (4, False, True, 45),
        (1000, True, True, 105),
    ],
)
def test_an_element_takes_its_bytes_and_its_descriptor(size: float, single: bool, narrow: bool, time: float) -> None:
    assert element_time(size, M, single, narrow) == pytest.approx(time)


@pytest.mark.parametrize(
    "case",
    [
        Case(moved(128, 128, dge=True), 0, (8 * HARD + 1,) * 16),
        Case(moved(1, 1, dge=True), 0, (HARD + 1,)),
        Case(moved(1, 1, dge=True, row=127), 15, (HARD + 1,)),
        Case(moved(8, 8, dge=True, row=8), 1, (8 * HARD + 1,)),
        Case(moved(8, 8, dge=True, row=4), 0, (4 * HARD + 1,) * 2),  # half of it on each of two engines
        Case(moved(9, 9, dge=True, row=7), 0, (HARD + 1, 8 * HARD + 1)),
        Case(moved(36, 9, dge=True, row=7), 0, (4 * HARD + 1, 32 * HARD + 1)),  # four descriptors per partition
        Case(moved(32, 0, dge=True), 0, (2 * HARD + 1,) * 16),  # from HBM to HBM, shared by all engines
    ],
)
def test_an_engine_moves_what_its_eight_partitions_have(case: Case) -> None:
    first, times = engine_times(case.transfer, M)
    assert (first, times) == (case.first, pytest.approx(case.times))


def of_one_engine(transfer: Transfer) -> float:
    """Return the nanoseconds of one descriptor of a DMA to one partition."""
    _, (time,) = engine_times(transfer, M)
    return (time - 1) / transfer.descriptors


def test_pieces_of_a_store_that_gpsimd_cannot_gather_cost_extra() -> None:
    plain = of_one_engine(moved(4, 1, load=False))
    long = of_one_engine(moved(4, 1, size=1001, load=False))
    assert of_one_engine(moved(4, 1, size=1001, load=False, software=True)) == pytest.approx(long)
    assert of_one_engine(moved(4, 1, load=False, software=True)) == pytest.approx(plain + 7)
    assert of_one_engine(moved(1, 1, load=False, software=True)) == pytest.approx(plain)  # a row is one piece
    assert of_one_engine(moved(4, 1, software=True)) == pytest.approx(plain)


def test_gpsimds_descriptors_gather_as_prepared_ones_do() -> None:
    assert of_one_engine(moved(1, 1, dge=True, software=True)) == of_one_engine(moved(1, 1)) < HARD


def test_short_elements_scattered_over_hbm_cost_gpsimd_what_they_cost_the_hardware() -> None:
    """GpSimd gathers elements that are adjacent in HBM."""
    of_hardware = moved(64, 64, size=4, dge=True, span=500)
    of_gpsimd = of_hardware._replace(software=True)
    assert engine_times(of_gpsimd, M) == engine_times(of_hardware, M)
    neighbours = of_gpsimd._replace(span=256)
    assert engine_times(neighbours, M)[1] < engine_times(of_gpsimd, M)[1]


def test_a_transpose_runs_at_a_share_of_the_rate() -> None:
    assert of_one_engine(moved(1, 1, dge=True, transpose=True, hbm=True)) == pytest.approx(2 * HARD)
    assert of_one_engine(moved(1, 1, dge=True, transpose=True, hbm=False)) == pytest.approx(4 * HARD)


def test_engines_share_channels_for_short_elements() -> None:
    """Each additional engine uses the same channel once every `channels` times."""
    _, spread = engine_times(moved(24, 24, size=60, dge=True, span=4), M)
    assert spread == pytest.approx([8 * 100 * (1 + 2 / 8) + 1] * 3)
    for more in ({"size": 60}, {"size": 64, "dge": True}):  # prepared descriptors, and longer elements
        assert engine_times(moved(24, 24, span=4, **more), M) == engine_times(moved(24, 24, **more), M)


@pytest.mark.parametrize(
    ("span", "more", "time"),
    [
        (0, {}, 0),
        (500, {}, 6400),  # 64 of 100 ns, from one channel
        (1000, {}, 6400),
        (1001, {}, 3200),
        (8000, {}, 800),
        (90_000, {}, 800),  # there are eight channels
        (500, {"software": True}, 6400),  # 256 bytes of 500 are read
        (256, {"software": True}, 0),
        (500, {"dge": False}, 0),
    ],
)
def test_short_elements_are_read_channel_by_channel(span: int, more: dict[str, bool], time: float) -> None:
    assert channel_time(moved(64, 64, size=4, **{"dge": True, "span": span, **more}), M) == time
