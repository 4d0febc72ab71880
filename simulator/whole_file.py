"""Files that appear whole or not at all: written beside their place, then moved there."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

NAME = 40  # characters of a file's name in that of the one beside it, whose name must not be too long


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a file for bytes that takes the place of `path`, with its permissions, once the block ends.

    OSError where it cannot be written; nothing is left beside `path` then.
    """
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:NAME]}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        os.chmod(temporary, stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    """The process's umask, which mkstemp does not go by."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
