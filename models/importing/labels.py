"""Names of classes: the ImageNet classes, and labels read from files in several formats."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import ModelError
from .preprocessor import read_id2label

_FOLDER = Path(__file__).resolve().parent
# Names of the label column of a table
_NAMED = ("label", "labels", "name", "names", "class", "class_name", "category", "synset_name")
_NUMBERED = ("id", "index", "idx", "class_index", "class_id", "number", "")


def imagenet_labels() -> tuple[str, ...]:
    """Return the 1,000 classes of the ImageNet challenge, in the order used by torchvision."""
    return tuple((_FOLDER / "imagenet_labels.txt").read_text("utf-8").split("\n")[:1000])


def parse_labels(content: bytes, suffix: str = "") -> tuple[str, ...]:
    """Parse the labels in a file: JSON (a list, id2label, or names with numbers), a table, or one per line.

    `suffix` is the suffix of the file name; only .csv and .tsv files are parsed as tables. The message of a ModelError
    does not include the file name.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ModelError("not a UTF-8 text file") from None
    if not text.strip():
        raise ModelError("contains no labels")
    if suffix in (".csv", ".tsv"):
        labels = _of_table(text, "\t" if suffix == ".tsv" else ",")
    elif suffix == ".json" or text.lstrip()[0] in "[{":
        labels = _of_json(text)
    else:
        labels = tuple(line.strip() for line in text.rstrip().split("\n"))
    _check_labels(labels, "label" if suffix in (".csv", ".tsv", ".json") else "line")
    return labels


def _check_labels(labels: Sequence[str], what: str) -> None:
    """Raise ModelError if a label is empty or not printable; `what` is the word for an entry of the file."""
    for number, label in enumerate(labels, start=1):
        if not label or not label.isprintable():
            raise ModelError(f"{what} {number} is {'not printable' if label else 'empty'}")


def _of_json(text: str) -> tuple[str, ...]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"not valid JSON: {error}") from None
    for key in ("id2label", "labels", "names", "classes"):
        if isinstance(data, dict) and isinstance(data.get(key), (dict, list)):
            data = data[key]
    labels = _as_labels(data)
    if not labels:
        raise ModelError(
            'the JSON must be a list of labels, {"0": "cat", ...}, or {"cat": 0, ...}, with numbers starting at 0'
        )
    return labels


def _as_labels(data: Any) -> tuple[str, ...] | None:
    if isinstance(data, list):
        return tuple(map(str, data)) if all(isinstance(label, (str, int)) for label in data) else None
    return _of_mapping(data) if isinstance(data, dict) else None


def _of_mapping(data: dict[Any, Any]) -> tuple[str, ...] | None:
    """Return the labels of id2label, of names mapped to their numbers, or of Keras's ImageNet index."""
    if data and all(type(number) is int for number in data.values()):  # names mapped to their numbers, as in Keras
        names = {str(number): name for name, number in data.items()}
        return read_id2label(names) if len(names) == len(data) else None
    if data and all(isinstance(pair, list) and len(pair) == 2 for pair in data.values()):  # Keras's ImageNet index
        return read_id2label({number: pair[1] for number, pair in data.items()})
    return read_id2label(data)


def _of_table(text: str, delimiter: str) -> tuple[str, ...]:
    """Return the label column, found by name or else the last one, sorted by the column of numbers if there is one."""
    try:
        rows = [list(map(str.strip, row)) for row in csv.reader(text.splitlines(), delimiter=delimiter) if row]
    except csv.Error as error:
        raise ModelError(f"not a table: {error}") from None
    header = [cell.lower() for cell in rows[0]]
    label_column = next((index for index, cell in enumerate(header) if cell in _NAMED), None)
    if label_column is not None or not set(_NUMBERED[:-1]).isdisjoint(header):
        rows = rows[1:]
    widths = {len(row) for row in rows}
    if len(widths) != 1:
        raise ModelError("the table has no rows, or its rows have different lengths")
    column = widths.pop() - 1 if label_column is None else label_column
    columns = [list(cells) for cells in zip(*rows)]
    labels = columns.pop(column)
    order = next(filter(None, map(_numbering, columns)), range(len(rows)))
    return tuple(label for _, label in sorted(zip(order, labels)))


def _numbering(cells: Sequence[str]) -> list[int] | None:
    """Return the numbers in a column if they are a permutation of 0 to n - 1 for n rows; otherwise None."""
    if not all(cell.isascii() and cell.isdigit() for cell in cells):
        return None
    order = [int(cell) for cell in cells]
    return order if sorted(order) == list(range(len(order))) else None
