"""The table of all timing constants, and the machine that is built from the column of a target."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from ...machine.errors import NkiValidationError
from .engines import ENGINES
from .entry import Constant, Row
from .movement import MOVEMENT

TABLE: dict[str, Row] = {**MOVEMENT, **ENGINES}
TARGETS = ("trn1", "trn2", "trn3")
_SHOWN = 8  # maximum number of constants listed in a note


class Machine:
    """The values of the timing constants of one target, with exactly one attribute for every name in TABLE."""

    def __init__(self, values: dict[str, float]) -> None:
        self.__dict__.update(values)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> float: ...


def constants(target: str) -> dict[str, Constant]:
    """Return the constants of a target ("trn1", "trn2" or "trn3"), keyed by name."""
    column = TARGETS.index(target)
    return {name: row[column] for name, row in TABLE.items()}


@cache
def machine(target: str) -> Machine:
    """Return the values of a target's constants, with overrides applied (see `override`)."""
    return Machine({name: _overrides.get((target, name), c.value) for name, c in constants(target).items()})


def fitted_constants() -> list[tuple[str, str, Constant]]:
    """Return (target, name, constant) for all constants that are fitted to kernel rows."""
    return [
        (target, name, constant)
        for target in TARGETS
        for name, constant in constants(target).items()
        if constant.mark == "fitted"
    ]


def scaled_note(target: str) -> str | None:
    """Return the note that is shown with every prediction for a target, or None.

    The note states that the latencies of trn3 are scaled, or that constants are overridden.
    """
    notes = []
    targets = target.split(",")
    if "trn3" in targets:
        notes.append("trn3 latencies are scaled from trn2 (AWS publishes clocks and bandwidths only): unvalidated")
    for target_name in targets:
        changes = [
            f"{name} = {value:g} (not {TABLE[name][TARGETS.index(target_name)].value:g}) {TABLE[name][0].unit}".strip()
            for of, name, value in overrides()
            if of == target_name
        ]
        if len(changes) > _SHOWN:
            changes = [*changes[:_SHOWN], f"and {len(changes) - _SHOWN} more"]
        if changes:
            notes.append(f"a machine that differs from {target_name}: {', '.join(changes)}")
    return "; ".join(notes) or None


def change(target: str, values: Mapping[str, Any]) -> None:
    """Replace the values of some constants of a target permanently, to predict the times of a different machine.

    Raise NkiValidationError for a name that is not in the table or a value that no machine can have.
    """
    for name, value in values.items():
        _possible(target, name, value)
    for name, value in values.items():
        current = constants(target)[name].value
        override(target, name, None if value == current else float(value))


@contextmanager
def changed(target: str, values: Mapping[str, Any]) -> Iterator[None]:
    """Change constants as `change` does, but only within the context."""
    before = {name: _overrides.get((target, name)) for name in values}
    try:
        change(target, values)
        yield
    finally:
        for name, value in before.items():
            if name in TABLE:
                override(target, name, value)


def _possible(target: str, name: str, value: Any) -> None:
    if name not in TABLE:
        near = difflib.get_close_matches(name, TABLE, 3)
        hint = f"; near: {', '.join(near)}" if near else ""
        raise NkiValidationError(f"constants: {name!r} is not a constant of the timing model{hint}")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        raise NkiValidationError(f"constants: {name}={value!r} must be a number that is at least 0")
    constant = constants(target)[name]
    if value < 1 and constant.unit in ("B/ns", "B", "instructions"):
        raise NkiValidationError(f"constants: {name}={value!r} {constant.unit} must be at least 1")


_overrides: dict[tuple[str, str], float] = {}


def override(target: str, name: str, value: float | None) -> None:
    """Set a constant to another value permanently, or restore the value in the table if `value` is None.

    This function is meant for fits and leave-one-out studies.
    """
    if name not in TABLE:
        raise KeyError(name)
    if value is None:
        _overrides.pop((target, name), None)
    else:
        _overrides[target, name] = value
    machine.cache_clear()


def overrides() -> tuple[tuple[str, str, float], ...]:
    """Return the current overrides."""
    return tuple((target, name, value) for (target, name), value in sorted(_overrides.items()))
