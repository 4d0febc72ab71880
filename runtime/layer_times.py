"""Time of each layer of a network, from the schedule of the one launch that runs them all.

The kernel names the output of a layer "layer/<pass>/<operation>.<number>/<layer>" (kernels/network.py). In program
order, the instructions up to the last that writes such a tensor are that layer's, but loads of weights that come early
are those of the layer that multiplies them; those that keep the Tensor Engine warm are the launch's
(kernels/tiling/warm_up.py). A layer's time is that of its instructions on the critical path, so that the rows add up to
the launch, in whole picoseconds exactly; what ran beside the critical path takes no time of its own. What a layer did,
in operations and bytes, it did while its own instructions ran: beside those of other layers, it may be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from .. import simulator
from ..simulator.running.run import Parts
from ..simulator.timing.critical_path import RESOURCES, critical_times
from ..simulator.timing.program_timing import array_flops, peak_flops
from .backend import LaunchTime

LAUNCH = ""  # the owner of what is no layer's
_PREFIX = "layer/"
_WARM_UP = "warm_up"
_EARLY = "early/"  # begins the names of weights that are loaded before the layer that multiplies them


class _Share:
    """The instructions of one layer, over all passes."""

    def __init__(self) -> None:
        self.flops = self.matmul_flops = self.hardware_flops = self.hbm_bytes = 0
        self.ran: list[tuple[float, float]] = []


def layer_times(run: simulator.Run) -> tuple[LaunchTime | None, dict[str, LaunchTime]]:
    """The time of the launch, and of each layer that the kernel names, by name; nothing for other kernels."""
    parts = layer_parts(run)
    if parts is None:
        return None, {}
    names = [name for name, _, _ in parts.spans]
    shares = {name: _Share() for name in (LAUNCH, *names)}
    owners = [names[owner] if owner >= 0 else LAUNCH for owner in parts.owners]
    for owner, instruction, (start, done) in zip(owners, run.program, _spans(run)):
        share = shares[owner]
        share.flops += instruction.flops
        share.hbm_bytes += instruction.hbm_bytes
        if instruction.engine.name == "tensor":
            share.matmul_flops += instruction.flops
            share.hardware_flops += array_flops(instruction, run.prediction.target)
        share.ran.append((start, done))
    spent = critical_times(run.critical_path, lambda step: owners[step.position])
    work = sum(sum(times.values()) for times in spent.values())
    spent.setdefault(LAUNCH, {})["launch"] = round(1e6 * run.latency_us) - work
    peak = peak_flops(run.prediction.target) * run.prediction.cores
    times = {name: _time(share, spent.get(name, {}), peak, run.launch_us) for name, share in shares.items()}
    launch = times.pop(LAUNCH)
    return replace(launch, sbuf_peak_bytes=run.memory.sbuf_bytes), times


def layer_parts(run: simulator.Run) -> Parts | None:
    """Return the parts of a run: each layer in each pass, one after the other, and the part of each instruction (-1:
    none). None for other kernels."""
    done: dict[int, float] = {}  # by block: a layer in a pass
    names: dict[int, str] = {}
    owners: list[int] = []
    for program, schedule in zip(run.prediction.programs, run.prediction.schedules):
        labels = [_label_of(instruction) for instruction in program]
        if program and not set(labels) - {"", _WARM_UP}:
            return None
        numbers = _with_readers(program, _numbered(labels))
        for label, number, time in zip(labels, numbers, schedule.done):
            if number >= 0 and label:
                done[number] = max(time, done.get(number, 0.0))
                names.setdefault(number, label.partition("/")[2])
        owners += numbers
    spans, before = [], 0.0
    for number in sorted(names):
        after = run.prediction.makespan if number == len(names) - 1 else max(before, done[number])
        spans.append((names[number], before, after))
        before = after
    return Parts(tuple(spans), tuple(owners))


def _numbered(labels: Sequence[str]) -> list[int]:
    """The block of each instruction: that of the next label, or of the last; -1 where it warms up the Tensor Engine."""
    numbers = [-1] * len(labels)
    block, current = 0, ""
    for index in range(len(labels) - 1, -1, -1):
        label = labels[index]
        if label == _WARM_UP:
            continue
        if label and label != current:
            block, current = block - 1, label
        numbers[index] = min(block, -1)
    return [-1 if label == _WARM_UP else number - block for label, number in zip(labels, numbers)]


def _with_readers(program: Sequence[Any], numbers: list[int]) -> list[int]:
    """Return the block of each instruction, that of a load of weights which came early being its first reader's."""
    loads: dict[Any, int] = {}
    for index, instruction in enumerate(program):
        for access in instruction.reads if loads else ():
            found = loads.pop(access.allocation, None)
            if found is not None:
                numbers[found] = numbers[index]
        if instruction.dma is not None:
            written = [access.allocation for access in instruction.writes]
            loads.update((each, index) for each in written if each.identity[0].startswith(_EARLY))
    return numbers


def _label_of(instruction: Any) -> str:
    """ "<pass>/<layer>" where the instruction writes or stores what a layer gives, _WARM_UP where it warms up the
    Tensor Engine, else nothing."""
    is_store = instruction.dma is not None and not instruction.dma.load
    for access in instruction.reads if is_store else instruction.writes:
        label: str = access.allocation.identity[0]
        if label.startswith(_PREFIX):
            number, _, layer = label[len(_PREFIX) :].split("/", 2)
            return f"{number}/{layer}"
    for access in (*instruction.writes, *instruction.reads):
        if access.allocation.identity[0] == _WARM_UP:
            return _WARM_UP
    return ""


def _spans(run: simulator.Run) -> Iterable[tuple[float, float]]:
    """From when to when each instruction of the program ran: from the end of what it waited for last, to its result."""
    return (span for s in run.prediction.schedules for span in zip(s.since, s.done))


def _time(share: _Share, spent: dict[str, int], peak: float, launch_us: float) -> LaunchTime:
    critical = {name: spent[name] / 1e6 for name in RESOURCES if spent.get(name)}
    active_us = _union(share.ran) / 1000 + (launch_us if "launch" in spent else 0.0)
    hfu = share.hardware_flops / (peak * 1000 * active_us) if active_us else 0.0
    useful = min(share.matmul_flops, share.hardware_flops)
    return LaunchTime(
        sum(spent.values()) / 1e6,
        flops=0 if "launch" in spent else share.flops,
        hbm_bytes=share.hbm_bytes,
        bound_by=max(critical, key=lambda name: critical[name]) if critical else None,
        mfu=0.0 if "launch" in spent or not useful else hfu * (useful / share.hardware_flops),
        hardware_flops=share.hardware_flops,
        hfu=hfu,
        active_us=active_us,
        critical=critical,
    )


def _union(spans: list[tuple[float, float]]) -> float:
    """The time in which any of the spans runs."""
    total = end = 0.0
    for start, done in sorted(spans):
        if done > end:
            total += done - max(start, end)
            end = done
    return total
