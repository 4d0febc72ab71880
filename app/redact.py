"""Remove folders, names of people and machines, and addresses from text that is sent to others."""

from __future__ import annotations

import getpass
import os
import platform
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# AWS and system folders, which are the same on every machine.
_PUBLIC = ("/opt/aws/", "/dev/neuron", "/usr/lib/", "/usr/sbin", "/sbin")
_PATH = re.compile(r"(?<![\w.~/:>])/[^\s:'\"`,;()<>|]+(?:/[^\s:'\"`,;()<>|]*)*")
_BELOW = re.compile(r"(<(?:home|folder|cache|temporary|python|trninfer)>)(?:/[^\s:'\"`,;()<>|]*)+")
# Only addresses of private networks are matched, because version numbers may also have four parts.
_ADDRESS = re.compile(r"(?<![\d.])(?:10|192\.168|169\.254|172\.(?:1[6-9]|2\d|3[01]))(?:\.\d{1,3}){2,3}(?![\d.]*\d)")
_INSTANCE = re.compile(r"\bi-[0-9a-f]{8,17}\b")
_COMMON = {"root", "user", "localhost", "linux"}  # names that are common to many machines


class Redactor:
    """Removes private paths, user and machine names, IP addresses and instance ids from text.

    `more` maps placeholders to additional folders. A known folder is replaced together with the path below it.
    """

    def __init__(self, more: Mapping[str, str] | None = None) -> None:
        package = Path(__file__).resolve().parent.parent
        folders = {
            os.path.expanduser("~"): "<home>",
            _working_folder(): "<folder>",
            tempfile.gettempdir(): "<temporary>",
            sys.prefix: "<python>",
            sys.base_prefix: "<python>",
            str(package): "<trninfer>",
            **(more or {}),
        }
        known = {path: label for path, label in folders.items() if len(path) > 1}
        self._folders = sorted(known.items(), key=lambda item: -len(item[0]))
        names = {"<user>": _user(), "<machine>": platform.node(), "<machine> ": platform.node().partition(".")[0]}
        self._names = [
            (re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])", re.IGNORECASE), label.strip())
            for label, name in names.items()
            if len(name) > 2 and name.lower() not in _COMMON
        ]

    def text(self, text: str) -> str:
        """Return a text with all private data removed."""
        for path, label in self._folders:
            text = re.sub(rf"(?<![\w/.-]){re.escape(path)}(?![\w.-])", label, text)
        text = _BELOW.sub(r"\1", text)
        text = _PATH.sub(lambda found: found.group() if found.group().startswith(_PUBLIC) else "<path>", text)
        for pattern, label in self._names:
            text = pattern.sub(label, text)
        return _INSTANCE.sub("<instance>", _ADDRESS.sub("<address>", text))

    def value(self, value: Any) -> Any:
        """Redact all strings in a JSON value, except the keys of objects."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self.value(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(item) for item in value]
        return value


def _working_folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # the current folder was removed
        return ""


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # the user id has no user name
        return ""
