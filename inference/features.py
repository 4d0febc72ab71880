"""Reading feature batches, labels and raw weights. Nothing is unpickled, and no header is believed unchecked."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..models.errors import InputError
from ..models.files import Model
from ..models.inputs import FeatureInput
from ..models.layers import Dense, Softmax
from ..models.network import Network
from ..models.regular_files import describe, file_size, open_regular
from .feature_rows import MAX_LOADED_BYTES, FeatureRows, check_finite
from .feature_tables import read_csv, read_npy, read_npz

SUFFIXES = (".bin", ".npy", ".npz", ".csv")


def read_features(path: Path, features: int) -> FeatureRows:
    """The rows of a feature file, each of `features` real numbers; to be closed, or used in a `with`.

    .bin holds raw little-endian float32 rows, .npz one array (or one named x or X), .csv a row a line, perhaps below a
    header. Values are checked once here and read again, a batch at a time, when they are used; only a .csv and an array
    that does not lie row by row are held. InputError for anything but such rows, and for NaN and infinity in them.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"{path}: features are read from {', '.join(SUFFIXES)}, not from {suffix or 'such a file'}")
    try:
        if suffix == ".bin":
            rows = _read_bin(path, features)
        else:
            rows = {".npy": read_npy, ".npz": read_npz, ".csv": read_csv}[suffix](path)
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {describe(error)}") from None
    try:
        rows.check_shape(features)
        rows.check_finite()
    except BaseException:
        rows.close()
        raise
    return rows


def read_labels(path: Path, rows: int, classes: int) -> np.ndarray:
    """Labels [rows] from raw little-endian int32, each from 0 to classes - 1; InputError for others."""
    size = _size(path)
    if size != 4 * rows:
        raise InputError(f"{path}: {size} bytes; int32 labels of {rows} rows take {4 * rows}")
    labels = _read(path, size, "<i4")
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(wrong):
        raise InputError(f"{path}: row {wrong[0]} has the label {labels[wrong[0]]}; 0 to {classes - 1} are allowed")
    return labels


def read_weights(folder: Path) -> Model:
    """A network of one hidden layer (relu, softmax) from W1.bin [d, h], b1.bin [h], W2.bin [h, c] and b2.bin [c].

    Raw little-endian float32, row by row. All sizes follow from those of the files; InputError says which do not fit.
    """
    counts = {}
    for name in ("W1", "b1", "W2", "b2"):
        size = _size(folder / f"{name}.bin")
        if not size or size % 4:
            raise InputError(f"{folder / name}.bin: {size} bytes are no whole number of float32")
        if size > MAX_LOADED_BYTES:
            raise InputError(f"{folder / name}.bin: {size} bytes; at most {MAX_LOADED_BYTES} are held")
        counts[name] = size // 4
    hidden, classes = counts["b1"], counts["b2"]
    if counts["W2"] != hidden * classes:
        raise InputError(
            f"{folder}: W2.bin has {counts['W2']} numbers, but b1.bin has {hidden} and b2.bin {classes}, which makes "
            f"{hidden * classes}"
        )
    if counts["W1"] % hidden:
        raise InputError(f"{folder}: W1.bin has {counts['W1']} numbers, no multiple of the {hidden} of b1.bin")
    features = counts["W1"] // hidden
    network = Network(
        folder.resolve().name or "weights",
        FeatureInput(features),
        (Dense("hidden", features, hidden, "relu"), Dense("output", hidden, classes), Softmax("softmax")),
        tuple(map(str, range(classes))),
    )
    files = {"hidden.weight": "W1", "hidden.bias": "b1", "output.weight": "W2", "output.bias": "b2"}
    shapes = network.tensor_shapes()
    tensors = {}
    for tensor, name in files.items():
        path = folder / f"{name}.bin"
        values = _read(path, 4 * counts[name], "<f4").astype(np.float32, copy=False)
        check_finite(str(path), values[None])
        tensors[tensor] = values.reshape(shapes[tensor])
    return Model(network, tensors, {})


def _read_bin(path: Path, features: int) -> FeatureRows:
    file = open_regular(path)
    size = file_size(file)
    if not size or size % (4 * features):
        file.close()
        raise InputError(f"{path}: {size} bytes; rows of {features} float32 take {4 * features} bytes each")
    return FeatureRows.in_file(str(path), (file,), 0, (size // (4 * features), features), np.dtype("<f4"))


def _size(path: Path) -> int:
    """The size in bytes of a regular file that can be read."""
    try:
        with open_regular(path) as file:
            return file_size(file)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {describe(error)}") from None


def _read(path: Path, size: int, dtype: str) -> np.ndarray:
    """A file of `size` bytes as numbers."""
    try:
        with open_regular(path) as file:
            content = file.read(size)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {describe(error)}") from None
    if len(content) < size:
        raise InputError(f"{path}: it was cut short while it was read")
    return np.frombuffer(content, dtype)
