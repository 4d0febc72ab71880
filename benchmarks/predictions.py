"""Predictions of the measured kernels from their published sources, and their dependence on fitted constants.

The sources are read from checkouts, `FOLDER/OWNER/REPOSITORY`; FOLDER is TRNINFER_SOURCES, by default `sources`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from multiprocessing import Pool
from pathlib import Path
from typing import Any

from trninfer import simulator
from trninfer.benchmarks.error_statistics import percentage_error
from trninfer.benchmarks.measurements import Measurement
from trninfer.runtime.measure.published import find_row, load_published, run_published
from trninfer.simulator.timing.constants import constants, override

SOURCES_VARIABLE = "TRNINFER_SOURCES"


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
    """Return the constants of the row's device that depend on the row, whether or not they are marked as fitted."""
    return tuple(
        name
        for name, constant in constants(row.device).items()
        if constant.mark != "scaled" and row.id in constant.rows
    )


def predict_all(rows: list[Measurement]) -> list[PredictedRow]:
    """Predict every row, using all processor cores."""
    predictions = _predict((row, None) for row in rows)
    return [
        PredictedRow(row, latency, fitted_to(row), error, kind)
        for row, (latency, error, kind) in zip(rows, predictions)
    ]


def predict_latencies(tasks: Iterable[tuple[Measurement, Change | None]]) -> list[float]:
    """Return the microseconds of each row, using all processor cores. If a change is given, one constant is changed.

    Each task runs in a separate process, so that overridden constants and cached launches are not shared.
    """
    return [latency for latency, _, _ in _predict(tasks)]


def _predict(tasks: Iterable[tuple[Measurement, Change | None]]) -> list[tuple[float, float | None, str]]:
    arguments = [(row.id, change) for row, change in tasks]
    for row_id, _ in arguments:
        _kernel(row_id)  # migrated once: processes are forked from this one
    with Pool(maxtasksperchild=1) as pool:
        return pool.map(_latency, arguments, chunksize=1)


def _latency(task: tuple[str, Change | None]) -> tuple[float, float | None, str]:
    row_id, change = task
    if change is not None:
        override(change.target, change.name, change.value)
    run = run_of(row_id)
    return float(run.latency_us), run.latency_error, run.kind


def run_of(row_id: str) -> simulator.Run:
    """Launch the kernel of a table row with its measured configuration, in shape-only mode."""
    return run_published(find_row(row_id), _kernel(row_id), pure=True)


@cache
def _kernel(row_id: str) -> Any:
    return load_published(find_row(row_id), sources_folder())


def sources_folder() -> Path:
    """Return the folder of the checkouts of published sources."""
    return Path(os.environ.get(SOURCES_VARIABLE, "sources"))
