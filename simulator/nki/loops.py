"""Loops on the device (`nki.language`). The simulator runs every iteration.

On the chip, the body is traced only once, and every iteration executes the instructions of the first iteration. The
simulator compares iterations and raises an error if the body changes. The tensors that a body allocates are freed at
the end of each iteration. Iterations overlap as if the loop were unrolled. All engines wait at the start and the end of
a loop (`NeuronCore.fence`), as stated in public kernels. The cost of the branch after each iteration is unknown and is
not included.

Sources: nki.language.fori_loop, while_loop (en/v2.33.0/nki/api/generated), nki/deep-dives/nki-loops.rst.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..instructions.core import NeuronCore, active
from ..machine.errors import EarlierNkiWarning, NkiValidationError
from ..machine.registers import DeviceNumber, NkiScalar, VirtualRegister, is_known

MAX_ITERATIONS = 100_000  # per loop; more would take minutes to simulate


def affine_range(start: int, stop: int | None = None, step: int = 1) -> range:
    return range(start) if stop is None else range(start, stop, step)


sequential_range = static_range = affine_range


def dynamic_range(start: Any, stop: Any = None, step: int = 1) -> Iterator[VirtualRegister]:
    """Iterate from start (default 0) to stop, with each index in a register. The bounds are integers or registers.

    This function was removed in NKI 0.7. The simulator still executes it as a device loop, with a warning.
    """
    warnings.warn(
        "nl.dynamic_range is from NKI 0.6; it runs on the simulator, but the current compiler refuses it: use "
        "nl.fori_loop(start, stop, body), as `trninfer migrate` does",
        EarlierNkiWarning,
        stacklevel=2,
    )
    core, numbers, loaded = _count("dynamic_range", 0 if stop is None else start, start if stop is None else stop, step)
    return _registers(core, numbers, loaded)


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any], None], step: int = 1) -> None:
    """Call body_fun(i) for i from `lower` to `upper` (exclusive). The bounds are integers, registers or int32 scalars.

    The index i is a scalar, or a register if one of the bounds is a register. It is passed by value. The return value
    of the body is ignored.
    """
    core, numbers, loaded = _count("fori_loop", lower, upper, step)
    as_register = any(isinstance(bound, VirtualRegister) for bound in (lower, upper))
    with _Loop(core, "fori_loop") as loop:
        for number in numbers:
            i: DeviceNumber = VirtualRegister(number) if as_register else NkiScalar(number, "int32")
            i.loaded = loaded
            body_fun(i)
            loop.ended()


def while_loop(init: Any, body_fun: Callable[[Any], Any]) -> None:
    """Call body_fun with the condition as long as the condition is not 0. body_fun returns the next condition.

    The condition is a register. Scalars are assumed to be allowed too, which the documentation does not specify.
    """
    core = active("nl.while_loop")
    condition = init
    with _Loop(core, "while_loop") as loop:
        while True:
            if not isinstance(condition, DeviceNumber):
                actual = type(condition).__name__
                raise NkiValidationError(
                    f"nl.while_loop: the condition must be a register, even if body_fun returns it, got {actual}"
                )
            value = condition.read("the condition of nl.while_loop")
            if value == 0:
                return
            if loop.count >= MAX_ITERATIONS:
                raise NkiValidationError(
                    f"nl.while_loop: the condition is still {value} after {MAX_ITERATIONS:,} iterations; "
                    "does the body compute the register that it returns?"
                )
            condition = body_fun(_by_value(condition))
            loop.ended()


def _by_value(number: DeviceNumber) -> DeviceNumber:
    """Return a copy that the body may modify."""
    device_number: DeviceNumber
    device_number = (
        NkiScalar(number.state, number.dtype) if isinstance(number, NkiScalar) else VirtualRegister(number.state)
    )
    device_number.loaded = number.loaded
    return device_number


class _Loop:
    """A running device loop. Engines wait at its start and end, and its iterations must be identical."""

    def __init__(self, core: NeuronCore, what: str, *, keeps_tiles: bool = False) -> None:
        """`keeps_tiles`: the tensors that the body allocates remain valid after an iteration."""
        self._core = core
        self._what, self._keeps_tiles = what, keeps_tiles
        self._first: list[Any] | None = None
        self.count = 0

    def __enter__(self) -> _Loop:
        self._core.fence(self._what)
        self._start = len(self._core.program)
        self._core.looping += 1
        self._allocated = [len(self._core.allocations)] * 2
        if not self._keeps_tiles:
            self._core.ended.append(self._allocated)
        self._inner = len(self._core.ended)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._core.looping -= 1
        if error is None:
            self._core.fence(self._what)
            self._core.loops.append((self._core.line_of_kernel(), self.count))

    def ended(self) -> None:
        """Finish an iteration."""
        self.count += 1
        self._allocated[1] = len(self._core.allocations)
        del self._core.ended[self._inner :]  # ranges of inner loops, which the range of this loop includes
        program = self._core.program
        issued = [_likeness(instruction) for instruction in program[self._start :]]
        self._start = len(program)
        if self._first is None:
            self._first = issued
        elif issued != self._first:
            first, other = _difference(self._first, issued)
            raise NkiValidationError(
                f"nl.{self._what}: iteration {self.count} issues {other}, but the first iteration issued {first}; the "
                f"body is traced once, so every iteration must run the same instructions; keep changing values in "
                f"SBUF or HBM"
            )


def _likeness(instruction: Any) -> tuple[Any, ...]:
    """Return the properties of an instruction that must be the same in every iteration."""
    accesses = (*instruction.writes, *instruction.reads)
    return instruction.op, instruction.line, tuple((a.row_end - a.row, a.byte_end - a.byte) for a in accesses)


def _difference(first: list[Any], other: list[Any]) -> tuple[str, str]:
    """Describe the first instruction in which two iterations differ, once for each iteration."""
    for a, b in zip(first, other):
        if a != b:
            return _shown(a), _shown(b)
    count = min(len(first), len(other))
    return tuple(_shown(sequence[count]) if len(sequence) > count else "nothing more" for sequence in (first, other))  # type: ignore[return-value]


def _shown(likeness: tuple[Any, ...]) -> str:
    return f"{likeness[0]} ({likeness[1][0]}:{likeness[1][1]})"


def _count(what: str, lower: Any, upper: Any, step: Any) -> tuple[NeuronCore, range, Any]:
    core = active(f"nl.{what}")
    if core.ordered:
        raise NkiValidationError(
            f"nl.{what}: not possible inside nl.no_reorder(); put no_reorder in the body of the loop"
        )
    if not isinstance(step, int) or isinstance(step, bool) or step < 1:
        raise NkiValidationError(f"nl.{what}: step must be a constant integer of at least 1, got {step!r}")
    bounds = [_bound(what, value) for value in (lower, upper)]
    loaded = [bound.loaded for bound in (lower, upper) if isinstance(bound, DeviceNumber) and bound.loaded]
    numbers = range(bounds[0], bounds[1], step)
    if len(numbers) > MAX_ITERATIONS:
        raise NkiValidationError(
            f"nl.{what}: {len(numbers):,} iterations, from {bounds[0]} to {bounds[1]}; the simulator supports up to "
            f"{MAX_ITERATIONS:,}"
        )
    return core, numbers, loaded[-1] if loaded else None


def _registers(core: NeuronCore, numbers: range, loaded: Any) -> Iterator[VirtualRegister]:
    with _Loop(core, "dynamic_range", keeps_tiles=True) as loop:
        for number in numbers:
            register = VirtualRegister(number, frozen=True)
            register.loaded = loaded
            yield register
            loop.ended()


def _bound(what: str, value: Any) -> int:
    if isinstance(value, NkiScalar) and value.dtype == "int64":
        raise NkiValidationError(f"nl.{what}: a bound must be 32-bit, got an int64 scalar; load an int32")
    if isinstance(value, DeviceNumber):
        return value.read(f"the trip count of nl.{what}")
    if isinstance(value, bool) or not is_known(value):
        actual = type(value).__name__
        raise NkiValidationError(f"nl.{what}: a bound must be an integer, a register or a scalar, got {actual}")
    return int(value)


@contextmanager
def no_reorder() -> Iterator[None]:
    """Run the instructions within the context in program order."""
    core = active("no_reorder")
    outer, core.ordered = core.ordered, True
    try:
        yield
    finally:
        core.ordered = outer
