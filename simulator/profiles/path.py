"""Engine times and critical path of a measured run, in the same form as predictions.

The path is traced back from the instruction that ended last. The candidates for the predecessor of an instruction are
the instructions for which it waited, according to the profile, and the previous instruction on the same engine; the
predecessor is the candidate that ended last. If there are no candidates, it is the instruction that ended last on any
engine. A step is the time of one instruction on its engine or the gap between two instructions. A gap of up to SHORT_NS
is attributed to `semaphore`; a longer gap is attributed to `dma` while packets moved, and otherwise to `waiting`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .measured import ENGINES, MeasuredInstruction, MeasuredRun

SHORT_NS = 100  # synchronisation between engines takes 26 to 53 ns (benchmarks/data/measured/hops.csv)
_WAITS = frozenset(("EVENT_SEMAPHORE", "EVENT_SEMAPHORE_WAIT", "SEMAPHORE_WAIT"))  # instructions that only wait


class EngineTime(NamedTuple):
    """The time during which an engine was executing instructions, the fraction of the run that this represents, and the
    number of instructions."""

    engine: str
    busy_us: float
    share: float
    instructions: int


class PathStep(NamedTuple):
    """A step of the critical path. Times are in nanoseconds from the start of the profile."""

    start_ns: int
    end_ns: int
    resource: str  # an engine, "semaphore", "dma", "waiting" or "launch"
    opcode: str
    line: str


def engines(run: MeasuredRun) -> list[EngineTime]:
    """Return the times of the engines that execute instructions, followed by one entry for all DMA engines together.

    Only instructions of the kernel are counted.
    """
    usage = []
    for engine in ENGINES:
        instructions = [i for i in run.instructions if i.engine == engine and i.ours and i.opcode not in _WAITS]
        busy = _length(_union((i.start_ns, i.end_ns) for i in instructions))
        usage.append(EngineTime(engine, busy / 1000, busy / max(run.total_ns, 1), len(instructions)))
    moving = _length(_union((p.start_ns, p.end_ns) for p in run.packets))
    return [*usage, EngineTime("dma", moving / 1000, moving / max(run.total_ns, 1), len(run.packets))]


def makers(run: MeasuredRun) -> dict[str, tuple[int, int]]:
    """Return the numbers of packets and bytes, keyed by the origin of their descriptors."""
    counts: dict[str, tuple[int, int]] = {}
    for packet in run.packets:
        count, size = counts.get(packet.maker, (0, 0))
        counts[packet.maker] = count + 1, size + packet.size
    return counts


def _previous(work: Sequence[MeasuredInstruction]) -> dict[int, MeasuredInstruction]:
    """Return the previous instruction on the same engine for each instruction that has one."""
    previous: dict[int, MeasuredInstruction] = {}
    latest: dict[str, MeasuredInstruction] = {}
    for i in work:
        if i.engine in latest:
            previous[i.id] = latest[i.engine]
        latest[i.engine] = i
    return previous


def critical_path(run: MeasuredRun) -> list[PathStep]:
    """Return the chain of instructions that determined the end of the run, from first to last.

    The steps cover the run without gaps.
    """
    work = [i for i in run.instructions if i.ours and i.opcode not in _WAITS]
    if not work:
        return [PathStep(0, run.total_ns, "launch", "", "")]
    moving = _union((p.start_ns, p.end_ns) for p in run.packets)
    by_id = {i.id: i for i in run.instructions}
    previous = _previous(work)
    by_end = sorted(work, key=lambda i: i.end_ns)
    ends = [i.end_ns for i in by_end]
    steps = [PathStep(by_end[-1].end_ns, run.total_ns, "launch", "", "")]
    current: MeasuredInstruction | None = by_end[-1]
    horizon = by_end[-1].end_ns
    while current is not None and horizon > 0:
        start = min(current.start_ns, horizon)
        steps.append(PathStep(start, horizon, current.engine, current.opcode, current.line))
        awaited = list(filter(None, map(by_id.get, current.after)))
        before = _before(start, awaited, previous.get(current.id), by_end, ends)
        if before is None:
            steps.append(PathStep(0, start, "launch", "", ""))
        else:
            end = min(before.end_ns, start)
            steps += reversed(_between(end, start, moving))
            horizon = end
        current = before
    return [step for step in reversed(steps) if step.end_ns > step.start_ns]


def _before(
    start: int,
    waited_for: Sequence[MeasuredInstruction],
    previous: MeasuredInstruction | None,
    by_end: Sequence[MeasuredInstruction],
    ends: Sequence[int],
) -> MeasuredInstruction | None:
    """Return the last instruction that an instruction that started at `start` waited for.

    The result always started earlier, so that tracing the path terminates. `waited_for` contains the instructions whose
    results the instruction waited for, and `previous` is the preceding instruction on the same engine.
    """
    waited_for = [i for i in waited_for if i.start_ns < start and i.ours and i.opcode not in _WAITS]
    last = max(waited_for, key=lambda i: min(i.end_ns, start), default=None)
    if previous is not None and previous.start_ns < start:
        # A result that arrived just before the start is preferred as the cause, even if the engine was still busy.
        if last is not None and (last.end_ns >= previous.end_ns or start - SHORT_NS <= last.end_ns <= start):
            return last
        if last is not None or previous.end_ns >= start:
            return previous
    if last is not None:
        return last
    ended = reversed(by_end[: bisect_right(ends, start)])
    return next((i for i in ended if i.start_ns < start), None)


def _between(start: int, end: int, moving: Sequence[tuple[int, int]]) -> list[PathStep]:
    """Return the steps from the end of one instruction to the start of the next."""
    if end - start <= SHORT_NS:
        return [PathStep(start, end, "semaphore", "", "")]
    steps, at = [], start
    for first, last in moving[max(0, bisect_right(moving, (start, start)) - 1) :]:
        if first >= end:
            break
        first, last = max(first, at), min(last, end)
        if last > first:
            steps += [PathStep(at, first, "waiting", "", ""), PathStep(first, last, "dma", "", "")]
            at = last
    return [*steps, PathStep(at, end, "waiting", "", "")]


def _union(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge spans that overlap or are adjacent, and return them in order."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _length(spans: Iterable[tuple[int, int]]) -> int:
    return sum(end - start for start, end in spans)
