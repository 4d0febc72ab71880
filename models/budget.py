"""Limits on the memory that the content of a file may occupy after decompression.

A small file may specify sizes, or expand to data, beyond the memory of the machine. Every reader of compressed or
sparse files (npz, Parquet, safetensors, ONNX, pictures) checks a `Budget` before allocating memory.
"""

from __future__ import annotations

import json
import os
from typing import IO, Any

MIN_BYTES = 512 << 20  # allowed for any file
EXPANSION = 16  # bytes in memory per byte in the file; well-compressed 8-bit pixels need about 10
MAX_BYTES = 8 << 30  # never exceeded
OBJECT_BYTES, LIST_BYTES, VALUE_BYTES = 232, 88, 40  # approximate sizes of parsed JSON in CPython


class OverBudget(ValueError):  # noqa: N818 (the condition)
    """Raised, with a one-line message, if the content of a file needs more memory than allowed."""


class Budget:
    """The memory budget of one file. `max_bytes` is the total, `taken` the number of bytes already used."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.taken = 0

    @classmethod
    def for_file(cls, file_bytes: int) -> Budget:
        """Return the budget of a file of this size: EXPANSION times its size, but at least MIN_BYTES."""
        return cls(min(MAX_BYTES, max(MIN_BYTES, EXPANSION * file_bytes)))

    @classmethod
    def of(cls, file: IO[bytes]) -> Budget:
        """Return the budget of an open file based on its size on disk, excluding the holes of a sparse file."""
        status = os.fstat(file.fileno())
        return cls.for_file(min(status.st_size, 512 * getattr(status, "st_blocks", 1 << 54)))

    def take(self, size: int, what: str) -> None:
        """Reserve `size` bytes before they are allocated for `what`; raise OverBudget if the budget is exceeded."""
        if self.taken + size > self.max_bytes:
            raise OverBudget(f"{what} takes {self.taken + size:,} bytes, which exceeds the limit of {self.max_bytes:,}")
        self.taken += size


def check_json(text: str | bytes) -> None:
    """Raise OverBudget if a JSON text would need too much memory when parsed, estimated by counting brackets and
    commas."""
    objects, lists, values = map(text.count, "{[," if isinstance(text, str) else (b"{", b"[", b","))  # type: ignore[arg-type]
    needed = OBJECT_BYTES * objects + LIST_BYTES * lists + VALUE_BYTES * values
    Budget.for_file(len(text)).take(needed, "its JSON")


def read_json(text: str | bytes) -> Any:
    """Parse a JSON text. Raises OverBudget if it needs too much memory, and ValueError if it is not JSON."""
    check_json(text)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("not valid JSON") from None
