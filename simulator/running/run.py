"""The result of a simulated launch: its outputs, and the predicted time with a breakdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from ..checking.sanitizer import SanitizerFinding
from ..machine.errors import require
from ..machine.instruction import COLLECTIVES, Instruction
from ..timing import trace
from ..timing.by_line import LineTime, line_times
from ..timing.capacity import Memory
from ..timing.constants import scaled_note
from ..timing.critical_path import RESOURCES, Step, critical_times
from ..timing.expected_error import kind_of, weakest_error
from ..timing.full_psum import FullPsum
from ..timing.memory_use import REGIONS, MemoryUse, memory_use
from ..timing.program_timing import EngineUse, Event, ProgramTiming, peak_flops
from ..timing.reuse import Reuse
from ..timing.schedule import QUEUES

BUSY_SHARE = 0.5  # minimum utilization for an engine to count as the kernel's bound, for expected errors


class Parts(NamedTuple):
    """The layers of a launch, for traces: the (name, start_ns, end_ns) of each layer in order, and the layer of each
    instruction."""

    spans: tuple[tuple[str, float, float], ...]
    owners: tuple[int, ...]


class Critical(NamedTuple):
    """The time on the critical path including the launch, in microseconds.

    `by_resource` contains the time of each resource (timing/critical_path.py), and `by_line` the time of each resource
    for each kernel line (file, number). In each mapping, the times add up to the latency.
    """

    by_resource: dict[str, float]
    by_line: dict[tuple[str, int], dict[str, float]]


_COLLECTIVES = "collectives are assumed to take no time, because no measurement within a kernel has been published"
TWO_CORES_NOTE = "the time for two cores to synchronise is scaled, because no measurement has been published"


class Run:
    """The result of one launch. Times are predictions. If `note` is not None, show it wherever they are shown
    (trn3)."""

    def __init__(
        self,
        prediction: ProgramTiming,
        outputs: tuple[Any, ...],
        name: str,
        profiled: bool,
        findings: Sequence[SanitizerFinding] = (),
    ) -> None:
        self.prediction = prediction
        self.outputs = outputs
        self.name = name
        self.profiled = profiled
        self.findings = list(findings)  # findings of the sanitizer, if it was enabled
        self.parts: Parts | None = None  # set by callers that know the layers
        self.target = prediction.target.name
        notes = [scaled_note(self.target), TWO_CORES_NOTE if prediction.cores == 2 else None]
        if any(instruction.op in COLLECTIVES for instruction in prediction.program):
            notes.append(_COLLECTIVES)
        self.note = "; ".join(note for note in notes if note) or None

    @property
    def program(self) -> list[Instruction]:
        """Return the instructions in the order in which the kernel issued them."""
        return self.prediction.program

    @property
    def launch_us(self) -> float:
        """Return the launch overhead in microseconds, as counted in a benchmark or in a profile's total_time."""
        constants = self.prediction.machine
        profiled = constants.launch_before_ns + constants.launch_after_ns
        return (profiled if self.profiled else constants.launch_ns) / 1000

    @property
    def latency_us(self) -> float:
        """Return the predicted device time including the launch, in microseconds, rounded to whole picoseconds."""
        return round(self.launch_us + self.prediction.makespan / 1000, 6)

    @property
    def timeline(self) -> tuple[Event, ...]:
        """Return one event for each instruction, sorted by start time."""
        return self.prediction.timeline

    @property
    def engines(self) -> dict[str, EngineUse]:
        """Return the busy time and utilization of each resource.

        The resources are tensor, vector, scalar, gpsimd, dma (the time in which any data moves, like a profile's
        dma_active_time), dma_issue (the triggers) and dma_engines (the busiest of the 16 DMA engines).
        """
        return self.prediction.engines

    @property
    def memory(self) -> Memory:
        """Return the peak use of SBUF in bytes per partition and of PSUM in banks, when run in program order."""
        return self.prediction.memory

    def memory_use(self, region: str = "sbuf") -> MemoryUse:
        """Return the usage of "sbuf" or "psum" over time on the core that finishes last, and the tiles that are live at
        the peak."""
        require(region in REGIONS, f"memory_use: region must be one of {', '.join(REGIONS)}, got {region!r}")
        prediction = self.prediction
        last = max(range(prediction.cores), key=lambda core: prediction.schedules[core].makespan)
        program, schedule = prediction.programs[last], prediction.schedules[last]
        renames = prediction.machine.tile_renaming > 0
        return memory_use(program, schedule, prediction.target, region, renames)

    @property
    def flops(self) -> int:
        """Return the number of requested operations: 2 per multiply-accumulate and 1 per elementwise operation."""
        return self.prediction.flops

    @property
    def hbm_bytes(self) -> int:
        """Return the number of bytes read from and written to HBM."""
        return self.prediction.hbm_bytes

    @property
    def mfu(self) -> float:
        """Return the model FLOPs utilization as defined by AWS's profiler (profile-schema-reference.rst).

        It is the number of matmul operations divided by the number of operations that the PE array could perform in the
        total time at its 16-bit peak of 2 * 128 * 128 * clock. The same peak is used for float32.
        """
        return min(self.prediction.matmul_flops, self.hardware_flops) / (self._peak * self.latency_us)

    @property
    def hardware_flops(self) -> int:
        """Return the number of operations of the PE array for matmuls and transposes.

        It is limited to the 16-bit peak of the array (pairs of 8-bit rows count once).
        """
        return self.prediction.hardware_flops

    @property
    def hfu(self) -> float:
        """Return the hardware FLOPs utilization: `hardware_flops` relative to the peak, as in `mfu`."""
        return self.hardware_flops / (self._peak * self.latency_us)

    @property
    def _peak(self) -> float:
        """Return the 16-bit peak of the PE arrays of all cores, in FLOP per microsecond."""
        return peak_flops(self.prediction.target) * 1000 * self.prediction.cores

    @property
    def mbu(self) -> float:
        """Return the HBM bytes relative to the bytes that the core's HBM stack could transfer in the total time."""
        return self.hbm_bytes / (self.prediction.machine.hbm_stack_rate * 1000 * self.latency_us)

    @property
    def critical_path(self) -> tuple[Step, ...]:
        """Return the steps of the critical path from the first trigger to the last result.

        The steps are contiguous, and each refers to an instruction and a resource (timing/critical_path.py).
        """
        return self.prediction.critical_path

    @cached_property
    def critical(self) -> Critical:
        """Return the time on the critical path for each resource and for each kernel line.

        The line of the launch is ("", 0).
        """
        lines = critical_times(self.critical_path, lambda step: step.line)
        launch = round(1e6 * self.latency_us) - sum(sum(spent.values()) for spent in lines.values())
        lines.setdefault(("", 0), {})["launch"] = launch
        total = {name: sum(spent.get(name, 0) for spent in lines.values()) for name in RESOURCES}
        return Critical(_microseconds(total), {line: _microseconds(spent) for line, spent in lines.items()})

    @cached_property
    def lines(self) -> tuple[LineTime, ...]:
        """Return the critical and busy time of each kernel line, sorted by decreasing critical time."""
        return line_times(self)

    @property
    def reuse(self) -> Reuse | None:
        """Return the tiles whose reuse costs the most time, and the predicted gain from a separate tile for each use.

        The result is None if reuse costs less than 3 % of the time, or if the program is too long to be scheduled again
        (timing/reuse.py).
        """
        return self.prediction.reuse

    @property
    def full_psum(self) -> FullPsum | None:
        """Return the small tiles that fill PSUM, and the predicted gain if they shared banks, or None if it is
        small."""
        return self.prediction.full_psum

    @property
    def advice(self) -> list[str]:
        """Return suggestions for making the kernel faster, each in one line."""
        suggestions = (self.reuse, self.full_psum)
        return [suggestion.describe(self.latency_us) for suggestion in suggestions if suggestion is not None]

    @property
    def bound_by(self) -> str:
        """Return the resource with the largest share of the critical path.

        It is one of launch, dma_issue, dma_latency, dma_bandwidth, tensor, vector, scalar, gpsimd, semaphore and
        other_core.
        """
        spent = self.critical.by_resource
        return max(spent, key=lambda name: spent[name], default="launch")

    def what_if(self, resource: str, times: float = 2.0) -> float:
        """Return the latency in microseconds if a resource were `times` as fast. The same instructions are rescheduled.

        Raise NkiValidationError for an unknown resource, or for a factor that is not positive.
        """
        require(resource in RESOURCES, f"what_if: resource must be one of {', '.join(RESOURCES)}, got {resource!r}")
        require(0 < times < float("inf"), f"what_if: times must be a positive number, got {times!r}")
        if resource == "launch":
            return round(self.latency_us - self.launch_us * (1 - 1 / times), 6)
        return round(self.launch_us + self.prediction.faster_makespan(resource, times) / 1000, 6)

    def _repr_html_(self) -> str:
        """Return HTML with the figures and the timeline, for notebooks."""
        from . import html

        return html.fragment(self)

    @property
    def latency_error(self) -> float | None:
        """Return the likely relative error of `latency_us`, within which two out of three measurements lie.

        The error is infinite if no kernel of the same kind was measured on the target. It is None if no kernel of any
        kind was measured on the target, or if timing constants were changed.
        """
        if self.prediction.changed:
            return None
        return weakest_error(self.target, self.kind, self.critical.by_resource)

    @property
    def kind(self) -> str:
        """Return the kind of resource that bounds the launch, one of the kinds in timing/expected_error.py.

        For most launches, this is the engine or the part of DMA (triggers or data) with the highest utilization.
        """
        issues = self.engines["dma_issue"].share >= self.engines["dma_engines"].share
        shares = {name: self.engines[name].share for name in QUEUES}
        shares["dma"] = max(shares["dma"], self.engines["dma_issue"].share)
        busiest = max(shares, key=lambda key: shares[key])
        bound = busiest if shares[busiest] >= BUSY_SHARE else "latency"
        return kind_of(bound, issues, self.launch_us, self.latency_us)

    def trace(self) -> dict[str, Any]:
        """Return the timeline as a Chrome trace (JSON-serialisable) for Perfetto."""
        parts = self.parts.spans if self.parts else ()
        return trace.chrome_trace([(self.name, self.launch_us, self.timeline, parts, self.critical_path)])

    def __repr__(self) -> str:
        return f"<Run of {self.name} on {self.target}: {len(self.program)} instructions>"


def _microseconds(spent: dict[str, int]) -> dict[str, float]:
    """Convert the time of each resource from picoseconds to microseconds.

    Zeros are omitted; the resources are in the order of RESOURCES.
    """
    return {name: spent[name] / 1e6 for name in RESOURCES if spent.get(name)}


def write_trace(path: str | Path, runs: Iterable[Run]) -> None:
    """Write the timelines of consecutive runs as a Chrome trace JSON file for Perfetto."""
    trace.write(
        Path(path),
        [
            (run.name, run.launch_us, run.timeline, run.parts.spans if run.parts else (), run.critical_path)
            for run in runs
        ],
    )
