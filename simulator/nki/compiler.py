"""`nki.compiler`: configuration options for `nki.jit`. Names from the first version of NKI raise an error with the
replacement."""

from __future__ import annotations

from typing import Any

from ..machine.configs import AddressRotation, CompileConfig, SpecializationConfig
from .api import missing


def __getattr__(name: str) -> Any:
    return missing("nki.compiler", name)


__all__ = ["AddressRotation", "CompileConfig", "SpecializationConfig"]
