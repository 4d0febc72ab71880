"""Migrate files in memory, so that unmodified scripts in older NKI dialects, and the modules that they import, can be
run.

with migrated_imports(print):            # prints one line for each migrated file
    ...
text, name = migrated("run.py", print)   # migrates the script itself
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import linecache
import logging
import os
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, ModuleType

from . import CANNOT, LimitError, MigrationError, migrate_source
from .names import OLD_PACKAGE

Notifier = Callable[[str], None]
_INSTALLED = tuple(os.path.realpath(path) for path in {sysconfig.get_path(n) for n in ("stdlib", "purelib", "platlib")})


def migrated(path: str, notify: Notifier) -> tuple[str, str] | None:
    """Return the text of a file in NKI 0.7, and the name of the file for messages.

    Return None if the file is not in an older dialect or cannot be migrated.

    `notify` is called with a line that reports the migration, or with the reason why the file was not migrated.
    """
    text = _text(path)
    if OLD_PACKAGE not in text:
        return None
    shown = os.path.basename(path)
    try:
        migration = migrate_source(text, keep_runners=True)
    except SyntaxError:
        return None
    except (LimitError, MigrationError) as error:
        notify(f"{shown}: an older NKI dialect that cannot be migrated: {error}")
        return None
    left = [note for note in migration.notes if note.kind == CANNOT]
    todo = f"; not migrated: line {left[0].line}, {left[0].message}" if left else ""
    notify(f"{shown}: an older NKI dialect, migrated in memory (`trninfer migrate` writes it){todo}")
    name = f"{path} (NKI 0.7)"
    linecache.cache[name] = (len(migration.text), None, migration.text.splitlines(keepends=True), name)
    return migration.text, name


@contextmanager
def migrated_imports(notify: Notifier) -> Iterator[None]:
    """Migrate modules that are imported within this context, except for installed modules."""
    finder = _Finder(notify)
    if not hasattr(logging, "OFF"):
        logging.OFF = logging.CRITICAL + 10  # type: ignore[attr-defined]  # added by neuronxcc and used by harnesses
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Finder(importlib.abc.MetaPathFinder):
    """A finder of modules in older dialects, which searches the same locations as Python's own finder."""

    def __init__(self, notify: Notifier) -> None:
        self._notify = notify

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        origin = spec.origin if spec is not None else None
        if spec is None or origin is None or not origin.endswith(".py"):
            return None
        if os.path.realpath(origin).startswith(_INSTALLED) or fullname.split(".")[0] in ("trninfer", "nki"):
            return None
        if OLD_PACKAGE not in _text(origin):
            return None
        spec.loader = _Loader(fullname, origin, self._notify)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    """A loader of modules from migrated text.

    Modules are migrated in the loader and not in the finder, since the finder holds the import lock.
    """

    def __init__(self, fullname: str, path: str, notify: Notifier) -> None:
        super().__init__(fullname, path)
        self._notify = notify

    def get_code(self, fullname: str) -> CodeType | None:
        result = migrated(self.path, self._notify)
        if result is None:
            return super().get_code(fullname)
        text, shown = result
        return compile(text, shown, "exec", dont_inherit=True)


def _text(path: str) -> str:
    """Return the text of a file, or an empty string if it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""
