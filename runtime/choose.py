"""Choose the backend that runs kernels on this machine, and state the reason."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from ..kernels.nki_source import VARIABLE, simulator_is_preferred
from .backend import Backend, BackendUnavailable
from .neuron import environment

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Choice:
    """The name of a backend, and why it was chosen."""

    backend: str
    reason: str


def decide(name: str) -> Choice:
    """Resolve the name of a backend on this machine.

    Raises BackendUnavailable if the backend is missing. The message names the packages to install.

    "auto" selects the chip if it can be used, unless TRNINFER_BACKEND is "sim".
    """
    if name == "sim":
        return Choice("sim", "asked for")
    if name == "auto" and simulator_is_preferred():
        return Choice("sim", f"{VARIABLE}=sim")
    if name == "auto" and not environment.neuron_devices():
        return Choice("sim", environment.NO_DEVICE)
    way = environment.find_way()
    if way.way is not None:
        return Choice(
            "neuron", f"a Neuron device and AWS's packages are available through {environment.WAY_NAMES[way.way]}"
        )
    missing = "; ".join(way.missing)
    if name == "auto":
        return Choice("sim", missing)
    raise BackendUnavailable(f"backend 'neuron' is not available: {missing} ({environment.INSTALL_HINT})")


def choose_backend(
    name: str = "auto",
    target: str | None = None,
    keep_timelines: bool = False,
    lnc: int = 1,
    **neuron_options: Any,
) -> Backend:
    """Return the backend named "auto", "neuron" or "sim" for a target ("trn1", "trn2" or "trn3").

    If `target` is None, NEURON_PLATFORM_TARGET_OVERRIDE is used, else the chip of this machine, else trn2. The choice
    also determines which `nki` package the kernels of this process import, so it fails if the other one is already
    loaded. If `keep_timelines`, the results of the simulator's launches include their timelines, which takes memory.
    `lnc` is the number of NeuronCores in the logical core on which a network is launched. `neuron_options` are passed
    to `neuron.open_neuron_backend` if the chip is chosen. Raises BackendUnavailable and TargetError.
    """
    choice = decide(name)
    _LOG.info("backend %s: %s", choice.backend, choice.reason)
    if choice.backend == "neuron":
        from .neuron.backend import open_neuron_backend

        return open_neuron_backend(target, lnc=lnc, **neuron_options)
    from .simulated import open_simulated_backend

    return open_simulated_backend(target, keep_timelines, lnc)
