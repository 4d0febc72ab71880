"""The common part of both backends for the chip. Kernels are compiled once and cached, and are timed once for each
shape.

Each way (`torch_backend.py`, `nrt.py`) defines how a kernel is compiled, loaded and called. Kernels in this process use
the simulator's `nki`: it determines the shapes of results, counts flops and bytes, and makes the prediction that is
shown next to a measurement.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ... import simulator
from ..backend import (
    TARGET_VARIABLE,
    ArraySpec,
    BackendInfo,
    BackendUnavailable,
    KernelError,
    LaunchResult,
    LaunchTime,
    split_arguments,
)
from . import environment
from .compile_alone import CompileReport
from .compile_cache import CompileCache, Slot, warn_user
from .device_time import DeviceTime, DeviceTimingError
from .errors import CompileError, CompilerFailed, CoreInUse, advice, first_useful_line, is_lost, runtime_error
from .jobs import Job, array_type, check_arguments
from .kernel_source import find_source
from .neff import NEFF, compile_neff
from .settings import FRONT_END, compiler_settings
from .taken import is_taken, taken_line

HOST_LABEL = "measured, host round trip"  # the duration of one synchronised call with operands on the device
DEFAULT_WARMUP = 5
DEFAULT_ITERATIONS = 20
DEFAULT_COMPILE_SECONDS = 1800

Note = Callable[[str], None]
Operands = Mapping[str, Any]  # arrays on the host or on the device, or their specs, by the kernel's parameter names
Results = tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]  # the shape and dtype of each result


@dataclass(frozen=True)
class RunOptions:
    """Options for running kernels: `warmup` untimed calls are followed by `iterations` timed calls."""

    warmup: int = DEFAULT_WARMUP
    iterations: int = DEFAULT_ITERATIONS
    device_times: bool = False  # also measure the time on the NeuronCore only
    compile_seconds: float = DEFAULT_COMPILE_SECONDS  # time limit for one compilation
    cache: CompileCache = field(default_factory=lambda: CompileCache(None))
    progress: Note = lambda message: None  # called with a line about each step that takes long
    warn: Note = warn_user  # called with a line about each problem that is not fatal
    lnc: int = 1  # NeuronCores per logical core


@dataclass(frozen=True)
class KernelEstimate:
    """A kernel's results, flops and bytes of HBM traffic, computed by the simulator from the shapes of its operands."""

    results: Results
    flops: int
    hardware_flops: int
    hbm_bytes: int


@dataclass(frozen=True)
class CompiledKernel:
    """A compiled kernel.

    `write` saves it to a folder from which it can be loaded later; `load` loads it immediately. `seconds` and
    `peak_bytes` are the duration and the peak memory of the compilation (0 if unknown).
    """

    write: Callable[[Path], None]
    load: Callable[[], Any]
    seconds: float
    peak_bytes: int = 0


@dataclass
class Executable:
    """A loaded kernel, and its times once it has been timed."""

    job: Job  # keeps the kernel alive: executables are looked up by its identity
    walked: KernelEstimate
    loaded: Any
    neff: Path | None = None
    timed: LaunchTime | None = None


@dataclass(frozen=True)
class Compilation:
    """An attempt to compile a kernel, for reports.

    `error` is None if the attempt succeeded, `log` is the compiler's output if it failed, and `tensors` describes the
    operands and results of the compiled kernel, if known.
    """

    label: str
    seconds: float
    peak_bytes: int = 0
    is_cached: bool = False
    error: str | None = None
    log: str = ""
    tensors: Mapping[str, Any] = field(default_factory=dict)
    report: CompileReport | None = None


@dataclass(frozen=True)
class Attempt:
    """An attempt to compile in another way. `error` is a line from the compiler if this attempt failed too."""

    how: str
    error: str | None


