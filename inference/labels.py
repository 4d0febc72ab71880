"""Read the correct classes of rows from a file, as class numbers or as labels of the network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..models.budget import Budget, read_json
from ..models.errors import InputError
from ..models.regular_files import describe, file_size, open_regular
from .csv_tables import table_cells
from .feature_tables import npy_rows

SUFFIXES = (".bin", ".npy", ".csv", ".tsv", ".txt", ".json")
MAX_BYTES = 1 << 30  # maximum size in bytes of a file, which is read completely


def read_labels(path: Path, rows: int, labels: Sequence[str], header: str = "auto") -> np.ndarray:
    """Read the class of each row, int32 [rows], from 0 to len(labels) - 1.

    .bin contains raw little-endian int32, .npy integers [rows], and .json a list; .csv, .tsv and .txt contain one class
    per line, optionally below a header. In text, a class is a label of the network, otherwise a class number. Raises
    InputError for anything else.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"{path}: label files must have the suffix {', '.join(SUFFIXES)}, not {suffix or 'none'}")
    try:
        with open_regular(path) as file:
            size = file_size(file)
            if size > MAX_BYTES:
                raise ValueError(f"{size} bytes; the limit is {MAX_BYTES}")
            if suffix == ".npy":
                budget = Budget.of(file)  # determined before reading the rows, which may close the file
                values = _whole_numbers(npy_rows(str(path), file, size).whole(budget))
            else:
                values = _read(file.read(), suffix, rows, labels, header)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {describe(error)}") from None
    if values.shape != (rows,):
        raise InputError(f"{path}: contains {len(values)} labels, but there are {rows} rows")
    wrong = np.flatnonzero((values < 0) | (values >= len(labels)))
    if len(wrong):
        raise InputError(f"{path}: row {wrong[0]} has the label {values[wrong[0]]}; 0 to {len(labels) - 1} are allowed")
    return values.astype(np.int32)


def column_classes(table: str, column: str, texts: Sequence[str], labels: Sequence[str]) -> np.ndarray:
    """Return the class of each text in a table's column as int32, or -1 if the text is empty. Raises InputError for an
    unknown class.

    A class is a label of the network, otherwise a class number, possibly written as 3.0 (as by pandas).
    """
    known = classes_by_name(labels)
    classes = np.full(len(texts), -1, np.int32)
    for row, text in enumerate(texts):
        index = known.get(text)
        if index is None and text.endswith(".0"):
            index = known.get(text[:-2])
        if index is None and text:
            where = f"{table}: row {row}, column {column[:40]!r}"
            raise InputError(f"{where}: {text[:40]!r} is neither a label of the model nor a class number")
        if index is not None:
            classes[row] = index
    return classes


def classes_by_name(labels: Sequence[str]) -> dict[str, int]:
    """Map each label, and each class number as text, to its class; labels take precedence."""
    numbers = {str(number): number for number in range(len(labels))}
    return numbers | {label: number for number, label in reversed(list(enumerate(labels)))}


def _json_labels(content: bytes) -> list[str]:
    items = read_json(content)
    if not isinstance(items, list) or not all(type(item) in (int, str) for item in items):
        raise ValueError("expected a list of labels or class numbers")
    return [str(item) for item in items]


def _read(content: bytes, suffix: str, rows: int, labels: Sequence[str], header: str) -> np.ndarray:
    if suffix == ".bin":
        if len(content) != 4 * rows:
            raise ValueError(f"{len(content)} bytes, but int32 labels for {rows} rows take {4 * rows} bytes")
        return np.frombuffer(content, "<i4")
    if suffix == ".json":
        return _classes(_json_labels(content), labels, 0)
    cells, first = table_cells(content, "\t" if suffix == ".tsv" else ",")
    known = {*labels, *map(str, range(len(labels)))}
    has_header = header == "yes" or (header == "auto" and len(cells) == rows + 1 and cells[0] not in known)
    return _classes(cells[1:], labels, first + 1) if has_header else _classes(cells, labels, first)


def _classes(texts: Sequence[str], labels: Sequence[str], first_line: int) -> np.ndarray:
    """Return the class of each text: the class with this label, otherwise the number itself."""
    numbers = classes_by_name(labels)
    classes = np.empty(len(texts), np.int64)
    for position, text in enumerate(texts):
        known = numbers.get(text)
        if known is None:
            where = f"line {position + first_line}" if first_line else f"item {position}"
            raise ValueError(f"{where}: {text[:40]!r} is neither a label of the model nor a class number")
        classes[position] = known
    return classes


def _whole_numbers(values: np.ndarray) -> np.ndarray:
    if values.size != max(values.shape, default=0) or values.dtype.kind not in "iub":
        raise ValueError(
            f"expected an array of integers of shape [rows], got {values.dtype} of shape {list(values.shape)}"
        )
    return values.ravel().astype(np.int64)
