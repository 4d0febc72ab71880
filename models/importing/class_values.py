"""Correction of the kind of an output of scores, based on the values that ONNX Runtime computes."""

from __future__ import annotations

import numpy as np

from ..outputs import Output

_CLOSE = 1e-3


def fit_to_scores(output: Output, name: str, values: np.ndarray | None) -> Output:
    """Return the kind of an output of classes whose values [examples, classes] may be known.

    Raw scores that are not negative and add up to 1 are probabilities, such as a mean of several softmaxes, unless all
    are 0 or 1 or the same for all examples. Other numbers from 0 to 1 are independent probabilities if the name of the
    output suggests that.
    """
    if output.scores != "raw" or values is None or not values.size or values.min() < 0 or values.max() > 1 + _CLOSE:
        return output
    is_varied = bool((values % 1).any() and (len(values) == 1 or (values != values[0]).any()))
    if is_varied and np.abs(values.sum(axis=1) - 1).max() < _CLOSE:
        return Output("classes", "softmax")
    return Output("sigmoid") if "prob" in name.lower() else output
