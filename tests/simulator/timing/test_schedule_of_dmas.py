"""When hand-written DMAs are triggered, start and end, depending on the source of their descriptors and their
bottleneck."""

import pytest
from made_by_hand import Listing, part, tensor
from trninfer import simulator
from trninfer.simulator.machine.instruction import Transfer
from trninfer.simulator.machine.memory import MemoryRegion
from trninfer.simulator.timing.constants import machine
from trninfer.simulator.timing.dma import engine_times
from trninfer.simulator.timing.schedule import schedule

TRN2, M = simulator.TARGETS["trn2"], machine("trn2")


def moved(transfer):
    """Return the schedule of a single DMA."""
    program, place = Listing(), tensor(row_bytes=4096) if transfer.load else tensor(MemoryRegion.shared_hbm, 4096)
    program.add("dma", (part(place),), dma=transfer)
    return schedule(program, TRN2)


# source of descriptors: time until the end of a trigger, and from there to the first byte of a load and of a store
ISSUES = {
    "prepared": (
        M.trigger_ns,
        M.load_first_byte_static_ns - M.trigger_ns,
        M.store_first_byte_static_ns - M.trigger_ns,
    ),
    "hardware": (M.dge_ns + M.dge_ring_ns + M.dge_descriptor_ns, M.load_first_byte_ns, M.store_first_byte_ns),
    "software": (
        M.swdge_ns + M.swdge_descriptor_ns,
        M.swdge_lead_ns + M.load_first_byte_ns,
        M.swdge_lead_ns + M.store_first_byte_ns,
    ),
}


@pytest.mark.parametrize("load", [True, False])
@pytest.mark.parametrize("maker", ISSUES)
def test_a_dma_is_triggered_moves_and_lands(maker, load):
    """4 KiB to one partition: the time of one engine."""
    transfer = Transfer(4096, 1, 1, load=load, dge=maker != "prepared", software=maker == "software")
    times, (_, (engine,)) = moved(transfer), engine_times(transfer, M)
    issue, *latencies = ISSUES[maker]
    first_byte = issue + latencies[not load]
    landing = M.load_landing_ns if load else M.store_landing_ns
    assert times.end == pytest.approx([issue])
    assert times.moving[0] == pytest.approx((first_byte, first_byte + engine + landing))
    assert times.done == pytest.approx([first_byte + engine + landing])
    assert times.dma_active == pytest.approx(engine + landing) and sum(times.dma_busy) == pytest.approx(engine)


def test_the_engines_together_move_no_more_than_is_documented():
    """16 MiB over all partitions, whose engines could be faster; two such DMAs run one after the other."""
    large = Transfer(1 << 24, 128 * 32, 128, load=True, dge=False)
    first_byte = M.load_first_byte_static_ns
    assert moved(large).done == pytest.approx([first_byte + (1 << 24) / M.dma_sustained + M.load_landing_ns])
    program = Listing()
    for _ in range(2):
        program.add("dma", (part(tensor(row_bytes=4096)),), dma=large)
    both = schedule(program, TRN2)
    assert both.done[1] - both.done[0] == pytest.approx((1 << 24) / M.dma_sustained)
    assert both.start[1] == pytest.approx(M.trigger_ns)
