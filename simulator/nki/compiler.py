"""`nki.compiler`: configurations of `nki.jit`. Names of the first NKI raise an error that gives the replacement."""

from __future__ import annotations

from typing import Any

from ..machine.configs import AddressRotation, CompileConfig, SpecializationConfig
from .api import missing


def __getattr__(name: str) -> Any:
    return missing("nki.compiler", name)


__all__ = ["AddressRotation", "CompileConfig", "SpecializationConfig"]
