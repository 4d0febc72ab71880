"""Open the backend on a Trainium chip: TorchNeuron (`torch_backend.py`) if installed, else NEFF and nki.runtime
(`nrt.py`).

Both keep read-only operands on the device and never copy intermediate results to the host. The time of a launch is the
wall-clock time of one synchronised call on data that is already on the device ("measured, host round trip"). The time
on the NeuronCore only ("measured, device") is also reported if it is available. The code was written from AWS's
documentation (each module names the pages) and tested against stand-ins; it has not run on a chip yet.
"""

from __future__ import annotations

import os

from ...kernels import nki_source
from ..backend import TARGET_VARIABLE, BackendUnavailable, resolve_target
from . import environment
from .compile_cache import CompileCache, cache_folder, warn_user
from .compiled import DEFAULT_COMPILE_SECONDS, DEFAULT_ITERATIONS, DEFAULT_WARMUP, CompiledKernels, Note, RunOptions
from .nrt import open_nrt
from .system import instance_target, prepare_environment
from .torch_backend import open_torch


def open_neuron_backend(
    target: str | None = None,
    *,
    lnc: int = 1,
    warmup: int = DEFAULT_WARMUP,
    iterations: int = DEFAULT_ITERATIONS,
    device_times: bool = False,
    compile_seconds: float = DEFAULT_COMPILE_SECONDS,
    progress: Note = lambda message: None,
    warn: Note = warn_user,
) -> CompiledKernels:
    """Return the backend for this machine's chip, or raise BackendUnavailable with a list of the missing requirements.

    If no target is given, NEURON_PLATFORM_TARGET_OVERRIDE determines it, else the instance type, else it is trn2.
    Kernels are compiled for and run on a logical core of `lnc` NeuronCores, which is fixed for the process. See
    `RunOptions` for the other arguments.
    """
    way = environment.find_way()
    if way.way is None:
        raise BackendUnavailable(
            f"backend 'neuron' is not available: {'; '.join(way.missing)} ({environment.INSTALL_HINT})"
        )
    for clause in environment.unexpected_versions():
        warn(clause)
    target_name = target or os.environ.get(TARGET_VARIABLE) or instance_target()
    if target_name is None:
        warn(
            "neuron-ls does not report the type of this instance, so times are labelled trn2 (change the label with "
            "--target)"
        )
    resolved = resolve_target(target_name)
    prepare_environment(resolved, target_name is not None, os.environ, lnc)
    options = RunOptions(
        warmup=warmup,
        iterations=iterations,
        device_times=device_times,
        compile_seconds=compile_seconds,
        cache=CompileCache(cache_folder(), warn),
        progress=progress,
        warn=warn,
        lnc=lnc,
    )
    try:
        nki_source.use_nki("sim")
    except RuntimeError as error:
        raise BackendUnavailable(f"backend 'neuron' is not available: {error}") from error
    return open_torch(resolved, options) if way.way == environment.TORCHNEURON else open_nrt(resolved, options)
