"""Estimate of the memory that a decoded ONNX file requires, computed without decoding it.

In a protobuf file, two bytes may represent a message that takes hundreds of bytes in memory, and one byte may represent
an 8-byte number. Therefore, the fields are first traversed using their lengths, and their decoded size is charged to a
`Budget`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..budget import Budget, OverBudget

MESSAGE_BYTES = 256  # bytes of a decoded message in addition to its fields; measured: 100 to 300
FIELD_BYTES = 48  # bytes of a text or byte string in addition to its content
LONG_BYTES = 20  # bytes of a 64-bit integer, which is one byte or more in the file and becomes an array element
MAX_FIELDS = 1 << 20  # maximum number of fields in a file; the traversal takes seconds
_VARINT, _LENGTH = 0, 2  # wire types
_FIXED = {1: 8, 5: 4}  # wire types of fixed size, with the number of bytes
_LONGEST_VARINT = 10


def take_message(descriptor: Any, content: bytes, budget: Budget) -> None:
    """Charge the budget for the decoded size of a message; `descriptor` is the protobuf descriptor of its type.

    Raises OverBudget if the budget is exceeded. Invalid content is ignored; the decoder rejects it later.
    """
    waiting = [(descriptor, 0, len(content))]
    fields = 0
    while waiting:
        kind, position, end = waiting.pop()
        for number, wire, start, stop in _fields(content, position, end):
            fields += 1
            if fields > MAX_FIELDS:
                raise OverBudget(f"it has more than {MAX_FIELDS:,} fields")
            field = kind.fields_by_number.get(number)
            if wire != _LENGTH:
                budget.take(8, "its content")
            elif field is not None and field.message_type is not None:
                budget.take(MESSAGE_BYTES, "its content")
                waiting.append((field.message_type, start, stop))
            else:
                budget.take(FIELD_BYTES + (stop - start) * _bytes_for_each(field), "its content")


def _fields(content: bytes, position: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield (number, wire type, start, end) of each field of a message, until one of them is invalid."""
    while position < end:
        key, start = _varint(content, position)
        wire = key & 7
        if wire == _VARINT:
            _, position = _varint(content, start)
        elif wire == _LENGTH:
            length, start = _varint(content, start)
            position = start + length
        elif wire in _FIXED:
            position = start + _FIXED[wire]
        else:  # a group, which ONNX does not use, or not a valid field
            return
        if position > end:
            return
        yield key >> 3, wire, start, position


def _bytes_for_each(field: Any) -> int:
    """Return the maximum number of bytes in memory per byte of a field's content."""
    if field is None or field.type in (field.TYPE_BYTES, field.TYPE_STRING, field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return 1
    return LONG_BYTES if field.type in (field.TYPE_INT64, field.TYPE_UINT64) else 8


def _varint(content: bytes, position: int) -> tuple[int, int]:
    """Return a number and the position after it, or the end of the data if the number is truncated."""
    value = 0
    for shift, byte in enumerate(content[position : position + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return value, position + shift + 1
    return 4, len(content)  # 4 is the wire type of the end of a group, which ends the traversal
