"""A machine with a chip, simulated by the stand-ins for AWS's packages and tools in tests/runtime/neuron/stand_ins.

The processes that the backend starts load the packages from PYTHONPATH.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from caches import empty_cache
from trninfer.runtime.neuron import environment
from trninfer.runtime.neuron.compile_cache import CompileCache
from trninfer.runtime.neuron.compile_only import CompileOnlyBackend, open_compile_only
from trninfer.runtime.neuron.compiled import RunOptions
from trninfer.runtime.neuron.device import DeviceArray

STAND_INS = Path(__file__).parents[1] / "runtime" / "neuron" / "stand_ins"
SITES = {
    environment.TORCHNEURON: ("nki_site", "torch_site"),
    environment.NRT: ("nki_site",),
}
VARIABLES = (  # set or read when the backend is opened
    "NEURON_RT_VISIBLE_CORES",
    "NEURON_RT_NUM_CORES",
    "NEURON_RT_STOCHASTIC_ROUNDING_EN",
    "NEURON_LOGICAL_NC_CONFIG",
    "NEURON_PLATFORM_TARGET_OVERRIDE",
    "NEURON_CC_FLAGS",
    "NKI_COMPILER_FRONTEND",
    "TORCH_NEURONX_NEFF_CACHE_DIR",
    "NKI_COMPILE_CACHE_URL",
    "TRNINFER_BACKEND",
)

# The launches of the small network for features, layer by layer.
ROWS = ["hidden.transpose", "hidden.matmul", "hidden.bias_activation"]
ROWS += ["output.transpose", "output.matmul", "output.bias_activation", "argmax"]


def forget_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the variables that opening the backend sets; the end of the test restores the previous ones."""
    for name in VARIABLES:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def use_packages(monkeypatch: pytest.MonkeyPatch, way: str, *sites: str) -> None:
    """Make child processes find the packages of one way, on a machine with a Neuron device."""
    folders = [str(STAND_INS / site) for site in sites or SITES[way]]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(folders))
    for folder in folders:  # precedes an installed PyTorch
        monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(environment, "neuron_devices", lambda: ("/dev/neuron0",))


def use_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put AWS's tools on the path, preceded by the Python that runs the tests, which has their packages."""
    folders = (str(STAND_INS / "tools"), str(Path(sys.executable).parent), os.environ["PATH"])
    monkeypatch.setenv("PATH", os.pathsep.join(folders))


def stand_in_chip(monkeypatch: pytest.MonkeyPatch, cache: Path, way: str) -> pytest.MonkeyPatch:
    """Simulate a machine with everything that one way requires: device, packages, tools and an empty cache."""
    forget_variables(monkeypatch)
    use_packages(monkeypatch, way)
    use_tools(monkeypatch)
    monkeypatch.setenv("TRNINFER_CACHE", str(empty_cache(cache)))
    monkeypatch.setattr(environment, "neuron_devices", lambda: ("/dev/neuron0",))
    monkeypatch.setattr(environment, "find_way", lambda: environment.Way(way, ()))
    return monkeypatch


def noting_options(notes: list[str], folder: Path | None, **options) -> RunOptions:
    """Return options for few timed calls, with a cache in a folder; all messages are appended to `notes`."""
    given = {"cache": CompileCache(folder, notes.append), "warmup": 1, "iterations": 2, **options}
    return RunOptions(**{"progress": notes.append, "warn": notes.append, **given})


@contextmanager
def compile_only(monkeypatch: pytest.MonkeyPatch, target: str, processes: int) -> Iterator[CompileOnlyBackend]:
    """Open the backend that only compiles, with the stand-ins for the compiler."""
    forget_variables(monkeypatch)
    use_packages(monkeypatch, environment.NRT)
    monkeypatch.setattr(environment, "missing_packages", lambda: {environment.NRT: []})
    backend = open_compile_only(target, RunOptions(), processes=processes)
    yield backend
    backend.close()


def matrix(*shape: int, dtype=np.float32) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype(dtype)


def spoil(monkeypatch, change: Callable[[np.ndarray], np.ndarray]) -> None:
    """Modify the outputs of the device."""
    read = DeviceArray.__array__
    monkeypatch.setattr(DeviceArray, "__array__", lambda self, dtype=None, copy=None: change(read(self, dtype, copy)))
