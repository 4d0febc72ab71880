"""Write files atomically: a temporary file in the same directory replaces the target once it is complete."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

NAME = 40  # number of characters of the target's name used in the temporary name, to limit its length


@contextlib.contextmanager
def replacing(path: Path, synced: bool = False) -> Iterator[BinaryIO]:
    """Yield a binary file that atomically replaces `path`, keeping its permissions, at the end of the block.

    If `synced`, wait until the content is on disk. If writing fails, the temporary file is deleted and OSError is
    raised.
    """
    file, temporary = create_beside(path)
    try:
        with file:
            yield file
            if synced:
                file.flush()
                os.fsync(file.fileno())
        replace_with(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def create_beside(path: Path) -> tuple[BinaryIO, Path]:
    """Create a temporary file in the directory of `path`. Return the file, which is open for writing, and its path."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:NAME]}.")
    return os.fdopen(descriptor, "wb"), Path(temporary)


def replace_with(temporary: Path, path: Path) -> None:
    """Rename a file to `path`.

    It receives the permissions of the file that it replaces or, if there is none, the default permissions.
    """
    os.chmod(temporary, stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o666 & ~_umask())
    os.replace(temporary, path)


def _umask() -> int:
    """Return the umask of the process, which mkstemp ignores."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
