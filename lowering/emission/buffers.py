"""Create the buffer and the store of an operation's value."""

from __future__ import annotations

from typing import Any

from ...kernels.program import Buffer, Memory, Operation, Store, WriteRegion


def outline(operation: Operation) -> dict[str, Any]:
    """Return the fields that an operation shares with the buffer and the store of its value."""
    names = ("name", "channels", "rows", "columns", "packed", "column_phases")
    return {name: getattr(operation, name) for name in names}


def buffer_of(operation: Operation, memory: Memory) -> Buffer:
    """Return a buffer for the value of an operation."""
    return Buffer(
        **outline(operation),
        is_fp8=operation.is_fp8,
        memory=memory,
    )


def store_of(operation: Operation, value: int, place: WriteRegion) -> Store:
    """Return the operation that stores another operation's value."""
    return Store(
        **outline(operation),
        is_fp8=operation.is_fp8,
        sources=((value,),),
        into=place,
    )
