"""`bench --set name=value`: predictions for a machine whose constants are others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from ..errors import UsageError
from ..text import parse_number


def parse_constants(given: Sequence[str]) -> dict[str, float]:
    """["dma_sustained=500"] as {"dma_sustained": 500.0}; UsageError for what is no number of a name."""
    values: dict[str, float] = {}
    for part in given:
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value):
            raise UsageError(f"--set: {part!r} is not of the form name=value, as in dma_sustained=500")
        if name in values:
            raise UsageError(f"--set: {name} is given twice")
        try:
            values[name] = parse_number(value)
        except ValueError:
            raise UsageError(f"--set: {name} must be a number, came {value!r}") from None
    return values


@contextmanager
def another_machine(backend: str, target: str | None, constants: dict[str, float]) -> Iterator[None]:
    """Predict with these constants of the timing model; UsageError where nothing is predicted or one is impossible."""
    if not constants:
        yield
        return
    if backend != "sim":
        raise UsageError("--set changes predictions; it needs --backend sim")
    from ...runtime.backend import KernelError
    from ...runtime.simulated import what_if

    with ExitStack() as stack:
        try:
            stack.enter_context(what_if(constants, target))
        except KernelError as error:
            raise UsageError(f"--set: {str(error).removeprefix('constants: ')}") from None
        yield
