"""What a kernel may hold beside tensors: objects of its own, and a slice by its start and size."""

from __future__ import annotations

from typing import Any


class NKIObject:
    """Base class of classes that a kernel may use."""

    def __init__(self, **fields: Any) -> None:
        for name, value in fields.items():
            setattr(self, name, value)


class DynamicSlice:
    """`nl.ds(start, size)`: elements start to start + size."""

    __slots__ = ("size", "start")

    def __init__(self, start: int, size: int) -> None:
        self.start = start
        self.size = size
