"""Time that a DMA keeps each of the 16 engines busy.

An engine serves eight partitions of SBUF (DO: engine = partition // 8). It takes a fixed time for a descriptor and
moves its bytes at the peak rate; together the engines reach the rate that AWS documents as achieved (schedule.py).
"""

from __future__ import annotations

import math
from functools import lru_cache

from ..chip import PARTITIONS
from ..instruction import Transfer
from .constants import Machine

ENGINES = 16
LANES = PARTITIONS // ENGINES  # partitions that one engine serves


@lru_cache(maxsize=4096)
def engine_times(transfer: Transfer, machine: Machine) -> tuple[int, tuple[float, ...]]:
    """(first engine, nanoseconds of it and of each engine after it) of a DMA."""
    descriptors, partitions, row = transfer.descriptors, transfer.partitions, transfer.row
    first, last = row // LANES, (row + max(partitions, 1) - 1) // LANES
    single = transfer.dge and not transfer.software
    each = element_time(transfer.bytes / descriptors, machine, single, transfer.narrow)
    if transfer.span and single:  # each engine finds another at its channel so often
        each *= 1 + (last - first) / machine.hbm_channels
    if transfer.software and not transfer.load and descriptors > partitions:  # pieces that cannot be gathered
        each += machine.swdge_element_ns
    if transfer.transpose:
        each /= machine.dma_transpose_hbm if transfer.hbm else machine.dma_transpose_sbuf
    last_write = machine.semaphore_ns
    if partitions == 0:  # neither side is on chip: the engines share the work
        return 0, (descriptors * each / ENGINES + last_write,) * ENGINES
    a_partition = descriptors / partitions * each
    return first, tuple(
        [
            a_partition * (min(row + partitions, (e + 1) * LANES) - max(row, e * LANES)) + last_write
            for e in range(first, last + 1)
        ]
    )


def channel_time(transfer: Transfer, machine: Machine) -> float:
    """Nanoseconds that HBM takes at least for a load of short elements, which its channels serve one after the other.

    Neighbouring bytes lie in one channel: a column of 128 numbers is read by all engines from a single one.
    """
    if not transfer.span or transfer.software or not transfer.dge:
        return 0.0
    channels = min(machine.hbm_channels, math.ceil(transfer.span / machine.hbm_interleave))
    return transfer.descriptors * machine.small_element_ns / channels


def element_time(size: float, machine: Machine, single: bool, narrow: bool = False) -> float:
    """Nanoseconds that an element of `size` bytes takes on its engine.

    The hardware makes a descriptor for each (`single`); prepared descriptors and GpSimd's gather short ones in packets.
    """
    m = machine
    if single:
        time = size / m.dma_peak + m.descriptor_ns
        if size < m.partial_write:
            time = max(time, m.small_element_ns)
    else:
        taken = max(size, m.least_element)
        time = taken / m.dma_peak + m.descriptor_ns * min(1.0, taken / m.packet)
    return max(time, m.partial_write_ns) if narrow else time
