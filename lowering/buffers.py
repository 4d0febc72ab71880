"""Operations about the value of another operation: its room, and its store."""

from __future__ import annotations

from typing import Any

from ..kernels.program import Buffer, Memory, Operation, Store, WriteRegion


def outline(operation: Operation) -> dict[str, Any]:
    """Return the fields of an operation that another one on the same value has, too."""
    names = ("name", "channels", "rows", "columns", "packed", "column_phases")
    return {name: getattr(operation, name) for name in names}


def buffer_of(operation: Operation, memory: Memory) -> Buffer:
    """Return a room for an operation's value."""
    return Buffer(
        **outline(operation),
        is_fp8=operation.is_fp8,
        memory=memory,
    )


def store_of(operation: Operation, value: int, place: WriteRegion) -> Store:
    """Return the store of an operation's value, which is that of another operation."""
    return Store(
        **outline(operation),
        is_fp8=operation.is_fp8,
        sources=((value,),),
        into=place,
    )
