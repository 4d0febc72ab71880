"""A warning for features that are far outside the range of the training data, if the model file specifies the range.

The metadata `feature_range` of a model file is a JSON list: the smallest and the largest feature of the training data,
over all columns.
"""

from __future__ import annotations

import json
import math

import numpy as np

from ..models.files import Model

KEY = "feature_range"
LOOKED_AT = 1000  # number of leading rows that are examined
_BEYOND = 0.5  # fraction of the range by which values may exceed it on either side
_SHARE = 0.01  # fraction of the values that may be outside of the extended range
_NARROW = 0.1  # if the values of many rows all lie within this fraction of the range, their scale is different


def feature_range(model: Model) -> tuple[float, float] | None:
    """Return the smallest and the largest feature according to a model file, or None if it does not specify them."""
    try:
        low, high = json.loads(model.metadata[KEY])
        stated = float(low), float(high)
    except (KeyError, ValueError, TypeError, RecursionError):
        return None
    return stated if all(map(math.isfinite, stated)) and stated[0] < stated[1] else None


def range_note(model: Model, rows: np.ndarray) -> str | None:
    """Return a note if rows [N, features] appear to be scaled differently from the training data, or None otherwise."""
    stated = feature_range(model)
    if stated is None or not rows.size:
        return None
    low, high = stated
    with np.errstate(all="ignore"):  # NaN is rejected elsewhere
        values = np.asarray(rows[:LOOKED_AT], np.float64)
    beyond = (values < low - _BEYOND * (high - low)) | (values > high + _BEYOND * (high - low))
    is_beyond = beyond.mean() > _SHARE
    is_narrow = len(values) > 10 and np.ptp(values) < _NARROW * (high - low)
    if not (is_beyond or is_narrow):
        return None
    return (
        f"the features lie between {values.min():g} and {values.max():g}, but {model.network.name} was trained on "
        f"{low:g} to {high:g}; if they are scaled differently, the predictions are probably wrong"
    )
