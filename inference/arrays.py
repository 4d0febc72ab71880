"""Read preprocessed inputs from .npy and .npz files instead of pictures."""

from __future__ import annotations

import numpy as np

from ..models.budget import Budget
from ..models.errors import InputError
from ..models.inputs import ImageInput
from ..models.regular_files import describe, file_size, open_regular
from .feature_tables import npy_rows, npz_rows

ARRAY_SUFFIXES = (".npy", ".npz")


def is_array_file(path: str) -> bool:
    """Return True if the file name has the suffix of an array file."""
    return path.lower().endswith(ARRAY_SUFFIXES)


def read_arrays(path: str, spec: ImageInput) -> np.ndarray:
    """Read one example or a batch of examples from a file: float32 [C, H, W] or [N, C, H, W].

    The array has the layout of the network's original file (`spec.layout`): [H, W, C] if channels are last, or [H, W]
    without a channel axis; a leading axis may contain several examples. Raises InputError for other shapes, for arrays
    that do not contain real numbers, and for NaN and infinity.
    """
    try:
        with open_regular(path) as file:
            budget = Budget.of(file)  # determined before reading the rows, which may close the file
            rows = (npy_rows if path.lower().endswith(".npy") else npz_rows)(path, file, file_size(file))
            values = rows.whole(budget)
            # counted twice, since both layouts are in memory
            budget.take(8 * values.size, f"an array of shape {list(values.shape)} as float32")
    except (OSError, ValueError) as error:
        raise InputError(describe(error)) from None
    return in_layout(values, spec)


def in_layout(values: np.ndarray, spec: ImageInput) -> np.ndarray:
    """Convert an example from the layout of the network's original file to float32 [C, H, W], or several examples to
    [N, C, H, W]."""
    shapes = [spec.array_shape] if spec.layout != "HW" else [spec.array_shape, spec.shape]
    several = values.shape[1:] in shapes
    if not several and values.shape not in shapes:
        shape = ", ".join(map(str, spec.array_shape))
        raise InputError(
            f"the array has the shape {list(values.shape)}, but the network expects [{shape}] or [N, {shape}]"
        )
    if several and not len(values):
        raise InputError(f"contains no examples, because its shape is {list(values.shape)}")
    with np.errstate(over="ignore"):
        numbers = values.astype(np.float32)
    if not np.isfinite(numbers).all():
        raise InputError("contains NaN, infinity or numbers outside the range of float32")
    batch = numbers if several else numbers[None]
    if spec.layout == "HWC":
        batch = batch.transpose(0, 3, 1, 2)
    batch = np.ascontiguousarray(batch.reshape(len(batch), *spec.shape))
    return batch if several else batch[0]


def check_unmasked(values: object) -> None:
    """Raise InputError for an array with masked values, since NumPy would use the values under the mask."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise InputError("contains masked values; fill them in or drop their rows")
