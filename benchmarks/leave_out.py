"""Errors of rows left out: what a prediction would be had the row, or its family, not been there to fit constants to.

Rows to which no constant was fitted are predicted without having been seen; their errors stand. For any other, all
constants fitted to what is left out are fitted anew, jointly, to all other rows of the device, by least squares of the
relative errors; the predictions are taken as linear in the constants. Constants that are whole numbers are not moved by
a slope but chosen among whole numbers. A constant that the other rows do not determine is taken from the other device
where it was found independently, and is else left out of the model: a time is zero, a rate has no limit, a share is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
from numpy.typing import NDArray
from trninfer.benchmarks.error_statistics import percentage_error
from trninfer.benchmarks.predictions import Change, PredictedRow, predict_latencies
from trninfer.simulator.timing.constants import Constant, constants

STEP = 0.05  # relative change of a constant for the slopes: large beside rounding, small beside any constant
# A constant is determined by rows whose latencies together move by this share of its relative change: their own errors
# are about 5 %, so it is known to some 20 %.
DETERMINED = 0.25
UNLIMITED = 1e3  # times a rate, where the model is to do without it
WHOLE = ("B", "DMAs", "instructions", "")  # units of whole numbers: fitted anew among half, the same and double
OTHER_DEVICE = {"trn1": "trn2", "trn2": "trn1"}

Floats = NDArray[np.float64]


def leave_one_out(predictions: Sequence[PredictedRow], studies: dict[str, Study] | None = None) -> list[float]:
    """The error of each row, in percent, with that row left out."""
    return leave_out(predictions, lambda prediction: prediction.row.id, studies)


def leave_out(
    predictions: Sequence[PredictedRow],
    group: Callable[[PredictedRow], Hashable],
    studies: dict[str, Study] | None = None,
) -> list[float]:
    """The error of each row, in percent, with all rows of its group and device left out.

    `studies` keeps what was found of the same predictions, by device, from one call to the next.
    """
    studies = {} if studies is None else studies
    errors = [prediction.error for prediction in predictions]
    for device in sorted({prediction.row.device for prediction in predictions}):
        places = [i for i, prediction in enumerate(predictions) if prediction.row.device == device]
        rows = [predictions[i] for i in places]
        study = studies.setdefault(device, Study(device, rows))
        for members in _groups(rows, group):
            names = sorted({name for i in members for name in rows[i].fitted})
            if names:
                for i, latency in zip(members, study.without(members, names)):
                    errors[places[i]] = percentage_error(latency, rows[i].row.latency_us)
    return errors


def _groups(rows: Sequence[PredictedRow], group: Callable[[PredictedRow], Hashable]) -> list[list[int]]:
    found: dict[Hashable, list[int]] = {}
    for i, prediction in enumerate(rows):
        found.setdefault(group(prediction), []).append(i)
    return list(found.values())


class Study:
    """The rows of one device, and how their latencies move with each constant."""

    def __init__(self, device: str, rows: Sequence[PredictedRow]) -> None:
        self.device = device
        self.rows = rows
        self.constants: dict[str, Constant] = constants(device)
        self.predicted = np.asarray([prediction.predicted_us for prediction in rows])
        self.measured = np.asarray([prediction.row.latency_us for prediction in rows])
        self._changed: dict[tuple[str, float], Floats] = {}

    def without(self, members: list[int], names: list[str]) -> list[float]:
        """The latencies of `members` when the constants `names` are fitted to all other rows."""
        kept = np.setdiff1d(np.arange(len(self.rows)), members)
        latencies = self.predicted.copy()
        for name in names:
            if self.constants[name].unit in WHOLE:
                latencies += self._best_whole(name, kept) - self.predicted
        continuous = [name for name in names if self.constants[name].unit not in WHOLE]
        slopes = [(self.changed(name, 1 + STEP) - self.predicted) / STEP for name in continuous]
        free = []
        for name, slope in zip(continuous, slopes):
            if np.linalg.norm((slope / self.measured)[kept]) < DETERMINED:
                latencies += self.changed(name, self._undetermined(name)) - self.predicted
            else:
                free.append(slope)
        if free:
            columns = np.stack(free, axis=1)
            residuals = (1 - latencies / self.measured)[kept]
            shifts = np.linalg.lstsq(columns[kept] / self.measured[kept, None], residuals, rcond=None)[0]
            latencies += columns @ np.maximum(shifts, -1.0)
        return [float(latencies[i]) for i in members]

    def _best_whole(self, name: str, kept: NDArray[np.int64]) -> Floats:
        choices = [self.predicted, self.changed(name, 0.5), self.changed(name, 2.0)]  # the first where all are as good
        return min(choices, key=lambda c: float(np.sum(((c - self.measured) / self.measured)[kept] ** 2)))

    def _undetermined(self, name: str) -> float:
        """The factor to the other device's value, or to none at all where that was not found independently."""
        own = self.constants[name]
        if own.value == 0:
            return 1.0  # the model does without it as it is
        if self.device in OTHER_DEVICE:
            elsewhere = constants(OTHER_DEVICE[self.device])[name]
            if elsewhere.mark != "scaled" and elsewhere.value != 0:
                return elsewhere.value / own.value
        if own.unit == "of the rate":
            return 1 / own.value
        return UNLIMITED if own.unit == "B/ns" else 0.0

    def changed(self, name: str, factor: float) -> Floats:
        """The latencies of all rows with one constant multiplied."""
        known = self._changed.get((name, factor))
        if known is None:
            change = Change(self.device, name, self.constants[name].value * factor)
            latencies = predict_latencies((prediction.row, change) for prediction in self.rows)
            known = self._changed[name, factor] = np.asarray(latencies)
        return known
