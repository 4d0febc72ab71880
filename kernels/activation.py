"""Activations of operations, by name; plain data without `nki`, as in program.py."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Activation:
    """An elementwise function, by the names of `activation_functions.activate`, and its numbers."""

    name: str = "identity"
    parameters: tuple[float, ...] = ()

    @property
    def is_identity(self) -> bool:
        """True if it changes nothing."""
        return self.name == "identity"


IDENTITY = Activation()
