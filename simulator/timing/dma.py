"""Compute how long a DMA occupies each of the 16 DMA engines.

An engine serves eight partitions of SBUF (DO: engine = partition // 8). Each descriptor takes a fixed time, and its
bytes then move at the peak rate. The total throughput of all engines is limited to the rate that AWS documents as
achievable (schedule.py).
"""

from __future__ import annotations

import math
from functools import lru_cache

from ..machine.chip import PARTITIONS
from ..machine.instruction import Transfer
from .constants import Machine
from .scheduled import PIPE, Phases

ENGINES = 16
LANES = PARTITIONS // ENGINES  # partitions that one engine serves


@lru_cache(maxsize=4096)
def engine_times(transfer: Transfer, machine: Machine) -> tuple[int, tuple[float, ...]]:
    """Return the first engine that a DMA occupies, and the busy nanoseconds of this engine and each subsequent
    engine."""
    descriptors, partitions, row = transfer.descriptors, transfer.partitions, transfer.row
    first, last = row // LANES, (row + max(partitions, 1) - 1) // LANES
    single = transfer.dge and (not transfer.software or _scattered(transfer))
    element_ns = element_time(transfer.bytes / descriptors, machine, single, transfer.narrow)
    short = transfer.bytes < machine.partial_write * descriptors
    if short and transfer.span and single:  # the engines compete for HBM channels
        element_ns *= 1 + (last - first) / machine.hbm_channels
    if transfer.software and not transfer.load and descriptors > partitions:  # several elements per partition
        element_ns += machine.swdge_element_ns if transfer.bytes < machine.swdge_gathered * descriptors else 0.0
    if transfer.transpose:
        element_ns /= machine.dma_transpose_hbm if transfer.hbm else machine.dma_transpose_sbuf
    last_write = machine.semaphore_ns
    if partitions == 0:  # from HBM to HBM; the engines share the transfer equally
        return 0, (descriptors * element_ns / ENGINES + last_write,) * ENGINES
    a_partition = descriptors / partitions * element_ns
    return first, tuple(
        [
            a_partition * (min(row + partitions, (e + 1) * LANES) - max(row, e * LANES)) + last_write
            for e in range(first, last + 1)
        ]
    )


def trigger(transfer: Transfer, machine: Machine, engines: int, start: float) -> tuple[float, float, float, float]:
    """Return the times of a DMA that is triggered at `start`, in nanoseconds.

    They are the time at which its first descriptor is ready, the time per additional descriptor, the skew between its
    `engines`, and the latency from a descriptor to the first byte.
    """
    m, lead = machine, 0.0
    if transfer.software:
        address = m.address_load_ns + m.address_ns if transfer.dynamic else 0.0
        ready, rate, skew = start + address + m.swdge_ns, m.swdge_descriptor_ns, m.ring_software_ns
        lead = 0.0 if transfer.dynamic else m.swdge_lead_ns  # the lead applies only if no address is read from memory
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
    """Return the phases of a DMA that GpSimd triggers at `start` and that GpSimd's dedicated DMA engines execute.

    Such a DMA is not queued on the 16 shared DMA engines.
    """
    ready, rate, _, latency = trigger(transfer, machine, 0, start)
    first_byte = ready + rate * transfer.descriptors + latency
    duration = transfer.bytes / machine.gpsimd_dma_rate
    return Phases(
        first_byte=first_byte,
        latency=latency,
        skew=0.0,
        place=0,
        begins=[],
        pipe_begin=first_byte,
        last=first_byte + duration,
        bound=PIPE,
    )


def channel_time(transfer: Transfer, machine: Machine) -> float:
    """Return the minimum nanoseconds for a load of short elements, which each HBM channel serves sequentially.

    Adjacent bytes are in the same channel. For example, all engines read a column of 128 numbers from one channel.
    """
    if not transfer.span or not transfer.dge or (transfer.software and not _scattered(transfer)):
        return 0.0
    channels = min(machine.hbm_channels, math.ceil(transfer.span / machine.hbm_interleave))
    return transfer.descriptors * machine.small_element_ns / channels


def _scattered(transfer: Transfer) -> bool:
    """Return True if a load reads short elements that are not contiguous in HBM, or several elements per partition.

    As evidence, 81,920 elements of 2 bytes of a transposed tile took 13.3 ns each, although adjacent partitions read
    adjacent elements.
    """
    return transfer.span > 0 and (transfer.span > transfer.bytes or transfer.descriptors > transfer.partitions)


def element_time(size: float, machine: Machine, single: bool, narrow: bool = False) -> float:
    """Return the nanoseconds that an element of `size` bytes occupies its DMA engine.

    If `single` is True, every element has its own descriptor. This is true of descriptors that hardware generates, and
    of descriptors that GpSimd generates for elements that are short and scattered over HBM. Descriptors that are
    prepared in advance, and all other descriptors that GpSimd generates, combine elements into packets.
    """
    m = machine
    if single:
        time = max(size / m.dma_peak + m.descriptor_ns, m.small_element_ns)
    else:
        element_bytes = max(size, m.least_element)
        time = element_bytes / m.dma_peak + m.descriptor_ns * min(1.0, element_bytes / m.packet)
    return max(time, m.partial_write_ns) if narrow else time
