"""What goes wrong on the chip, as typed errors with one line for the user.

`CompileError` and `ExecutionError` are about a kernel (a `KernelError`), `DeviceLost` about the machine (a
`BackendUnavailable`). Which exceptions PyTorch NeuronX raises is not documented, so they are told apart by what the
documentation says their texts hold: the codes NCC_... of the compiler (aws-neuron-sdk, compiler/error-codes) and the
statuses NRT_... of the runtime.
"""

from __future__ import annotations

import re

from ..backend import BackendUnavailable, KernelError
from . import environment

_LONGEST_LINE = 300

# Statuses of the Neuron runtime after which a NeuronCore is of no use to this process (aws-neuron-sdk,
# neuron-runtime/api/nrt_status.rst), and what it logs where cores are taken (neuron-runtime/nrt-troubleshoot.rst).
_LOST = re.compile(
    r"NRT_(HW_ERROR|UNINITIALIZED|CLOSED|EXEC_UNIT_UNRECOVERABLE|LOAD_NOT_ENOUGH_NC|EXEC_NC_BUSY|EXEC_HW_ERR_\w+)\b"
    r"|NeuronCore\(s\) not available"
)


class CompileError(KernelError):
    """The Neuron compiler refused a kernel; the message is one line for the user."""


class DeviceLost(BackendUnavailable):
    """The NeuronCore is gone, broken or taken; the message is one line for the user."""


class ExecutionError(KernelError):
    """The NeuronCore ended a kernel with an error; the message is one line for the user."""


def first_useful_line(*texts: str) -> str:
    """The line of some texts that tells most, cut to a readable length.

    That is one with a compiler's error code in any of them, else, of the first text that says anything, the first line
    with "error" in it, or the first at all.
    """
    choices = [lines for lines in map(_lines, texts) if lines]
    coded = [line for lines in choices for line in lines if re.search(r"\bNCC_[A-Z]+\d+", line)]
    telling = [line for lines in choices[:1] for line in lines if re.search(r"error", line, re.IGNORECASE)]
    best = [*coded, *telling, *(lines[0] for lines in choices), "no message"][0]
    return best if len(best) <= _LONGEST_LINE else f"{best[: _LONGEST_LINE - 3]}..."


def _lines(text: str) -> list[str]:
    """The lines that say something; of a traceback, only what was raised."""
    lines = text.splitlines()
    if any(line.startswith("Traceback ") for line in lines):
        lines = [line for line in lines if not line.startswith(("Traceback ", " "))]
    return [" ".join(line.split()) for line in lines if line.strip()]


def is_lost(error: BaseException) -> bool:
    """Whether an error of PyTorch NeuronX means that there is no NeuronCore to run on any more."""
    return bool(_LOST.search(str(error))) or not environment.neuron_devices()


def runtime_error(name: str, error: BaseException) -> DeviceLost | ExecutionError:
    """What an error during a kernel's execution means for the user."""
    if not environment.neuron_devices():
        return DeviceLost(f"the Neuron device disappeared (no /dev/neuron*) while {name} ran: {useful_line(error)}")
    if _LOST.search(str(error)):
        return DeviceLost(f"the NeuronCore is lost to this process while {name} ran: {useful_line(error)}")
    return ExecutionError(f"{name}: the NeuronCore ended it with an error: {useful_line(error)}")


def useful_line(error: BaseException | str) -> str:
    """The line of an error that tells most: with a status of the runtime in it, else as `first_useful_line`."""
    text = str(error)
    status = re.search(r"^.*\bNRT_[A-Z_]+.*$", text, re.MULTILINE)
    return first_useful_line(status.group() if status else text or type(error).__name__)
