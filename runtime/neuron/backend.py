"""The backend on a Trainium chip: each kernel compiled by PyTorch NeuronX, run on a NeuronCore, and timed.

The time of a launch is the wall clock around one synchronised call from host tensors to host tensors ("measured, host
round trip"); where AWS's tools are here, each kernel's time on the device alone is told beside it ("measured, device").
Written from AWS's documentation (see `pytorch`, `system` and `device_time` for the pages) and tested
against stand-ins; it has not run on a chip yet.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...kernels import nki_source
from ..backend import (
    TARGET_VARIABLE,
    ArraySpec,
    BackendInfo,
    BackendUnavailable,
    KernelError,
    LaunchResult,
    LaunchTime,
    resolve_target,
)
from ..beside import LazyCounter, SimulatorBeside, SimulatorDied, SimulatorFault
from . import environment
from .compile_cache import CompileCache, Slot, cache_folder, warn_user
from .device_time import NRTPY_VARIABLE, DeviceTime, DeviceTimer, DeviceTimingError, find_device_timer
from .errors import CompileError, first_useful_line, is_lost, runtime_error, useful_line
from .kernel_source import KernelSource, find_source
from .pytorch import (
    COMPILER_ARGUMENTS,
    compile_kernel,
    find_neff,
    load_packages,
    standard_output_to,
    to_array,
    to_tensor,
)
from .system import instance_target, prepare_environment

HOST_LABEL = "measured, host round trip"
DEFAULT_WARMUP = 5
DEFAULT_ITERATIONS = 20

_MODULE_FILE = "model.pt"
_NEFF_FILE = "kernel.neff"

Note = Callable[[str], None]


@dataclass
class _Executable:
    """A compiled kernel, loaded; once it has been timed also its times."""

    kernel: Any  # kept alive, since executables are known by its identity
    name: str
    call: Callable[..., Any]
    neff: Path | None
    timed: LaunchTime | None = None


class NeuronBackend:
    """Runs kernels on a NeuronCore. A kernel is compiled and timed once for its shapes, dtypes and parameters.

    Timing is `warmup` calls, then `iterations` calls of which median and 99th percentile are told; later launches of
    the same kernel run once and tell the same times. `counter` tells a kernel's flops and bytes of HBM traffic, `timer`
    its time on the device. `progress` is told what takes long, `warn` what goes wrong without being fatal.
    """

    def __init__(
        self,
        target: str,
        *,
        warmup: int = DEFAULT_WARMUP,
        iterations: int = DEFAULT_ITERATIONS,
        cache: CompileCache | None = None,
        timer: DeviceTimer | None = None,
        counter: Callable[..., LaunchTime] | None = None,
        progress: Note = lambda message: None,
        warn: Note = warn_user,
    ) -> None:
        if warmup < 0 or iterations < 1:
            raise ValueError(f"warmup is {warmup} and iterations {iterations}; at least 0 and 1 are needed")
        self.info = BackendInfo("neuron", target, "measured", HOST_LABEL)
        self._warmup = warmup
        self._iterations = iterations
        self._cache = cache if cache is not None else CompileCache(None)
        self._timer = timer
        self._counter = counter
        self._progress = progress
        self._warn = warn
        self._executables: dict[tuple[Any, ...], _Executable] = {}
        with standard_output_to(2):
            self._torch, self._torch_neuronx = load_packages()

    def launch(self, kernel: Any, *arrays: np.ndarray, **parameters: Any) -> LaunchResult:
        """Run a kernel; the arrays that it returns, and its times.

        CompileError where the compiler refuses it, ExecutionError where the device does, DeviceLost where the device is
        gone. What libraries print on standard output goes to standard error.
        """
        tensors = [to_tensor(self._torch, array) for array in arrays]
        with standard_output_to(2):
            executable = self._executable(kernel, arrays, tensors, parameters)
            outputs, _ = self._call(executable, tensors)
            if executable.timed is None:
                executable.timed = self._measure(executable, kernel, arrays, tensors, parameters)
        return LaunchResult(tuple(to_array(self._torch, output) for output in outputs), executable.timed)

    def time(self, kernel: Any, *specs: ArraySpec, **parameters: Any) -> LaunchResult:
        """Time a kernel on random arrays (zeros where they are integers); the result has no outputs."""
        random = np.random.default_rng(0)
        arrays = []
        for spec in specs:
            dtype = np.dtype(spec.dtype)
            whole = dtype.kind in "iu"
            arrays.append(np.zeros(spec.shape, dtype) if whole else random.standard_normal(spec.shape).astype(dtype))
        return replace(self.launch(kernel, *arrays, **parameters), outputs=())

    def _executable(
        self, kernel: Any, arrays: tuple[np.ndarray, ...], tensors: list[Any], parameters: dict[str, Any]
    ) -> _Executable:
        operands = tuple((array.shape, array.dtype.name) for array in arrays)
        key = (id(kernel), operands, tuple(sorted(parameters.items())))
        if key not in self._executables:
            source = find_source(kernel)
            cache = self._cache if source.digest is not None else CompileCache(None)
            description = " ".join(f"{list(shape)}" for shape, _ in operands)
            label = f"{source.name} {description} {operands[0][1]} for {self.info.target}"

            def wait() -> None:
                self._progress(f"waiting for another process that compiles {label}")

            with cache.hold(self._material(source, operands, parameters), wait) as slot:
                self._executables[key] = self._load(kernel, source.name, slot) or self._compile(
                    kernel, source.name, label, tensors, parameters, slot
                )
        return self._executables[key]

    def _material(
        self, source: KernelSource, operands: tuple[tuple[tuple[int, ...], str], ...], parameters: dict[str, Any]
    ) -> dict[str, Any]:
        """All that a compiled kernel depends on."""
        return {
            "kernel": source.name,
            "source": source.digest,
            "operands": [[list(shape), dtype] for shape, dtype in operands],
            "parameters": {name: repr(value) for name, value in parameters.items()},
            "target": self.info.target,
            "compiler_arguments": [*COMPILER_ARGUMENTS, os.environ.get("NEURON_CC_FLAGS", "")],
            "versions": package_versions(),
        }

    def _load(self, kernel: Any, name: str, slot: Slot) -> _Executable | None:
        """The kernel from the cache; None where it is not there, or there but not to be loaded."""
        entry = slot.find()
        if entry is None:
            return None
        try:
            module = self._torch.jit.load(str(entry / _MODULE_FILE))
        except (RuntimeError, OSError, ValueError) as error:
            if is_lost(error):
                raise runtime_error(name, error) from error
            self._warn(f"{name}: what the cache has of it cannot be loaded and is compiled anew: {useful_line(error)}")
            slot.discard()
            return None
        neff = entry / _NEFF_FILE
        return _Executable(kernel, name, module, neff if neff.exists() else None)

    def _compile(
        self, kernel: Any, name: str, label: str, tensors: list[Any], parameters: dict[str, Any], slot: Slot
    ) -> _Executable:
        self._progress(f"compiling {label}")
        start = time.perf_counter()
        workdir = Path(tempfile.mkdtemp(prefix="trninfer-compile-"))
        remove_workdir = weakref.finalize(self, shutil.rmtree, workdir, ignore_errors=True)
        log = workdir / "output.log"
        try:
            with log.open("wb") as output, standard_output_to(output.fileno()):
                module = compile_kernel(self._torch, self._torch_neuronx, kernel, tensors, parameters, workdir)
        except CompileError as error:
            failure = runtime_error(name, error) if is_lost(error) else self._compile_error(name, error, log)
            remove_workdir()
            raise failure from error
        self._progress(f"compiled {label} in {time.perf_counter() - start:.0f} s")
        neff = find_neff(workdir)

        def write(entry: Path) -> None:
            self._torch.jit.save(module, str(entry / _MODULE_FILE))
            if neff is not None:
                (entry / _NEFF_FILE).write_bytes(neff.read_bytes())

        stored = slot.store(write)
        if stored is not None:  # else the NEFF stays where it is as long as this backend
            neff = stored / _NEFF_FILE if neff is not None else None
            remove_workdir()
        return _Executable(kernel, name, module, neff)

    def _compile_error(self, name: str, error: CompileError, log: Path) -> CompileError:
        printed = log.read_text(encoding="utf-8", errors="replace")
        kept = self._cache.keep_log(f"{printed}\n{error}\n")
        line = first_useful_line(str(error), printed, type(error.__cause__).__name__)
        return CompileError(
            f"{name} on {self.info.target}: the compiler failed: {line}" + (f" (its output: {kept})" if kept else "")
        )

    def _call(self, executable: _Executable, tensors: list[Any]) -> tuple[tuple[Any, ...], float]:
        """One synchronised call: the outputs as CPU tensors, and the seconds that it took.

        AWS documents CPU tensors as the result, but also shows one on the device; `cpu()` waits for either.
        """
        start = time.perf_counter()
        try:
            returned = executable.call(*tensors)
            several = returned if isinstance(returned, (tuple, list)) else (returned,)
            outputs = tuple(output.cpu() for output in several)
        except (RuntimeError, OSError) as error:  # RuntimeError: what PyTorch raises for the runtime's errors
            raise runtime_error(executable.name, error) from error
        return outputs, time.perf_counter() - start

    def _measure(
        self,
        executable: _Executable,
        kernel: Any,
        arrays: tuple[np.ndarray, ...],
        tensors: list[Any],
        parameters: dict[str, Any],
    ) -> LaunchTime:
        """Times of a kernel that has run once, which is the first of the warm-up."""
        for _ in range(self._warmup - 1):
            self._call(executable, tensors)
        microseconds = [self._call(executable, tensors)[1] * 1e6 for _ in range(self._iterations)]
        device = self._device_time(executable)
        counted = self._count(executable.name, kernel, arrays, parameters)
        return LaunchTime(
            latency_us=float(np.percentile(microseconds, 50)),
            latency_us_p99=float(np.percentile(microseconds, 99)),
            flops=counted.flops if counted is not None else 0,
            hbm_bytes=counted.hbm_bytes if counted is not None else 0,
            device_us=device.p50_us if device is not None else None,
            device_us_p99=device.p99_us if device is not None else None,
        )

    def _device_time(self, executable: _Executable) -> DeviceTime | None:
        if self._timer is None:
            return None
        if executable.neff is None:
            self._warn(f"{executable.name}: no time on the device: the compiler left no single NEFF")
            return None
        self._progress(f"timing {executable.name} on the device with {self._timer.tool}")
        try:
            return self._timer.measure(executable.neff, self._warmup, self._iterations)
        except DeviceTimingError as error:
            self._warn(f"{executable.name}: no time on the device: {error}")
            return None

    def _count(
        self, name: str, kernel: Any, arrays: tuple[np.ndarray, ...], parameters: dict[str, Any]
    ) -> LaunchTime | None:
        if self._counter is None:
            return None
        try:
            return self._counter(kernel, *(ArraySpec(array.shape, array.dtype) for array in arrays), **parameters)
        except (KernelError, SimulatorDied, SimulatorFault) as error:
            self._warn(f"{name}: flops and bytes are not counted: {error}")
            return None


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
) -> NeuronBackend:
    """The backend of this machine's chip; BackendUnavailable with what is missing.

    To be called before AWS's packages are imported: it sets the environment variables that they read.
    Without a target, NEURON_PLATFORM_TARGET_OVERRIDE decides, else the kind of this instance, else trn2 is assumed (and
    NKI left to find out). With `device_times` each kernel is also timed on the device, which takes seconds a kernel, by
    nrtpy in the environment that `nrtpy` names or by what else is here; see `find_device_timer`. With `count` the
    simulator, in a process of its own that ends with this one, counts flops and bytes.
    """
    missing = environment.missing_for_neuron()
    if missing:
        raise BackendUnavailable(
            f"backend 'neuron' is not available: {'; '.join(missing)} ({environment.INSTALL_HINT})"
        )
    named = target or os.environ.get(TARGET_VARIABLE) or instance_target()
    if named is None:
        warn("neuron-ls does not tell the kind of this instance; times are labelled trn2 (--target names another)")
    chosen = resolve_target(named)
    prepare_environment(chosen, named is not None, os.environ)
    try:
        nki_source.use_nki("neuron")
    except RuntimeError as error:
        raise BackendUnavailable(f"backend 'neuron' is not available: {error}") from error
    return NeuronBackend(
        chosen,
        warmup=warmup,
        iterations=iterations,
        cache=CompileCache(cache_folder(), warn),
        timer=_device_timer(nrtpy, warn) if device_times else None,
        counter=LazyCounter(lambda: SimulatorBeside(chosen)) if count else None,
        progress=progress,
        warn=warn,
    )


def _device_timer(nrtpy: str | None, warn: Note) -> DeviceTimer | None:
    timer = find_device_timer(nrtpy)
    if timer is None:
        warn(f"no times on the device: neither {NRTPY_VARIABLE} nor neuron-explorer nor neuron-profile is there")
    return timer


def package_versions() -> dict[str, str | None]:
    """The versions of the packages that compile kernels; None where one is not installed."""
    versions = {package.name: package.version for package in environment.neuron_packages()}
    try:
        versions["torch"] = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        versions["torch"] = None
    return versions
