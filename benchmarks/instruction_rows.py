"""Predict the measured instructions from timelines of kernels that run them back to back."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from trninfer import simulator
from trninfer.benchmarks.error_statistics import percentage_error
from trninfer.benchmarks.kernels import instructions
from trninfer.benchmarks.kernels.transpose import matrix_transpose
from trninfer.benchmarks.measurements import Measurement
from trninfer.kernels import vector_add_stream
from trninfer.simulator import TensorSpec
from trninfer.simulator.timing.program_timing import Event

REPEATS = 12  # repetitions of an instruction; the first are not in steady state
MATMULS = 160  # enough for the Tensor Engine's clock to warm up
DMA_ENGINES = 16


@dataclass(frozen=True)
class InstructionPrediction:
    """A measured instruction and its predicted microseconds (None, with a reason, if they cannot be compared).

    `remark` may also explain why a prediction must differ.
    """

    row: Measurement
    predicted_us: float | None
    remark: str = ""

    @property
    def error(self) -> float:
        """Return the error in percent of the measurement. It is defined only if there is a prediction."""
        assert self.predicted_us is not None
        return percentage_error(self.predicted_us, self.row.latency_us)


def predict_instructions(rows: Sequence[Measurement]) -> list[InstructionPrediction]:
    """Predict every row."""
    predictions = []
    for row in rows:
        kernel = ROWS[row.id]
        if isinstance(kernel, str):
            predictions.append(InstructionPrediction(row, None, kernel))
        else:
            predictions.append(InstructionPrediction(row, kernel() / 1000, REMARKS.get(row.id, "")))
    return predictions


def _events(
    op: str,
    kernel: Any,
    *arguments: TensorSpec,
    target: str = "trn2",
    dge: bool = True,
    profiled: bool = False,
    **parameters: Any,
) -> list[Event]:
    """Return the events of one kind of instruction, ordered by start."""
    run = simulator.run(
        kernel, *arguments, target=target, dge=dge, profiled=profiled, functional=False, pure=True, **parameters
    )
    return sorted((event for event in run.timeline if event.op == op), key=lambda event: event.start_ns)


def _spec(dtype: str, *shape: int) -> TensorSpec:
    return TensorSpec(shape, dtype)


def _intervals(events: Sequence[Event]) -> list[float]:
    return [after.start_ns - before.start_ns for before, after in pairwise(events)]


def _interval(events: Sequence[Event]) -> float:
    """Return the interval between equal instructions in the later half.

    Earlier instructions are not in steady state.
    """
    intervals = _intervals(events)
    return statistics.median(intervals[len(intervals) // 2 :])


def _duration(events: Sequence[Event]) -> float:
    """Return the time from the start of an instruction until its result can be read, which is the length of a bar in a
    profile."""
    return statistics.median(event.done_ns - event.start_ns for event in events[len(events) // 2 :])


def _span(transfers: Sequence[Event]) -> float:
    """Return the time from the first to the last byte of DMAs, as the packets in a profile show it."""
    return max(event.end_ns for event in transfers) - min(event.start_ns for event in transfers)


def _matmuls(columns: int, dtype: str, stride: int = 1) -> list[Event]:
    return _events(
        "nc_matmul", instructions.matmuls, _spec(dtype, 128, 128, stride), _spec(dtype, 128, columns), count=MATMULS
    )


def _warm(columns: int, dtype: str, stride: int = 1) -> Callable[[], float]:
    """Return the issue interval of a matmul instruction at full clock.

    A float32 matmul consists of two instructions.
    """
    share = 2 if dtype == "float32" else 1
    return lambda: _interval(_matmuls(columns, dtype, stride)) / share


def _cold(columns: int, dtype: str) -> Callable[[], float]:
    return lambda: _intervals(_matmuls(columns, dtype))[0]


def _copies(unit: str, columns: int, source: str, target: str, from_psum: bool) -> list[Event]:
    events = _events(
        "tensor_copy",
        instructions.copies,
        _spec(source, 128, columns),
        unit=unit,
        from_psum=from_psum,
        dtype=target,
        count=REPEATS,
    )
    return events[-REPEATS:]


def _copy(
    measure: Callable[[Sequence[Event]], float],
    unit: str,
    columns: int,
    source: str,
    target: str,
    from_psum: bool = True,
) -> Callable[[], float]:
    return lambda: measure(_copies(unit, columns, source, target, from_psum))


def _addition(columns: int, dtype: str, column: bool) -> Callable[[], float]:
    other = _spec(dtype, 128, 1 if column else columns)
    return lambda: _duration(
        _events("tensor_tensor", instructions.additions, _spec(dtype, 128, columns), other, count=REPEATS)
    )


def _maximum(columns: int, dtype: str, halves: bool) -> Callable[[], float]:
    return lambda: _duration(
        _events("tensor_reduce", instructions.maxima, _spec(dtype, 128, columns), halves=halves, count=REPEATS)
    )


def _transposes(dtype: str) -> list[Event]:
    """Transpose the taps of 3x3 filters in SBUF as in the measured kernel, with columns that are nine elements
    apart."""
    return _events("nc_transpose", instructions.transposes, _spec(dtype, 128, 128, 9), count=MATMULS)


def _dma_element(size: int, software: bool = False) -> Callable[[], float]:
    """Return the additional time of an element of `size` bytes on a DMA engine, computed from the difference of two
    loads."""
    few = 8

    def measure() -> float:
        spans = []
        for rows in (few, 2 * few):
            source = _spec("float32", 128, rows, size // 4 + 16)
            load = _events("dma_copy", instructions.load_elements, source, size=size // 4, software=software)[0]
            spans.append(load.end_ns - load.start_ns)
        return (spans[1] - spans[0]) / (few * 128 / DMA_ENGINES)

    return measure


def _stream(direction: str) -> list[Event]:
    """Return the loads or the store of a kernel that adds 256,000 numbers in one tile, without DGE."""
    vector = _spec("float32", 256_000)
    events = _events("dma_copy", vector_add_stream, vector, vector, free=2000, dge=False, profiled=True)
    return [event for event in events if event.load == (direction == "loads")]


def _between_triggers() -> float:
    loads = _events("dma_copy", instructions.independent_loads, _spec("float32", 128, 16), count=REPEATS)[:-1]
    return statistics.median(after.issued_ns - before.issued_ns for before, after in pairwise(loads))


def _dependent_activations() -> float:
    return _interval(
        _events("activation", instructions.squares_in_turn, _spec("float32", 128, 1), target="trn1", count=REPEATS)
    )


def _tile_loads() -> float:
    """Return the time from the first to the last load in the measured 1024x1024 transpose, without DGE."""
    events = _events("dma_copy", matrix_transpose, _spec("float32", 1024, 1024), dge=False, profiled=True)
    return _span([event for event in events if event.load])


_NO_WEIGHT_LOAD = "the model has one event for a matmul and its weight load; i10 and i13 show the weight load"
_INPUT = "a number that the model uses as an input"

# Maps each row id to its nanoseconds, or to the reason why it cannot be compared.
ROWS: dict[str, Callable[[], float] | str] = {
    "i01": _between_triggers,
    "i02": _dependent_activations,
    "i03": _INPUT,
    "i04": _warm(444, "float16"),
    "i05": _warm(420, "float16"),
    "i06": _cold(420, "float16"),
    "i07": _warm(512, "bfloat16"),
    "i08": _cold(512, "bfloat16"),
    "i09": _warm(128, "bfloat16"),
    "i10": _warm(14, "float16", stride=18),  # taps of 3x3 filters for two tiles of output channels
    "i11": _warm(420, "float32"),
    "i12": _warm(512, "float32"),
    "i13": _warm(14, "float32", stride=18),
    "i14": _warm(128, "float32"),
    "i15": lambda: _intervals(_transposes("float16"))[0],
    "i16": lambda: _interval(_transposes("float32")),
    "i17": _NO_WEIGHT_LOAD,
    "i18": _NO_WEIGHT_LOAD,
    "i19": _copy(_duration, "scalar", 444, "float32", "float16"),
    "i20": _copy(_interval, "scalar", 64, "uint32", "uint32"),
    "i21": _copy(_duration, "scalar", 128, "float32", "float32"),
    "i22": _copy(_duration, "scalar", 420, "float32", "float32"),
    "i23": _copy(_interval, "scalar", 444, "float16", "float16", from_psum=False),
    "i24": _copy(_interval, "scalar", 111, "float32", "float16"),
    "i25": _INPUT,
    "i26": _addition(1000, "float32", column=False),
    "i27": _addition(2000, "float32", column=False),
    "i28": _addition(444, "float16", column=True),
    "i29": _addition(420, "float32", column=True),
    "i30": _maximum(444, "float16", halves=True),
    "i31": _maximum(222, "float16", halves=False),
    "i32": _copy(_interval, "vector", 64, "uint32", "uint32"),
    "i33": _copy(_interval, "vector", 444, "float32", "float16", from_psum=False),
    "i34": _dma_element(4096),
    "i35": _dma_element(2048),
    "i36": _dma_element(512),
    "i37": _dma_element(256),
    "i38": _dma_element(4),
    "i39": _dma_element(256, software=True),
    "i40": lambda: _span(_stream("loads")),
    "i41": lambda: _span(_stream("store")),
    "i42": _tile_loads,
    "i43": _INPUT,
    "i44": _INPUT,
    "i45": _INPUT,
}

_SUSTAINED = "measured: time of an element in flight; predicted: interval between two at the sustained rate (BW)"
REMARKS = {
    "i34": _SUSTAINED,
    "i35": _SUSTAINED,
    "i38": "the measured elements are writes of semaphores; in the model, all engines read elements from HBM",
    "i40": "a profile includes the latency of the first packet; the model adds it before the first byte",
    "i42": "in the model, loads share the DMA engines with stores; measured loads (269 GB/s) leave little for stores",
}
