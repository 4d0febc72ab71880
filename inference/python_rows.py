"""Rows of features from Python: arrays, files, contents of files, and iterators over these."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..models.errors import InputError
from ..models.inputs import FeatureInput
from .columns import Columns
from .feature_rows import FeatureRows, usable_rows
from .features import read_feature_bytes, read_features
from .labels import column_classes
from .python_inputs import Refuse, is_array, read_content, read_numbers
from .search import InputProblem


class RowReader:
    """Iterates over (names, rows [B, F]) of features, `batch_size` at a time.

    The name of a row is its id in the table, otherwise its number, counted from 0 over all files, arrays and blocks.
    `refuse` is called with the name of an unusable row or file and the reason. `notes` report how files were read.
    `classes` contains the correct class of each row whose table has such a column: one of `labels`, which the caller
    sets, or its number.
    """

    def __init__(
        self,
        inputs: Any,
        spec: FeatureInput,
        batch_size: int,
        header: str,
        refuse: Refuse,
        columns: Columns | None = None,
    ) -> None:
        self._inputs = inputs
        self._spec = spec
        self._batch_size = batch_size
        self._header = header
        self._refuse = refuse
        self._columns = columns or Columns()
        self.labels: Sequence[str] = ()
        self.notes: list[str] = []
        self.classes: dict[int | str, int] = {}

    def __iter__(self) -> Iterator[tuple[Sequence[int | str], np.ndarray]]:
        first = 0
        for source in _row_sources(self._inputs, self._spec.features, self._header, self._columns):
            if isinstance(source, InputProblem):
                self._refuse(source.input, source.message)
                continue
            with source:
                self.notes += [f"{source.name}: {note}" for note in source.notes]
                names = _names(source, first)
                self._note_classes(source, names)
                begun = first
                for rows in source.batches(self._batch_size):
                    numbers, usable = usable_rows(
                        rows,
                        first,
                        partial(self._refuse_row, names, begun),
                    )
                    yield [names[number - begun] for number in numbers], usable
                    first += len(rows)

    def _refuse_row(self, names: Sequence[int | str], begun: int, number: int, why: str) -> None:
        self._refuse(names[number - begun], why)

    def _note_classes(self, source: FeatureRows, names: Sequence[int | str]) -> None:
        if source.sides is None or source.sides.labels is None:
            return
        column = str(self._columns.label_column)
        classes = column_classes(source.name, column, source.sides.labels, self.labels)
        self.classes |= {name: int(index) for name, index in zip(names, classes) if index >= 0}


def _names(source: FeatureRows, first: int) -> Sequence[int | str]:
    if source.sides is not None and source.sides.ids is not None:
        return source.sides.ids
    return range(first, first + len(source))


def _row_sources(inputs: Any, features: int, header: str, columns: Columns) -> Iterator[FeatureRows | InputProblem]:
    """Yield the rows of each file, array or block, which must be closed, or the reason why it is unusable.

    Anything that is not a path, bytes, a file, an array or a list is iterated over: its items are rows or blocks of
    rows.
    """
    if isinstance(inputs, (list, tuple)) and inputs and all(map(_is_file, inputs)):
        for number, item in enumerate(inputs):
            yield from _of_file(item, features, header, columns, f"features {number}")
    elif _is_file(inputs):
        yield from _of_file(inputs, features, header, columns, "features")
    elif is_array(inputs) or isinstance(inputs, (list, tuple)) or not isinstance(inputs, Iterable):
        yield _of_array(inputs, features, "features")
    else:
        for number, item in enumerate(inputs):
            yield _of_array(item, features, f"features {number}")


def _is_file(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike, bytes, bytearray, memoryview)) or hasattr(value, "read")


def _of_file(
    value: Any, features: int, header: str, columns: Columns, name: str
) -> Iterator[FeatureRows | InputProblem]:
    try:
        if isinstance(value, (str, os.PathLike)):
            yield from _of_path(os.fsdecode(value), features, header, columns)
            return
        content = read_content(value) if hasattr(value, "read") else bytes(value)
        file_name = getattr(value, "name", None)
        yield read_feature_bytes(file_name if isinstance(file_name, str) else name, content, features, header, columns)
    except InputError as error:
        yield InputProblem(name, str(error).removeprefix(f"{name}: "))


def _of_path(path: str, features: int, header: str, columns: Columns) -> Iterator[FeatureRows | InputProblem]:
    """Return the files at a path: the file itself, or the files that match a glob."""
    import glob

    paths = [path]
    if glob.has_magic(path) and not os.path.lexists(path):
        paths = sorted(glob.glob(path))
        if not paths:
            yield InputProblem(path, "no file matches")
    for file in paths:
        try:
            yield read_features(Path(file), features, header, columns)
        except InputError as error:
            yield InputProblem(file, str(error).removeprefix(f"{file}: "))


def _of_array(value: Any, features: int, name: str) -> FeatureRows | InputProblem:
    try:
        rows = FeatureRows.in_memory(name, read_numbers(value, name))
        rows.check_shape(features)
        return rows
    except InputError as error:
        return InputProblem(name, str(error).removeprefix(f"{name}: "))
