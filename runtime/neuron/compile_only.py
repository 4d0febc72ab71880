"""Compile kernels to NEFFs for a chip that this machine does not have. This requires AWS's packages but no device.

Internal modules of nki compile a kernel without executing it, and report AWS's own estimate (compile_alone.py). If the
wheel does not contain them, the kernel is called with NumPy arrays for the target in NEURON_PLATFORM_TARGET_OVERRIDE.
NKI saves the NEFF in NKI_ARTIFACTS_DIR and then tries to execute it, which fails if there is no NeuronCore
(docs/chip.md). The results of kernels are computed by the simulator.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from ...kernels.nki_source import use_nki
from ..backend import (
    TARGET_VARIABLE,
    ArraySpec,
    BackendInfo,
    BackendUnavailable,
    KernelError,
    LaunchResult,
    split_arguments,
)
from ..simulated import SimulatedBackend
from . import environment
from .compile_alone import CompileReport
from .compiled import CompiledKernel, CompiledKernels, Executable, KernelEstimate, Operands, RunOptions
from .device_time import DeviceTime, DeviceTimingError
from .jobs import Job
from .neff import CompiledNeff, CompileOnlyRequest, compile_neff, describe_neff
from .processes import end_all
from .system import prepare_environment

LABEL = "predicted; compiled only"


class CompileOnlyBackend(CompiledKernels):
    """A backend that compiles each launched kernel, and returns the simulator's results and predictions.

    Kernels passed to `prepare` are compiled in parallel. Raises CompileError if the compiler rejects a kernel.
    """

    way = "compile-only"
    needs_device = False

    def __init__(self, target: str, options: RunOptions, processes: int) -> None:
        super().__init__(target, options)
        self.info = BackendInfo("compile-only", target, "predicted", LABEL)
        self._simulated = SimulatedBackend(target)
        self._pool = ThreadPoolExecutor(processes)
        self._folder = Path(tempfile.mkdtemp(prefix="trninfer-compile-only-"))
        self._ahead: dict[tuple[str, str], Future[CompiledNeff]] = {}

    def prepare(self, kernel: Any, *arrays: Any, **parameters: Any) -> None:
        """Start to compile the kernel of a later launch, and to run BIRSim on its operands."""
        try:
            operands, others = split_arguments(kernel, arrays, parameters)
            job = self._job(kernel, operands, others)
        except KernelError:
            return  # `launch` raises it
        if _key(job) not in self._ahead:
            self._ahead[_key(job)] = self._begin(job, {name: np.asarray(operand) for name, operand in operands.items()})

    def launch(self, kernel: Any, *arrays: Any, **parameters: Any) -> LaunchResult:
        """Compile a kernel, and compute its results with the simulator."""
        operands, others = split_arguments(kernel, arrays, parameters)
        self._executable(kernel, operands, others)
        host_arrays = {name: np.asarray(array) for name, array in operands.items()}
        return self._simulated.launch(kernel, **host_arrays, **others)

    def time(self, kernel: Any, *specs: ArraySpec, **parameters: Any) -> LaunchResult:
        """Compile a kernel, and predict its time."""
        self._executable(kernel, *split_arguments(kernel, specs, parameters))
        return self._simulated.time(kernel, *specs, **parameters)

    def close(self) -> None:
        """Stop all compilations and discard their results."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        end_all()
        self._pool.shutdown()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _begin(self, job: Job, values: Mapping[str, np.ndarray] | None = None) -> Future[CompiledNeff]:
        workdir = Path(tempfile.mkdtemp(dir=self._folder))
        variables = {TARGET_VARIABLE: job.target}
        limit, note = self._options.compile_seconds, self._still_compiling(job)
        log, alone = workdir / "output.log", CompileOnlyRequest(values)
        return self._pool.submit(compile_neff, job, log, limit, note, variables=variables, alone=alone)

    def _compile(self, job: Job, walked: KernelEstimate, workdir: Path, log: Path) -> CompiledKernel:
        compiled = (self._ahead.pop(_key(job), None) or self._begin(job)).result()

        def write(folder: Path) -> None:
            raise NotImplementedError  # nothing is cached

        return CompiledKernel(write, lambda: compiled, compiled.seconds, compiled.peak_bytes)

    def _load(self, job: Job, walked: KernelEstimate, folder: Path) -> Any:
        raise NotImplementedError  # nothing is cached

    def _call(self, executable: Executable, operands: Operands) -> tuple[tuple[Any, ...], float]:
        raise NotImplementedError  # nothing is executed

    def _device_time(self, executable: Executable, operands: Operands) -> DeviceTime:
        raise DeviceTimingError("nothing runs on a device")

    def _tensors(self, executable: Executable) -> Mapping[str, Any]:
        neff: Path = executable.loaded.path
        return {"neff_bytes": neff.stat().st_size, "neff": describe_neff(neff)}

    def _report(self, executable: Executable) -> CompileReport | None:
        neff: CompiledNeff = executable.loaded
        return neff.report


def open_compile_only(target: str, options: RunOptions, processes: int | None = None) -> CompileOnlyBackend:
    """Return a backend that compiles for a target ("trn2" or "trn3").

    By default, the number of parallel compilations is half the number of CPUs. Raises BackendUnavailable if nki or
    neuronx-cc is missing.
    """
    missing = environment.missing_packages()[environment.NRT]
    if missing:
        raise BackendUnavailable(
            f"--compile-only requires AWS's compiler: {'; '.join(missing)} ({environment.INSTALL_HINT})"
        )
    prepare_environment(target, True, os.environ)
    try:
        use_nki("sim")
    except RuntimeError as error:
        raise BackendUnavailable(f"--compile-only is not available: {error}") from error
    return CompileOnlyBackend(target, options, processes or max(1, (os.cpu_count() or 2) // 2))


def _key(job: Job) -> tuple[str, str]:
    return job.label, repr(job.parameters)
