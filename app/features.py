"""Reading feature batches, labels and raw weights. Nothing is unpickled, and no header is believed unchecked."""

from __future__ import annotations

import array
import csv
import math
import os
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..models.files import Model
from ..models.network import Dense, FeatureInput, Network, Softmax
from .errors import UsageError

SUFFIXES = (".bin", ".npy", ".npz", ".csv")
MAX_PACKED_BYTES = 8 << 30  # of an array within an .npz, once unpacked
_ROWS_AT_ONCE = 1 << 24  # elements looked at together when searching for NaN


def read_features(path: Path, features: int) -> np.ndarray:
    """The rows of a feature file, [N, features] of a real type; .bin and .npy are mapped, not read.

    .bin holds raw little-endian float32 rows, .npz one array (or one named x or X), .csv a row a line, perhaps below a
    header. UsageError for anything that is not such rows, with NaN and infinity among it.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError(f"{path}: features are read from {', '.join(SUFFIXES)}, not from {suffix or 'such a file'}")
    _check_file(path)
    if suffix == ".bin":
        rows = _read_bin(path, features)
    elif suffix == ".csv":
        rows = _read_csv(path)
    else:
        rows = _read_npy(path) if suffix == ".npy" else _read_npz(path)
    if rows.dtype.kind not in "fiub":
        raise UsageError(f"{path}: holds values of type {rows.dtype}; real numbers are needed")
    if rows.ndim == 1:
        rows = rows[None]
    if rows.ndim != 2 or rows.shape[1] != features:
        raise UsageError(f"{path}: holds an array of shape {list(rows.shape)}; the network takes [rows, {features}]")
    if not len(rows):
        raise UsageError(f"{path}: holds no rows")
    _check_finite(path, rows)
    return rows


def read_labels(path: Path, rows: int, classes: int) -> np.ndarray:
    """Labels [rows] from raw little-endian int32, each from 0 to classes - 1; UsageError for others."""
    size = _check_file(path)
    if size != 4 * rows:
        raise UsageError(f"{path}: {size} bytes; int32 labels of {rows} rows take {4 * rows}")
    labels = np.fromfile(path, "<i4")
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(wrong):
        raise UsageError(f"{path}: row {wrong[0]} has the label {labels[wrong[0]]}; 0 to {classes - 1} are allowed")
    return labels


def read_weights(folder: Path) -> Model:
    """A network of one hidden layer (relu, softmax) from W1.bin [d, h], b1.bin [h], W2.bin [h, c] and b2.bin [c].

    Raw little-endian float32, row by row. All sizes follow from those of the files; UsageError says which do not fit.
    """
    counts = {}
    for name in ("W1", "b1", "W2", "b2"):
        size = _check_file(folder / f"{name}.bin")
        if not size or size % 4:
            raise UsageError(f"{folder / name}.bin: {size} bytes are no whole number of float32")
        counts[name] = size // 4
    hidden, classes = counts["b1"], counts["b2"]
    if counts["W2"] != hidden * classes:
        raise UsageError(
            f"{folder}: W2.bin has {counts['W2']} numbers, but b1.bin has {hidden} and b2.bin {classes}, which makes "
            f"{hidden * classes}"
        )
    if counts["W1"] % hidden:
        raise UsageError(f"{folder}: W1.bin has {counts['W1']} numbers, no multiple of the {hidden} of b1.bin")
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
        values = np.fromfile(path, "<f4").astype(np.float32, copy=False).reshape(shapes[tensor])
        _check_finite(path, values.reshape(1, -1))
        tensors[tensor] = values
    return Model(network, tensors, {})


def _check_file(path: Path) -> int:
    """The size in bytes of a regular file that can be read."""
    try:
        if not path.exists():
            raise UsageError(f"{path}: no such file")
        if not path.is_file():
            raise UsageError(f"{path}: not a regular file")
        if not os.access(path, os.R_OK):
            raise UsageError(f"{path}: no permission to read it")
        return path.stat().st_size
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _read_bin(path: Path, features: int) -> np.ndarray:
    size = path.stat().st_size
    if not size or size % (4 * features):
        raise UsageError(f"{path}: {size} bytes; rows of {features} float32 take {4 * features} bytes each")
    return np.memmap(path, "<f4", "r", shape=(size // (4 * features), features))


def _read_csv(path: Path) -> np.ndarray:
    values = array.array("d")
    width = 0
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            for number, record in enumerate(record for record in reader if record):
                try:
                    row = [float(text) for text in record]
                except ValueError as error:
                    if number == 0:
                        continue  # a header
                    raise UsageError(f"{path}: line {reader.line_num}: {error}") from None
                if width and len(row) != width:
                    raise UsageError(f"{path}: line {reader.line_num}: {len(row)} values, but {width} before it")
                width = len(row)
                values.extend(row)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path}: not a table of numbers in UTF-8: {error}") from None
    return np.frombuffer(values, np.float64).reshape(-1, width) if values else np.empty((0, 0))


def _read_npy(path: Path) -> np.ndarray:
    try:
        # Mapping compares the header's shape with the file's size; nothing is allocated, and objects are refused.
        return np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError, EOFError, ArithmeticError) as error:
        raise UsageError(f"{path}: not an array that can be read: {_first_line(error)}") from None


def _read_npz(path: Path) -> np.ndarray:
    try:
        with zipfile.ZipFile(path) as archive:
            members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
            names: list[str] = [name for name in members if name in ("x", "X")] or list(members)
            if len(names) != 1:
                raise UsageError(f"{path}: holds {len(names)} arrays; it must hold one, or one named x")
            member = members[names[0]]
            with archive.open(member) as file:
                return _read_member(path, file, member.file_size)
    except (OSError, ValueError, EOFError, ArithmeticError, zipfile.BadZipFile, zlib.error, RuntimeError) as error:
        raise UsageError(f"{path}: not an archive that can be read: {_first_line(error)}") from None


def _read_member(path: Path, file: IO[bytes], size: int) -> np.ndarray:
    """An array within an archive, once its header has been checked against its unpacked size."""
    version = np.lib.format.read_magic(file)
    readers: dict[tuple[int, int], Any] = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in readers:
        raise ValueError(f"format version {version}")
    shape, fortran, dtype = readers[version](file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are never unpickled")
    expected = math.prod(shape) * dtype.itemsize
    if expected > min(size, MAX_PACKED_BYTES):
        raise ValueError(f"an array of shape {list(shape)} takes {expected} bytes, more than are there or allowed")
    data = file.read(expected)
    if len(data) < expected:
        raise ValueError(f"an array of shape {list(shape)} takes {expected} bytes, but is cut short")
    rows: np.ndarray = np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")
    return rows


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or ["cut short"])[0]


def _check_finite(path: Path, rows: np.ndarray) -> None:
    """UsageError where a value is NaN or infinite, in float32 as the network reads it."""
    step = max(1, _ROWS_AT_ONCE // rows.shape[1])
    for first in range(0, len(rows), step):
        with np.errstate(over="ignore"):
            part = rows[first : first + step].astype(np.float32, copy=False)
        finite = np.isfinite(part)
        if not finite.all():
            row, column = np.unravel_index(int(finite.argmin()), finite.shape)
            value = part[row, column]
            raise UsageError(f"{path}: row {first + row}, column {column} is {value}; all must be finite")
