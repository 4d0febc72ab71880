"""Exceptions for errors of the chip, each with a one-line message for the user.

`CompileError` and `ExecutionError` concern a kernel and derive from `KernelError`. `DeviceLost` concerns the machine
and derives from `BackendUnavailable`. AWS does not document which exceptions its packages raise, so errors are
recognised by documented parts of their messages: the compiler's codes NCC_... (aws-neuron-sdk, compiler/error-codes)
and the runtime's statuses NRT_... (neuron-runtime/api/nrt_status.rst).
"""

from __future__ import annotations

import re

from ..backend import BackendUnavailable, KernelError
from . import environment
from .taken import is_taken, taken_line

_LONGEST_LINE = 300

# Statuses of the Neuron runtime after which this process can no longer use a NeuronCore (aws-neuron-sdk,
# neuron-runtime/api/nrt_status.rst), and the runtime's log messages if cores are in use
# (neuron-runtime/nrt-troubleshoot.rst).
_LOST = re.compile(
    r"NRT_(HW_ERROR|UNINITIALIZED|CLOSED|EXEC_UNIT_UNRECOVERABLE|LOAD_NOT_ENOUGH_NC|EXEC_NC_BUSY|EXEC_HW_ERR_\w+)\b"
    r"|NeuronCore\(s\) not available"
)


# Advice for the compiler's error codes. The sources for EVRF066, EVRF065, EBVF030, EVRF007, EOOM001 and EOOM002 are the
# documentation pages with these names. EGCA110 and EGCA111 have no page; public reports say that kernels do not spill.
_LESS = "reduce --batch-size or --instructions to make launches smaller"
_LNC = "NEURON_LOGICAL_NC_CONFIG must be equal to --lnc (1), and NEURON_CC_FLAGS must not contain a different --lnc"
_ADVICE = {
    "NCC_EVRF066": f"kernels and neuronx-cc disagree on the number of physical cores per logical core: {_LNC}",
    "NCC_EVRF065": "nki and neuronx-cc are from different SDKs, or a compiled kernel is outdated: update both "
    "packages, and delete the cache folder shown by trninfer doctor",
    "NCC_EGCA110": f"the kernel's tiles do not fit in SBUF, and kernels do not spill: {_LESS}",
    "NCC_EGCA111": f"the kernel's tiles do not fit in SBUF, and kernels do not spill: {_LESS}",
    "NCC_EBVF030": f"too many instructions: {_LESS}",
    "NCC_EVRF007": f"too many instructions: {_LESS}",
    "NCC_EOOM001": "the tensors of a launch do not fit in HBM: reduce --batch-size",
    "NCC_EOOM002": "the tensors of a launch do not fit in HBM: reduce --batch-size",
}


class CompilerFailed(Exception):  # noqa: N818 (not raised beyond this package's backends)
    """Raised if the compiler produced nothing that can be loaded. The message is the entire output of the compiler."""


class CompileError(KernelError):
    """The Neuron compiler rejected a kernel.

    The message is one line for the user; `log` is the compiler's entire output.
    """

    log: str = ""


class DeviceLost(BackendUnavailable):
    """The NeuronCore is missing, broken or used by another process. The message is one line for the user."""


class CoreInUse(BackendUnavailable):
    """Another process uses the NeuronCore. The message is one line for the user."""


class ExecutionError(KernelError):
    """The NeuronCore ended a kernel with an error. The message is one line for the user."""


def first_useful_line(*texts: str) -> str:
    """Return the most informative line of several texts, truncated to a readable length.

    If any text contains an error code of the compiler, the line with that code is returned. Otherwise, the first line
    with "error" in the first non-empty text is returned or, if there is none, the first line of that text.
    """
    choices = [lines for lines in map(_lines, texts) if lines]
    coded = [line for lines in choices for line in lines if re.search(r"\bNCC_[A-Z]+\d+", line)]
    telling = [line for lines in choices[:1] for line in lines if re.search(r"error", line, re.IGNORECASE)]
    best = [*coded, *telling, *(lines[0] for lines in choices), "no message"][0]
    return best if len(best) <= _LONGEST_LINE else f"{best[: _LONGEST_LINE - 3]}..."


def raised_line(traceback: str) -> str:
    """Return the last line of a traceback. If the exception has no message, append the location and the line of
    code."""
    lines = traceback.splitlines()
    last = next((line.strip() for line in reversed(lines) if line.strip() and not line.startswith(" ")), "")
    frames = [number for number, line in enumerate(lines) if line.startswith('  File "')]
    if not frames or ":" in last:
        return last
    location = re.sub(r'^  File "(?:.*/)?([^"/]+)", line (\d+), in (.*)$', r"\1:\2, \3", lines[frames[-1]])
    code = lines[frames[-1] + 1].strip() if frames[-1] + 1 < len(lines) else ""
    return f"{last} ({location}: {code})" if code else f"{last} ({location})"


def _lines(text: str) -> list[str]:
    """Return the lines that are not empty. If there is a traceback, only its exception is returned."""
    lines = text.splitlines()
    if any(line.startswith("Traceback ") for line in lines):
        raised = raised_line(text)
        lines = [line for line in lines if not line.startswith(("Traceback ", " "))]
        lines = [raised if raised.startswith(f"{line} (") else line for line in lines]
    return [" ".join(line.split()) for line in lines if line.strip()]


def advice(text: str) -> str | None:
    """Return advice on the first known compiler code in a text, or None if it contains none."""
    for code in re.findall(r"\bNCC_[A-Z]+\d+", text):
        if code in _ADVICE:
            return _ADVICE[code]
    return None


def is_of_runtime(text: str) -> bool:
    """Return True if a text contains a status of the runtime and no compiler code."""
    return bool(re.search(r"\bNRT_[A-Z]", text)) and not re.search(r"\bNCC_[A-Z]+\d", text)


def is_lost(error: BaseException) -> bool:
    """Return True if an error means that no usable NeuronCore is left."""
    return bool(_LOST.search(str(error))) or not environment.neuron_devices()


def runtime_error(name: str, error: BaseException) -> DeviceLost | ExecutionError | CoreInUse:
    """Return the error to raise for a kernel that failed during execution."""
    if is_taken(str(error)):
        return CoreInUse(taken_line(str(error)))
    if not environment.neuron_devices():
        return DeviceLost(f"the Neuron device disappeared (no /dev/neuron*) while {name} ran: {useful_line(error)}")
    if _LOST.search(str(error)):
        return DeviceLost(f"this process lost the NeuronCore while {name} ran: {useful_line(error)}")
    return ExecutionError(f"{name}: the kernel failed on the NeuronCore: {useful_line(error)}")


def useful_line(error: BaseException | str) -> str:
    """Return the most informative line of an error: one with a runtime status, else the result of
    `first_useful_line`."""
    text = str(error)
    status = re.search(r"^.*\bNRT_[A-Z_]+.*$", text, re.MULTILINE)
    return first_useful_line(status.group() if status else text or type(error).__name__)
