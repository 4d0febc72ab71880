"""Readers of .npy, .npz and .csv. They raise ValueError, in words for the user, for what is no table of numbers."""

from __future__ import annotations

import array
import csv
import io
import math
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, TextIO

import numpy as np

from ..models.regular_files import file_size, open_regular
from .feature_rows import MAX_LOADED_BYTES, FeatureRows

MAX_HEADER_BYTES = 1 << 16  # NumPy's own are of some 128
MAX_TURNED_BYTES = 1 << 30  # of an array that lies column by column: a small archive may unpack to it
MAX_LINE = 1 << 24  # characters of a .csv: a million numbers


class _Header(NamedTuple):
    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    offset: int  # of the values


def read_npy(path: Path) -> FeatureRows:
    """The rows of a .npy file."""
    file = open_regular(path)
    try:
        return _rows(str(path), (file,), file_size(file))
    except BaseException:
        file.close()
        raise


def read_npz(path: Path) -> FeatureRows:
    """The rows of the one array in a .npz file, or of that which is named x or X."""
    file = open_regular(path)
    try:
        archive = zipfile.ZipFile(file)
        members: dict[str, zipfile.ZipInfo] = {}
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if name in members:
                raise ValueError(f"holds two arrays named {name[:40]!r}")
            members[name] = member
        names = [name for name in members if name in ("x", "X")] or list(members)
        if len(names) != 1:
            raise ValueError(f"holds {len(names)} arrays; it must hold one, or one named x")
        member = members[names[0]]
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError("packed in a way that NumPy does not write")
        return _rows(str(path), (archive.open(member), file), member.file_size)
    except (EOFError, ArithmeticError, zipfile.BadZipFile, zlib.error, RuntimeError, OSError):
        file.close()
        raise ValueError("not an archive that can be read, or damaged") from None
    except BaseException:
        file.close()
        raise


def read_csv(path: Path) -> FeatureRows:
    """The rows of a .csv file: numbers, perhaps below a line of names, none of which is a number; empty lines are left
    out."""
    with open_regular(path) as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
        try:
            return FeatureRows.in_memory(str(path), _parse(text))
        except UnicodeDecodeError:
            raise ValueError("not a table of numbers in UTF-8") from None
        except csv.Error as error:
            raise ValueError(f"not a table of numbers: {error}") from None


def _rows(name: str, files: tuple[IO[bytes], ...], size: int) -> FeatureRows:
    """The rows of an array in the first of `files`, which has `size` bytes as far as a directory can be believed."""
    shape, fortran, dtype, offset = _read_header(files[0])
    expected = math.prod(shape) * dtype.itemsize
    if expected > size - offset:
        raise ValueError(f"an array of shape {list(shape)} takes {expected} bytes; {max(0, size - offset)} are there")
    if len(shape) < 2 or not fortran:
        return FeatureRows.in_file(name, files, offset, shape, dtype)
    if expected > MAX_TURNED_BYTES:
        raise ValueError(
            f"an array of shape {list(shape)} that lies column by column takes {expected} bytes; at most "
            f"{MAX_TURNED_BYTES} are held; save np.ascontiguousarray of it, which is read bit by bit"
        )
    content = files[0].read(expected)
    for file in files:
        file.close()
    if len(content) < expected:
        raise ValueError(f"cut short: an array of shape {list(shape)} takes {expected} bytes")
    return FeatureRows.in_memory(name, np.frombuffer(content, dtype).reshape(shape, order="F"))


def _read_header(file: IO[bytes]) -> _Header:
    """The header of an array, its length checked before it is read, and no Python object let through."""
    start = file.read(12)
    version = tuple(start[6:8])
    readers: dict[tuple[int, ...], Any] = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
        (3, 0): np.lib.format.read_array_header_2_0,  # 3.0 is 2.0 in UTF-8, for names of fields, which are refused
    }
    if not start.startswith(np.lib.format.MAGIC_PREFIX) or version not in readers:
        raise ValueError("not an array that can be read: it does not begin as one of NumPy's")
    first = 10 if version == (1, 0) else 12  # the text of the header begins there
    length = int.from_bytes(start[8:first], "little")
    if length > MAX_HEADER_BYTES:
        raise ValueError(f"not an array that can be read: its header claims {length} bytes")
    content = start[8:] + file.read(length - (12 - first))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of headers as Python 2 wrote them
            shape, fortran, dtype = readers[version](io.BytesIO(content))
    except Exception:  # it is parsed as Python literals, which raises nearly anything for a damaged one
        raise ValueError("not an array that can be read: its header is damaged") from None
    if dtype.hasobject:
        raise ValueError("holds Python objects, which are never unpickled")
    if dtype.kind not in "fiub":
        raise ValueError(f"holds values of type {dtype}; real numbers are needed")
    if any(size < 0 for size in shape):
        raise ValueError(f"not an array that can be read: its shape is {list(shape)}")
    return _Header(shape, fortran, dtype, first + length)


def _parse(text: TextIO) -> np.ndarray:
    """The numbers of a .csv as float64 [rows, columns]."""
    values = array.array("d")
    width = 0
    reader = csv.reader(_lines(text))
    for number, record in enumerate(record for record in reader if record):
        row = [_number(cell) for cell in record]
        if None in row:
            if number == 0 and not any(value is not None for value in row):
                continue  # a header
            raise ValueError(f"line {reader.line_num}{_what_is_wrong(record, row)}")
        if width and len(row) != width:
            raise ValueError(f"line {reader.line_num}: {len(row)} values, but {width} before it")
        width = len(row)
        values.extend(row)  # type: ignore[arg-type]  # none of them is None
        if len(values) * values.itemsize > MAX_LOADED_BYTES:
            raise ValueError(
                f"line {reader.line_num}: more numbers than fit {MAX_LOADED_BYTES} bytes; use .bin or .npy"
            )
    if not values:
        raise ValueError("holds no rows of numbers (a first line without any is taken for names)")
    return np.frombuffer(values, np.float64).reshape(-1, width)


def _number(cell: str) -> float | None:
    """A cell as a number; None for what Python alone takes for one (`1_0`, digits of other scripts), and for others."""
    try:
        return float(cell) if cell.isascii() and "_" not in cell else None
    except ValueError:
        return None


def _what_is_wrong(record: list[str], row: list[float | None]) -> str:
    """Which cell of a record is no number, as far as the usual causes go with what to do."""
    column = row.index(None)
    cell = record[column]
    for mark, name in ((";", "semicolons"), ("\t", "tabs"), (" ", "spaces")):
        if mark in cell.strip():
            return f": {name} between the values; commas are needed, and points in numbers"
    if not cell.strip():
        last = column > 0 and column == len(row) - 1
        return ": ends with a comma, as if a value were missing" if last else f", column {column + 1}: is empty"
    return f", column {column + 1}: {cell[:40]!r} is no number"


def _lines(text: TextIO) -> Iterator[str]:
    """The lines of a file, none of them without end."""
    while line := text.readline(MAX_LINE):
        if len(line) == MAX_LINE and not line.endswith("\n"):
            raise csv.Error(f"a line of more than {MAX_LINE} characters")
        yield line
