"""What each layer of a network took, from the timeline of the one launch that runs them all.

The kernel names what a layer gives "layer/<pass>/<layer>" (kernels/network.py). In program order, the instructions up
to the last that writes such a tensor are that layer's. A layer's time is from the moment the layer before was done to
the moment it was done: loads and matmuls that ran ahead of that take no time of their own, and the rows add up.
"""

from __future__ import annotations

from typing import Any

from .. import simulator
from ..kernels.tiling.packing import PARTITIONS
from ..simulator.run import Parts
from .backend import LaunchTime

BOUND_SHARE = 0.5  # of a layer's time, from which an engine bounds it
_PREFIX = "layer/"


class _Share:
    """The instructions of one layer, over all passes."""

    def __init__(self) -> None:
        self.latency = 0.0
        self.flops = self.matmul_flops = self.hbm_bytes = 0
        self.busy: dict[str, float] = {}


def layer_times(run: simulator.Run) -> tuple[LaunchTime, ...]:
    """A time for each layer that the kernel names, in their order; nothing for other kernels."""
    parts = layer_parts(run)
    if parts is None:
        return ()
    shares: dict[str, _Share] = {}
    for name, start, end in parts.spans:
        shares.setdefault(name, _Share()).latency += end - start
    for index, owner in enumerate(parts.owners):
        _count(shares[parts.spans[owner][0]], run, index)
    return tuple(_time(run, share) for share in shares.values())


def layer_parts(run: simulator.Run) -> Parts | None:
    """When each layer was at work in each pass, and which instructions are its own; None for other kernels."""
    schedule, program = run.prediction.schedule, run.program
    owners = [_layer_of(instruction) for instruction in program]
    named = [index for index, owner in enumerate(owners) if owner]
    if not named:
        return None
    ends = [index for index, after in zip(named, [*named[1:], None]) if after is None or owners[after] != owners[index]]
    spans: list[tuple[str, float, float]] = []
    numbers: list[int] = []
    done, first = 0.0, 0
    for last in ends:
        finished = max(schedule.done[index] for index in range(first, last + 1) if owners[index] == owners[last])
        name = owners[last].partition("/")[2]
        if last == ends[-1]:
            last, finished = len(program) - 1, schedule.makespan
        finished = max(done, finished)
        numbers += [len(spans)] * (last + 1 - first)
        spans.append((name, done, finished))
        done, first = finished, last + 1
    return Parts(tuple(spans), tuple(numbers))


def _layer_of(instruction: Any) -> str:
    """ "<pass>/<layer>" where the instruction writes or stores what a layer gives, else nothing."""
    is_store = instruction.dma is not None and not instruction.dma.load
    for access in instruction.reads if is_store else instruction.writes:
        label: str = access.allocation.label
        if label.startswith(_PREFIX):
            return label[len(_PREFIX) :].rpartition(" sbuf[")[0]
    return ""


def _count(share: _Share, run: simulator.Run, index: int) -> None:
    instruction, schedule = run.program[index], run.prediction.schedule
    share.flops += instruction.flops
    share.hbm_bytes += instruction.hbm_bytes
    unit = instruction.engine.name
    if unit == "tensor":
        share.matmul_flops += instruction.flops
    busy = schedule.end[index] - schedule.start[index]
    if index in schedule.moving:
        unit = "dma"
        start, end = schedule.moving[index]
        busy = max(busy, end - start)
    share.busy[unit] = share.busy.get(unit, 0.0) + busy


def _time(run: simulator.Run, share: _Share) -> LaunchTime:
    unit = max(share.busy, key=lambda name: share.busy[name])
    bound = share.latency > 0 and share.busy[unit] >= BOUND_SHARE * share.latency
    peak = 2 * PARTITIONS**2 * run.prediction.target.tensor_ghz * share.latency  # as Run.mfu has it
    return LaunchTime(
        share.latency / 1000,
        flops=share.flops,
        hbm_bytes=share.hbm_bytes,
        bound_by=unit if bound else "latency",
        mfu=share.matmul_flops / peak if peak else 0.0,
    )
