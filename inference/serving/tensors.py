"""Tensors of the Open Inference Protocol, version 2, as they travel: JSON numbers or raw little-endian bytes.

Sources: the protocol's REST specification (kserve/open-inference-protocol, specification/protocol/inference_rest.md)
for tensors in JSON; the binary tensor data extension (triton-inference-server/server, docs/protocol) for raw bytes, in
which an element of BYTES is its length in four bytes, then itself.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import ml_dtypes
import numpy as np

MAX_DIMENSIONS = 8

DATATYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "UINT8": np.dtype("<u1"),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype("<i1"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
}


class ProtocolError(ValueError):
    """A request that does not follow the protocol; the message is one line for the client."""


def parse_shape(value: Any, where: str) -> tuple[int, ...]:
    """A JSON value as a shape; ProtocolError for anything else."""
    if not isinstance(value, list) or not all(type(size) is int and 0 <= size < 1 << 32 for size in value):
        raise ProtocolError(f"{where}: shape must be a list of whole numbers from 0 up")
    if not 1 <= len(value) <= MAX_DIMENSIONS:
        raise ProtocolError(f"{where}: shape has {len(value)} dimensions; 1 to {MAX_DIMENSIONS} are allowed")
    return tuple(value)


def parse_datatype(value: Any, where: str) -> np.dtype[Any]:
    """A JSON value as the type of a tensor of numbers; ProtocolError for anything else."""
    if not isinstance(value, str) or value not in DATATYPES:
        raise ProtocolError(f"{where}: datatype is {str(value)[:40]!r}; allowed are {', '.join(DATATYPES)}")
    return DATATYPES[value]


def from_json(data: Any, shape: tuple[int, ...], dtype: np.dtype[Any], where: str) -> np.ndarray:
    """The numbers of a JSON list, flat or nested as the shape is; ProtocolError where they do not fit it."""
    if not isinstance(data, list):
        raise ProtocolError(f"{where}: data must be a list of numbers")
    try:
        values = np.array(data)
    except (ValueError, TypeError, OverflowError):
        raise ProtocolError(f"{where}: data has lists of different lengths, or values that are no numbers") from None
    if not values.size and math.prod(shape) == 0:
        return np.zeros(shape, dtype)
    if values.dtype.kind not in "fiub":
        raise ProtocolError(f"{where}: data must be numbers")
    if values.shape not in (shape, (math.prod(shape),)):
        raise ProtocolError(f"{where}: data has the shape {list(values.shape)}, which does not fit {list(shape)}")
    if dtype.kind in "iu" and values.dtype.kind == "f":
        given = np.array(data, dtype=object)  # NumPy makes 2^63 and more floating point beside smaller whole numbers
        if all(type(item) is int for item in given.flat):
            values = given
    values = values.reshape(shape)
    if dtype.kind in "iub" and (values.dtype.kind == "f" or not _fits(values, dtype)):
        raise ProtocolError(f"{where}: data has numbers that {dtype.name} cannot hold")
    with np.errstate(over="ignore"):
        return values.astype(dtype)


def from_bytes(data: memoryview, shape: tuple[int, ...], dtype: np.dtype[Any], where: str) -> np.ndarray:
    """The numbers in raw bytes; ProtocolError where their count does not fit the shape."""
    expected = math.prod(shape) * dtype.itemsize
    if len(data) != expected:
        raise ProtocolError(f"{where}: {len(data)} bytes came; {list(shape)} of {dtype.name} takes {expected}")
    return np.frombuffer(data, dtype).reshape(shape)


def to_json(values: np.ndarray) -> list[Any]:
    """A tensor as a flat JSON list; elements of BYTES as text."""
    flat: list[Any] = values.ravel().tolist()
    return flat


def to_bytes(values: np.ndarray) -> bytes:
    """A tensor as raw bytes."""
    if values.dtype != object:
        return np.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes()
    texts = [str(item).encode("utf-8", "backslashreplace") for item in values.ravel()]
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


def _fits(values: np.ndarray, dtype: np.dtype[Any]) -> bool:
    if dtype.kind == "b":
        return bool(((values == 0) | (values == 1)).all())
    limits = np.iinfo(dtype)
    return values.dtype.kind == "b" or (int(values.min()) >= limits.min and int(values.max()) <= limits.max)
