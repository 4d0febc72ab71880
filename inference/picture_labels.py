"""The correct classes of pictures, from a table, the folder names, or a filename pattern."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..models.budget import read_json
from ..models.errors import InputError
from ..models.regular_files import describe, file_size, open_regular
from .labels import classes_by_name

MAX_BYTES = 256 << 20  # maximum size in bytes of a table, which is read completely; enough for a few million names
NAMES = ("input", "file", "filename", "file_name", "image", "path", "name", "picture")
LABELS = ("label", "class", "class_index", "target", "category")
FIELD = "{label}"


class PictureLabels:
    """The correct class of each labelled picture."""

    def __init__(self, source: str, labels: Sequence[str]) -> None:
        """Read `source` for a network with these labels. Raises InputError with the reason if it is unusable.

        - A folder: the label of a picture is the name of the direct subfolder that contains it.
        - A .csv, .tsv or .json file: names of pictures and their labels.
        - A pattern with {label}, such as `{label}-*.png`, matched against the ends of paths.

        A label is a label of the network, or a class number.
        """
        self._source = source
        self._classes = classes_by_name(labels)
        self._folder: Path | None = None
        self._pattern: re.Pattern[str] | None = None
        self._named: dict[str, int] = {}
        self._by_file_name: dict[str, int | None] = {}
        path = Path(source)
        if FIELD in source:
            self._pattern = _compile(source)
        elif path.is_dir():
            self._folder = path.resolve()
            self._check_children()
        else:
            self._read(path)

    def class_of(self, name: str) -> int | None:
        """Return the class of a picture by name, or None if it is unknown. Raises InputError for an unknown label."""
        if self._folder is not None:
            parts = _below(Path(name), self._folder)
            return self._class(parts[0], name) if len(parts) > 1 else None
        if self._pattern is not None:
            match = self._pattern.search(Path(name).as_posix())
            return None if match is None else self._class(match[1], name)
        known = self._named.get(os.path.normpath(name))
        return self._by_file_name.get(Path(name).name) if known is None else known

    def check_some(self, names: Sequence[str]) -> None:
        """Raise InputError unless at least one of the pictures has a label."""
        if names and all(self.class_of(name) is None for name in names):
            example = f" (it has {next(iter(self._named))!r})" if self._named else ""
            raise InputError(f"{self._source}: no label for any of the pictures, such as {names[0]!r}{example}")

    def _check_children(self) -> None:
        assert self._folder is not None
        try:
            children = sorted(entry.name for entry in self._folder.iterdir() if entry.is_dir() and entry.name[0] != ".")
        except OSError as error:
            raise InputError(f"{self._source}: {describe(error)}") from None
        if not children:
            raise InputError(f"{self._source}: contains no subfolders; expected one per label")
        for child in children:
            self._class(child, f"folder {child}")

    def _class(self, label: str, where: str) -> int:
        if label not in self._classes:
            raise InputError(
                f"{self._source}: {where}: {label[:40]!r} is neither a label of the model nor a class number"
            )
        return self._classes[label]

    def _read(self, path: Path) -> None:
        try:
            with open_regular(path) as file:
                if (size := file_size(file)) > MAX_BYTES:
                    raise ValueError(f"{size} bytes; the limit is {MAX_BYTES}")
                text = file.read().decode("utf-8-sig")
            rows = list(_json_rows(text) if path.suffix.lower() == ".json" else _table_rows(text, path.suffix.lower()))
        except UnicodeDecodeError:
            raise InputError(f"{path}: not a table encoded in UTF-8") from None
        except (OSError, ValueError, csv.Error) as error:
            raise InputError(f"{path}: {describe(error)}") from None
        for where, name, label in rows:
            index, last = self._class(label, where), Path(name).name
            if self._named.setdefault(os.path.normpath(name), index) != index:
                raise InputError(f"{path}: {where}: {name!r} already has a different label")
            self._by_file_name[last] = index if self._by_file_name.get(last, index) == index else None
        if not self._named:
            raise InputError(f"{path}: contains no labels")


def _below(path: Path, folder: Path) -> tuple[str, ...]:
    """Return the parts of a path relative to a folder, or an empty tuple if the path is not below it. Links in the
    picture's own name are kept."""
    resolved = path.parent.resolve() / path.name
    return resolved.relative_to(folder).parts if resolved.is_relative_to(folder) else ()


def _compile(pattern: str) -> re.Pattern[str]:
    """Compile a pattern with {label} and * to a regular expression that matches the end of a path."""
    if pattern.count(FIELD) > 1:
        raise InputError(f"{pattern}: {FIELD} appears twice; it must appear once")
    parts = re.split(r"(\{label\}|\*)", pattern)
    shape = {FIELD: "([^/]+?)", "*": "[^/]*"}
    return re.compile("(?:^|/)" + "".join(shape.get(part, re.escape(part)) for part in parts) + "$")


def _table_rows(text: str, suffix: str) -> Iterator[tuple[str, str, str]]:
    """Yield (where, name, label) for each line of a .csv or .tsv."""
    if suffix not in (".csv", ".tsv", ".txt"):
        raise ValueError(f"label files must have the suffix .csv, .tsv, .txt or .json, not {suffix or 'none'}")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter="\t" if suffix == ".tsv" else ",")
    columns = (0, 1)
    for position, cells in enumerate(cells for cells in reader if cells):
        if position == 0 and (header := _header(cells)) is not None:
            columns = header
            continue
        if len(cells) <= max(columns):
            raise ValueError(f"line {reader.line_num}: found {len(cells)} columns; expected a name and a label")
        yield f"line {reader.line_num}", cells[columns[0]].strip(), cells[columns[1]].strip()


def _header(cells: Sequence[str]) -> tuple[int, int] | None:
    """Return the columns of names and labels if the first line is a header."""
    lower = [cell.strip().lower() for cell in cells]
    names = [lower.index(name) for name in NAMES if name in lower]
    labels = [lower.index(label) for label in LABELS if label in lower]
    return (names[0], labels[0]) if names and labels else None


def _json_rows(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield (where, name, label) from an object that maps names to labels, or from a list of objects with both."""
    document = read_json(text)
    if isinstance(document, dict):
        document = [{"input": name, "label": label} for name, label in document.items()]
    if not isinstance(document, list):
        raise ValueError("expected an object that maps names to labels, or a list of objects with input and label")
    for number, entry in enumerate(document):
        yield f"item {number}", *_name_and_label(number, entry)


def _name_and_label(number: int, item: object) -> tuple[str, str]:
    fields = {str(key).lower(): value for key, value in item.items()} if isinstance(item, dict) else {}
    names = [fields[key] for key in NAMES if isinstance(fields.get(key), str)]
    labels = [fields[key] for key in LABELS if type(fields.get(key)) in (str, int)]
    if not (names and labels):
        raise ValueError(f"item {number}: expected a name (input) and a label")
    return names[0], str(labels[0])
