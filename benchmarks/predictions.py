"""Predict the measured kernels, and determine how they depend on the simulator's fitted constants."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from multiprocessing import Pool

from trninfer import simulator
from trninfer.benchmarks.error_statistics import percentage_error
from trninfer.benchmarks.measurements import Launch, Measurement, launch_of, load_all_kernel_rows
from trninfer.simulator.timing.constants import constants, override


@dataclass(frozen=True)
class Change:
    """A changed value of one constant of one target."""

    target: str
    name: str
    value: float


@dataclass(frozen=True)
class PredictedRow:
    """A measured kernel with its predicted time. `fitted` names the constants that were fitted to this row."""

    row: Measurement
    predicted_us: float
    fitted: tuple[str, ...]
    expected_error: float | None = None  # the relative error that the simulator itself expects
    kind: str = ""  # the kind of bound on which the estimate depends

    @property
    def error(self) -> float:
        """Return the error in percent of the measurement."""
        return percentage_error(self.predicted_us, self.row.latency_us)


def fitted_to(row: Measurement) -> tuple[str, ...]:
    """Return the constants of the row's device that depend on the row, regardless of their mark."""
    return tuple(
        name
        for name, constant in constants(row.device).items()
        if constant.mark != "scaled" and row.id in constant.rows
    )


def predict_all(rows: list[Measurement]) -> list[PredictedRow]:
    """Predict every row, using all processor cores."""
    found = _predict((row, None) for row in rows)
    return [PredictedRow(row, latency, fitted_to(row), error, kind) for row, (latency, error, kind) in zip(rows, found)]


def predict_latencies(tasks: Iterable[tuple[Measurement, Change | None]]) -> list[float]:
    """Return the microseconds of each row, using all processor cores. If a change is given, one constant is changed.

    Each task runs in a separate process, so that overridden constants and cached launches are not shared.
    """
    return [latency for latency, _, _ in _predict(tasks)]


def predict_as_written(rows: Iterable[Measurement]) -> dict[str, PredictedRow]:
    """Predict rows whose kernel follows the instructions of a profile from their source instead.

    Return the results, keyed by id.
    """
    found = {}
    for row in rows:
        launch = launch_of(row)
        if "as_compiled" in launch.parameters:
            run = _run(replace(launch, parameters={**launch.parameters, "as_compiled": False}))
            latency, error, kind = float(run.latency_us), run.latency_error, run.kind
            found[row.id] = PredictedRow(row, latency, fitted_to(row), error, kind)
    return found


def _predict(tasks: Iterable[tuple[Measurement, Change | None]]) -> list[tuple[float, float | None, str]]:
    given = [(row.id, change) for row, change in tasks]
    with Pool(maxtasksperchild=1) as pool:
        return pool.map(_latency, given, chunksize=1)


def _latency(task: tuple[str, Change | None]) -> tuple[float, float | None, str]:
    row_id, change = task
    row = next(row for row in load_all_kernel_rows() if row.id == row_id)
    if change is not None:
        override(change.target, change.name, change.value)
    run = run_of(row)
    return float(run.latency_us), run.latency_error, run.kind


def run_of(row: Measurement) -> simulator.Run:
    """Launch the kernel of a row as it was measured, in shape-only mode."""
    return _run(launch_of(row))


def _run(launch: Launch) -> simulator.Run:
    return simulator.run(
        launch.kernel,
        *launch.arguments,
        target=launch.target,
        dge=launch.dge,
        profiled=launch.profiled,
        functional=False,
        pure=True,
        **launch.parameters,
    )
