"""Compare single instructions in 57 hardware profiles (data/measured/) with the model's costs.

A row is compared if it contains the tenth percentile of at least FEWEST executions, which is the time of an undisturbed
instruction: the time until its result was visible (`duration`), or until the next instruction of the same kind started
(`interval`).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import nki.isa as nisa
import nki.language as nl
from trninfer.benchmarks.error_statistics import percentage_error
from trninfer.simulator.instructions.core import NeuronCore, running
from trninfer.simulator.machine.chip import find_target
from trninfer.simulator.machine.instruction import Cost
from trninfer.simulator.tensors.tensor import NkiTensor
from trninfer.simulator.timing.constants import machine
from trninfer.simulator.timing.dma import element_time

FILE = Path(__file__).resolve().parent / "data" / "measured" / "instruction-timings.csv"
FEWEST = 4
COLD = 1.6  # multiple of the interval at the full clock rate
DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "i32": "int32", "u32": "uint32"}
ENGINES = {"ACT": nisa.engine.scalar, "DVE": nisa.engine.vector}
DMA_ENGINES = 16
STRIDED = 36  # bytes between weights in matmuls of 14 columns: taps of 3x3 filters in two tiles (load_weights)
ALONE = 1.05  # a DMA element's interval is undisturbed if the median is at most this multiple of the tenth percentile

Row = dict[str, str]


@dataclass(frozen=True)
class MeasuredRow:
    """A measured row and the model's prediction, in nanoseconds. `remark` explains why there is no cost to compare."""

    name: str
    what: str  # "duration" or "interval"
    measured_ns: float
    predicted_ns: float | None
    remark: str = ""

    @property
    def error(self) -> float:
        """Return the error in percent of the measurement."""
        assert self.predicted_ns is not None
        return percentage_error(self.predicted_ns, self.measured_ns)


# Known reasons for the error of a row, keyed by a part of its name.
REMARKS = {
    "memset": "the profile records its end before its last element, regardless of the size",
    "PSUM 1 128>128": "a copy between parts of PSUM or from SBUF waits for something that the row does not contain",
    "fp32 fp32 PSUM SBUF 128 128>128@": "4-byte writes at a distance of 16 B or more end late, which is not modelled",
    "fp32 fp32 SBUF SBUF 128 128>128@": "4-byte writes at a distance of 16 B or more end late, which is not modelled",
    "PSUM SBUF 128 128>128@9": "the profiles contain two speeds, 313 and 559 ns; the model uses the slower one",
    "qDveTable": "waits for the table's other elements",
    "840 B": "stores of 420 2-byte elements of two rows, which take twice the time for an unknown reason",
    "SpillReload0  4 B": "the write of the semaphore, merged with the previous element",
}


def _known(name: str) -> str:
    return next((remark for part, remark in REMARKS.items() if part in name), "")


def _cold(row: Row, cost: Cost) -> bool:
    """True if even the fastest of the matmuls ran at half the clock rate, so that the row contains no information on
    the full rate."""
    return float(row["matmul_to_matmul_p10"]) > COLD * cost.interval and int(row["matmul_to_matmul_n"]) < 30


def compare_measured() -> list[MeasuredRow]:
    """Return every row of the file, once per quantity.

    If the model has no cost for a row, return it once with a remark.
    """
    with FILE.open(newline="", encoding="utf-8") as file:
        return [comparison for row in csv.DictReader(file) for comparison in _compared(row)]


def _compared(row: Row) -> Iterator[MeasuredRow]:
    name = " ".join(
        filter(None, (row[key] for key in ("engine", "opcode", "sub", "in_dtype", "out_dtype", "src", "dst")))
    )
    name = f"{name} {row['partitions']} {row['shape_in>out']}".strip()
    if row["engine"] == "DMA":
        yield from _element(row, name)
        return
    cost = _cost(row)
    if isinstance(cost, str):
        yield MeasuredRow(name, "", 0.0, None, cost)
        return
    interval = "matmul_to_matmul" if row["engine"] == "PE" else "same_interval"
    if int(row[f"{interval}_n"] or 0) >= FEWEST and not (row["engine"] == "PE" and _cold(row, cost)):
        yield MeasuredRow(name, "interval", float(row[f"{interval}_p10"]), cost.interval, _known(name))
    if int(row["n"]) >= FEWEST and cost.latency:
        yield MeasuredRow(name, "duration", float(row["dur_p10"]), cost.latency, _known(name))


def _element(row: Row, name: str) -> Iterator[MeasuredRow]:
    """Return the cost of a DMA element that follows another.

    If the name of its queue says so, hardware generates the descriptors; otherwise, they are prepared.
    """
    low, middle = row["same_interval_p10"], row["same_interval_p50"]
    size = re.search(r"(\d+) B", row["shape_in>out"])
    if not size or int(row["same_interval_n"] or 0) < FEWEST or float(middle) > ALONE * float(low):
        yield MeasuredRow(name, "", 0.0, None, "elements that waited for others, or one alone")
        return
    single = "DynamicHW" in row["opcode"] + row["sub"]
    m = machine("trn2")
    if int(size[1]) <= 4:
        predicted = m.semaphore_ns
    elif single:
        predicted = element_time(float(size[1]), m, single=True)
    else:  # a packet, regardless of the rows that it gathers
        predicted = int(size[1]) / m.dma_peak + m.descriptor_ns
    if "PoolDynamic" in row["opcode"] + row["sub"] and 4 < int(size[1]) < m.packet / DMA_ENGINES * 2:
        predicted = element_time(float(size[1]), m, single=False) + m.swdge_element_ns  # pieces of a store
    yield MeasuredRow(name, "interval", float(low), predicted, _known(name))


