"""Device numbers: registers and scalars, known only when the kernel runs, that loops and addresses depend on.

The simulator executes a kernel step by step, so the host holds the value of such a number and loops take their trip
counts from it. A shape-only run (`functional=False`) knows numbers set to constants but not those loaded from memory:
it stops with an error if one of these is a trip count, and uses 0 for addresses, which costs the same time.

Sources: nki.isa.VirtualRegister and register_alloc (0.6), nki.isa.NkiScalar and nki/deep-dives/nki-scalar.rst (0.7).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

import numpy as np

from .errors import NkiValidationError, OperatorError
from .instruction import Instruction
from .objects import NKIObject

WIDTHS = {"int32": 32, "int64": 64}
BITS = 32  # bits of a register [trainium_inferentia2_arch.rst; nki.isa.register_alloc]


class DeviceNumber(NKIObject):
    """An integer computed by the device. Python cannot compute with it: it has no value while a kernel is traced."""

    __slots__ = ("loaded", "state", "unknown")

    shown = "a number of the device"
    width = BITS

    def __init__(self, state: int | None = None) -> None:
        self.state = state
        self.unknown = False  # loaded in a run that computes no values
        self.loaded: Instruction | None = None  # the instruction that wrote it last

    def read(self, what: str) -> int:
        """Return its value; NkiValidationError if it has none, or none known in this run."""
        if self.unknown:
            raise NkiValidationError(
                f"{what} depends on {self.shown} that was loaded from memory, whose value a shape-only run does not "
                "know; run it with functional=True"
            )
        if self.state is None:
            raise NkiValidationError(
                f"{what} reads {self.shown} that was never written; set it with nisa.register_move"
            )
        return self.state

    def _refuse(self, *_: Any) -> NoReturn:
        raise OperatorError(
            f"{self.shown} has its value on the device only: Python cannot compute with it; use it as a bound of "
            "nl.fori_loop, the condition of nl.while_loop or an index, or store it"
        )

    __array_ufunc__ = None  # makes NumPy integers defer to this class's operators
    __int__ = __float__ = __index__ = __bool__ = _refuse
    __hash__ = object.__hash__


class VirtualRegister(DeviceNumber):
    """A register of the engines' sequencers (nki.isa.VirtualRegister). `frozen`: the variable of a dynamic loop.

    It can be a loop bound, a condition, or an index (`t[reg]`, `nl.ds(reg, size)`, `select`, `ap(scalar_offset=reg)`).
    """

    __slots__ = ("frozen",)

    shown = "a register"

    def __init__(self, state: int | None = None, frozen: bool = False) -> None:
        super().__init__(state)
        self.frozen = frozen

    def __bool__(self) -> bool:  # type: ignore[override]
        raise OperatorError(
            "`while` or `if` of a register: its value exists on the device only; nl.while_loop(register, body) runs "
            "there (`trninfer migrate` rewrites `while register`, which NKI 0.6 took)"
        )

    _refuse = DeviceNumber._refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __mod__ = __neg__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (int, float)):
            self._refuse()
        return self is other

    def __repr__(self) -> str:
        return f"VirtualRegister({'?' if self.unknown else self.state})"


class NkiScalar(DeviceNumber):
    """One integer computed on the device (nki.isa.NkiScalar, since NKI 0.7), made by `nisa.scalar_load`.

    `+`, `-` and `*` with integers and with scalars of the same dtype return new scalars, which wrap at their width. The
    result of a comparison (int32 only) cannot be used. A scalar can bound a loop (int32) and index tensors (int64 in
    HBM only).
    """

    __slots__ = ("dtype", "is_comparison")

    shown = "a scalar of the device"
    issued: ClassVar[Callable[[str, tuple[Any, ...]], Instruction]]  # records the instruction that computes one

    def __init__(self, state: int | None, dtype: str | None = None, is_comparison: bool = False) -> None:
        super().__init__(state)
        self.dtype = dtype or "int32"
        self.is_comparison = is_comparison

    def read(self, what: str) -> int:
        if self.is_comparison:
            raise OperatorError(f"{what} uses a comparison of scalars, whose result cannot be used (nki.isa.NkiScalar)")
        return super().read(what)

    def usable(self, what: str) -> NkiScalar:
        """Return itself; OperatorError if it is the result of a comparison."""
        if self.is_comparison:
            self.read(what)
        return self

    def _computed(self, what: str, function: Callable[..., int], *operands: Any) -> Any:
        for operand in operands:
            if isinstance(operand, NkiScalar):
                operand.usable(f"`{what}`")
                if operand.dtype != self.dtype:
                    raise OperatorError(
                        f"`{what}` of scalars of {self.dtype} and {operand.dtype}: they must be of one dtype"
                    )
            elif isinstance(operand, bool) or not isinstance(operand, (int, np.integer)):
                raise OperatorError(f"`{what}` of a scalar and {type(operand).__name__}; allowed: integers and scalars")
        result = NkiScalar(None, self.dtype)
        result.loaded = NkiScalar.issued(f"scalar {what}", operands)
        result.unknown = any(isinstance(operand, NkiScalar) and operand.unknown for operand in operands)
        if not result.unknown:
            values = [o.read(f"`{what}`") if isinstance(o, NkiScalar) else int(o) for o in operands]
            result.state = wrap(function(*values), WIDTHS[self.dtype])
        return result

    def _compared(self, other: Any) -> Any:
        if not isinstance(other, (int, np.integer, NkiScalar)):
            return NotImplemented
        if self.dtype == "int64":
            raise OperatorError("a comparison of int64 scalars does not compile (nki.isa.NkiScalar)")
        return NkiScalar(None, "int32", is_comparison=True)

    def __add__(self, other: Any) -> Any:
        return self._computed("+", lambda a, b: a + b, self, other)

    def __radd__(self, other: Any) -> Any:
        return self._computed("+", lambda a, b: a + b, other, self)

    def __sub__(self, other: Any) -> Any:
        return self._computed("-", lambda a, b: a - b, self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._computed("-", lambda a, b: a - b, other, self)

    def __mul__(self, other: Any) -> Any:
        return self._computed("*", lambda a, b: a * b, self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._computed("*", lambda a, b: a * b, other, self)

    def __neg__(self) -> Any:
        return self._computed("-", lambda a: -a, self)

    def __pos__(self) -> Any:
        return self._computed("+", lambda a: a, self)

    __lt__ = __le__ = __gt__ = __ge__ = _compared
    __eq__ = __ne__ = _compared  # not a bool, as for NumPy arrays
    __hash__ = object.__hash__

    def _unknown(self, *_: Any) -> NoReturn:
        raise OperatorError("a scalar of the device has no such operator; NKI documents +, - and * (nki.isa.NkiScalar)")

    __floordiv__ = __rfloordiv__ = __truediv__ = __rtruediv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = _unknown
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __and__ = __rand__ = __or__ = __ror__ = _unknown
    __xor__ = __rxor__ = __invert__ = __abs__ = _unknown

    def __repr__(self) -> str:
        return f"NkiScalar({'?' if self.unknown or self.is_comparison else self.state}, {self.dtype})"


def is_known(value: Any) -> bool:
    """True if a value is an integer known to Python."""
    return hasattr(value, "__index__") and not isinstance(value, DeviceNumber)


def wrap(value: int, bits: int = BITS) -> int:
    """Return the integer that `bits` bits hold, read as signed."""
    return (int(value) + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
