"""Read batches of features and raw weights. Nothing is unpickled, and headers are validated."""

from __future__ import annotations

import io
from pathlib import Path
from typing import IO

import numpy as np

from ..models.errors import InputError
from ..models.files import Model
from ..models.inputs import FeatureInput
from ..models.layers import Dense, Softmax
from ..models.network import Network
from ..models.regular_files import describe, file_size, open_regular
from .columns import HINT, Columns
from .csv_tables import check_header, csv_rows
from .feature_rows import MAX_LOADED_BYTES, FeatureRows, check_finite
from .feature_tables import npy_rows, npz_rows
from .parquet_tables import parquet_rows

SUFFIXES = (".bin", ".npy", ".npz", ".csv", ".tsv", ".parquet")
TABLES = (".csv", ".tsv", ".parquet")  # formats with named columns


def read_features(path: Path, features: int, header: str = "auto", columns: Columns | None = None) -> FeatureRows:
    """Open the rows of a feature file, each consisting of `features` real numbers. Close the result, or use it in a
    `with` statement.

    .bin contains raw little-endian float32 rows, .npz one array (or one named x or X), .csv and .tsv one row per line
    with an optional header (see `csv_tables`), and .parquet columns of numbers. Values are read and checked one batch
    at a time (`usable_rows`); only text, Parquet and column-major arrays are read into memory completely. `notes` of
    the rows report headers and skipped lines. For text and Parquet, `columns` selects the features, the id and the
    correct class (`sides` of the rows); by default, all columns are features. Raises InputError for anything else.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"{path}: feature files must have the suffix {', '.join(SUFFIXES)}, not {suffix or 'none'}")
    check_header(header)
    try:
        file = open_regular(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {describe(error)}") from None
    return _checked(str(path), file, suffix, features, header, columns)


def read_feature_bytes(
    name: str, content: bytes, features: int, header: str = "auto", columns: Columns | None = None
) -> FeatureRows:
    """Return the rows of a feature file, whose format is detected from its first bytes; see `read_features`.

    Content without the signature of .npy, .npz or .parquet is .csv or .tsv if it is text, otherwise raw float32 rows.
    """
    check_header(header)
    return _checked(name, io.BytesIO(content), _suffix_of(content), features, header, columns)


def _checked(
    name: str, file: IO[bytes], suffix: str, features: int, header: str, columns: Columns | None
) -> FeatureRows:
    """Return the rows of a file in the format that a suffix denotes. The file is closed together with the rows, or if
    they are unusable."""
    try:
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        if columns is not None and columns.is_given and suffix not in TABLES:
            raise ValueError(f"columns can be selected from {', '.join(TABLES)}, not from {suffix}")
        if suffix == ".bin":
            rows = _bin_rows(name, file, size, features)
        elif suffix in (".npy", ".npz"):
            rows = (npy_rows if suffix == ".npy" else npz_rows)(name, file, size)
        elif suffix == ".parquet":
            rows = parquet_rows(name, file, columns)
        else:
            rows = csv_rows(name, file, header, "\t" if suffix == ".tsv" else ",", columns)
        rows.check_shape(features, HINT if columns is not None and suffix in TABLES else "")
        if rows.sides is not None:
            rows.sides.check()
        return rows
    except InputError:
        file.close()
        raise
    except (OSError, ValueError) as error:
        file.close()
        raise InputError(f"{name}: {describe(error)}") from None


def _suffix_of(content: bytes) -> str:
    for start, suffix in ((b"\x93NUMPY", ".npy"), (b"PK\x03\x04", ".npz"), (b"PAR1", ".parquet")):
        if content.startswith(start):
            return suffix
    try:
        line = content.partition(b"\n")[0].decode("utf-8-sig").rstrip("\r")
    except UnicodeDecodeError:
        return ".bin"
    if not line or not line.replace("\t", " ").isprintable():
        return ".bin"
    return ".tsv" if "\t" in line else ".csv"


def read_weights(folder: Path) -> Model:
    """Return a network with one hidden layer (relu, softmax) from W1.bin [d, h], b1.bin [h], W2.bin [h, c] and b2.bin
    [c].

    The files contain raw little-endian float32 in row-major order. All sizes are derived from the file sizes. Raises
    InputError, naming the files, if their sizes are inconsistent.
    """
    counts = {}
    for name in ("W1", "b1", "W2", "b2"):
        size = _size(folder / f"{name}.bin")
        if not size or size % 4:
            raise InputError(f"{folder / name}.bin: {size} bytes; expected a positive multiple of 4 (float32)")
        if size > MAX_LOADED_BYTES:
            raise InputError(f"{folder / name}.bin: {size} bytes; the limit is {MAX_LOADED_BYTES}")
        counts[name] = size // 4
    hidden, classes = counts["b1"], counts["b2"]
    if counts["W2"] != hidden * classes:
        raise InputError(
            f"{folder}: W2.bin has {counts['W2']} numbers, but b1.bin has {hidden} and b2.bin {classes}, "
            f"which requires {hidden * classes}"
        )
    if counts["W1"] % hidden:
        raise InputError(f"{folder}: W1.bin has {counts['W1']} numbers, not a multiple of the {hidden} in b1.bin")
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


def _bin_rows(name: str, file: IO[bytes], size: int, features: int) -> FeatureRows:
    if not size:
        raise InputError(f"{name}: contains no rows, because it is empty")
    if size % (4 * features):
        raise InputError(
            f"{name}: its size, {size} bytes, is not a multiple of {4 * features} bytes, the size of a row "
            f"of {features} float32 values"
        )
    return FeatureRows.in_file(name, (file,), 0, (size // (4 * features), features), np.dtype("<f4"))


def _size(path: Path) -> int:
    """Return the size in bytes of a readable regular file."""
    try:
        with open_regular(path) as file:
            return file_size(file)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {describe(error)}") from None


def _read(path: Path, size: int, dtype: str) -> np.ndarray:
    """Read a file of `size` bytes as numbers."""
    try:
        with open_regular(path) as file:
            content = file.read(size)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {describe(error)}") from None
    if len(content) < size:
        raise InputError(f"{path}: the file shrank while it was read")
    return np.frombuffer(content, dtype)
