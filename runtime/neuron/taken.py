"""Handle NeuronCores that another process uses: recognise the runtime's message, find that process, and suggest how to
choose another core.

Ten public logs of 2026 contain these messages: "Logical Neuron Core(s) not available - Requested:lnc0-lnc0 Available:0
Logical Core size:2 (cores busy, ret=-16)", and NRT_FAILURE from nrt_init. neuron-runtime/nrt-troubleshoot.rst still
documents the message of 2021, "NeuronCore(s) not available". Source for the processes on cores:
tools/neuron-sys-tools/neuron-ls.rst.
"""

from __future__ import annotations

import re

from .system import VISIBLE_CORES, core_holders, visible_cores

_TAKEN = re.compile(
    r"Neuron ?Core\(s\) not available|cores busy, ret=-16|NRT_LOAD_NOT_ENOUGH_NC"
    r"|(nrt_init|[Ii]nitiali[sz])\S*\b.*NRT_FAILURE"
)


def is_taken(text: str) -> bool:
    """Return True if a message of the runtime means that another process uses the core."""
    return bool(_TAKEN.search(text))


def taken_line(text: str) -> str:
    """Return a line for the user that names the core and the process that uses it (if neuron-ls reports it), and
    explains how to choose another core."""
    match = re.search(r"Requested:\s*lnc(\d+)", text, re.IGNORECASE)
    core = f"NeuronCore {match.group(1)}" if match else "the NeuronCore"
    holders = core_holders(int(match.group(1)) if match else None)
    by = f"process {', '.join(holders)}" if holders else "another process (see neuron-ls -a)"
    try:
        cores = visible_cores()
    except ValueError:
        cores = None
    others = f", one of {cores[0]} to {cores[-1]}," if cores and len(cores) > 1 else ""
    return f"{core} is in use by {by}; to use another core, set {VISIBLE_CORES}=N{others}"
