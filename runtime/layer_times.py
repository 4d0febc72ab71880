"""Determine the time of each layer from the schedule of the single launch that runs all layers.

Each instruction belongs to the layer of its operation (lowering/emission/owners.py). Only instructions that keep the
Tensor Engine warm (kernels/tiling/warm_up.py) belong to the launch. A layer's time is the time of its instructions on
the critical path. The rows therefore add up exactly to the time of the launch, in whole picoseconds. Work that is not
on the critical path adds no time. The rates of a layer's operations and bytes refer to the time during which its own
instructions ran, possibly concurrently with instructions of other layers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from .. import simulator
from ..lowering.emission.owners import name_of, owners_of
from ..simulator.machine.instruction import Instruction
from ..simulator.running.run import Parts
from ..simulator.timing.critical_path import RESOURCES, critical_times
from ..simulator.timing.program_timing import array_flops, peak_flops
from .backend import LaunchTime

LAUNCH = ""  # owner of instructions that do not belong to any layer
_WARM_UP = "warm_up"


class _Share:
    """The instructions of one layer, over all passes."""

    def __init__(self) -> None:
        self.flops = self.matmul_flops = self.hardware_flops = self.hbm_bytes = 0
        self.ran: list[tuple[float, float]] = []


def layer_times(run: simulator.Run, parts: Parts) -> tuple[LaunchTime, dict[str, LaunchTime]]:
    """Return the time of a launch that is not attributed to any layer, and the time of each layer, keyed by name."""
    names = [name for name, _, _ in parts.spans]
    shares = {name: _Share() for name in (LAUNCH, *names)}
    owners = [names[owner] if owner >= 0 else LAUNCH for owner in parts.owners]
    for owner, instruction, (start, end) in zip(owners, run.program, _spans(run)):
        share = shares[owner]
        share.flops += instruction.flops
        share.hbm_bytes += instruction.hbm_bytes
        if instruction.engine.name == "tensor":
            share.matmul_flops += instruction.flops
            share.hardware_flops += array_flops(instruction, run.prediction.target)
        share.ran.append((start, end))
    spent = critical_times(run.critical_path, lambda step: owners[step.position])
    work = sum(sum(times.values()) for times in spent.values())
    spent.setdefault(LAUNCH, {})["launch"] = round(1e6 * run.latency_us) - work
    peak = peak_flops(run.prediction.target) * run.prediction.cores
    times = {name: _time(share, spent.get(name, {}), peak, run.launch_us) for name, share in shares.items()}
    launch = times.pop(LAUNCH)
    return replace(launch, sbuf_peak_bytes=run.memory.sbuf_bytes), times


def layer_parts(run: simulator.Run, layers: Sequence[str]) -> Parts:
    """Return the parts of a run (each layer in each pass, in order) and, for each instruction, the index of its part
    (-1 if it does not belong to a part). `layers` contains the layers of the program's operations."""
    times: list[float] = []
    names: list[str] = []
    owners: list[int] = []
    for program, schedule in zip(run.prediction.programs, run.prediction.schedules):
        parts_of_core, numbers = _parts_of(program, layers)
        names += parts_of_core[len(names) :]
        times += [0.0] * (len(names) - len(times))
        for instruction, number, time in zip(program, numbers, schedule.done):
            if number >= 0 and name_of(instruction) is not None:
                times[number] = max(time, times[number])
        owners += numbers
    spans, before = [], 0.0
    for number, name in enumerate(names):
        after = run.prediction.makespan if number == len(names) - 1 else max(before, times[number])
        spans.append((name, before, after))
        before = after
    return Parts(tuple(spans), tuple(owners))


def _passes_and_layers(program: Sequence[Instruction], layers: Sequence[str]) -> list[tuple[int, str] | None]:
    """Return the pass and the layer to which each instruction belongs, or None if it does not belong to a layer."""
    return [
        None if owner is None or _warms_up(instruction) else (owner.pass_number, layers[owner.operation])
        for instruction, owner in zip(program, owners_of(program))
    ]


def _parts_of(program: Sequence[Instruction], layers: Sequence[str]) -> tuple[list[str], list[int]]:
    """Return the layer of each part of one core's program and, for each instruction, the index of its part."""
    parts: list[tuple[int, str]] = []
    numbers: list[int] = []
    for layer in _passes_and_layers(program, layers):
        if layer is not None and (not parts or parts[-1] != layer):
            parts.append(layer)
        numbers.append(-1 if layer is None else len(parts) - 1)
    return [layer for _, layer in parts], numbers


def _warms_up(instruction: Instruction) -> bool:
    """True if an instruction warms up the Tensor Engine."""
    accesses = (*instruction.writes, *instruction.reads)
    return name_of(instruction) is None and any(access.allocation.identity[0] == _WARM_UP for access in accesses)


def _spans(run: simulator.Run) -> Iterable[tuple[float, float]]:
    """Return the interval in which each instruction of the program was active, from the end of its last wait to its
    result."""
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
    """Return the time covered by any of the spans."""
    total = end = 0.0
    for start, stop in sorted(spans):
        if stop > end:
            total += stop - max(start, end)
            end = stop
    return total
