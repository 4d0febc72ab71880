"""How long a DMA keeps each of the 16 engines, and on trn1 each channel of HBM, busy.

An engine serves eight partitions of SBUF (DO: engine = partition // 8). It takes a fixed time for a descriptor and
moves its bytes at the peak rate; together the engines reach the rate that AWS documents as achieved (schedule.py).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..instruction import Transfer
from ..targets import PARTITIONS
from .constants import Machine

ENGINES = 16
LANES = PARTITIONS // ENGINES  # partitions that one engine serves
RUNS_LOOKED_AT = 4096  # of a DMA's rows in HBM, to see which channels they meet

Pattern = tuple[int, tuple[int, ...], tuple[int, ...], int]  # byte offset, shape, strides in elements, bytes an element


def engine_times(transfer: Transfer, machine: Machine) -> tuple[int, tuple[float, ...]]:
    """(first engine, nanoseconds of it and of each engine after it) of a DMA."""
    return _engine_times(
        transfer.bytes,
        transfer.descriptors,
        transfer.partitions,
        transfer.row,
        transfer.transpose,
        bool(transfer.patterns),
        transfer.narrow,
        transfer.software,
        machine,
    )


@lru_cache(maxsize=4096)
def _engine_times(
    size: int,
    descriptors: int,
    partitions: int,
    row: int,
    transpose: bool,
    hbm: bool,
    narrow: bool,
    software: bool,
    machine: Machine,
) -> tuple[int, tuple[float, ...]]:
    each = descriptor_time(size / descriptors, machine, narrow, software)
    if transpose:
        each /= machine.dma_transpose_hbm if hbm else machine.dma_transpose_sbuf
    if partitions == 0:  # neither side is on chip: the engines share the work
        return 0, (descriptors * each / ENGINES,) * ENGINES
    a_partition = descriptors / partitions * each
    first, last = row // LANES, (row + partitions - 1) // LANES
    return first, tuple(
        [a_partition * (min(row + partitions, (e + 1) * LANES) - max(row, e * LANES)) for e in range(first, last + 1)]
    )


def descriptor_time(size: float, machine: Machine, narrow: bool = False, software: bool = False) -> float:
    """Nanoseconds that a descriptor of `size` bytes takes on its engine."""
    time = size / machine.dma_peak + (machine.descriptor_software_ns if software else machine.descriptor_ns)
    return max(time, machine.partial_write_ns) if narrow else time


def channel_times(transfer: Transfer, machine: Machine) -> tuple[float, ...]:
    """Nanoseconds of each pseudo-channel of HBM that a DMA takes; empty where the target spreads its addresses."""
    if not machine.hbm_channels:
        return ()
    period = int(machine.hbm_channels * machine.hbm_interleave)
    total = [0.0] * int(machine.hbm_channels)
    for offset, shape, strides, itemsize in transfer.patterns:
        times = _channel_times((offset % period, shape, strides, itemsize), machine)
        total = [a + b for a, b in zip(total, times)]
    return tuple(total)


@lru_cache(maxsize=4096)
def _channel_times(pattern: Pattern, machine: Machine) -> tuple[float, ...]:
    offset, shape, strides, itemsize = pattern
    run = itemsize
    outer: list[tuple[int, int]] = []
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent == 1:
            continue
        if stride * itemsize == run and not outer:
            run *= extent
        else:
            outer.append((extent, stride * itemsize))
    starts = np.array([offset], np.int64)
    looked_at = 1
    count = 1
    for extent, stride in outer:
        count *= extent
        if looked_at * extent <= RUNS_LOOKED_AT:
            looked_at *= extent
            starts = (starts[:, None] + np.arange(extent) * stride).reshape(-1)
    channels, interleave, least = int(machine.hbm_channels), int(machine.hbm_interleave), int(machine.hbm_access)
    whole, rest = divmod(run, interleave * channels)
    loads = np.full(channels, float(whole * interleave * len(starts)))
    if rest:
        # What of a run is left after whole turns over the channels: bytes to the end of the first channel, then others.
        position = starts.copy()
        left = np.full(len(starts), rest, np.int64)
        while left.any():
            step = np.minimum(left, interleave - position % interleave)
            moved = np.where(left > 0, np.maximum(step, least), 0)
            np.add.at(loads, position // interleave % channels, moved)
            position += step
            left -= step
    return tuple((loads * (count / looked_at) / machine.hbm_channel_rate).tolist())
