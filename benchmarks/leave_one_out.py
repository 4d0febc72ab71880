"""Leave-one-out errors: what a row's prediction would be had the row not been there when constants were fitted.

A row to which no constant was fitted is predicted without having been seen; its error stands. For any other row, the
constants fitted to it are fitted anew, to all other rows of the device, by least squares of the relative errors; the
predictions are taken as linear in the constants. A constant that the other rows do not determine is taken from the
other device where it was found independently, and is else left out of the model (zero).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from trninfer.benchmarks.error_statistics import percentage_error
from trninfer.benchmarks.predictions import Change, Prediction, predict_latencies
from trninfer.simulator.timing.constants import constants

STEP = 0.05  # relative change of a constant for the slopes: large beside rounding, small beside any constant
DETERMINED = 0.1  # a constant is determined by rows whose latencies together move by this share of its relative change
COUNTED = ("B", "DMAs")  # units of constants that are powers of two: fitted anew among half, the same and double
OTHER_DEVICE = {"trn1": "trn2", "trn2": "trn1"}


def leave_one_out(predictions: Sequence[Prediction]) -> list[float]:
    """The leave-one-out error of each row, in percent."""
    errors = [prediction.error for prediction in predictions]
    for device in sorted({prediction.row.device for prediction in predictions}):
        places = [i for i, prediction in enumerate(predictions) if prediction.row.device == device]
        rows = [predictions[i] for i in places]
        shifts = np.zeros(
            len(rows)
        )  # microseconds that a row's prediction moves when its constants are fitted without it
        for name in sorted({name for prediction in rows for name in prediction.fitted}):
            fitted = [i for i, prediction in enumerate(rows) if name in prediction.fitted]
            shifts[fitted] += _shifts(device, name, rows, fitted)
        for place, prediction, shift in zip(places, rows, shifts):
            errors[place] = percentage_error(prediction.predicted_us + shift, prediction.row.latency_us)
    return errors


def _shifts(device: str, name: str, rows: Sequence[Prediction], fitted: Sequence[int]) -> list[float]:
    """Microseconds that each of the rows `fitted` moves when one constant is fitted without it."""
    constant = constants(device)[name]
    predicted = np.asarray([prediction.predicted_us for prediction in rows])
    measured = np.asarray([prediction.row.latency_us for prediction in rows])
    if constant.unit in COUNTED:
        choices = [_changed(device, name, 0.5, rows), predicted, _changed(device, name, 2.0, rows)]
        worth = [((latencies - measured) / measured) ** 2 for latencies in choices]
        best = [min(range(3), key=lambda c: worth[c].sum() - worth[c][i]) for i in fitted]
        return [float(choices[c][i] - predicted[i]) for c, i in zip(best, fitted)]
    slopes = (_changed(device, name, 1 + STEP, rows) - predicted) / STEP
    elsewhere = constants(OTHER_DEVICE[device])[name]
    independent = elsewhere.mark != "scaled" and elsewhere.value != 0
    undetermined = (elsewhere.value if independent else 0.0) / constant.value - 1
    return [float(slopes[i]) * _refit(slopes / measured, 1 - predicted / measured, i, undetermined) for i in fitted]


def _changed(device: str, name: str, factor: float, rows: Sequence[Prediction]) -> NDArray[np.float64]:
    """The latencies of all rows with one constant multiplied."""
    change = Change(device, name, constants(device)[name].value * factor)
    return np.asarray(predict_latencies((prediction.row, change) for prediction in rows))


def _refit(slopes: NDArray[np.float64], residuals: NDArray[np.float64], left_out: int, undetermined: float) -> float:
    """The relative change of a constant when it is fitted to the relative residuals of all rows but one."""
    slopes, residuals = np.delete(slopes, left_out), np.delete(residuals, left_out)
    strength = float(slopes @ slopes)
    if strength < DETERMINED**2:
        return undetermined
    return max(-1.0, float(slopes @ residuals) / strength)
