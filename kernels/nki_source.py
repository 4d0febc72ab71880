"""Select the `nki` package that kernels import: AWS's package or the NeuronCore simulator.

The package must be selected before a kernel is loaded.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Sequence
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

VARIABLE = "TRNINFER_BACKEND"  # "sim" makes `auto` select the simulator even if the real package is installed

_WORDS = {"neuron": "AWS's package nki", "sim": "the simulator's nki"}


def simulator_is_preferred() -> bool:
    """True if the environment makes `auto` select the simulator. No other code reads TRNINFER_BACKEND."""
    return os.environ.get(VARIABLE) == "sim"


def use_nki(backend: str = "auto") -> str:
    """Make ``import nki`` return the package that a backend requires, and return the choice: "neuron" (AWS's) or "sim".

    "auto" keeps an `nki` that is already loaded. Otherwise, it selects AWS's package if that is installed and
    TRNINFER_BACKEND is not "sim", and the simulator if not. PyPI's placeholder with the same name does not count as
    AWS's package. If no package has been selected when a kernel is loaded by name from `trninfer.kernels`, this
    function is called with "auto". Raises RuntimeError if a different `nki` is already loaded or if AWS's package is
    requested but not installed, and ValueError if `backend` is unknown.
    """
    if backend not in ("auto", *_WORDS):
        raise ValueError(f"backend must be auto, neuron or sim, got {backend!r}")
    loaded = sys.modules.get("nki")
    if loaded is not None:
        return _keep(loaded, backend)
    if backend == "auto":
        backend = "neuron" if _real_nki_is_installed() and not simulator_is_preferred() else "sim"
    if backend == "neuron":
        if not _real_nki_is_installed():
            raise RuntimeError("AWS's package nki is not installed here (a placeholder from PyPI is not enough)")
        return backend
    from .. import simulator

    simulator.install()
    _hold_back_warnings()
    return backend


def _hold_back_warnings() -> None:
    """Suppress the warnings about reported chip behaviour for the kernels of this package.

    The tests cover this behaviour, and users cannot change it.
    """
    from ..simulator.machine.errors import ReportedOnChipWarning

    folder = re.escape(str(Path(__file__).parent))
    warnings.filterwarnings("ignore", category=ReportedOnChipWarning, module=rf"{folder}\W")


def choose_at_first_import() -> None:
    """Make the first `import nki` of this process select the default package, unless a package has been selected by
    then.

    This allows a kernel's module to be imported by its full path, with or without AWS's package.
    """
    if "nki" not in sys.modules and not any(isinstance(finder, _DefaultChoice) for finder in sys.meta_path):
        sys.meta_path.insert(0, _DefaultChoice())


class _DefaultChoice(MetaPathFinder, Loader):
    """Import hook that resolves the first `import nki` through `use_nki` and then removes itself."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "nki":
            return None
        sys.meta_path.remove(self)
        return ModuleSpec("nki", self) if use_nki() == "sim" else None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return sys.modules["nki"]  # the simulator's module, which is installed by now

    def exec_module(self, module: ModuleType) -> None:
        pass  # the module has already been executed


def _keep(loaded: ModuleType, backend: str) -> str:
    present = "sim" if _is_simulator(loaded) else "neuron"
    if backend not in ("auto", present):
        raise RuntimeError(
            f"too late to choose {_WORDS[backend]}: {_WORDS[present]} is already loaded from {loaded.__file__}; call "
            f"use_nki before anything imports nki"
        )
    return present


def _is_simulator(module: ModuleType) -> bool:
    return module.__file__ is not None and _is_of_simulator(module.__file__)


@cache
def _is_of_simulator(file: str) -> bool:
    simulator_folder = Path(__file__).resolve().parent.parent / "simulator"
    return simulator_folder in Path(file).resolve().parents


def path_of_packages() -> list[str]:
    """Return `sys.path` without the folder in which processes spawned by multiprocessing find the simulator's nki."""
    return [folder for folder in sys.path if not folder or not _is_of_simulator(folder)]


def _real_nki_is_installed() -> bool:
    """True if an ``nki`` package that contains the instruction set is installed; PyPI's placeholder has no ``isa``."""
    spec = PathFinder.find_spec("nki", path_of_packages())
    if spec is None or not spec.submodule_search_locations:
        return False
    folders = [Path(folder) for folder in spec.submodule_search_locations]
    return any((folder / "isa.py").is_file() or (folder / "isa").is_dir() for folder in folders)
