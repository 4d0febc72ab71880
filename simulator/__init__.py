"""A NeuronCore simulator for the CPU, which provides the `nki` modules.

It computes kernels with NumPy, checks the limits of the hardware, and predicts times.

    from trninfer import simulator
    simulator.install()                      # `import nki` now finds the simulator
    run = simulator.run(kernel, *arrays, target="trn2")

The simulator does not depend on the rest of trninfer. It consists of the following packages, each of which imports only
packages that precede it in the list: `machine` (the chip, memories, registers, pairs of cores), `timing`, `tensors`,
`instructions` (and the core that executes them), `nki` (the language), `checking` (lint, sanitizers), `running`
(launches, ranks, scripts), `search` (ranking, sweeps, baselines) and `migrate`. This module is the public interface.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .machine.chip import TARGETS, Target
from .machine.errors import AccessPatternError, CapacityError, NkiValidationError, NotSimulatedError, OutOfBoundsError
from .running.install import install
from .running.kernel import Kernel, TensorSpec, jit, simulate
from .running.launch import run
from .running.run import Run, write_trace
from .timing.constants import changed

if TYPE_CHECKING:
    from .running.ranks import run_ranks
    from .search.ranking import rank

__all__ = [
    "TARGETS",
    "AccessPatternError",
    "CapacityError",
    "Kernel",
    "NkiValidationError",
    "NotSimulatedError",
    "OutOfBoundsError",
    "Run",
    "Target",
    "TensorSpec",
    "changed",
    "install",
    "jit",
    "rank",
    "run",
    "run_ranks",
    "simulate",
    "write_trace",
]


_HOMES = {"rank": ".search.ranking", "run_ranks": ".running.ranks"}  # modules loaded on first use


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = globals()[name] = getattr(import_module(_HOMES[name], __name__), name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
