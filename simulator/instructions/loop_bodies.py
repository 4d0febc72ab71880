"""Tiles that the body of a device loop allocates.

They are freed at the end of each iteration (public guides to loops of NKI 0.6).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..machine.errors import NkiValidationError


def refuse_ended(op: str, tensors: Iterable[Any], ended: Iterable[Sequence[int]]) -> None:
    """Reject tiles of earlier iterations or loops. `ended` contains the ranges of the numbers of their allocations."""
    for tensor in tensors:
        tile = tensor.storage.owner
        on_chip = tensor.storage.on_chip and not tile.placed
        if on_chip and any(first <= tile.uid < end for first, end in ended):
            raise NkiValidationError(
                f"{op}: {tile.label} of {tile.line} was allocated in the body of a device loop and ends with each "
                "iteration; allocate it before the loop"
            )
