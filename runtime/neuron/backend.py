"""The backend on a Trainium chip, by the way that this machine has: NEFF and nrtpy (`nrt.py`) before PyTorch NeuronX
(`pytorch_backend.py`).

In both, operands that nobody may write to stay on the device, intermediate results never leave it, and the time of a
launch is the wall clock around one synchronised call on data that lies there ("measured, host round trip"), with the
time on the NeuronCore alone beside it where it can be had ("measured, device"). Written from AWS's documentation (see
the modules for the pages) and tested against stand-ins; it has not run on a chip yet.
"""

from __future__ import annotations

import os
from typing import Any

from ...kernels import nki_source
from ..backend import TARGET_VARIABLE, BackendUnavailable, resolve_target
from ..beside import LazyCounter, SimulatorBeside
from . import environment
from .compile_cache import CompileCache, cache_folder, warn_user
from .compiled import DEFAULT_ITERATIONS, DEFAULT_WARMUP, CompiledKernels, Note
from .device import named_python
from .system import instance_target, prepare_environment


def open_neuron_backend(
    target: str | None = None,
    *,
    warmup: int = DEFAULT_WARMUP,
    iterations: int = DEFAULT_ITERATIONS,
    nrtpy: str | None = None,
    device_times: bool = False,
    count: bool = True,
    progress: Note = lambda message: None,
    warn: Note = warn_user,
) -> CompiledKernels:
    """The backend of this machine's chip; BackendUnavailable with what is missing.

    To be called before AWS's packages are imported: it sets the environment variables that they read.
    Without a target, NEURON_PLATFORM_TARGET_OVERRIDE decides, else the kind of this instance, else trn2 is assumed (and
    NKI left to find out). `nrtpy` names the environment with nrtpy where it is not this one. With `device_times` each
    kernel's time on the NeuronCore alone is measured too, by tracing on the device. With `count` the simulator
    counts flops and bytes.
    """
    python = named_python(nrtpy)
    found = environment.find_way(python is not None)
    if found.way is None:
        raise BackendUnavailable(
            f"backend 'neuron' is not available: {'; '.join(found.missing)} ({environment.INSTALL_HINT})"
        )
    named = target or os.environ.get(TARGET_VARIABLE) or instance_target()
    if named is None:
        warn("neuron-ls does not tell the kind of this instance; times are labelled trn2 (--target names another)")
    chosen = resolve_target(named)
    prepare_environment(chosen, named is not None, os.environ)
    options: dict[str, Any] = {
        "warmup": warmup,
        "iterations": iterations,
        "device_times": device_times,
        "cache": CompileCache(cache_folder(), warn),
        "progress": progress,
        "warn": warn,
    }
    try:
        nki_source.use_nki("sim" if found.way == "nrtpy" else "neuron")
    except RuntimeError as error:
        raise BackendUnavailable(f"backend 'neuron' is not available: {error}") from error
    if found.way == "nrtpy":
        from .nrt import open_nrt

        return open_nrt(chosen, python, **options)
    from .pytorch_backend import PyTorchBackend

    counter = LazyCounter(lambda: SimulatorBeside(chosen)) if count else None
    return PyTorchBackend(chosen, counter=counter, **options)
