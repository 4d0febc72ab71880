"""Compare a measured run with the prediction of the same kernel, instruction by instruction.

Instructions are matched in order, by engine and kind of operation. A float32 matmul consists of two instructions on the
chip, and weight loads have no counterpart in the simulator. The comparison covers durations, measured from the start of
an instruction until its result can be read, and the delay between a result and the GpSimd DMA that stores it. If the
medians of a kind differ, the value of the timing constant that would make them equal is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from ..timing.constants import machine
from .measured import MeasuredInstruction, MeasuredRun

if TYPE_CHECKING:
    from ..running.run import Run

# Kinds of operations: the prefixes of the chip's opcodes, and the instructions of nki.isa.
_KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "matmul": (("MATMUL", "MATMULT"), ("nc_matmul", "nc_matmul_mx")),
    "transpose": (("TRANSPOSE",), ("nc_transpose",)),
    "two tensors": (("TENSOR_TENSOR",), ("tensor_tensor", "scalar_tensor_tensor")),
    "tensor and scalar": (("TENSOR_SCALAR",), ("tensor_scalar",)),
    "reduction": (("TENSOR_REDUCE",), ("tensor_reduce",)),
    "reciprocal": (("RECIPROCAL",), ("reciprocal",)),
    "copy": (("COPY", "TENSOR_COPY", "CAST"), ("tensor_copy",)),
    "function": (("ACTIVATE", "ACTIVATION"), ("activation", "activation_reduce")),
    "memset": (("MEMSET",), ("memset",)),
}
# The timing constant that determines the duration of each kind of operation on an engine.
_CONSTANTS = {
    ("tensor", ""): "matmul_fill_ns",
    ("vector", "memset"): "memset_fill_cycles",
    ("vector", ""): "vector_fill_cycles",
    ("scalar", "copy"): "scalar_copy_psum_fill_cycles",
    ("scalar", "function"): "scalar_fill_cycles",
    ("gpsimd", ""): "gpsimd_fill_cycles",
}
SAME = 0.05  # relative difference that is ignored


class Difference(NamedTuple):
    """The measured and predicted counts and median durations of a kind of operation on an engine.

    `explains` contains the `constant=value` that would make the medians equal, or "" if they are equal or no constant
    explains the difference.
    """

    engine: str
    kind: str
    measured: int
    predicted: int
    measured_ns: float
    predicted_ns: float
    explains: str

    @property
    def error(self) -> float:
        """Return the error of the prediction in percent of the measured median."""
        return 100 * (self.predicted_ns / self.measured_ns - 1) if self.measured_ns else 0.0


def compare(measured: MeasuredRun, predicted: Run) -> list[Difference]:
    """Return the differences by engine and kind of operation, sorted by decreasing total error."""
    theirs: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for instruction in measured.instructions:
        kind = kind_of(instruction)
        if kind:
            theirs.setdefault((instruction.engine, kind), []).append((instruction.start_ns, instruction.end_ns))
    ours: dict[tuple[str, str], list[float]] = {}
    for event in predicted.timeline:
        kind = next((name for name, (_, ops) in _KINDS.items() if event.op in ops), "")
        if kind:
            ours.setdefault((event.engine, kind), []).append(event.done_ns - event.start_ns)
    differences = [
        _difference(engine, kind, theirs.get((engine, kind), []), ours.get((engine, kind), []), predicted)
        for engine, kind in sorted({*theirs, *ours})
    ]
    return [*sorted(differences, key=_total, reverse=True), *_software_dmas(measured, predicted)]


def _software_dmas(measured: MeasuredRun, predicted: Run) -> list[Difference]:
    """Return the difference in the delay between a result and the GpSimd DMA that waits for it.

    The list is empty if the profile or the program contains no such DMA.
    """
    ends = {i.id: i.end_ns for i in measured.instructions if kind_of(i)}
    waited = []
    for instruction in measured.instructions:
        producer_ends = [ends[producer] for producer in instruction.after if producer in ends]
        if producer_ends and instruction.engine == "gpsimd" and instruction.opcode.startswith("DMA"):
            waited.append(instruction.start_ns - max(producer_ends))
    stores = [i.dma for i in predicted.program if i.dma is not None and i.dma.software and not i.dma.load]
    if not waited or not stores:
        return []
    m, time = machine(predicted.target), median(waited)
    ours = m.hop_gpsimd_ns + m.swdge_lead_ns + m.swdge_ns
    lead = m.swdge_lead_ns + time - ours
    return [
        Difference(
            engine="gpsimd",
            kind="DMA after its data",
            measured=len(waited),
            predicted=len(stores),
            measured_ns=time,
            predicted_ns=ours,
            explains=f"swdge_lead_ns={lead:.0f}" if abs(time - ours) > SAME * time and lead >= 0 else "",
        )
    ]


def kind_of(instruction: MeasuredInstruction) -> str:
    """Return the kind of operation of a measured instruction, or "" if it is not compared."""
    if not instruction.ours:
        return ""
    return next((name for name, (codes, _) in _KINDS.items() if instruction.opcode.upper().startswith(codes)), "")


def _total(difference: Difference) -> float:
    """Return the total error, in nanoseconds, of one kind of operation."""
    nanoseconds = abs(difference.predicted_ns - difference.measured_ns)
    return nanoseconds * min(difference.measured, difference.predicted) if difference.predicted else 0.0


def _difference(
    engine: str, kind: str, theirs: Sequence[tuple[int, int]], ours: Sequence[float], run: Run
) -> Difference:
    durations = [end - start for start, end in theirs]
    # A float32 matmul consists of two consecutive instructions.
    if kind == "matmul" and len(theirs) == 2 * len(ours):
        durations = [second[1] - first[0] for first, second in zip(theirs[::2], theirs[1::2])]
    measured = median(durations) if durations else 0.0
    predicted = median(ours) if ours else 0.0
    explains = ""
    if theirs and ours and abs(predicted - measured) > SAME * measured:
        explains = _explained(engine, kind, measured - predicted, run)
    return Difference(
        engine=engine,
        kind=kind,
        measured=len(theirs),
        predicted=len(ours),
        measured_ns=measured,
        predicted_ns=predicted,
        explains=explains,
    )


def _explained(engine: str, kind: str, more_ns: float, run: Run) -> str:
    """Return the `constant=value` that would add `more_ns` to the duration of a kind, in the format of `--set`."""
    name = _CONSTANTS.get((engine, kind)) or _CONSTANTS.get((engine, ""))
    if name is None:
        return ""
    target = run.prediction.target
    clock = {"vector": target.vector_ghz, "scalar": target.scalar_ghz, "gpsimd": target.scalar_ghz}.get(engine, 1.0)
    value = getattr(machine(run.target), name) + more_ns * (clock if name.endswith("_cycles") else 1.0)
    return f"{name}={value:.0f}" if value >= 0 else ""
