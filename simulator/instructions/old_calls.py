"""Error messages for calls in the style of the first version of NKI, in which instructions returned tiles."""

from __future__ import annotations

import dis
import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from ..machine.errors import OperatorError, ours

SINCE = (
    "since NKI 0.2, instructions return nothing: allocate dst and pass it as the first argument, or run `trninfer "
    "migrate`"
)
_UNFIT = re.compile(r"(?:\w+\.)*(\w+)\(\) (?:missing|got an unexpected|got multiple|takes)")


@contextmanager
def explaining_old_calls() -> Iterator[None]:
    """Explain the change of the API if an instruction that is called for its return value raises a TypeError."""
    try:
        yield
    except TypeError as error:
        match = _UNFIT.match(str(error))
        if match is None or not _writes_to_dst(match[1]) or not _wants_value(error.__traceback__):
            raise
        raise OperatorError(f"{error}; {SINCE}").with_traceback(error.__traceback__) from None


def _writes_to_dst(name: str) -> bool:
    """Return True if the first parameter of an instruction is dst."""
    from ..nki.api import table  # imported lazily, because nki imports the core, which imports this module

    for entry in table()["functions"]:
        if entry["module"] == "nki.isa" and entry["name"] == name:
            return bool(entry["params"]) and entry["params"][0]["name"] == "dst"
    return False


def _wants_value(trace: TracebackType | None) -> bool:
    """Return True if the last frame of a traceback outside the simulator uses the return value of the call."""
    last = None
    while trace is not None:
        last = last if last is not None and ours(trace.tb_frame.f_code.co_filename) else trace
        trace = trace.tb_next
    if last is None:
        return False
    instructions = list(dis.get_instructions(last.tb_frame.f_code))
    following = [
        after.opname for instruction, after in itertools.pairwise(instructions) if instruction.offset == last.tb_lasti
    ]
    return following not in ([], ["POP_TOP"])
