"""Tracebacks without the simulator's own frames."""

from __future__ import annotations

import contextlib
import os
from functools import cache
from types import TracebackType

from .errors import NkiValidationError

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


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
