"""Kinds of operands in the declarations of instructions: their allowed values, and the errors for other values.

`check` validates a single operand and resolves it (for example, a function to its operator, or a number to its enum
member); `relate` validates it against other operands. `limits` describes the allowed values for the documentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..machine.dtypes import DTYPES
from ..machine.errors import NkiValidationError
from ..machine.instruction import Options, engine
from ..tensors.tensor import NkiTensor
from ..timing.costs import NO_TIME
from .checks import member, tile
from .core import NeuronCore
from .operators import ACTIVATIONS, ALU, AluOperator, alu_operator, shown_operator

_UNKNOWN = engine.unknown
REDUCING = tuple(name for name, operator in ALU.items() if operator.reduction is not None)
FLOATS = tuple(name for name, dtype in DTYPES.items() if dtype.is_float)
COMPARISONS = ("equal", "less", "less_equal", "greater", "greater_equal")


class Call:
    """A call that is being checked.

    Its attributes are `core`, `instruction` (the name), `unit` (the engine), and every operand under its name.
    """

    def __init__(self, core: NeuronCore, instruction: str, operands: Iterable[tuple[str, Any]]) -> None:
        self.core = core
        self.instruction = instruction
        self.unit = _UNKNOWN
        self.cost = NO_TIME
        self.options: Options = ()
        self.__dict__.update(operands)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

        def __setattr__(self, name: str, value: Any) -> None: ...

    def refuse(self, operand: str, value: Any, why: str) -> NkiValidationError:
        """Return the error for an invalid operand."""
        text = value.label if isinstance(value, NkiTensor) else repr(value)
        return NkiValidationError(f"{self.instruction}: {operand} {text} {why}")


@dataclass(frozen=True, eq=False)
class Operand:
    """A parameter that accepts any value. If `optional`, None means that it is not specified."""

    optional: bool = field(default=False, kw_only=True)
    resolves: ClassVar[bool] = False  # True if `check` returns something other than the value

    @property
    def relates(self) -> bool:
        """Return True if the operand is checked against other operands."""
        return True

    def check(self, call: Call, name: str, value: Any) -> Any:
        """Return the value in the form that the instruction uses. Raise NkiValidationError if it is not allowed."""
        return value

    def relate(self, call: Call, name: str, value: Any) -> None:
        """Raise NkiValidationError if the value is not compatible with the other operands."""

    @property
    def limits(self) -> str:
        """Describe the allowed values briefly."""
        return ""


@dataclass(frozen=True, eq=False)
class Unchecked(Operand):
    """A parameter that does not affect any check or cost."""


@dataclass(frozen=True, eq=False)
class Scalar(Operand):
    """A number, or a tile with one element per partition of the operand `of`.

    `operator` is the name of the operand that specifies the operator applied to the value. For a unary operator, the
    value must be None or 0; for a bit operator, it must be an integer or a tile of integers.
    """

    of: str = "data"
    dtypes: tuple[str, ...] = ("float32",)  # allowed dtypes of a tile, or () if all are allowed
    refused: tuple[str, ...] = ()
    operator: str = ""

    def relate(self, call: Call, name: str, value: Any) -> None:
        operator: AluOperator | None = getattr(call, self.operator) if self.operator else None
        if (value is None and self.optional) or (self.operator and operator is None):
            return
        if operator is not None:
            _check_for_operator(call, name, value, operator)
            if operator.unary:
                return
        bits = operator is not None and operator.bits
        if isinstance(value, NkiTensor):
            self._check_tile(call, name, tile(call.instruction, name, value), bits)
        elif not isinstance(value, (bool, int, float, np.integer, np.floating)):
            actual = type(value).__name__
            raise NkiValidationError(f"{call.instruction}: {name} must be a number or an NkiTensor, got {actual}")

    def _check_tile(self, call: Call, name: str, value: NkiTensor, bits: bool) -> None:
        data: NkiTensor = getattr(call, self.of)
        if value.shape[0] != data.shape[0] or value.free_size != 1:
            why = f"must be a scalar or one element for each of the {data.shape[0]} partitions of {data.label}"
            raise call.refuse(name, value, why)
        if self.dtypes and not bits and value.dtype not in self.dtypes:
            raise call.refuse(name, value, f"must be {among(self.dtypes)}")
        if value.dtype in self.refused:
            raise call.refuse(name, value, f"cannot be {among(self.refused)}")

    @property
    def limits(self) -> str:
        dtypes = f" ({among(self.dtypes)})" if self.dtypes else f" (not {among(self.refused)})" * bool(self.refused)
        return f"a number or one element per partition of {self.of}{dtypes}"


def _check_for_operator(call: Call, name: str, value: Any, operator: AluOperator) -> None:
    """Check the second operand of an operator: None or 0 for a unary operator, and an integer for a bit operator."""
    if operator.unary:
        if value is not None and (not isinstance(value, (int, float)) or value != 0):
            why = f"{name} must be None or 0, because nl.{operator.name} takes one input"
            raise NkiValidationError(f"{call.instruction}: {why}")
    elif operator.bits and not _is_whole(value):
        actual = value.label if isinstance(value, NkiTensor) else repr(value)
        why = f"{name} of nl.{operator.name} must be an integer or an integer tile, got {actual}"
        raise NkiValidationError(f"{call.instruction}: {why}")


def _is_whole(value: Any) -> bool:
    return value._dtype.is_integer if isinstance(value, NkiTensor) else isinstance(value, (int, np.integer))


@dataclass(frozen=True, eq=False)
class Operator(Operand):
    """One of the ALU operators in `allowed`.

    If `binary`, the operator must have two inputs; if `arithmetic`, it must not be a bit operator. If it is a bit
    operator, the operands in `bits_of` must be integer tiles.
    """

    resolves: ClassVar[bool] = True
    allowed: tuple[str, ...] = tuple(ALU)
    why: str = "is not allowed"
    binary: bool = False
    arithmetic: bool = False
    bits_of: tuple[str, ...] = ()

    def check(self, call: Call, name: str, value: Any) -> Any:
        if value is None and self.optional:
            return None
        operator = alu_operator(value, call.instruction, name)
        why = self._misfit(operator)
        if not why and operator.name not in self.allowed:
            why = f"{self.why}; allowed: {shown_operators(self.allowed)}"
            if len(self.allowed) == 1:
                raise NkiValidationError(
                    f"{call.instruction}: {name} must be nl.{self.allowed[0]}, got nl.{operator.name}"
                )
        if why:
            raise NkiValidationError(f"{call.instruction}: {name}=nl.{operator.name} {why}")
        return operator

    def _misfit(self, operator: AluOperator) -> str:
        if self.binary and operator.unary:
            return "accepts one input, but two are given"
        return "must be arithmetic, not a bit operator" if self.arithmetic and operator.bits else ""

    def relate(self, call: Call, name: str, value: Any) -> None:
        operator = getattr(call, name)
        for operand in self.bits_of if operator is not None and operator.bits else ():
            tensor = getattr(call, operand)
            if not tensor._dtype.is_integer:
                raise call.refuse(operand, tensor, f"must contain integers, because nl.{operator.name} is bitwise")

    @property
    def names(self) -> frozenset[str]:
        """Return the names of the allowed operators."""
        return frozenset(name for name in self.allowed if not self._misfit(ALU[name]))

    @property
    def relates(self) -> bool:
        return bool(self.bits_of)

    @property
    def limits(self) -> str:
        if self.allowed != tuple(ALU):
            return shown_operators(self.allowed)
        bits = " (bit operators only on integers)" if self.bits_of else ""
        return f"an {'arithmetic' if self.arithmetic else 'ALU'} operator{' of two inputs' * self.binary}{bits}"


def shown_operators(names: Sequence[str]) -> str:
    return ", ".join("nl." + name for name in names)


@dataclass(frozen=True, eq=False)
class NamedFunction(Operand):
    """One of the nki.language functions named in `allowed`, including functions that are not ALU operators."""

    resolves: ClassVar[bool] = True
    allowed: tuple[str, ...]
    why: str = "is not allowed"

    @property
    def names(self) -> frozenset[str]:
        """Return the names of the allowed functions."""
        return frozenset(self.allowed)

    def check(self, call: Call, name: str, value: Any) -> Any:
        name_of_value = getattr(value, "__name__", "")
        if name_of_value not in self.allowed and not (value is None and self.optional):
            message = f"{name}={shown_operator(value)} {self.why}; allowed: {shown_operators(self.allowed)}"
            raise NkiValidationError(f"{call.instruction}: {message}")
        return name_of_value

    @property
    def limits(self) -> str:
        return shown_operators(self.allowed)


@dataclass(frozen=True, eq=False)
class Function(NamedFunction):
    """An activation function. `check` sets the attribute `table` of the call to its lookup table."""

    allowed: tuple[str, ...] = tuple(ACTIVATIONS)
    why: str = "is not an activation function"

    def check(self, call: Call, name: str, value: Any) -> Any:
        name_of_value = super().check(call, name, value)
        call.table = ACTIVATIONS[name_of_value].table if name_of_value in ACTIVATIONS else ""
        return name_of_value

    @property
    def limits(self) -> str:
        return "an activation function"


@dataclass(frozen=True, eq=False)
class Member(Operand):
    """A member of an nki.isa enum, restricted to `allowed` if specified."""

    resolves: ClassVar[bool] = True
    kind: type[Enum] = Enum
    allowed: tuple[Enum, ...] = ()

    def check(self, call: Call, name: str, value: Any) -> Any:
        choice = member(call.instruction, name, self.kind, value)
        if self.allowed and choice not in self.allowed:
            raise NkiValidationError(f"{call.instruction}: {name} must be one of {self.limits}, got {choice.name}")
        return choice

    @property
    def limits(self) -> str:
        return f"nisa.{self.kind.__name__} {', '.join(known.name for known in self.allowed or self.kind)}"


@dataclass(frozen=True, eq=False)
class Integer(Operand):
    """An integer between `least` and `most`, inclusive."""

    least: int = -(1 << 31)
    most: int = (1 << 31) - 1

    def check(self, call: Call, name: str, value: Any) -> Any:
        if value is None and self.optional:
            return None
        if not _is_whole(value) or not self.least <= value <= self.most:
            raise NkiValidationError(f"{call.instruction}: {name} must be {self.limits}, got {value!r}")
        return value

    @property
    def limits(self) -> str:
        if (self.least, self.most) == (-(1 << 31), (1 << 31) - 1):
            return "an int32"
        return f"an integer of {self.least} to {self.most}"


@dataclass(frozen=True, eq=False)
class Number(Operand):
    """A number. Tiles are not allowed."""

    booleans: bool = False  # if True, booleans are accepted as 0 and 1

    def check(self, call: Call, name: str, value: Any) -> Any:
        return check_number(call, name, value, self.booleans)

    @property
    def limits(self) -> str:
        return "a number"


def check_number(call: Call, name: str, value: Any, booleans: bool = True) -> Any:
    """Return the value if it is a number. Otherwise, raise NkiValidationError."""
    if (isinstance(value, bool) and not booleans) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise NkiValidationError(f"{call.instruction}: {name} must be a number, got {value!r}")
    return value


def among(names: Sequence[str], most: int = 4) -> str:
    """Format allowed values, for example as "a", "a or b", "one of a, b, c, d, e", or "of a float type" for all
    floats."""
    if tuple(names) == FLOATS:
        return "of a float type"
    if len(names) > most:
        return f"one of {', '.join(names)}"
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
