"""Memory that the content of a file may take once it is unpacked.

A small file may claim, or unpack to, much more than the machine has. Every reader of compressed or sparse files (npz,
Parquet, safetensors, ONNX, pictures) asks a `Budget` before it allocates.
"""

from __future__ import annotations

import os
from typing import IO

MIN_BYTES = 512 << 20  # that any file may take
EXPANSION = 16  # bytes in memory for one in the file; 8-bit pixels, well packed, take about 10
MAX_BYTES = 8 << 30  # that no file may exceed


class OverBudget(ValueError):  # noqa: N818 (the condition)
    """A file whose content takes more memory than allowed; the message is one line."""


class Budget:
    """Bytes that are left for one file. `max_bytes` is what it may take in all."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.taken = 0

    @classmethod
    def for_file(cls, file_bytes: int) -> Budget:
        """Return the budget of a file of this size: MIN_BYTES, or EXPANSION times its size if that is more."""
        return cls(min(MAX_BYTES, max(MIN_BYTES, EXPANSION * file_bytes)))

    @classmethod
    def of(cls, file: IO[bytes]) -> Budget:
        """Return the budget of an open file, by what it takes on disk: holes of a sparse file do not count."""
        status = os.fstat(file.fileno())
        return cls.for_file(min(status.st_size, 512 * getattr(status, "st_blocks", 1 << 54)))

    def take(self, size: int, what: str) -> None:
        """Take `size` bytes, to be called before they are allocated; OverBudget says that `what` needs more."""
        if self.taken + size > self.max_bytes:
            raise OverBudget(f"{what} takes {self.taken + size:,} bytes; at most {self.max_bytes:,} are allowed here")
        self.taken += size