class CompiledKernels(ABC):
    """A backend that runs kernels on a NeuronCore.

    A kernel is compiled and timed once for each combination of shapes, dtypes and parameters; later launches execute it
    once and report the same times. `compilations` contains every attempt to compile.
    """

    way: str
    needs_device = True

    def __init__(self, target: str, options: RunOptions | None = None) -> None:
        options = options or RunOptions()
        if options.warmup < 0 or options.iterations < 1:
            raise ValueError(
                f"warmup must be at least 0 and iterations at least 1, got {options.warmup} and {options.iterations}"
            )
        self.info = BackendInfo("neuron", target, "measured", HOST_LABEL, lnc=options.lnc)
        self.compilations: list[Compilation] = []
        self._options = options
        self._executables: dict[tuple[Any, ...], Executable] = {}

    @abstractmethod
    def _compile(self, job: Job, walked: KernelEstimate, workdir: Path, log: Path) -> CompiledKernel:
        """Compile in `workdir` and write the output to `log`. Raise CompilerFailed if the compiler rejects the
        kernel."""

    @abstractmethod
    def _load(self, job: Job, walked: KernelEstimate, folder: Path) -> Any:
        """Load a kernel saved by `_compile`. Raise RuntimeError or OSError if that fails."""

    @abstractmethod
    def _call(self, executable: Executable, operands: Operands) -> tuple[tuple[Any, ...], float]:
        """Execute a kernel once, wait for it to finish, and return the outputs and the time in microseconds."""

    @abstractmethod
    def _device_time(self, executable: Executable, operands: Operands) -> DeviceTime:
        """Return the time on the NeuronCore alone. Raise DeviceTimingError if it is not available."""

    def _tensors(self, executable: Executable) -> Mapping[str, Any]:
        """Return a description of the compiled kernel's operands and results, for reports."""
        return {}

    def _report(self, executable: Executable) -> CompileReport | None:
        """Return how the kernel was compiled, with AWS's estimate, if known."""
        return None

    def launch(self, kernel: Any, *arrays: Any, **parameters: Any) -> LaunchResult:
        """Run a kernel on arrays on the host or on the device and return its outputs and its times.

        Raises KernelError if the kernel rejects its operands, CompileError if the compiler rejects the kernel,
        ExecutionError if its execution fails, and DeviceLost if the device is no longer available. Read-only operands
        (a network's weights) are copied to the device once.
        """
        operands, others = split_arguments(kernel, arrays, parameters)
        executable = self._executable(kernel, operands, others)
        outputs, _ = self._call(executable, operands)
        if executable.timed is None:
            executable.timed = self._measure(executable, operands)
        return LaunchResult(outputs, executable.timed)

    def time(self, kernel: Any, *specs: ArraySpec, **parameters: Any) -> LaunchResult:
        """Time a kernel on random arrays (zeros for integers). The result has no outputs."""
        operands, others = split_arguments(kernel, specs, parameters)
        random = np.random.default_rng(0)
        arrays = {}
        for name, spec in operands.items():
            dtype = np.dtype(spec.dtype)
            is_integer = dtype.kind in "iu"
            arrays[name] = (
                np.zeros(spec.shape, dtype) if is_integer else random.standard_normal(spec.shape).astype(dtype)
            )
        return replace(self.launch(kernel, **arrays, **others), outputs=())

    def _executable(self, kernel: Any, operands: Operands, parameters: dict[str, Any]) -> Executable:
        forms = tuple((name, tuple(operand.shape), np.dtype(operand.dtype).name) for name, operand in operands.items())
        key = (id(kernel), forms, tuple(sorted(parameters.items())))
        try:
            executable = self._executables.get(key)
        except TypeError:  # a parameter is not hashable
            check_arguments(find_source(kernel).name, parameters)
            raise
        if executable is None:
            job = self._job(kernel, operands, parameters)
            walked = walk(job)
            cache = self._options.cache if job.source.digest is not None else CompileCache(None)

            def wait() -> None:
                self._options.progress(f"waiting for another process that compiles {job.label}")

            with cache.hold(job.material(self.way, compiler_settings()), wait) as slot:
                executable = self._cached(job, walked, slot) or self._compiled(job, walked, slot)
            self._executables[key] = executable
        return executable

    def _job(self, kernel: Any, operands: Operands, parameters: dict[str, Any]) -> Job:
        """Return the compilation job. Raise KernelError for arguments that AWS's packages would misinterpret."""
        specs = {name: ArraySpec(tuple(operand.shape), operand.dtype) for name, operand in operands.items()}
        job = Job(kernel, find_source(kernel), specs, parameters, self.info.target)
        check_arguments(job.source.name, parameters)
        return job

    def compile_otherwise(self, kernel: Any, *arrays: Any, **parameters: Any) -> tuple[Attempt, ...]:
        """Compile a rejected kernel in other ways, to find out which component rejects it.

        It is compiled to a NEFF without the framework, and with the front end of NKI 0.6.
        """
        job = self._job(kernel, *split_arguments(kernel, arrays, parameters))
        ways: dict[str, dict[str, str]] = {"alone": {}} if self.way == environment.TORCHNEURON else {}
        ways["front end of NKI 0.6"] = {FRONT_END: "custom"}
        return tuple(self._attempt(job, how, variables) for how, variables in ways.items())

    def _attempt(self, job: Job, how: str, variables: Mapping[str, str]) -> Attempt:
        with tempfile.TemporaryDirectory(prefix="trninfer-compile-") as folder:
            workdir = Path(folder)
            environment = {**variables, TARGET_VARIABLE: job.target}
            limit, note = self._options.compile_seconds, self._still_compiling(job)
            try:
                compile_neff(job, workdir / "output.log", limit, note, environment)
            except CompilerFailed as error:
                return Attempt(how, first_useful_line(str(error)))
        return Attempt(how, None)

    def _cached(self, job: Job, walked: KernelEstimate, slot: Slot) -> Executable | None:
        """Return the kernel from the cache, or None if it is missing or cannot be loaded."""
        entry = slot.find()
        if entry is None:
            return None
        start = time.perf_counter()
        try:
            executable = Executable(job, walked, self._load(job, walked, entry), _neff(entry))
        except BackendUnavailable:
            raise
        except (RuntimeError, OSError) as error:
            if is_lost(error):
                raise runtime_error(job.source.name, error) from error
            reason = first_useful_line(str(error))
            self._options.warn(
                f"{job.source.name}: the cached version cannot be loaded, so the kernel is compiled again: {reason}"
            )
            slot.discard()
            return None
        self._note(executable, time.perf_counter() - start, is_cached=True)
        return executable

    def _compiled(self, job: Job, walked: KernelEstimate, slot: Slot) -> Executable:
        self._options.progress(f"compiling {job.label}")
        start = time.perf_counter()
        workdir = Path(tempfile.mkdtemp(prefix="trninfer-compile-"))
        log = workdir / "output.log"
        try:
            compiled = self._compile(job, walked, workdir, log)
            memory = f", {compiled.peak_bytes / 2**30:.1f} GiB" if compiled.peak_bytes else ""
            self._options.progress(f"compiled {job.label} in {compiled.seconds:.0f} s{memory}")
            folder = slot.store(compiled.write)
            executable = Executable(job, walked, compiled.load(), _neff(folder))
            self._note(executable, compiled.seconds, compiled.peak_bytes)
            return executable
        except CompilerFailed as error:
            raise self._compile_error(job, error, log, time.perf_counter() - start) from error
        except BackendUnavailable:
            raise
        except (RuntimeError, OSError) as error:
            raise runtime_error(job.source.name, error) from error
        finally:
            shutil.rmtree(workdir, ignore_errors=True)

    def _note(self, executable: Executable, seconds: float, peak_bytes: int = 0, is_cached: bool = False) -> None:
        tensors = self._tensors(executable)
        label = executable.job.label
        report = self._report(executable)
        self.compilations.append(Compilation(label, seconds, peak_bytes, is_cached, tensors=tensors, report=report))

    def _compile_error(self, job: Job, error: Exception, log: Path, seconds: float) -> KernelError | BackendUnavailable:
        printed = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        if self.needs_device and is_taken(f"{error}\n{printed}"):
            return CoreInUse(taken_line(f"{error}\n{printed}"))
        if self.needs_device and is_lost(error):
            return runtime_error(job.source.name, error)
        output = f"{printed}\n{getattr(error.__cause__, 'traceback', '')}\n{error}\n"
        log_path = self._options.cache.keep_log(output)
        line = first_useful_line(str(error), printed, type(error.__cause__).__name__)
        more = advice(output)
        message = f"{job.source.name} on {job.target}: the compiler failed: {line}"
        message += (f"; {more}" if more else "") + (f" (its output: {log_path})" if log_path else "")
        self.compilations.append(Compilation(job.label, seconds, error=message, log=output))
        refused = CompileError(message)
        refused.log = output
        return refused

    def _still_compiling(self, job: Job) -> Callable[[float], None]:
        """Return a function that reports to the user that a compilation is still running."""
        limit = self._options.compile_seconds
        return lambda seconds: self._options.progress(
            f"compiling {job.label}: {seconds:.0f} s so far, {limit:.0f} s at most"
        )

    def _measure(self, executable: Executable, operands: Operands) -> LaunchTime:
        """Time a kernel that has already run once. That run counts as the first warm-up."""
        for _ in range(self._options.warmup - 1):
            self._call(executable, operands)
        microseconds = [self._call(executable, operands)[1] for _ in range(self._options.iterations)]
        device = self._time_on_device(executable, operands) if self._options.device_times else None
        return LaunchTime(
            latency_us=float(np.percentile(microseconds, 50)),
            latency_us_p99=float(np.percentile(microseconds, 99)),
            flops=executable.walked.flops,
            hardware_flops=executable.walked.hardware_flops,
            hbm_bytes=executable.walked.hbm_bytes,
            device_us=device.p50_us if device is not None else None,
            device_us_p99=device.p99_us if device is not None else None,
            device_by=device.by if device is not None else None,
        )

    def _time_on_device(self, executable: Executable, operands: Operands) -> DeviceTime | None:
        """Return the time on the NeuronCore alone. If it is not available, warn with the reason and return None."""
        try:
            return self._device_time(executable, operands)
        except DeviceTimingError as error:
            self._options.warn(f"{executable.job.source.name}: no time on the device: {error}")
            return None


