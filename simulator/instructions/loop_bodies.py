"""Tiles that the body of a device loop allocates.

They are freed at the end of each iteration (public guides to loops of NKI 0.6).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

from ..machine.errors import NkiValidationError

_FIRST = itemgetter(0)


def refuse_ended(op: str, tensors: Iterable[Any], ended: Sequence[Sequence[int]]) -> None:
    """Reject tiles of earlier iterations or loops. `ended` contains the ranges of the numbers of their allocations, in
    order and without overlap."""
    for tensor in tensors:
        tile = tensor.storage.owner
        last = bisect_right(ended, tile.uid, key=_FIRST) - 1
        if last >= 0 and tile.uid < ended[last][1] and tensor.storage.on_chip and not tile.placed:
            raise NkiValidationError(
                f"{op}: {tile.label} of {tile.line} was allocated in the body of a device loop and ends with each "
                "iteration; allocate it before the loop"
            )
