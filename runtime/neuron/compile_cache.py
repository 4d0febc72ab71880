"""Cache compiled kernels on disk, so that a second run does not need to compile them.

    <folder>/<key>/entry.json     the inputs of the compilation, and the SHA-256 of each file
    <folder>/<key>/...            the files
    <folder>/<key>.partial/       an entry that is being written under the lock of its key; left-over entries are stale
    <folder>/locks/<key>          locked while a process looks up or compiles the key

The folder is TRNINFER_CACHE if that variable is set, else a folder in the user's cache folder. Entries are created
atomically. If the cache cannot be used, this is reported once, and nothing is cached.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...lowering.cache_folder import user_cache
from ...models.regular_files import open_regular
from ...simulator.machine.atomic_file import replacing

FAILURE_LOG = "last-failure.log"  # in the cache folder: the compiler's output for the most recent failure
_ENTRY = "entry.json"
_FORMAT = 1


def cache_folder() -> Path | None:
    """Return the folder of compiled kernels: TRNINFER_CACHE if set, else `neuron` in the user's cache folder for
    trninfer.

    Return None if the user has no cache folder.
    """
    return user_cache("neuron")


@dataclass(frozen=True)
class CacheSize:
    """Number of complete entries in the cache, and the total size of their files in bytes."""

    entries: int
    size_bytes: int


def cache_size(folder: Path) -> CacheSize:
    """Return the number of entries in a cache and their size; zero if there is no cache."""
    entries = total = 0
    for entry in folder.glob(f"*/{_ENTRY}"):
        if entry.parent.suffix == ".partial":
            continue
        entries += 1
        total += sum(file.stat().st_size for file in entry.parent.iterdir() if file.is_file())
    return CacheSize(entries, total)


def warn_user(message: str) -> None:
    """Issue a RuntimeWarning. This is the default for `warn`."""
    warnings.warn(message, RuntimeWarning, stacklevel=3)


class CompileCache:
    """A cache in a folder. If it cannot be used, `warn` is called with the reason. If the folder is None, nothing is
    cached."""

    def __init__(self, folder: Path | None, warn: Callable[[str], None] = warn_user) -> None:
        self.folder = folder
        self._warn = warn

    @contextlib.contextmanager
    def hold(self, material: Mapping[str, Any], on_wait: Callable[[], None] = lambda: None) -> Iterator[Slot]:
        """Yield the slot for `material` (JSON values), locked by this process while the block runs.

        `on_wait` is called if this process has to wait for another process that holds the lock.
        """
        key = hashlib.sha256(json.dumps(material, sort_keys=True).encode()).hexdigest()
        lock: int | None = None
        if self.folder is not None:
            try:
                lock = _lock(self.folder / "locks" / key, on_wait)
            except (OSError, ImportError) as error:
                self.give_up(error)
        try:
            yield Slot(self, key, material)
        finally:
            if lock is not None:
                os.close(lock)

    def give_up(self, error: BaseException) -> None:
        """Stop caching, and report the reason."""
        if self.folder is not None:
            self._warn(f"compiled kernels are not cached: {self.folder}: {_reason(error)}")
            self.folder = None

    def keep_log(self, text: str) -> Path | None:
        """Save the output of a failed compilation (only the latest is kept) and return its path; None if it cannot be
        saved."""
        if self.folder is None:
            return None
        log = self.folder / FAILURE_LOG
        try:
            with replacing(log) as file:
                file.write(text.encode(errors="replace"))
        except OSError:
            return None
        return log


class Slot:
    """The slot of one entry, held by this process."""

    def __init__(self, cache: CompileCache, key: str, material: Mapping[str, Any]) -> None:
        self._cache = cache
        self._key = key
        self._material = material

    def find(self) -> Path | None:
        """Return the folder of the entry, or None if there is none. A corrupt entry is removed."""
        if self._cache.folder is None:
            return None
        entry = self._cache.folder / self._key
        if not entry.exists():
            return None
        if _is_whole(entry):
            return entry
        self.discard()
        return None

    def discard(self) -> None:
        """Remove the entry."""
        if self._cache.folder is not None:
            try:
                shutil.rmtree(self._cache.folder / self._key)
            except FileNotFoundError:
                pass
            except OSError as error:
                self._cache.give_up(error)

    def store(self, write: Callable[[Path], None]) -> Path | None:
        """Create the entry and return its folder; None if it was not stored.

        `write` is called with a folder, to which it must write the files of the entry.

        If writing fails (PyTorch raises RuntimeError if the disk is full), the reason is reported and the run
        continues, since the compiled kernel is in memory.
        """
        if self._cache.folder is None:
            return None
        entry = self._cache.folder / self._key
        partial = self._cache.folder / f"{self._key}.partial"
        try:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            write(partial)
            record = {
                "format": _FORMAT,
                "material": self._material,
                "files": {file.name: _file_digest(file) for file in sorted(partial.iterdir())},
            }
            (partial / _ENTRY).write_text(json.dumps(record, indent=1, sort_keys=True), encoding="utf-8")
            os.rename(partial, entry)
        except Exception as error:
            self._cache.give_up(error)
            return None
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return entry


def _lock(path: Path, on_wait: Callable[[], None]) -> int:
    """Open and lock a file, and return its descriptor. The lock is released when the file is closed or the process
    ends."""
    import fcntl  # missing on Windows, where there are no Neuron devices

    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
    except BaseException:
        os.close(file)
        raise
    return file


def _is_whole(entry: Path) -> bool:
    try:
        with open_regular(entry / _ENTRY) as file:
            record = json.loads(file.read())
        files = record["files"] if record["format"] == _FORMAT else {}
        return bool(files) and all(_file_digest(entry / name) == digest for name, digest in files.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


def _file_digest(file: Path) -> str:
    digest = hashlib.sha256()
    with open_regular(file) as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _reason(error: BaseException) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split()) or type(error).__name__
