"""NKI kernels, one file a family.

Importing this package makes sure that ``import nki`` works: the real package where it is installed, else the
NeuronCore simulator's. The kernels are then reachable by name (``from trninfer.kernels import matmul_tiled``) and
their modules are loaded on first use.
"""

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .argmax import argmax as argmax
    from .average_pool import average_pool as average_pool
    from .bias_activation import bias_activation as bias_activation
    from .conv2d import fused_conv2d_maxpool as fused_conv2d_maxpool
    from .conv2d import fused_conv2d_maxpool_packed as fused_conv2d_maxpool_packed
    from .ffnn import ffnn_forward as ffnn_forward
    from .ffnn import ffnn_predict as ffnn_predict
    from .matmul import matmul_block_free_dimension as matmul_block_free_dimension
    from .matmul import matmul_fully_optimized as matmul_fully_optimized
    from .matmul import matmul_hoist_load as matmul_hoist_load
    from .matmul import matmul_tiled as matmul_tiled
    from .transpose import transpose as transpose
    from .vector_add import vector_add_direct_allocation as vector_add_direct_allocation
    from .vector_add import vector_add_naive as vector_add_naive
    from .vector_add import vector_add_stream as vector_add_stream
    from .vector_add import vector_add_tiled as vector_add_tiled

_MODULES = {
    "vector_add_naive": "vector_add",
    "vector_add_tiled": "vector_add",
    "vector_add_stream": "vector_add",
    "vector_add_direct_allocation": "vector_add",
    "transpose": "transpose",
    "matmul_tiled": "matmul",
    "matmul_hoist_load": "matmul",
    "matmul_block_free_dimension": "matmul",
    "matmul_fully_optimized": "matmul",
    "average_pool": "average_pool",
    "bias_activation": "bias_activation",
    "argmax": "argmax",
    "fused_conv2d_maxpool": "conv2d",
    "fused_conv2d_maxpool_packed": "conv2d",
    "ffnn_forward": "ffnn",
    "ffnn_predict": "ffnn",
}

__all__ = ["ensure_nki", *_MODULES]


def ensure_nki() -> str:
    """Make ``import nki`` work and say what answers it: "neuron" (the real package) or "sim" (the simulator).

    The simulator is taken where the real package is missing or only PyPI's placeholder of that name is installed,
    and wherever the environment variable TRNINFER_BACKEND is "sim". Once ``nki`` has been imported, the choice
    stands. Importing this package has already called it.
    """
    loaded = sys.modules.get("nki")
    if loaded is not None:
        return "sim" if _is_simulator(loaded) else "neuron"
    if os.environ.get("TRNINFER_BACKEND") != "sim" and _real_nki_is_installed():
        return "neuron"
    from .. import simulator

    simulator.install()
    return "sim"


def _is_simulator(module: ModuleType) -> bool:
    simulator_folder = Path(__file__).resolve().parent.parent / "simulator"
    return module.__file__ is not None and simulator_folder in Path(module.__file__).resolve().parents


def _real_nki_is_installed() -> bool:
    """True where a package ``nki`` with its instruction set is installed; the placeholder on PyPI has no ``isa``."""
    found = importlib.util.find_spec("nki")
    if found is None or not found.submodule_search_locations:
        return False
    folders = [Path(folder) for folder in found.submodule_search_locations]
    return any((folder / "isa.py").is_file() or (folder / "isa").is_dir() for folder in folders)


class _KernelPackage(ModuleType):
    """This package, on which a kernel wins over the module that it shares its name with.

    Loading ``kernels/transpose.py`` makes Python bind the module as ``kernels.transpose``; the kernel is what
    ``from trninfer.kernels import transpose`` is meant to give.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and _MODULES.get(name) == name:
            value = getattr(value, name)
        super().__setattr__(name, value)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no kernel {name!r}; there are {', '.join(_MODULES)}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])


sys.modules[__name__].__class__ = _KernelPackage
ensure_nki()
