"""Rows of features, in memory or read from a file one batch at a time."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterator, Set
from contextlib import AbstractContextManager
from types import TracebackType
from typing import IO, Any

import numpy as np

from ..models.budget import Budget
from ..models.errors import InputError
from ..models.regular_files import describe
from .columns import Sides

MAX_LOADED_BYTES = 8 << 30  # maximum size in bytes of an array that must be read completely


Refuse = Callable[[int, str], None]


class FeatureRows(AbstractContextManager["FeatureRows"]):
    """An array [rows, features], of which one batch is in memory at a time.

    Files are read rather than memory-mapped, since truncating a mapped file would crash the process.
    """

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        values: np.ndarray | None = None,
        files: tuple[IO[bytes], ...] = (),
        offset: int = 0,
    ) -> None:
        self.name = name
        self.shape = shape
        self._dtype = dtype
        self._values = values
        self._files = files  # the first file is read; all are closed at the end
        self._offset = offset
        self.notes: tuple[str, ...] = ()  # notes for the user on how the file was read
        self.sides: Sides | None = None  # ids and correct classes of the rows, if their table has such columns

    @classmethod
    def in_memory(cls, name: str, values: np.ndarray) -> FeatureRows:
        """Return the rows of an array in memory; an array of one dimension is a single row."""
        values = values[None] if values.ndim == 1 else values
        return cls(name, values.shape, values.dtype, values)

    @classmethod
    def in_file(
        cls, name: str, files: tuple[IO[bytes], ...], offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> FeatureRows:
        """Return rows stored contiguously from `offset` in the first of `files`; all files are closed together with the
        rows."""
        return cls(name, shape if len(shape) != 1 else (1, *shape), dtype, None, files, offset)

    def __len__(self) -> int:
        return self.shape[0] if self.shape else 0

    def batches(self, size: int, first: int = 0) -> Iterator[np.ndarray]:
        """Yield rows starting at `first`, at most `size` at a time. Raises InputError if the file has changed."""
        for begin in range(first, len(self), size):
            count = min(size, len(self) - begin)
            yield self._values[begin : begin + count] if self._values is not None else self._read(begin, count)

    def whole(self, budget: Budget) -> np.ndarray:
        """Return the complete array in its original shape. Raises ValueError if it exceeds the budget or the file was
        truncated."""
        if self._values is not None:
            return self._values
        size = int(np.prod(self.shape, dtype=object)) * self._dtype.itemsize
        budget.take(size, f"an array of shape {list(self.shape)}")
        try:
            content = self._files[0].read(size)
        except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise ValueError(f"cannot be read: {error}") from None
        if len(content) < size:
            raise ValueError(f"truncated: an array of shape {list(self.shape)} takes {size} bytes")
        return np.frombuffer(content, self._dtype).reshape(self.shape)

    def check_shape(self, features: int, advice: str = "") -> None:
        """Raise InputError unless there is at least one row and each has `features` values. The message includes
        `advice` if rows have more values."""
        if len(self.shape) != 2 or self.shape[1] != features:
            message = (
                f"{self.name}: the array has the shape {list(self.shape)}, but the network expects [rows, {features}]"
            )
            is_wider = len(self.shape) == 2 and self.shape[1] > features
            raise InputError(f"{message}{self._hint(features) or (advice if is_wider else '')}")
        if not len(self):
            raise InputError(f"{self.name}: contains no rows")

    def _hint(self, features: int) -> str:
        """Return a hint about the likely cause of an unexpected shape."""
        if self._values is None or self._values.ndim != 2 or self.shape[1] != features + 1 or len(self) < 2:
            return ""
        counts = self._values[:, 0] - self._values[0, 0]
        if not np.array_equal(counts, np.arange(len(self))):
            return ""
        return "; its first column looks like row numbers; remove it (pandas: to_csv(index=False))"

    def close(self) -> None:
        """Close the file, if there is one."""
        for file in self._files:
            file.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self, first: int, count: int) -> np.ndarray:
        file = self._files[0]
        row = self.shape[1] * self._dtype.itemsize
        position = self._offset + first * row
        try:
            if file.tell() != position:  # seeking in an archive decompresses it again
                file.seek(position)
            content = file.read(count * row)
        except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            reason = describe(error) if isinstance(error, OSError) else "its archive is damaged"
            raise InputError(f"{self.name}: row {first}: {reason}") from None
        if len(content) < count * row:
            raise InputError(f"{self.name}: truncated at row {first + len(content) // row}")
        return np.frombuffer(content, self._dtype).reshape(count, self.shape[1])


def check_finite(name: str, rows: np.ndarray) -> None:
    """Raise InputError if a value of rows [N, M] is NaN, or infinite in float32."""
    finite = _finite(rows)
    if not finite.all():
        row, column = np.unravel_index(int(finite.argmin()), finite.shape)
        raise InputError(f"{name}: row {row}, {_not_finite(rows, int(row), int(column))}")


def numbered(
    rows: FeatureRows, batch_size: int, refuse: Refuse, first: int = 0, answered: Set[str | int] = frozenset()
) -> Iterator[tuple[list[int], np.ndarray]]:
    """Yield batches of rows that are not in `answered`, starting at row `first`, with their numbers.

    Each row is checked when it is read, since a file may be larger than memory and may change. `refuse` is called with
    the number of a row that is not finite in float32, and the reason.
    """
    for batch in rows.batches(batch_size, first):
        numbers, usable = usable_rows(batch, first, refuse, answered)
        first += len(batch)
        if numbers:
            yield numbers, usable


def usable_rows(
    rows: np.ndarray, first: int, refuse: Refuse, answered: Set[str | int] = frozenset()
) -> tuple[list[int], np.ndarray]:
    """Return the rows of [N, M] that are finite in float32 and not in `answered`, preceded by their numbers. `first`
    is the number of the first row. `refuse` is called with the number of a row that is not finite, and the reason."""
    finite = _finite(rows)
    is_usable = finite.all(axis=1)
    for row in np.flatnonzero(~is_usable):
        refuse(first + int(row), _not_finite(rows, int(row), int(finite[row].argmin())))
    left = [int(row) for row in np.flatnonzero(is_usable) if first + int(row) not in answered]
    return [first + row for row in left], rows if len(left) == len(rows) else rows[left]


def _finite(rows: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.isfinite(rows.astype(np.float32, copy=False))


def _not_finite(rows: np.ndarray, row: int, column: int) -> str:
    value = np.float32(rows[row, column]) if np.isnan(rows[row, column]) else rows[row, column]
    return f"column {column} is {value}; all values must be finite in float32"
