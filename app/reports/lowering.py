"""Print the graph of a network after each lowering pass."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..text import printable
from .report import NetworkLowering

if TYPE_CHECKING:
    from ...runtime.launches import ShownLaunch


def render_lowering(networks: list[NetworkLowering]) -> str:
    """Return the launches of each network with their graphs after each pass, one node per line."""
    return "".join(f"{printable(line)}\n" for network in networks for line in _network_lines(network))


def _network_lines(network: NetworkLowering) -> Iterator[str]:
    yield f"{network.network}: {network.dtype}, a batch of {network.batch_size}, {network.target}"
    for number, launch in enumerate(network.launches, 1):
        if launch.passes or number == 1:
            yield ""
        yield f"launch {number} of {len(network.launches)}: {_title(launch)}"
        yield from _launch_lines(launch)
    yield ""


def _title(launch: ShownLaunch) -> str:
    words = [launch.name, f"kernel {launch.kernel}", f"inputs {launch.pictures}"]
    if launch.predicted_us is not None:
        words.append(f"predicted {launch.predicted_us:.1f} us plus the launch overhead")
    if launch.instructions is not None:
        words.append(f"{launch.instructions} instructions")
    return ", ".join(words)


def _choice(choice: dict[str, Any]) -> str:
    node = "" if choice["node"] is None else f"[{'.'.join(map(str, choice['node']))}]"
    value = "" if choice["value"] is True else f"={json.dumps(choice['value'])}"
    return f"{choice['kind']}{node}{value}"


def _launch_lines(launch: ShownLaunch) -> Iterator[str]:
    if launch.decisions is not None:
        decisions = [_choice(choice) for choice in launch.decisions]
        yield f"decisions: {' '.join(decisions) or 'none'}"
    for lowering_pass in launch.passes:
        yield f"{lowering_pass.name}:{' no change' if lowering_pass.nodes is None else ''}"
        yield from lowering_pass.nodes or ()
    if launch.schedule:
        yield "schedule:"
        yield from (f"      {line}" for line in launch.schedule)
