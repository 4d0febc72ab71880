"""`nki.compiler`: empty. What it had in earlier versions is named with what replaces it; importing it is no error."""

from __future__ import annotations

from typing import Any

from .api import missing


def __getattr__(name: str) -> Any:
    return missing("nki.compiler", name)
