"""What both ways to the chip share: kernels compiled once and cached, run, and timed once for their shapes.

A way (`nrt.py`, `pytorch_backend.py`) says how a kernel is compiled into a folder, loaded from it, and called.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..backend import ArraySpec, BackendInfo, KernelError, LaunchResult, LaunchTime
from . import environment
from .compile_cache import CompileCache, Slot, warn_user
from .device_time import DeviceTime, DeviceTimingError, by_neuron_bench
from .errors import CompileError, first_useful_line, is_lost, runtime_error
from .kernel_source import KernelSource, find_source

HOST_LABEL = "measured, host round trip"  # of one synchronised call; its operands lie on the device
DEVICE_LABEL = "measured, device"
NEFF = "kernel.neff"  # what the compiler makes, in a folder of the cache
DEFAULT_WARMUP = 5
DEFAULT_ITERATIONS = 20

Note = Callable[[str], None]


class CompilerFailed(Exception):  # noqa: N818 (not raised beyond this package's backends)
    """The compiler left nothing to load; the text is all that it said."""


@dataclass(frozen=True)
class Job:
    """A kernel for operands of certain shapes and dtypes, and parameters."""

    kernel: Any
    source: KernelSource
    operands: tuple[ArraySpec, ...]
    parameters: dict[str, Any]
    target: str

    @property
    def label(self) -> str:
        """For messages: name, shapes, dtype and target."""
        shapes = " ".join(str(list(operand.shape)) for operand in self.operands)
        return f"{self.source.name} {shapes} {np.dtype(self.operands[0].dtype).name} for {self.target}"

    def material(self, way: str, versions: dict[str, str | None], flags: Sequence[str]) -> dict[str, Any]:
        """All that the compiled kernel depends on."""
        return {
            "way": way,
            "kernel": self.source.name,
            "source": self.source.digest,
            "operands": [[list(operand.shape), np.dtype(operand.dtype).name] for operand in self.operands],
            "parameters": {name: repr(value) for name, value in self.parameters.items()},
            "target": self.target,
            "compiler_arguments": [*flags, os.environ.get("NEURON_CC_FLAGS", "")],
            "versions": versions,
        }


@dataclass(frozen=True)
class Compiled:
    """What the compiler made: `write` puts into a folder what can be loaded from it, `load` loads it here and now."""

    write: Callable[[Path], None]
    load: Callable[[], Any]


@dataclass
class Executable:
    """A compiled kernel, loaded; once it has been timed also its times."""

    job: Job  # keeps the kernel alive, since executables are known by its identity
    loaded: Any
    neff: Path | None = None  # in the cache
    timed: LaunchTime | None = None


class CompiledKernels(ABC):
    """Runs kernels on a NeuronCore. A kernel is compiled and timed once for its shapes, dtypes and parameters.

    Timing is `warmup` calls, then `iterations` calls of which median and 99th percentile are told; later launches of
    the same kernel run once and tell the same times. `counter` tells a kernel's flops and bytes of HBM traffic;
    `device_times` asks for the time on the NeuronCore alone too. `progress` is told what takes long, `warn` what goes
    wrong without being fatal.
    """

    way: str
    compiler_flags: tuple[str, ...] = ()

    def __init__(
        self,
        target: str,
        *,
        warmup: int = DEFAULT_WARMUP,
        iterations: int = DEFAULT_ITERATIONS,
        cache: CompileCache | None = None,
        counter: Callable[..., LaunchTime] | None = None,
        device_times: bool = False,
        progress: Note = lambda message: None,
        warn: Note = warn_user,
    ) -> None:
        if warmup < 0 or iterations < 1:
            raise ValueError(f"warmup is {warmup} and iterations {iterations}; at least 0 and 1 are needed")
        self.info = BackendInfo("neuron", target, "measured", HOST_LABEL)
        self._warmup = warmup
        self._iterations = iterations
        self._cache = cache if cache is not None else CompileCache(None)
        self._counter = counter
        self._wants_device_times = device_times
        self._progress = progress
        self._warn = warn
        self._executables: dict[tuple[Any, ...], Executable] = {}

    @abstractmethod
    def _compile(self, job: Job, workdir: Path, log: Path) -> Compiled:
        """Compile in `workdir`, with what is printed in `log`. CompilerFailed where the compiler refuses the kernel."""

    @abstractmethod
    def _load(self, job: Job, folder: Path) -> Any:
        """What `_compile` wrote there, loaded; RuntimeError or OSError where it cannot be."""

    @abstractmethod
    def _call(self, executable: Executable, arrays: Sequence[Any]) -> tuple[tuple[Any, ...], float]:
        """One synchronised execution: outputs, and the microseconds that it took."""

    @abstractmethod
    def _device_time(self, executable: Executable, arrays: Sequence[Any]) -> DeviceTime:
        """The time on the NeuronCore alone; DeviceTimingError where it cannot be had."""

    def launch(self, kernel: Any, *arrays: Any, **parameters: Any) -> LaunchResult:
        """Run a kernel on arrays of the host or of the device: what it returns, and its times.

        CompileError where the compiler refuses it, ExecutionError where the device does, DeviceLost where the device is
        gone. An operand that nobody may write to (a network's weights) is taken to the device once.
        """
        executable = self._executable(kernel, arrays, parameters)
        outputs, _ = self._call(executable, arrays)
        if executable.timed is None:
            executable.timed = self._measure(executable, arrays)
        return LaunchResult(outputs, executable.timed)

    def time(self, kernel: Any, *specs: ArraySpec, **parameters: Any) -> LaunchResult:
        """Time a kernel on random arrays (zeros where they are integers); the result has no outputs."""
        random = np.random.default_rng(0)
        arrays = []
        for spec in specs:
            dtype = np.dtype(spec.dtype)
            whole = dtype.kind in "iu"
            arrays.append(np.zeros(spec.shape, dtype) if whole else random.standard_normal(spec.shape).astype(dtype))
        return replace(self.launch(kernel, *arrays, **parameters), outputs=())

    def _executable(self, kernel: Any, arrays: Sequence[Any], parameters: dict[str, Any]) -> Executable:
        forms = tuple((tuple(array.shape), np.dtype(array.dtype).name) for array in arrays)
        key = (id(kernel), forms, tuple(sorted(parameters.items())))
        if key not in self._executables:
            operands = tuple(ArraySpec(tuple(array.shape), array.dtype) for array in arrays)
            job = Job(kernel, find_source(kernel), operands, parameters, self.info.target)
            cache = self._cache if job.source.digest is not None else CompileCache(None)

            def wait() -> None:
                self._progress(f"waiting for another process that compiles {job.label}")

            with cache.hold(job.material(self.way, package_versions(), self.compiler_flags), wait) as slot:
                self._executables[key] = self._cached(job, slot) or self._compiled(job, slot)
        return self._executables[key]

    def _cached(self, job: Job, slot: Slot) -> Executable | None:
        """The kernel from the cache; None where it is not there, or there but not to be loaded."""
        entry = slot.find()
        if entry is None:
            return None
        try:
            return Executable(job, self._load(job, entry), _neff(entry))
        except (RuntimeError, OSError) as error:
            if is_lost(error):
                raise runtime_error(job.source.name, error) from error
            told = first_useful_line(str(error))
            self._warn(f"{job.source.name}: what the cache has of it cannot be loaded and is compiled anew: {told}")
            slot.discard()
            return None

    def _compiled(self, job: Job, slot: Slot) -> Executable:
        self._progress(f"compiling {job.label}")
        start = time.perf_counter()
        workdir = Path(tempfile.mkdtemp(prefix="trninfer-compile-"))
        log = workdir / "output.log"
        try:
            compiled = self._compile(job, workdir, log)
            self._progress(f"compiled {job.label} in {time.perf_counter() - start:.0f} s")
            stored = slot.store(compiled.write)
            return Executable(job, compiled.load(), _neff(stored))
        except CompilerFailed as error:
            lost = is_lost(error)
            raise (runtime_error(job.source.name, error) if lost else self._compile_error(job, error, log)) from error
        except (RuntimeError, OSError) as error:
            raise runtime_error(job.source.name, error) from error
        finally:
            shutil.rmtree(workdir, ignore_errors=True)

    def _compile_error(self, job: Job, error: Exception, log: Path) -> CompileError:
        printed = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        kept = self._cache.keep_log(f"{printed}\n{error}\n")
        line = first_useful_line(str(error), printed, type(error.__cause__).__name__)
        told = f"{job.source.name} on {job.target}: the compiler failed: {line}"
        return CompileError(told + (f" (its output: {kept})" if kept else ""))

    def _measure(self, executable: Executable, arrays: Sequence[Any]) -> LaunchTime:
        """Times of a kernel that has run once, which is the first of the warm-up."""
        for _ in range(self._warmup - 1):
            self._call(executable, arrays)
        microseconds = [self._call(executable, arrays)[1] for _ in range(self._iterations)]
        device = self._time_on_device(executable, arrays) if self._wants_device_times else None
        counted = self._count(executable.job)
        return LaunchTime(
            latency_us=float(np.percentile(microseconds, 50)),
            latency_us_p99=float(np.percentile(microseconds, 99)),
            flops=counted.flops if counted is not None else 0,
            hbm_bytes=counted.hbm_bytes if counted is not None else 0,
            device_us=device.p50_us if device is not None else None,
            device_us_p99=device.p99_us if device is not None else None,
        )

    def _time_on_device(self, executable: Executable, arrays: Sequence[Any]) -> DeviceTime | None:
        """By the way's own means, else by neuron-bench; None, and why, where neither tells."""
        name = executable.job.source.name
        try:
            return self._device_time(executable, arrays)
        except DeviceTimingError as error:
            reason = str(error)
        try:
            if executable.neff is None:
                raise DeviceTimingError("neuron-bench needs the NEFF, which is not in the cache")
            told = by_neuron_bench(executable.neff, self._warmup, self._iterations)
        except DeviceTimingError as error:
            self._warn(f"{name}: no time on the device: {reason}; {error}")
            return None
        self._progress(f"{name}: the time on the device is neuron-bench's, on inputs of its own ({reason})")
        return told

    def _count(self, job: Job) -> LaunchTime | None:
        if self._counter is None:
            return None
        try:
            return self._counter(job.kernel, *job.operands, **job.parameters)
        except (KernelError, RuntimeError) as error:
            self._warn(f"{job.source.name}: flops and bytes are not counted: {error}")
            return None


def _neff(folder: Path | None) -> Path | None:
    """The NEFF in a folder of the cache, where there is one."""
    return folder / NEFF if folder is not None and (folder / NEFF).is_file() else None


def package_versions() -> dict[str, str | None]:
    """The versions of the packages that compile kernels; None where one is not installed."""
    versions = {package.name: package.version for package in environment.neuron_packages()}
    try:
        versions["torch"] = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        versions["torch"] = None
    return versions
