"""Registers: 32-bit numbers that loops and addresses depend on, known only when the kernel runs.

The simulator runs a kernel as it is written, so a register holds its value on the host and loops take their trip counts
from it. A shape-only run (`functional=False`) knows the registers that a kernel sets to constants, not those that it
loads from memory: where one of these decides how often a loop runs, it says so and stops; as an address it counts as 0,
which costs the same time.
"""

from __future__ import annotations

from typing import Any, NoReturn

from .errors import NkiValidationError
from .instruction import Instruction
from .objects import NKIObject

BITS = 32  # of a register [trainium_inferentia2_arch.rst; nki.isa.register_alloc]


class VirtualRegister(NKIObject):
    """A register of the engines' sequencers (nki.isa.VirtualRegister). `frozen`: the variable of a dynamic loop.

    As in NKI's tracer, Python code cannot compute with it: it can be a loop bound, the condition of `while`, or an
    index (`t[reg]`, `nl.ds(reg, size)`, `select`, `ap(scalar_offset=reg)`).
    """

    __slots__ = ("frozen", "loaded", "state", "unknown")

    def __init__(self, state: int | None = None, frozen: bool = False) -> None:
        self.state = state
        self.frozen = frozen
        self.unknown = False  # loaded in a run that computes no values
        self.loaded: Instruction | None = None  # what wrote it last

    def read(self, what: str) -> int:
        """Its value; NkiValidationError where it has none, or none that this run knows."""
        if self.unknown:
            raise NkiValidationError(
                f"{what} depends on a register that was loaded from memory, whose value a shape-only run does not "
                "know; run it with functional=True"
            )
        if self.state is None:
            raise NkiValidationError(f"{what} reads a register that was never written; set it with nisa.register_move")
        return self.state

    def __bool__(self) -> bool:
        return self.read("`while` or `if` of a register") != 0

    def _refuse(self, *_: Any) -> NoReturn:
        raise TypeError(
            "a register's value exists on the device only: Python cannot compute with it; use it as a loop bound, a "
            "condition or an index, or store it with nisa.register_store"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __mod__ = __neg__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __int__ = __float__ = _refuse
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (int, float)):
            self._refuse()
        return self is other

    def __repr__(self) -> str:
        return f"VirtualRegister({'?' if self.unknown else self.state})"


def wrap(value: int) -> int:
    """An integer as a register of 32 bits holds it, read as signed."""
    return (int(value) + (1 << (BITS - 1))) % (1 << BITS) - (1 << (BITS - 1))
