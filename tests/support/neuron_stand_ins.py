"""Stand-ins for AWS's packages and tools, which tests/runtime/neuron/stand_ins has."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

STAND_INS = Path(__file__).parents[1] / "runtime" / "neuron" / "stand_ins"
VARIABLES = (  # that opening the backend sets
    "NEURON_RT_VISIBLE_CORES",
    "NEURON_RT_NUM_CORES",
    "NEURON_LOGICAL_NC_CONFIG",
    "NEURON_PLATFORM_TARGET_OVERRIDE",
    "TRNINFER_BACKEND",
    "TRNINFER_NRTPY",
)


def load_stand_in(name: str) -> ModuleType:
    """A stand-in for the package of that name, loaded anew."""
    spec = importlib.util.spec_from_file_location(name, STAND_INS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
