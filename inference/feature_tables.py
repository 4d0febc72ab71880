"""Readers of .npy and .npz files. They raise ValueError, with a message for the user, if a file is not a table of
numbers."""

from __future__ import annotations

import io
import math
import warnings
import zipfile
import zlib
from typing import IO, Any, NamedTuple

import numpy as np

from ..models.budget import Budget
from .feature_rows import FeatureRows

MAX_HEADER_BYTES = 1 << 16  # headers written by NumPy have about 128 bytes


class _Header(NamedTuple):
    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    offset: int  # offset of the values in the file


def npy_rows(name: str, file: IO[bytes], size: int) -> FeatureRows:
    """Return the rows of an array in a file of `size` bytes, which is closed together with the rows."""
    return _rows(name, (file,), size, Budget.for_file(size))


def npz_rows(name: str, file: IO[bytes], size: int) -> FeatureRows:
    """Return the rows of the only array in an archive, or of the array named x or X; the file is closed together with
    the rows."""
    try:
        archive = zipfile.ZipFile(file)
        members: dict[str, zipfile.ZipInfo] = {}
        for member in archive.infolist():
            array = member.filename.removesuffix(".npy")
            if array in members:
                raise ValueError(f"contains two arrays named {array[:40]!r}")
            members[array] = member
        names = [array for array in members if array in ("x", "X")] or list(members)
        if len(names) != 1:
            raise ValueError(f"contains {len(names)} arrays; it must contain only one, or one named x")
        member = members[names[0]]
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError("the compression method is not one that NumPy writes")
        budget = Budget.for_file(file.seek(0, io.SEEK_END))
        return _rows(name, (archive.open(member), file), member.file_size, budget)
    except (EOFError, ArithmeticError, zipfile.BadZipFile, zlib.error, RuntimeError, OSError):
        raise ValueError("not an archive, or damaged") from None


def _rows(name: str, files: tuple[IO[bytes], ...], size: int, budget: Budget) -> FeatureRows:
    """Return the rows of an array in the first of `files`. `size` is the size of that file according to the directory
    of the archive, which may be wrong."""
    shape, fortran, dtype, offset = _read_header(files[0])
    expected = math.prod(shape) * dtype.itemsize
    if expected > size - offset:
        raise ValueError(
            f"an array of shape {list(shape)} takes {expected} bytes, but the file has {max(0, size - offset)}"
        )
    if len(shape) < 2 or not fortran:
        return FeatureRows.in_file(name, files, offset, shape, dtype)
    budget.take(
        expected,
        f"an array of shape {list(shape)} in Fortran order, which is not supported; save np.ascontiguousarray of it",
    )
    content = files[0].read(expected)
    for file in files:
        file.close()
    if len(content) < expected:
        raise ValueError(f"truncated: an array of shape {list(shape)} takes {expected} bytes")
    return FeatureRows.in_memory(name, np.frombuffer(content, dtype).reshape(shape, order="F"))


def _read_header(file: IO[bytes]) -> _Header:
    """Read the header of an array. Its length is checked first, and arrays of Python objects are rejected."""
    start = file.read(12)
    version = tuple(start[6:8])
    readers: dict[tuple[int, ...], Any] = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
        (3, 0): np.lib.format.read_array_header_2_0,  # version 3.0 is 2.0 with UTF-8 field names, which are rejected
    }
    if not start.startswith(np.lib.format.MAGIC_PREFIX) or version not in readers:
        raise ValueError("not a readable array: it does not start with NumPy's magic bytes")
    first = 10 if version == (1, 0) else 12  # offset of the header's text
    length = int.from_bytes(start[8:first], "little")
    if length > MAX_HEADER_BYTES:
        raise ValueError(f"not a readable array: its header claims to be {length} bytes long")
    content = start[8:] + file.read(length - (12 - first))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about headers written by Python 2
            shape, fortran, dtype = readers[version](io.BytesIO(content))
    except Exception:  # parsing Python literals of a damaged header may raise nearly any exception
        raise ValueError("not a readable array: its header is damaged") from None
    if dtype.hasobject:
        raise ValueError("contains Python objects, which are never unpickled")
    if dtype.kind not in "fiub":
        raise ValueError(f"contains values of type {dtype}; expected real numbers")
    if any(size < 0 for size in shape):
        raise ValueError(f"not a readable array: its shape {list(shape)} is not supported")
    return _Header(shape, fortran, dtype, first + length)
