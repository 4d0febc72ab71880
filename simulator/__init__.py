"""A NeuronCore on the CPU: the `nki` modules, computed with NumPy, checked against the hardware's limits, and timed.

    from trninfer import simulator
    simulator.install()                      # `import nki` now finds the simulator
    run = simulator.run(kernel, *arrays, target="trn2")

It needs nothing else of trninfer.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .chip import TARGETS, Target
from .errors import AccessPatternError, CapacityError, NkiValidationError, NotSimulatedError, OutOfBoundsError
from .kernel import Kernel, TensorSpec, jit, simulate
from .launch import run
from .run import Run, write_trace
from .timing.constants import changed

if TYPE_CHECKING:
    from .ranking import rank
    from .ranks import run_ranks

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


_HOMES = {"rank": ".ranking", "run_ranks": ".ranks"}  # of functions that few launches need

_SPAWNED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "spawned")


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = globals()[name] = getattr(import_module(_HOMES[name], __name__), name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def install() -> None:
    """Make `import nki` find the simulator, in place of a real package if there is one. Idempotent.

    Processes that multiprocessing spawns find it too, by way of sys.path, which they get from their parent.
    """
    from . import nki

    sys.modules["nki"] = nki
    sys.modules.update(nki.MODULES)
    if _SPAWNED not in sys.path:
        sys.path.insert(min(1, len(sys.path)), _SPAWNED)  # behind the folder of the script, before installed packages
    if _OldDialect not in sys.meta_path:
        sys.meta_path.append(_OldDialect)


class _OldDialect:
    """Says what became of `neuronxcc.nki`, where nothing else finds it."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "neuronxcc":
            raise ModuleNotFoundError(
                "neuronxcc.nki is gone since NKI 0.4: import nki, nki.language and nki.isa; "
                "`trninfer migrate FILE` rewrites kernels",
                name="neuronxcc",
            )
