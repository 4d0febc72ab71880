"""`nki.compiler`: the configurations of `nki.jit`. What it had in the first NKI is named with what replaces it."""

from __future__ import annotations

from typing import Any

from ..machine.configs import AddressRotation, CompileConfig, SpecializationConfig
from .api import missing


def __getattr__(name: str) -> Any:
    return missing("nki.compiler", name)


__all__ = ["AddressRotation", "CompileConfig", "SpecializationConfig"]
