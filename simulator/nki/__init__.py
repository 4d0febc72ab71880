"""The package `nki` on the simulator, without Trainium: the decorator and the entry points of NKI 0.7."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from ..machine.errors import EarlierRunnerWarning
from . import collectives as collectives
from . import compiler as compiler
from . import constants
from . import dtype as dtype
from . import isa as isa
from . import language as language
from . import typing as typing
from .api import VERSION, missing

if TYPE_CHECKING:
    from ..running.kernel import jit, simulate

__all__ = ["collectives", "compiler", "dtype", "isa", "jit", "language", "simulate", "typing"]

MODULES = {
    "nki.language": language,
    "nki.isa": isa,
    "nki.isa.constants": constants,
    "nki.typing": typing,
    "nki.collectives": collectives,
    "nki.compiler": compiler,
    "nki.dtype": dtype,
}
"""The modules, keyed by the names under which kernels import them."""

_RUNNERS = ("baremetal", "benchmark", "profile", "simulate_kernel", "trace")  # running/runners.py

isa.constants = constants


def __getattr__(name: str) -> Any:
    if name in ("jit", "simulate"):  # imported lazily, because running/ imports this package
        from ..running import kernel

        value = globals()[name] = getattr(kernel, name)
        return value
    if name in _RUNNERS:
        from ..running.runners import RUNNERS

        warnings.warn(
            f"nki.{name} is from an earlier version of NKI; it runs on the simulator and reports predicted times",
            EarlierRunnerWarning,
            stacklevel=2,
        )
        return RUNNERS[name]
    if name == "__version__":
        return f"{VERSION}.0+trninfer.simulator"
    return missing("nki", name)