def _cost(row: Row) -> Cost | str:
    """Return the model's cost of the instruction of a row, or the reason why there is none."""
    build = _BUILDERS.get((row["engine"], row["opcode"]))
    if build is None:
        return "the sequencer's own, or an opcode whose meaning is not known"
    core = NeuronCore(find_target("trn2"), functional=False)
    with running(core):
        operation = build(row)
        if operation is not None:
            return operation
        return core.program[-1].cost


def _operands(row: Row) -> tuple[list[NkiTensor], NkiTensor]:
    """Return tiles with the shapes of a row: the inputs and the output."""
    inputs, _, output = row["shape_in>out"].partition(">")
    shapes = inputs.split(",")
    regions = row["src"].split(",") if row["src"] else []
    dtypes = row["in_dtype"].split(",")
    partitions = int(row["partitions"])
    tiles = []
    for position, shape in enumerate(shapes):
        region = regions[min(position, len(regions) - 1)] if regions else "SBUF"
        tiles.append(_tile(partitions, shape, dtypes[min(position, len(dtypes) - 1)], region))
    return tiles, _tile(partitions, output or inputs, row["out_dtype"] or row["in_dtype"], row["dst"])


def _tile(partitions: int, shape: str, dtype: str, region: str) -> NkiTensor:
    """Return a tile. `2@224x222` means 2 groups of 222 adjacent elements, which are 224 elements apart."""
    free = []
    for part in shape.split("x"):
        count, _, step = part.partition("@")
        free.append([int(step) if step else 1, int(count)])
    row = 1 + sum((count - 1) * step for step, count in free)
    base = nl.ndarray((partitions, row), DTYPES[dtype], nl.psum if region == "PSUM" else nl.sbuf)
    view: NkiTensor = base.ap(pattern=[[row, partitions], *free])
    return view


def _copy(row: Row) -> None:
    (src,), dst = _operands(row)
    nisa.tensor_copy(dst, src, engine=ENGINES[row["engine"]])


def _activation(row: Row) -> None:
    (src,), dst = _operands(row)
    function = row["sub"].split()[0]
    if function == "copy":  # a tensor_scalar on this engine; the flag marks a scale per partition
        column = nl.ndarray((int(row["partitions"]), 1), nl.float32, nl.sbuf)
        scale = column if "01010001" in row["sub"] else 0.5
        nisa.tensor_scalar(dst, src, nl.multiply, scale, engine=nisa.engine.scalar)
    else:
        nisa.activation(dst, getattr(nl, function), src)


def _tensor_scalar(row: Row) -> None:
    (src,), dst = _operands(row)
    column = nl.ndarray((int(row["partitions"]), 1), nl.float32, nl.sbuf)
    nisa.tensor_scalar(dst, src, nl.multiply, column, engine=nisa.engine.vector)


def _tensor_tensor(row: Row) -> None:
    (first, second), dst = _operands(row)
    nisa.tensor_tensor(dst, first, second, {"max": nl.maximum}.get(row["sub"]) or getattr(nl, row["sub"]))


def _memset(row: Row) -> None:
    nisa.memset(_tile(int(row["partitions"]), row["shape_in>out"], row["out_dtype"], row["dst"]), 0)


def _reciprocal(row: Row) -> None:
    (src,), dst = _operands(row)
    nisa.reciprocal(dst, src)


def _reduce(row: Row) -> Cost:
    (src,), _ = _operands(row)
    core = NeuronCore(find_target("trn2"), functional=False)
    return core.costs.reduce(src)


@cache
def _matmul_cost(columns: int, moving: int, dtype: str, transposes: bool, stride: int) -> Cost:
    core = NeuronCore(find_target("trn2"), functional=False)
    from trninfer.simulator.machine.dtypes import lookup

    dtype_info = lookup(DTYPES[dtype])
    if transposes:
        return core.costs.transpose(moving, columns, dtype_info, stride)
    return core.costs.matmul(columns, moving, dtype_info, stride)


def _matmul(row: Row) -> Cost:
    """Return the cost of one matmul instruction (float32 requires two), from the end of the weight load to the
    result."""
    flags, _, columns = row["sub"].split()
    transposes = flags.endswith("1")
    moving = int(row["elements_in"])
    stride = STRIDED if moving == 14 else 2
    cost = _matmul_cost(int(columns.removeprefix("cols")), moving, row["in_dtype"], transposes, stride)
    if row["in_dtype"] == "fp32" and not transposes:
        return Cost(cost.interval / 2, 0.0)
    return Cost(cost.interval, 0.0)


def _table_load(_: Row) -> Cost:
    return Cost(0.0, machine("trn2").table_load_ns)


def _value_load(_: Row) -> Cost:
    return Cost(0.0, machine("trn2").address_load_ns)


_BUILDERS: dict[tuple[str, str], Callable[[Row], Cost | None]] = {
    ("ACT", "act_table_load"): _table_load,
    ("ACT", "activation"): _activation,
    ("ACT", "cast"): _copy,
    ("ACT", "copy"): _copy,
    ("DVE", "cast"): _copy,
    ("DVE", "copy"): _copy,
    ("DVE", "memset"): _memset,
    ("DVE", "reciprocal"): _reciprocal,
    ("DVE", "tensor_reduce"): _reduce,
    ("DVE", "tensor_scalar"): _tensor_scalar,
    ("DVE", "tensor_tensor"): _tensor_tensor,
    ("PE", "matmul"): _matmul,
    ("POOL", "op_aa"): _value_load,
}
