"""A warning for features far outside the range that a network was trained on, where its file states one.

The metadata `feature_range` of a model file is a JSON list: the smallest and the largest value of the features that the
network was trained on, all columns together.
"""

from __future__ import annotations

import json
import math

import numpy as np

from ..models.files import Model

KEY = "feature_range"
LOOKED_AT = 1000  # rows, the first ones
_BEYOND = 0.5  # of the range, on either side
_SHARE = 0.01  # of the values that may be outside
_NARROW = 0.1  # of the range: all values of many rows within as little of it are scaled otherwise


def feature_range(model: Model) -> tuple[float, float] | None:
    """The smallest and the largest value that a model file states; None where it states none."""
    try:
        low, high = json.loads(model.metadata[KEY])
        stated = float(low), float(high)
    except (KeyError, ValueError, TypeError, RecursionError):
        return None
    return stated if all(map(math.isfinite, stated)) and stated[0] < stated[1] else None


def range_note(model: Model, rows: np.ndarray) -> str | None:
    """Return a note if rows [N, features] are scaled differently from the training data; None otherwise."""
    stated = feature_range(model)
    if stated is None or not rows.size:
        return None
    low, high = stated
    with np.errstate(all="ignore"):  # of NaN, which is refused elsewhere
        values = np.asarray(rows[:LOOKED_AT], np.float64)
    beyond = (values < low - _BEYOND * (high - low)) | (values > high + _BEYOND * (high - low))
    is_beyond = beyond.mean() > _SHARE
    is_narrow = len(values) > 10 and np.ptp(values) < _NARROW * (high - low)
    if not (is_beyond or is_narrow):
        return None
    return (
        f"the features lie between {values.min():g} and {values.max():g}, but {model.network.name} was trained on "
        f"{low:g} to {high:g}; scaled otherwise, they are likely to be answered wrongly"
    )
