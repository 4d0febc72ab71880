"""A network as kernel launches, in the order of its layers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ..models.files import Model
from .layer_steps import LayerLaunch, Steps

DTYPES: dict[str, np.dtype[Any]] = {
    "float32": np.dtype(np.float32),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float16": np.dtype(np.float16),
}


def plan_network(model: Model, dtype: np.dtype[Any], form: str = "quickest") -> tuple[LayerLaunch, ...]:
    """The launches of a network in order, weights cast to `dtype` and laid out for the kernels; biases stay float32.

    The last one is the argmax of what the network gives, unless that is values. `form`: in which filters are multiplied
    (kernels/convolution/forms.py).
    """
    return tuple(Steps(model, dtype, form).launches)
