"""A NeuronCore held by another process: recognising the runtime's message, finding the holder, and choosing another
core.

Ten public logs of 2026 contain these messages: "Logical Neuron Core(s) not available - Requested:lnc0-lnc0 Available:0
Logical Core size:2 (cores busy, ret=-16)", and NRT_FAILURE from nrt_init. neuron-runtime/nrt-troubleshoot.rst still
documents that of 2021, "NeuronCore(s) not available". Processes on cores: tools/neuron-sys-tools/neuron-ls.rst.
"""

from __future__ import annotations

import re

from .system import VISIBLE_CORES, core_holders, visible_cores

_TAKEN = re.compile(
    r"Neuron ?Core\(s\) not available|cores busy, ret=-16|NRT_LOAD_NOT_ENOUGH_NC"
    r"|(nrt_init|[Ii]nitiali[sz])\S*\b.*NRT_FAILURE"
)


def is_taken(text: str) -> bool:
    """True if a message of the runtime means that another process holds the core."""
    return bool(_TAKEN.search(text))


def taken_line(text: str) -> str:
    """Return the line for the user: which core, who holds it if neuron-ls knows, and how to choose another."""
    found = re.search(r"Requested:\s*lnc(\d+)", text, re.IGNORECASE)
    core = f"NeuronCore {found.group(1)}" if found else "the NeuronCore"
    holders = core_holders(int(found.group(1)) if found else None)
    by = f"process {', '.join(holders)}" if holders else "another process (neuron-ls -a shows which)"
    try:
        there = visible_cores()
    except ValueError:
        there = None
    others = f", one of {there[0]} to {there[-1]}," if there and len(there) > 1 else ""
    return f"{core} is in use by {by}; {VISIBLE_CORES}=N{others} chooses another"
