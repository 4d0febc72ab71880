"""Errors raised when a kernel breaks a rule of the machine.

A message names the instruction, the operand, what came and what is allowed.
"""

from __future__ import annotations


class NkiValidationError(Exception):
    """A kernel broke a constraint of the hardware (the name that `nki.isa` documents)."""


class OutOfBoundsError(NkiValidationError, IndexError):
    """A view or an index reaches outside the tensor it was taken from."""


class UnknownNameError(NkiValidationError, AttributeError):
    """NKI has no such name."""


class OperatorError(NkiValidationError, TypeError):
    """Python's operators and NumPy's functions do not work on tensors, nor Python's control flow on what the device
    alone knows."""


class ShapeError(NkiValidationError, ValueError):
    """A shape that a function of NKI documents as a ValueError."""


class CapacityError(NkiValidationError, MemoryError):
    """More SBUF or PSUM is alive at one time than the NeuronCore has."""


class AccessPatternError(NkiValidationError):
    """An operand whose elements are more, or further apart, than an instruction can step."""


class NotSimulatedError(NkiValidationError, NotImplementedError):
    """The NKI API documents it; this simulator does not have it yet."""


class UndefinedOnChipWarning(UserWarning):
    """The simulator computes it, but AWS's documentation leaves undefined what the chip does."""


class ReportedOnChipWarning(UserWarning):
    """The simulator computes it and AWS's documentation allows it, but the compiler is reported to refuse it, or the
    chip to compute something else (`simulator/reported.py`)."""


class EarlierNkiWarning(UserWarning):
    """A spelling of an earlier NKI that still means the same is taken; today's compiler refuses it."""


def require(condition: object, message: str) -> None:
    """Raise NkiValidationError with `message` unless `condition` holds.

    Only for checks off the hot path: the message is built before the call. Instructions test first.
    """
    if not condition:
        raise NkiValidationError(message)
