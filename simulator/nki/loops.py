"""Loops that run on the device, as `nki.language` has them. The simulator runs each iteration as it comes.

The branch at the end of an iteration is not timed, and iterations overlap as unrolled ones would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..core import active
from ..errors import NkiValidationError
from ..registers import VirtualRegister


def dynamic_range(start: Any, stop: Any = None, step: int = 1) -> Iterator[VirtualRegister]:
    """start (0 where only one bound is given) to stop, each in a register; bounds are integers or registers."""
    return _count("dynamic_range", 0 if stop is None else start, start if stop is None else stop, step)


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[VirtualRegister], None], step: int = 1) -> None:
    """body_fun(i) for i from lower to upper, each in a register; bounds are integers or registers."""
    for i in _count("fori_loop", lower, upper, step):
        body_fun(i)


def while_loop(init: VirtualRegister, body_fun: Callable[[VirtualRegister], VirtualRegister]) -> None:
    """Call body_fun with the condition, for as long as that is not 0; it returns the next condition, a register."""
    condition = init
    while True:
        if not isinstance(condition, VirtualRegister):
            came = type(condition).__name__
            raise NkiValidationError(f"nl.while_loop: the condition must be a register, also from body_fun, not {came}")
        if condition.read("the condition of nl.while_loop") == 0:
            return
        passed = VirtualRegister(condition.state)  # by value: the body may write it
        passed.loaded = condition.loaded
        condition = body_fun(passed)


def _count(what: str, lower: Any, upper: Any, step: Any) -> Iterator[VirtualRegister]:
    core = active(f"nl.{what}")
    if core.ordered:
        raise NkiValidationError(f"nl.{what}: not possible inside nl.no_reorder(); put no_reorder in the loop's body")
    if not isinstance(step, int) or isinstance(step, bool) or step < 1:
        raise NkiValidationError(f"nl.{what}: step must be a constant integer of at least 1, came {step!r}")
    bounds = [_bound(what, value) for value in (lower, upper)]
    loaded = [bound.loaded for bound in (lower, upper) if isinstance(bound, VirtualRegister) and bound.loaded]
    return _registers(range(bounds[0], bounds[1], step), loaded[-1] if loaded else None)


def _registers(numbers: range, loaded: Any) -> Iterator[VirtualRegister]:
    for number in numbers:
        register = VirtualRegister(number, frozen=True)
        register.loaded = loaded
        yield register


def _bound(what: str, value: Any) -> int:
    if isinstance(value, VirtualRegister):
        return value.read(f"the trip count of nl.{what}")
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise NkiValidationError(f"nl.{what}: a bound must be an integer or a register, came {type(value).__name__}")
    return int(value)
