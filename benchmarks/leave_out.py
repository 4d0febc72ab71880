"""Compute leave-one-out errors: the errors of predictions if constants were fitted without the row, or its family.

If no constant was fitted to a row, its error is unchanged. For any other row, all constants that were fitted to the
excluded rows are refitted jointly to the other rows of the device, by least squares of the relative errors, with
predictions linearised in the constants. Whole-number constants are chosen among whole numbers instead. A constant that
the other rows do not determine is set to its documented value (`PRIORS`), or to the value of the other device if that
was determined independently. Otherwise, it is removed from the model: a time becomes zero, a rate unlimited, and a
share 1.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
from numpy.typing import NDArray
from trninfer.benchmarks.error_statistics import percentage_error
from trninfer.benchmarks.predictions import Change, PredictedRow, predict_latencies
from trninfer.simulator.timing.constants import Constant, Machine, constants, machine

# relative change of a constant for computing slopes; large compared with rounding errors, small compared with 1
STEP = 0.05
# A constant counts as determined by the rows if changing it by 1 % changes their total latency by at least this many
# percent. Since the errors of the rows are about 5 %, such a constant is known to about 20 %.
DETERMINED = 0.25
UNLIMITED = 1e3  # factor on a rate that effectively removes it from the model
WHOLE = ("B", "DMAs", "instructions", "")  # units of whole numbers, which are refitted among half, the same and double
OTHER_DEVICE = {"trn1": "trn2", "trn2": "trn1"}
HBM_ACCESS = 32  # bytes of the smallest access to a pseudo channel of HBM2e and HBM3 (JEDEC JESD235, JESD238)


def _least_element(m: Machine) -> float:
    """Return the nanoseconds for an element that one HBM access of the smallest size transfers, including its
    descriptor."""
    return HBM_ACCESS / m.dma_peak + m.descriptor_ns


# Documented values for constants that affect only a few rows; not used by the simulator.
PRIORS: dict[str, Callable[[Machine], float]] = {"small_element_ns": _least_element}

Floats = NDArray[np.float64]


def leave_out(
    predictions: Sequence[PredictedRow],
    group: Callable[[PredictedRow], Hashable],
) -> list[float]:
    """Return the error of each row in percent, with all rows of its group and device excluded from the fits."""
    errors = [prediction.error for prediction in predictions]
    for device in sorted({prediction.row.device for prediction in predictions}):
        places = [i for i, prediction in enumerate(predictions) if prediction.row.device == device]
        rows = [predictions[i] for i in places]
        study = Study(device, rows)
        for members in _groups(rows, group):
            names = sorted({name for i in members for name in rows[i].fitted})
            if names:
                for i, latency in zip(members, study.without(members, names)):
                    errors[places[i]] = percentage_error(latency, rows[i].row.latency_us)
    return errors


def _groups(rows: Sequence[PredictedRow], group: Callable[[PredictedRow], Hashable]) -> list[list[int]]:
    groups: dict[Hashable, list[int]] = {}
    for i, prediction in enumerate(rows):
        groups.setdefault(group(prediction), []).append(i)
    return list(groups.values())


class Study:
    """The rows of one device, and the slopes of their latencies with respect to each constant."""

    def __init__(self, device: str, rows: Sequence[PredictedRow]) -> None:
        self.device = device
        self.rows = rows
        self.constants: dict[str, Constant] = constants(device)
        self.predicted = np.asarray([prediction.predicted_us for prediction in rows])
        self.measured = np.asarray([prediction.row.latency_us for prediction in rows])
        self._changed: dict[tuple[str, float], Floats] = {}

    def without(self, members: list[int], names: list[str]) -> list[float]:
        """Return the latencies of `members` when the constants `names` are fitted to all other rows."""
        remaining = np.setdiff1d(np.arange(len(self.rows)), members)
        latencies = self.predicted.copy()
        for name in names:
            if self.constants[name].unit in WHOLE:
                latencies += self._best_whole(name, remaining) - self.predicted
        continuous = [name for name in names if self.constants[name].unit not in WHOLE]
        slopes = [(self.changed(name, 1 + STEP) - self.predicted) / STEP for name in continuous]
        free = []
        for name, slope in zip(continuous, slopes):
            if np.linalg.norm((slope / self.measured)[remaining]) < DETERMINED:
                latencies += self.changed(name, self._undetermined(name)) - self.predicted
            else:
                free.append(slope)
        if free:
            columns = np.stack(free, axis=1)
            residuals = (1 - latencies / self.measured)[remaining]
            shifts = np.linalg.lstsq(columns[remaining] / self.measured[remaining, None], residuals, rcond=None)[0]
            latencies += columns @ np.maximum(shifts, -1.0)
        return [float(latencies[i]) for i in members]

    def _best_whole(self, name: str, kept: NDArray[np.int64]) -> Floats:
        # the first candidate if all are equally good
        choices = [self.predicted, self.changed(name, 0.5), self.changed(name, 2.0)]
        return min(choices, key=lambda c: float(np.sum(((c - self.measured) / self.measured)[kept] ** 2)))

    def _undetermined(self, name: str) -> float:
        """Return the factor that changes a constant to the value in PRIORS, or else to the value of the other device.

        If that value was not determined independently, return the factor that removes the constant.
        """
        constant = self.constants[name]
        if constant.value == 0:
            return 1.0  # the constant already has no effect
        if name in PRIORS:
            return PRIORS[name](machine(self.device)) / constant.value
        if self.device in OTHER_DEVICE:
            elsewhere = constants(OTHER_DEVICE[self.device])[name]
            if elsewhere.mark != "scaled" and elsewhere.value != 0:
                return elsewhere.value / constant.value
        if constant.unit == "of the rate":
            return 1 / constant.value
        return UNLIMITED if constant.unit == "B/ns" else 0.0

    def changed(self, name: str, factor: float) -> Floats:
        """Return the latencies of all rows with one constant multiplied by `factor`."""
        known = self._changed.get((name, factor))
        if known is None:
            change = Change(self.device, name, self.constants[name].value * factor)
            latencies = predict_latencies((prediction.row, change) for prediction in self.rows)
            known = self._changed[name, factor] = np.asarray(latencies)
        return known
