"""Wire formats of Open Inference Protocol tensors, version 2: JSON numbers or raw little-endian bytes.

The bytes from a client are checked against the shape before they are parsed, so the shape limits the memory that is
needed.

Sources: the protocol's REST specification (kserve/open-inference-protocol, specification/protocol/inference_rest.md)
for JSON; the binary tensor data extension (triton-inference-server/server, docs/protocol) for raw bytes, in which an
element of BYTES is preceded by its length in four bytes.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import ml_dtypes
import msgspec
import numpy as np

PIECE_BYTES = 1 << 18  # number of bytes of JSON parsed at once
PIECE_NUMBERS = 1 << 14  # number of values written at once

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
_NESTING = b"[],"
_NOT_NESTING = bytes(set(range(256)) - set(_NESTING))
_FLOATS = msgspec.json.Decoder(list[float])
_INTEGERS = msgspec.json.Decoder(list[int])
_FLAGS = msgspec.json.Decoder(list[bool | int])


class ProtocolError(ValueError):
    """A request that does not follow the protocol; the message is a single line for the client."""

    status = 400


class TooLargeError(ProtocolError):
    """A body whose parsing requires more memory than the process has."""

    status = 413


class TooManyExamples(ProtocolError):  # noqa: N818 (the condition)
    """A request with more examples than allowed."""

    status = 413


def split_elements(raw: memoryview, where: str) -> list[bytes]:
    """Return the elements of a raw BYTES tensor, each preceded by its length in four bytes."""
    elements = []
    while raw:
        length = struct.unpack_from("<I", raw)[0] if len(raw) >= 4 else len(raw) + 1
        if length > len(raw) - 4:
            raise ProtocolError(f"{where}: an element of BYTES is truncated")
        elements.append(bytes(raw[4 : 4 + length]))
        raw = raw[4 + length :]
    return elements


def parse_datatype(name: str, where: str) -> np.dtype[Any]:
    """Return the dtype of a numeric tensor. Raises ProtocolError for other names."""
    if name not in DATATYPES:
        raise ProtocolError(f"{where}: datatype is {name[:40]!r}; allowed: {', '.join(DATATYPES)}")
    return DATATYPES[name]


def from_json(text: bytes, shape: tuple[int, ...], dtype: np.dtype[Any], where: str) -> np.ndarray:
    """Parse the numbers in a JSON list, which is flat or nested according to the shape. Raises ProtocolError if they do
    not match the shape.

    `text` is valid JSON, and the shape has at least one element.
    """
    count = math.prod(shape)
    if not text.lstrip().startswith(b"[") or any(mark in text for mark in (b'"', b"{")):
        raise ProtocolError(f"{where}: data must be a list of numbers")
    nesting = text.translate(None, _NOT_NESTING)
    if not _fits_shape(nesting, shape):
        description = f"{nesting.count(b',') + 1} values" if nesting.count(b"[") == 1 else "nested lists"
        raise ProtocolError(f"{where}: data contains {description}, which does not match the shape {list(shape)}")
    del nesting
    numbers = text.translate(None, b"[]")
    values = np.empty(count, np.float64 if dtype.kind not in "iub" else dtype)
    begin = filled = 0
    while begin < len(numbers):
        end = numbers.find(b",", begin + PIECE_BYTES)
        end = len(numbers) if end < 0 else end
        piece = _parse(b"[%b]" % numbers[begin:end], dtype, where)
        values[filled : filled + len(piece)] = piece
        filled += len(piece)
        begin = end + 1
    with np.errstate(over="ignore"):
        return values.reshape(shape).astype(dtype, copy=False)


def from_bytes(data: memoryview, shape: tuple[int, ...], dtype: np.dtype[Any], where: str) -> np.ndarray:
    """Parse the numbers in raw bytes. Raises ProtocolError if their count does not match the shape."""
    expected = math.prod(shape) * dtype.itemsize
    if len(data) != expected or not expected:
        raise ProtocolError(f"{where}: received {len(data)} bytes; {list(shape)} of {dtype.name} takes {expected}")
    return np.frombuffer(data, dtype).reshape(shape)


def to_json(values: np.ndarray) -> bytes:
    """Return a tensor as a flat JSON list, with BYTES as text. Raises ValueError for NaN and infinity."""
    if values.dtype != object and not np.isfinite(values).all():
        raise ValueError("JSON cannot represent NaN or infinity")
    flat = values.ravel()
    # Values are written in pieces, so that other threads can run in between.
    pieces = (flat[begin : begin + PIECE_NUMBERS].tolist() for begin in range(0, len(flat), PIECE_NUMBERS))
    return b"[%b]" % b",".join(msgspec.json.encode(piece)[1:-1] for piece in pieces)


def to_bytes(values: np.ndarray) -> bytes:
    """Return a tensor as raw bytes."""
    if values.dtype != object:
        return np.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes()
    texts = [str(item).encode("utf-8", "backslashreplace") for item in values.ravel()]
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


def _fits_shape(nesting: bytes, shape: tuple[int, ...]) -> bool:
    """Return True if the brackets and commas of a list match a flat list, or a list nested according to the shape."""
    count = math.prod(shape)
    lists = sum(math.prod(shape[:axis]) for axis in range(len(shape)))
    if len(nesting) == count + 1 and nesting[1:-1] == b"," * (count - 1):
        return True
    if len(nesting) != count - 1 + 2 * lists:
        return False
    expected = b""
    for size in reversed(shape):
        expected = b"[%b]" % b",".join([expected] * size)
    return nesting == expected


def _parse(text: bytes, dtype: np.dtype[Any], where: str) -> list[Any]:
    """Parse a flat JSON list. Raises ProtocolError if it contains elements other than numbers of the type."""
    decoder: Any = {"b": _FLAGS, "i": _INTEGERS, "u": _INTEGERS}.get(dtype.kind, _FLOATS)
    try:
        numbers: list[Any] = decoder.decode(text)
    except (msgspec.DecodeError, ValueError) as error:
        reason = str(error).partition(" - at ")[0][:100]
        raise ProtocolError(f"{where}: data must be numbers of {dtype.name}: {reason}") from None
    if dtype.kind in "iub":
        low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        if min(numbers) < low or max(numbers) > high:
            raise ProtocolError(f"{where}: data contains numbers outside the range of {dtype.name}")
    return numbers
