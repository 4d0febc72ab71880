"""Reader of .safetensors files: metadata, tensor table and tensor values. It executes no code and reads no pickles.

A file consists of the length of its header (eight bytes), the header (JSON), and the values of the tensors.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import ml_dtypes
import numpy as np
import numpy.typing as npt

from .budget import Budget, OverBudget
from .checks import Shape
from .errors import ModelError
from .regular_files import describe, open_regular

# Even with a thousand class labels and hundreds of tensors, a header is only a few tens of kilobytes.
MAX_HEADER_BYTES = 4 << 20

# For each type that converts losslessly to float32, maps its safetensors name to its layout in the file.
_DTYPES: dict[str, npt.DTypeLike] = {"F32": "<f4", "F16": "<f2", "BF16": ml_dtypes.bfloat16}


class Entry(NamedTuple):
    """A table entry: the safetensors type, the shape, and the range [first, end) of bytes that hold the tensor's
    values."""

    dtype: str
    shape: Shape
    begin: int
    end: int


@dataclass(frozen=True)
class TensorFile:
    """The header of a tensor file, which is read before the tensors."""

    path: Path
    metadata: dict[str, str]
    entries: dict[str, Entry]
    data_offset: int
    file_bytes: int


def read_table(path: Path) -> TensorFile:
    """Read the metadata and the tensor table of a file; raise ModelError for any other file."""
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            start = file.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
            if not 2 <= length <= size - 8:
                raise ModelError(f"{path}: not a safetensors file, or truncated")
            if length > MAX_HEADER_BYTES:
                raise ModelError(
                    f"{path}: its header claims to be {length} bytes long; the limit is {MAX_HEADER_BYTES}"
                )
            raw = file.read(length)
    except ModelError:
        raise
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: {describe(error)}") from None
    try:
        table = json.loads(raw, object_pairs_hook=_once)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    except (ValueError, RecursionError):
        raise ModelError(f"{path}: not a safetensors file: its header is not JSON") from None
    if not isinstance(table, dict):
        raise ModelError(f"{path}: not a safetensors file: its header is not a JSON object")
    metadata = table.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ModelError(f"{path}: its metadata values are not strings")
    try:
        return TensorFile(path, metadata, _entries(table, size - 8 - length), 8 + length, size)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None


def check_types(file: TensorFile, names: Iterable[str]) -> None:
    """Raise ModelError unless all tensors are valid.

    `read_tensors` must support their types, their sizes must match their shapes, and together they must fill the
    file's data without overlap.
    """
    for name in names:
        dtype, shape, begin, end = file.entries[name]
        if dtype not in _DTYPES:
            raise ModelError(f"tensor {name!r} is of type {dtype!r}; allowed: {', '.join(_DTYPES)}")
        if end - begin != math.prod(shape) * np.dtype(_DTYPES[dtype]).itemsize:
            raise ModelError(f"tensor {name!r} takes {end - begin} bytes, which does not match its shape {list(shape)}")
    _check_places(file)


def read_tensors(file: TensorFile, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Read tensors that passed `check_types` as float32; raise ModelError if the file was changed or is unreadable."""
    tensors = {}
    try:
        with file.path.open("rb") as stream:
            budget = Budget.of(stream)
            for name in names:
                dtype, shape, begin, end = file.entries[name]
                budget.take(4 * math.prod(shape), f"tensor {name!r}, with those before it,")
                stream.seek(file.data_offset + begin)
                raw = stream.read(end - begin)
                if len(raw) != end - begin:
                    raise ModelError(f"{file.path}: truncated within tensor {name!r}")
                tensors[name] = np.frombuffer(raw, _DTYPES[dtype]).reshape(shape).astype(np.float32)
    except OverBudget as error:
        raise ModelError(f"{file.path}: {error}") from None
    except OSError as error:
        raise ModelError(f"{file.path}: cannot be read: {error.strerror or error}") from None
    return tensors


def _entries(table: Mapping[str, object], data_bytes: int) -> dict[str, Entry]:
    """Convert the JSON table of tensors, checking the type and range of every field."""
    entries = {}
    for name, entry in table.items():
        if not isinstance(entry, dict):
            raise ModelError(f"tensor {name!r}: its entry is not a JSON object")
        dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
        sizes, ends = _sizes(shape), _sizes(offsets)
        if not isinstance(dtype, str) or sizes is None or ends is None or len(ends) != 2:
            raise ModelError(f"tensor {name!r}: its dtype, shape or data_offsets are invalid")
        begin, end = ends
        if not begin <= end <= data_bytes:
            raise ModelError(f"tensor {name!r} extends beyond the file, which is truncated or corrupt")
        entries[name] = Entry(dtype, sizes, begin, end)
    return entries


def _check_places(file: TensorFile) -> None:
    """Raise ModelError unless the tensors fill the data without overlap, as the format requires."""
    before, reached = "", 0
    for name, entry in sorted(file.entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin < reached:
            raise ModelError(f"tensors {before!r} and {name!r} overlap; the safetensors format forbids this")
        if entry.begin > reached:
            raise ModelError(f"bytes {reached} to {entry.begin} of the data belong to no tensor")
        before, reached = name, entry.end
    end = file.file_bytes - file.data_offset
    if reached < end:
        raise ModelError(f"bytes {reached} to {end} of the data belong to no tensor")


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return the pairs of a JSON object as a dict; raise ModelError if a name occurs twice."""
    fields: dict[str, object] = {}
    for name, value in pairs:
        if name in fields:
            raise ModelError(f"its header contains the name {name!r} twice")
        fields[name] = value
    return fields


def _sizes(value: object) -> Shape | None:
    """Return a JSON value as a tuple of non-negative integers, or None if it is anything else."""
    if isinstance(value, list) and all(type(item) is int and item >= 0 for item in value):
        return tuple(value)
    return None
