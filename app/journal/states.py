"""The state of a picture's file at the time of its prediction, from which `--resume` detects changes."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from ...models.regular_files import open_regular
from ..errors import UsageError
from ..options import ResumeCheck
from ..text import spell

_EXAMPLE = re.compile(r"\[[0-9]+\]$")  # suffix of an example in an array file: x.npy[3]
_CHUNK = 1 << 20  # bytes per read while hashing


class States(Protocol):
    """The states of inputs, which are stored with their predictions."""

    def take(self, name: str | int) -> dict[str, Any] | None:
        """Return the state of an input when it was read, or None if it is unknown."""

    def is_current(self, name: str | int, state: dict[str, Any] | None, reported: bool) -> bool:
        """Return True if an input is still in the state it had at the time of its prediction. If `reported` is True,
        its name is spelled as in reports."""


class FileStates:
    """The states of files: size and modification time, plus the SHA-256 of the contents if the check is `hash`.

    The state is recorded before the file is read, so that a file that changes in between is processed again.
    """

    def __init__(self, paths: Sequence[str], check: ResumeCheck) -> None:
        self._paths = paths
        self._check = check
        self._noted: dict[str, dict[str, Any]] = {}
        self._by_spelling: dict[str, list[str]] | None = None

    def watch(self, paths: Sequence[str]) -> Iterator[str]:
        """Record the state of each path, then yield the path."""
        for path in paths:
            state = self._state(path, contents=self._check == "hash")
            if state is not None:
                self._noted[path] = state
            yield path

    def take(self, name: str | int) -> dict[str, Any] | None:
        """Return the state of a file, or of the array file that contains an example, when it was yielded."""
        path = str(name)
        if path in self._noted:
            return self._noted.pop(path)
        return self._noted.get(_EXAMPLE.sub("", path))

    def is_current(self, name: str | int, state: dict[str, Any] | None, reported: bool) -> bool:
        """Return True unless the file is one of the watched files and has changed. For a prediction from a report, the
        file only has to be older than the report. Raises UsageError if hashes are to be compared and a prediction has
        none."""
        paths = self._paths_of(str(name), reported)
        if self._check == "name" or not paths:
            return True
        if self._check == "hash" and "sha256" not in (state or {}):
            raise UsageError(
                f"--resume-check hash: the answer to {name} has no hash, because it is from a report or from a run "
                "with another --resume-check; use --resume-check stat"
            )
        return all(self._is_state(path, state) for path in paths)

    def _is_state(self, path: str, state: dict[str, Any] | None) -> bool:
        now = self._state(path, contents=self._check == "hash")
        if now is None or state is None:
            return state is None and now is not None
        if self._check == "hash":
            return bool(now["sha256"] == state["sha256"])
        if "before" in state:
            return bool(now["changed_ns"] <= state["before"])
        return all(now[key] == state.get(key) for key in ("size", "changed_ns"))

    def _paths_of(self, name: str, reported: bool) -> list[str]:
        """Return the files that a name may refer to: several if their names have the same spelling in reports."""
        if self._by_spelling is None:
            self._by_spelling = {}
            for path in self._paths:
                self._by_spelling.setdefault(spell(path), []).append(path)
        for known in (name, _EXAMPLE.sub("", name)):
            paths = self._by_spelling.get(known if reported else spell(known), [])
            paths = paths if reported else [path for path in paths if path == known]
            if paths:
                return paths
        return []

    @staticmethod
    def _state(path: str, contents: bool) -> dict[str, Any] | None:
        """Return the state of a readable file, or None; errors are reported later, when the file is read."""
        try:
            if not contents:
                status = os.stat(path)
                return {"size": status.st_size, "changed_ns": status.st_mtime_ns}
            with open_regular(path) as file:
                status = os.fstat(file.fileno())
                digest = hashlib.sha256()
                while chunk := file.read(_CHUNK):
                    digest.update(chunk)
            return {"size": status.st_size, "changed_ns": status.st_mtime_ns, "sha256": digest.hexdigest()}
        except (OSError, ValueError):
            return None
