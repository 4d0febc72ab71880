"""Device numbers: registers and scalars whose values are known only at run time. They are used in loops and addresses.

The simulator executes a kernel instruction by instruction, so the host knows the current value of each number and can
use it as the trip count of a loop. A shape-only run (`functional=False`) knows numbers that were set to constants, but
not numbers that were loaded from memory. If a loaded number determines a trip count, the run stops with an error; if it
determines an address, the run uses 0, which does not affect the timing.

Sources: nki.isa.VirtualRegister and register_alloc (0.6), nki.isa.NkiScalar and nki/deep-dives/nki-scalar.rst (0.7).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

import numpy as np

from .errors import NkiValidationError, OperatorError, UnknownNumberError
from .instruction import Instruction
from .objects import NKIObject

WIDTHS = {"int32": 32, "int64": 64}
BITS = 32  # number of bits in a register [trainium_inferentia2_arch.rst; nki.isa.register_alloc]


class DeviceNumber(NKIObject):
    """An integer that the device computes. Python cannot compute with it, because it has no value during tracing."""

    __slots__ = ("loaded", "state", "unknown")

    shown = "a number of the device"
    width = BITS

    def __init__(self, state: int | None = None) -> None:
        self.state = state
        self.unknown = False  # True if it was loaded in a run that computes no values
        self.loaded: Instruction | None = None  # the instruction that last wrote it

    def read(self, what: str) -> int:
        """Return the value. Raise NkiValidationError if it was never written or is unknown in this run."""
        if self.unknown:
            raise UnknownNumberError(
                f"{what} depends on {self.shown} that was loaded from memory, whose value is unknown in a shape-only "
                f"run; use functional=True"
            )
        if self.state is None:
            raise NkiValidationError(
                f"{what} reads {self.shown} that was never written; set it with nisa.register_move"
            )
        return self.state

    def _refuse(self, *_: Any) -> NoReturn:
        raise OperatorError(
            f"{self.shown} has a value only on the device, so Python cannot compute with it; use it as a bound of "
            "nl.fori_loop, the condition of nl.while_loop or an index, or store it"
        )

    __array_ufunc__ = None  # makes NumPy integers defer to this class's operators
    __int__ = __float__ = __index__ = __bool__ = _refuse
    __hash__ = object.__hash__


class VirtualRegister(DeviceNumber):
    """A register of the engines' sequencers (nki.isa.VirtualRegister).

    It can be used as a loop bound, a condition, or an index (`t[reg]`, `nl.ds(reg, size)`, `select`,
    `ap(scalar_offset=reg)`). `frozen` is True for the variable of a dynamic loop.
    """

    __slots__ = ("frozen",)

    shown = "a register"

    def __init__(self, state: int | None = None, frozen: bool = False) -> None:
        super().__init__(state)
        self.frozen = frozen

    def __bool__(self) -> bool:  # type: ignore[override]
        raise OperatorError(
            "`while` or `if` on a register: its value exists only on the device; use nl.while_loop(register, body) "
            "(`trninfer migrate` rewrites `while register`, which NKI 0.6 accepted)"
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
    """An integer computed on the device (nki.isa.NkiScalar, since NKI 0.7), created by `nisa.scalar_load`.

    `+`, `-` and `*` with integers and with scalars of the same dtype return new scalars, which wrap around on overflow.
    Comparisons (int32 only) are accepted, but their result cannot be used. A scalar can be a loop bound (int32) or an
    index of a tensor (int64 only for tensors in HBM).
    """

    __slots__ = ("dtype", "is_comparison")

    shown = "a scalar of the device"
    issued: ClassVar[Callable[[str, tuple[Any, ...]], Instruction]]  # records the instruction that computes a scalar

    def __init__(self, state: int | None, dtype: str | None = None, is_comparison: bool = False) -> None:
        super().__init__(state)
        self.dtype = dtype or "int32"
        self.is_comparison = is_comparison

    def read(self, what: str) -> int:
        if self.is_comparison:
            raise OperatorError(f"{what} uses a comparison of scalars, whose result cannot be used (nki.isa.NkiScalar)")
        return super().read(what)

    def usable(self, what: str) -> NkiScalar:
        """Return this scalar. Raise OperatorError if it is the result of a comparison."""
        if self.is_comparison:
            self.read(what)
        return self

    def _check_operand(self, what: str, operand: Any) -> None:
        if isinstance(operand, NkiScalar):
            operand.usable(f"`{what}`")
            if operand.dtype != self.dtype:
                raise OperatorError(
                    f"`{what}` of scalars of {self.dtype} and {operand.dtype}: they must have the same dtype"
                )
        elif isinstance(operand, bool) or not isinstance(operand, (int, np.integer)):
            raise OperatorError(f"`{what}` of a scalar and {type(operand).__name__}; allowed: integers and scalars")

    def _computed(self, what: str, function: Callable[..., int], *operands: Any) -> Any:
        for operand in operands:
            self._check_operand(what, operand)
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
    __eq__ = __ne__ = _compared  # returns no bool, like comparisons of NumPy arrays
    __hash__ = object.__hash__

    def _unknown(self, *_: Any) -> NoReturn:
        raise OperatorError(
            "device scalars do not support this operator; NKI documents only +, - and * (nki.isa.NkiScalar)"
        )

    __floordiv__ = __rfloordiv__ = __truediv__ = __rtruediv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = _unknown
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __and__ = __rand__ = __or__ = __ror__ = _unknown
    __xor__ = __rxor__ = __invert__ = __abs__ = _unknown

    def __repr__(self) -> str:
        return f"NkiScalar({'?' if self.unknown or self.is_comparison else self.state}, {self.dtype})"


def is_known(value: Any) -> bool:
    """Return True if a value is an integer that is known to Python."""
    return hasattr(value, "__index__") and not isinstance(value, DeviceNumber)


def wrap(value: int, bits: int = BITS) -> int:
    """Return the lowest `bits` bits of `value` as a signed integer."""
    return (int(value) + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
