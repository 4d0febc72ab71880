"""Errors raised when a kernel breaks a rule of the machine.

A message names the instruction, the operand, what came and what is allowed.
"""

from __future__ import annotations

import contextlib
import os
from functools import cache
from types import TracebackType

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep  # the simulator


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
    chip to compute something else (`simulator/instructions/reported.py`)."""


class EarlierNkiWarning(UserWarning):
    """A spelling of an earlier NKI that still means the same is taken; today's compiler refuses it."""


def require(condition: object, message: str) -> None:
    """Raise NkiValidationError with `message` unless `condition` holds.

    Only for checks off the hot path: the message is built before the call. Instructions test first.
    """
    if not condition:
        raise NkiValidationError(message)


@cache
def ours(filename: str) -> bool:
    """True if code is the simulator's own."""
    return filename.startswith(_HERE)


def without_ours(error: BaseException) -> TracebackType | None:
    """An error's traceback without the frames that launched a kernel and, where a kernel broke a rule, without those
    that found it."""
    frames: list[TracebackType] = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    # The context managers around a kernel leave frames of contextlib.
    files = [frame.tb_frame.f_code.co_filename for frame in frames]
    own = [not ours(file) and file != contextlib.__file__ for file in files]
    last = max((at for at, mine in enumerate(own) if mine), default=-1)
    found = None
    for at, frame in reversed(list(enumerate(frames))):
        if own[at] or (at > last and not isinstance(error, NkiValidationError)):
            found = TracebackType(found, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return found
