"""Errors raised when a kernel breaks a rule of the machine.

A message names the instruction, the operand, the value given and the values allowed.
"""

from __future__ import annotations

import contextlib
import os
from functools import cache
from types import TracebackType

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep  # the simulator's folder


class NkiValidationError(Exception):
    """A kernel broke a constraint of the hardware (the name that `nki.isa` documents)."""


class OutOfBoundsError(NkiValidationError, IndexError):
    """A view or an index reaches outside the tensor it was taken from."""


class UnknownNameError(NkiValidationError, AttributeError):
    """NKI has no such name."""


class OperatorError(NkiValidationError, TypeError):
    """Python operators and NumPy functions do not work on tensors, and Python control flow cannot depend on numbers
    known only to the device."""


class ShapeError(NkiValidationError, ValueError):
    """A shape error that NKI documents as a ValueError."""


class CapacityError(NkiValidationError, MemoryError):
    """More SBUF or PSUM is in use at one time than the NeuronCore has."""


class AccessPatternError(NkiValidationError):
    """An operand has more elements, or larger strides, than an instruction can step through."""


class NotSimulatedError(NkiValidationError, NotImplementedError):
    """A documented NKI feature that this simulator does not have yet."""


class UndefinedOnChipWarning(UserWarning):
    """The simulator computes a result, but AWS's documentation leaves the chip's behaviour undefined."""


class ReportedOnChipWarning(UserWarning):
    """The simulator computes a result and AWS's documentation allows it, but the compiler is reported to refuse it, or
    the chip to compute something else (`simulator/instructions/reported.py`)."""


class EarlierNkiWarning(UserWarning):
    """A name of an earlier NKI that still has the same meaning; the current compiler refuses it."""


class EarlierRunnerWarning(EarlierNkiWarning):
    """`nki.benchmark` and others of an earlier NKI that run a kernel; here they run on the simulator."""


def require(condition: object, message: str) -> None:
    """Raise NkiValidationError with `message` unless `condition` holds.

    Only for checks off the hot path: the message is built before the call. Instructions test first.
    """
    if not condition:
        raise NkiValidationError(message)


@cache
def ours(filename: str) -> bool:
    """True if a file is part of the simulator."""
    return filename.startswith(_HERE)


def without_ours(error: BaseException) -> TracebackType | None:
    """Return an error's traceback without the frames that launched the kernel and, for a broken rule, without those
    that detected it."""
    frames: list[TracebackType] = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    # Context managers around a kernel add frames of contextlib.
    files = [frame.tb_frame.f_code.co_filename for frame in frames]
    own = [not ours(file) and file != contextlib.__file__ for file in files]
    last = max((at for at, mine in enumerate(own) if mine), default=-1)
    found = None
    for at, frame in reversed(list(enumerate(frames))):
        if own[at] or (at > last and not isinstance(error, NkiValidationError)):
            found = TracebackType(found, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return found