def walk(job: Job) -> KernelEstimate:
    """Trace a kernel on the simulator with only the shapes of its operands. Raise KernelError if it rejects them."""
    returned: list[Any] = []

    def noting(*tensors: Any, **parameters: Any) -> Any:
        result = job.kernel.function(*tensors, **parameters)
        returned[:] = result if isinstance(result, (tuple, list)) else [result]  # both cores return the same results
        return result

    specs: dict[str, Any] = {
        name: simulator.TensorSpec(tuple(o.shape), np.dtype(o.dtype).name) for name, o in job.operands.items()
    }
    try:
        run = simulator.run(noting, target=job.target, functional=False, **specs, **job.parameters)
    except (simulator.NkiValidationError, AssertionError) as error:
        if not str(error):
            raise  # an assertion without a message is a bug, not a rejected argument
        raise KernelError(f"{job.source.name} on {job.target}: {' '.join(str(error).split())}") from error
    results = tuple((tuple(tensor.shape), array_type(tensor.dtype)) for tensor in returned)
    return KernelEstimate(results, run.flops, run.hardware_flops, run.hbm_bytes)


def _neff(folder: Path | None) -> Path | None:
    """Return the NEFF in a cache folder, if there is one."""
    return folder / NEFF if folder is not None and (folder / NEFF).is_file() else None
