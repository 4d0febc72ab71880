"""The launch grid, as seen by a kernel: the index of the current core, and the number of cores."""

from __future__ import annotations

from typing import Any

from ..instructions.core import active
from ..machine.errors import NkiValidationError


def program_id(axis: int = 0) -> int:
    """Return the index of this core in the launch grid."""
    _axis("program_id", axis)
    return active("program_id").rank


def num_programs(axes: Any = 0) -> int:
    """Return the number of cores on which the kernel was launched."""
    for axis in axes if isinstance(axes, (tuple, list)) else (axes,):
        _axis("num_programs", axis)
    return active("num_programs").programs or 1


def program_ndim() -> int:
    """Return the number of dimensions of the launch grid: 1, or 0 if the kernel was launched without a grid."""
    return 0 if active("program_ndim").programs is None else 1


def _axis(what: str, axis: Any) -> None:
    if axis not in (0, None):
        raise NkiValidationError(f"nl.{what}: axis must be 0, the only axis of a launch grid, got {axis!r}")
