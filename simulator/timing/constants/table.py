"""The one table of numbers about time, and a machine made of a target's column of it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from .engines import ENGINES
from .entry import Constant, Row
from .movement import MOVEMENT

TABLE: dict[str, Row] = {**MOVEMENT, **ENGINES}
TARGETS = ("trn1", "trn2", "trn3")


class Machine:
    """The values of one target: an attribute for every name of TABLE, and no other."""

    def __init__(self, values: dict[str, float]) -> None:
        self.__dict__.update(values)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> float: ...


def constants(target: str) -> dict[str, Constant]:
    """The constants of a target ("trn1", "trn2" or "trn3") by name."""
    column = TARGETS.index(target)
    return {name: row[column] for name, row in TABLE.items()}


@cache
def machine(target: str) -> Machine:
    """The values of a target's constants, after any `override`."""
    return Machine({name: _overrides.get((target, name), c.value) for name, c in constants(target).items()})


def fitted_constants() -> list[tuple[str, str, Constant]]:
    """(target, name, constant) of all that were fitted to kernel rows."""
    return [
        (target, name, constant)
        for target in TARGETS
        for name, constant in constants(target).items()
        if constant.mark == "fitted"
    ]


def scaled_note(target: str) -> str | None:
    """What must be said beside every prediction for a target whose latencies nobody has published; None elsewhere."""
    if target != "trn3":
        return None
    return "trn3 latencies are scaled from trn2 (AWS publishes clocks and bandwidths, nobody latencies): unvalidated"


_overrides: dict[tuple[str, str], float] = {}


def override(target: str, name: str, value: float | None) -> None:
    """Use another value of a constant from now on (None: the table's again); for fits and leave-one-out studies."""
    if name not in TABLE:
        raise KeyError(name)
    if value is None:
        _overrides.pop((target, name), None)
    else:
        _overrides[target, name] = value
    machine.cache_clear()


def overrides() -> tuple[tuple[str, str, float], ...]:
    """What is overridden at present."""
    return tuple((target, name, value) for (target, name), value in sorted(_overrides.items()))
