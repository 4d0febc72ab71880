"""Compare the chip with the simulator: every launch of a network runs on both, with the same operands.

The operands of each kernel are the values that the chip computed so far, so a difference is caused by the kernel of
that row. Floating-point outputs may differ by the tolerance of a network (tolerances.py), relative to their largest
magnitude (at least 1); integers must be equal.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...models.files import Model
from ...version import __version__
from ..backend import DEVICE_LABEL, DTYPES, ArraySpec, Backend, LaunchResult, split_arguments
from ..launch_options import LaunchOptions
from ..launches import config_of
from ..layer_launches import LayerStep, plan_layers
from ..session import DEFAULT_BATCH_SIZE, Result, Session
from ..tolerances import network_tolerance

PREDICTED_LABEL = "predicted"

# The columns of benchmarks/data/latency-kernels.csv, which contains the measurements used by trninfer.
MEASUREMENT_COLUMNS = (
    "id", "source", "kernel", "variant", "shapes", "dtype", "device", "metric", "latency_us", "mfu", "notes",
)  # fmt: skip
_SHORT_DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}  # names of the dtypes in this file


@dataclass(frozen=True)
class ComparedLaunch:
    """The comparison of one kernel at one shape.

    Times are in microseconds per launch; `error` is relative to the magnitude of the outputs.

    `measured_us` and its 99th percentile are host round trips, labelled by the measuring backend. `device_us` is the
    time on the device only, if known, and `device_by` names the tool that measured it.
    """

    name: str
    kernel: str
    shapes: tuple[tuple[int, ...], ...]
    dtype: str
    parameters: dict[str, Any]
    measured_us: float
    measured_us_p99: float | None
    device_us: float | None
    device_us_p99: float | None
    predicted_us: float
    error: float
    tolerance: float
    device_by: str | None = None

    @property
    def passed(self) -> bool:
        """True if the outputs agree."""
        return self.error <= self.tolerance

    @property
    def ratio(self) -> float | None:
        """The predicted time divided by the time on the device, or None if the time on the device is unknown."""
        return self.predicted_us / self.device_us if self.device_us else None


@dataclass(frozen=True)
class BackendComparison:
    """The chip's result, and a comparison of its launches with the simulator's: one row per kernel and set of
    shapes."""

    result: Result
    rows: tuple[ComparedLaunch, ...]
    target: str
    measured_label: str
    device_label: str = DEVICE_LABEL
    predicted_label: str = PREDICTED_LABEL

    @property
    def passed(self) -> bool:
        """True if all outputs agree."""
        return all(row.passed for row in self.rows)

    def to_csv(self) -> str:
        """Return the measurements as rows of the measurements file, with device times before host round trips."""
        text = io.StringIO()
        writer = csv.DictWriter(text, MEASUREMENT_COLUMNS, lineterminator="\n")
        writer.writeheader()
        number = 0
        for row in self.rows:
            by = f" by {row.device_by}" if row.device_by else ""
            times = [(self.device_label + by, row.device_us, row.device_us_p99)] if row.device_us is not None else []
            for label, median, tail in [*times, (self.measured_label, row.measured_us, row.measured_us_p99)]:
                number += 1
                writer.writerow(self._record(f"c{number:02d}", row, label, median, tail))
        return text.getvalue()

    def _record(
        self, identifier: str, row: ComparedLaunch, label: str, median: float, tail: float | None
    ) -> dict[str, str]:
        notes = f"predicted {row.predicted_us:.6g} us; relative error of the outputs {row.error:.3g}"
        return {
            "id": identifier,
            "source": f"trninfer {__version__} --compare-backends",
            "kernel": row.kernel,
            "variant": " ".join(f"{name}={value}" for name, value in row.parameters.items()),
            "shapes": " ".join(f"[{','.join(map(str, shape))}]" for shape in row.shapes),
            "dtype": _SHORT_DTYPES[row.dtype],
            "device": self.target,
            "metric": f"p50 ({label})",
            "latency_us": f"{median:.6g}",
            "mfu": "",
            "notes": notes + (f"; p99 {tail:.6g} us" if tail is not None else ""),
        }


class ComparingBackend:
    """Runs kernels on two backends and compares them. The results of the first backend are returned."""

    def __init__(self, measured: Backend, predicted: Backend, dtype: str) -> None:
        self.info = measured.info
        self._measured = measured
        self._predicted = predicted
        self._dtype = dtype
        self._tolerance = network_tolerance(dtype, measured=True)
        self.compared: list[ComparedLaunch] = []

    def launch(self, kernel: Any, *arrays: Any, **parameters: Any) -> LaunchResult:
        """Run a kernel on both backends and record the comparison; the caller fills in the names of the step and the
        kernel."""
        operands, others = split_arguments(kernel, arrays, parameters)
        measured = self._measured.launch(kernel, **operands, **others)
        host_arrays = {name: np.asarray(array) for name, array in operands.items()}
        predicted = self._predicted.launch(kernel, **host_arrays, **others)
        outputs = zip(map(np.asarray, measured.outputs), predicted.outputs, strict=True)
        errors = [relative_error(a, b) for a, b in outputs]
        is_exact = all(output.dtype.kind in "iu" for output in predicted.outputs)
        self.compared.append(
            ComparedLaunch(
                name="",
                kernel="",
                shapes=tuple(array.shape for array in operands.values()),
                dtype=self._dtype,
                parameters=others,
                measured_us=measured.time.latency_us,
                measured_us_p99=measured.time.latency_us_p99,
                device_us=measured.time.device_us,
                device_us_p99=measured.time.device_us_p99,
                predicted_us=predicted.time.latency_us,
                error=max(errors),
                tolerance=0.0 if is_exact else self._tolerance,
                device_by=measured.time.device_by,
            )
        )
        return measured

    def time(self, kernel: Any, *specs: ArraySpec, **parameters: Any) -> LaunchResult:
        """Time a kernel on the first backend."""
        return self._measured.time(kernel, *specs, **parameters)


def compare_backends(
    model: Model,
    x: np.ndarray,
    measured: Backend,
    predicted: Backend,
    dtype: str = "float32",
    batch_size: int = DEFAULT_BATCH_SIZE,
) -> BackendComparison:
    """Run inputs [N, *network.input.shape] on `measured` (the chip) and compare the results with `predicted` (the
    simulator).

    Launches with equal kernel, shapes and parameters share a row, which contains their largest error and the times
    reported by the backends.
    """
    both = ComparingBackend(measured, predicted, dtype)
    result = Session(model, both, dtype, batch_size, LaunchOptions("layer")).run(x)
    info = measured.info
    steps = plan_layers(model, DTYPES[dtype], config_of(dtype, info, LaunchOptions("layer")))
    return BackendComparison(result, _merge(both.compared, steps), info.target, info.latency_label)


def relative_error(actual: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference relative to the largest expected magnitude (at least 1).

    The result is infinite if the shapes differ, or if a value is not finite and differs from its counterpart.
    """
    if actual.shape != expected.shape:
        return float("inf")
    if expected.dtype.kind in "iu":
        return float(np.abs(actual.astype(np.int64) - expected.astype(np.int64)).max(initial=0))
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return float("inf")
    return float(np.abs(a[finite] - b[finite]).max(initial=0.0) / np.abs(b[finite]).max(initial=1.0))


def _merge(compared: Sequence[ComparedLaunch], steps: Sequence[LayerStep]) -> tuple[ComparedLaunch, ...]:
    rows: dict[tuple[Any, ...], ComparedLaunch] = {}
    for position, launch in enumerate(compared):
        step = steps[position % len(steps)]
        key = (step.name, launch.shapes)
        known = rows.get(key)
        if known is None:
            rows[key] = replace(launch, name=step.name, kernel=step.kernel)
        elif launch.error > known.error:
            rows[key] = replace(known, error=launch.error)
    return tuple(rows.values())
