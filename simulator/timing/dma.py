"""Time that a DMA keeps each of the 16 engines busy.

An engine serves eight partitions of SBUF (DO: engine = partition // 8). Each descriptor costs a fixed time, then its
bytes move at the peak rate; together the engines are limited to the rate that AWS documents as achieved (schedule.py).
"""

from __future__ import annotations

import math
from functools import lru_cache

from ..machine.chip import PARTITIONS
from ..machine.instruction import Transfer
from .constants import Machine
from .scheduled import DESCRIPTORS, Phases

ENGINES = 16
LANES = PARTITIONS // ENGINES  # partitions that one engine serves


@lru_cache(maxsize=4096)
def engine_times(transfer: Transfer, machine: Machine) -> tuple[int, tuple[float, ...]]:
    """Return (first engine, busy nanoseconds of it and of each further engine) of a DMA."""
    descriptors, partitions, row = transfer.descriptors, transfer.partitions, transfer.row
    first, last = row // LANES, (row + max(partitions, 1) - 1) // LANES
    single = transfer.dge and (not transfer.software or _scattered(transfer))
    each = element_time(transfer.bytes / descriptors, machine, single, transfer.narrow)
    short = transfer.bytes < machine.partial_write * descriptors
    if short and transfer.span and single:  # number of engines that compete for a channel
        each *= 1 + (last - first) / machine.hbm_channels
    if transfer.software and not transfer.load and descriptors > partitions:  # number of pieces of a partition's row
        each += machine.swdge_element_ns if transfer.bytes < machine.swdge_gathered * descriptors else 0.0
    if transfer.transpose:
        each /= machine.dma_transpose_hbm if transfer.hbm else machine.dma_transpose_sbuf
    last_write = machine.semaphore_ns
    if partitions == 0:  # HBM to HBM: the engines share the work
        return 0, (descriptors * each / ENGINES + last_write,) * ENGINES
    a_partition = descriptors / partitions * each
    return first, tuple(
        [
            a_partition * (min(row + partitions, (e + 1) * LANES) - max(row, e * LANES)) + last_write
            for e in range(first, last + 1)
        ]
    )


def trigger(transfer: Transfer, machine: Machine, engines: int, start: float) -> tuple[float, float, float, float]:
    """Return the times of a DMA triggered at `start`, in nanoseconds: when its first descriptor is ready, the time per
    further descriptor, the skew between its `engines`, and from a descriptor to the first byte."""
    m, lead = machine, 0.0
    if transfer.software:
        address = m.address_load_ns + m.address_ns if transfer.dynamic else 0.0
        ready, rate, skew = start + address + m.swdge_ns, m.swdge_descriptor_ns, m.ring_software_ns
        lead = 0.0 if transfer.dynamic else m.swdge_lead_ns  # only if no address is read from memory
    elif transfer.dge:
        ready, rate, skew = start + m.dge_ns + m.dge_ring_ns * engines, m.dge_descriptor_ns, m.ring_hardware_ns
    else:
        ready, rate, skew = start + m.trigger_ns, 0.0, m.ring_static_ns
    if transfer.dge:
        latency = lead + (m.load_first_byte_ns if transfer.load else m.store_first_byte_ns)
    else:  # relative to the start of the trigger
        latency = (m.load_first_byte_static_ns if transfer.load else m.store_first_byte_static_ns) - m.trigger_ns
    return ready, rate, skew, latency


def phases_beside(transfer: Transfer, machine: Machine, start: float) -> Phases:
    """Return the phases of a DMA that GpSimd triggers at `start` and that its own DMA engines move, without queueing on
    the 16 others."""
    ready, rate, _, latency = trigger(transfer, machine, 0, start)
    first_byte = ready + rate * transfer.descriptors + latency
    moved = transfer.bytes / machine.gpsimd_dma_rate
    return Phases(
        first_byte=first_byte,
        latency=latency + moved,
        skew=0.0,
        place=0,
        begins=[],
        pipe_begin=first_byte,
        last=first_byte + moved,
        bound=DESCRIPTORS,
    )


def channel_time(transfer: Transfer, machine: Machine) -> float:
    """Return the minimum nanoseconds of a load of short elements, which each HBM channel serves one after the other.

    Neighbouring bytes are in one channel: all engines read a column of 128 numbers from the same one.
    """
    if not transfer.span or not transfer.dge or (transfer.software and not _scattered(transfer)):
        return 0.0
    channels = min(machine.hbm_channels, math.ceil(transfer.span / machine.hbm_interleave))
    return transfer.descriptors * machine.small_element_ns / channels


def _scattered(transfer: Transfer) -> bool:
    """True if a load reads short elements that are not adjacent in HBM, or several per partition.

    81,920 elements of 2 bytes of a transposed tile took 13.3 ns each, although neighbouring partitions read adjacent
    elements.
    """
    return transfer.span > 0 and (transfer.span > transfer.bytes or transfer.descriptors > transfer.partitions)


def element_time(size: float, machine: Machine, single: bool, narrow: bool = False) -> float:
    """Return the nanoseconds of an element of `size` bytes on its engine.

    Hardware generates a descriptor per element (`single`), and so does GpSimd for elements that are short and scattered
    over HBM; prepared descriptors and GpSimd's others gather elements in packets.
    """
    m = machine
    if single:
        time = max(size / m.dma_peak + m.descriptor_ns, m.small_element_ns)
    else:
        taken = max(size, m.least_element)
        time = taken / m.dma_peak + m.descriptor_ns * min(1.0, taken / m.packet)
    return max(time, m.partial_write_ns) if narrow else time
