"""Errors raised when a kernel violates a constraint of the hardware.

Each message states the instruction, the operand, the actual value and the allowed values.
"""

from __future__ import annotations

import contextlib
import os
from functools import cache
from types import TracebackType

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep  # the simulator's directory


class NkiValidationError(Exception):
    """A kernel violated a constraint of the hardware. The class name is the one documented by `nki.isa`."""


class OutOfBoundsError(NkiValidationError, IndexError):
    """A view or an index extends beyond the bounds of its tensor."""


class UnknownNameError(NkiValidationError, AttributeError):
    """The requested name does not exist in NKI."""


class OperatorError(NkiValidationError, TypeError):
    """An unsupported Python operation.

    Python operators and NumPy functions cannot be applied to tensors, and Python control flow cannot depend on numbers
    that are known only on the device.
    """


class ArgumentsError(NkiValidationError, TypeError):
    """A kernel call does not match the kernel's parameters."""


class ShapeError(NkiValidationError, ValueError):
    """An invalid shape, for which NKI documents a ValueError."""


class CapacityError(NkiValidationError, MemoryError):
    """The tensors that are live at the same time exceed the capacity of SBUF or PSUM."""


class AccessPatternError(NkiValidationError):
    """An operand has more elements or larger strides than the access pattern of an instruction can express."""


class NotSimulatedError(NkiValidationError, NotImplementedError):
    """A documented NKI feature that the simulator does not implement yet."""


class UnknownNumberError(NkiValidationError):
    """A run without values requires a number that the kernel loads from memory."""


class UndefinedOnChipWarning(UserWarning):
    """The simulator computes a result, although AWS's documentation leaves the behaviour of the chip undefined."""


class ReportedOnChipWarning(UserWarning):
    """The simulator computes a result and AWS's documentation allows the operation, but users report that the compiler
    rejects it or that the chip computes a different result (`simulator/instructions/reported.py`)."""


class EarlierNkiWarning(UserWarning):
    """A kernel uses a name from an earlier version of NKI. The simulator accepts it with its old meaning, but the
    current compiler rejects it."""


class EarlierRunnerWarning(EarlierNkiWarning):
    """A kernel is run by `nki.benchmark` or a similar function of an earlier NKI. It runs on the simulator instead."""


def require(condition: object, message: str) -> None:
    """Raise NkiValidationError with `message` unless `condition` holds.

    Use this function only outside the hot path, because the caller builds the message even if the condition holds.
    Instructions test the condition first.
    """
    if not condition:
        raise NkiValidationError(message)


def internal_error(message: str) -> str:
    """Return a message that says that an error is a bug of ours, not a fault of the user's file."""
    return f"an internal error of trninfer; please report it: {message}"


@cache
def ours(filename: str) -> bool:
    """Return True if a file is part of the simulator."""
    return filename.startswith(_HERE)


def without_ours(error: BaseException) -> TracebackType | None:
    """Return an error's traceback without the frames that launched the kernel.

    If the kernel violated a constraint, the frames that detected the violation are removed too.
    """
    frames: list[TracebackType] = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    # Context managers around a kernel add frames from contextlib.
    files = [frame.tb_frame.f_code.co_filename for frame in frames]
    is_users = [not ours(file) and file != contextlib.__file__ for file in files]
    last = max((at for at, mine in enumerate(is_users) if mine), default=-1)
    kept_traceback = None
    for at, frame in reversed(list(enumerate(frames))):
        if is_users[at] or (at > last and not isinstance(error, NkiValidationError)):
            kept_traceback = TracebackType(kept_traceback, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return kept_traceback
