"""Kernels: NKI's `jit` and `simulate`, and launches on one or two cores."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import os
import warnings
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..checking.sanitizer import SanitizerFinding
from ..checking.sanitizing import chosen, findings_of, look_for
from ..instructions.core import NeuronCore, active, is_active, running
from ..machine.chip import default_target
from ..machine.configs import NO_CONFIGS, CompileConfig, Configs, SpecializationConfig
from ..machine.dtypes import Array, hold, lookup, name_of_array, release
from ..machine.errors import (
    ArgumentsError,
    EarlierNkiWarning,
    NkiValidationError,
    NotSimulatedError,
    UndefinedOnChipWarning,
)
from ..machine.host import one_thread
from ..machine.instruction import Instruction
from ..machine.memory import MemoryRegion
from ..machine.pair import CORES, Pair
from ..machine.settings import generates_descriptors
from ..machine.watching import watching
from ..tensors.tensor import NkiTensor
from ..timing.capacity import Memory, check
from ..timing.program_timing import PairTiming, ProgramTiming
from ..timing.transfers import keep_scratch
from .run import Run
from .torch_tensors import array_of, is_tensor, tensor_of


@dataclass(frozen=True)
class TensorSpec:
    """The shape and dtype of a kernel argument whose values are not needed (`run(..., functional=False)`)."""

    shape: tuple[int, ...]
    dtype: Any


LNC_VARIABLE = "NEURON_LOGICAL_NC_CONFIG"  # number of cores per logical core (nki/get-started/about/lnc.rst, SDK 2.33)

Edge = tuple[str, tuple[str, ...]]  # the name of an instruction, and the names of the instructions that it must follow


class Kernel:
    """A function decorated with `nki.jit`. A call from another kernel inlines it; a call with arrays simulates it."""

    def __init__(
        self,
        function: Callable[..., Any],
        programs: int | None = None,
        schedule: tuple[Edge, ...] = (),
        configs: Configs = NO_CONFIGS,
        lnc: int | None = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.programs = programs  # the launch grid, as in kernel[1] or kernel[2]
        self.schedule = schedule
        self.configs = configs
        self.lnc = lnc  # number of cores; None if the environment determines it
        self.__name__ = getattr(function, "__name__", "kernel")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if is_active():
            self.configs.nested(self.__name__, active().configs)
            return self.function(*args, **kwargs)
        return _simulate(self, args, kwargs)

    def __getitem__(self, grid: Any) -> Kernel:
        cores = grid[0] if isinstance(grid, tuple) and len(grid) == 1 else grid
        if isinstance(cores, bool) or not isinstance(cores, (int, np.integer)) or not 1 <= cores <= CORES:
            raise NkiValidationError(f"{self.__name__}[{grid}]: a launch grid must have 1 or 2 cores")
        return Kernel(self.function, int(cores), self.schedule, self.configs)

    def with_schedule(self, edges: Iterable[tuple[str, str | Sequence[str]]]) -> Kernel:
        """Return the kernel with additional dependencies.

        Each edge is a pair: the name of an instruction, and the name or names of the instructions that it must follow.
        """
        pairs = tuple((after, (first,) if isinstance(first, str) else tuple(first)) for after, first in edges)
        return Kernel(self.function, self.programs, (*self.schedule, *pairs), self.configs)


_EARLIER_OPTIONS = ("mode", "platform_target")


def jit(
    fn: Callable[..., Any] | None = None,
    *,
    compile_config: CompileConfig | None = None,
    specialization_config: SpecializationConfig | None = None,
    **kwargs: Any,
) -> Any:
    """Turn a function into a kernel (`nki.jit`). The decorator can be used with or without parentheses.

    The configurations (configs.py) are checked but do not affect the simulation. The arguments `mode` and
    `platform_target` of earlier versions are accepted with a note and ignored, because the launcher determines them.
    """
    for name in kwargs:
        if name in _EARLIER_OPTIONS:
            warnings.warn(
                f"nki.jit({name}=...): this argument is from an earlier version of NKI and is ignored; `trninfer "
                f"lint` prints the replacement",
                EarlierNkiWarning,
                stacklevel=2,
            )
    configs = Configs(compile_config, specialization_config)
    if fn is None:
        return functools.partial(Kernel, configs=configs)
    return Kernel(fn, configs=configs)


def simulate(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return a callable that runs the kernel on the simulator (`nki.simulate`).

    It returns arrays, or PyTorch tensors if it was called with PyTorch tensors. The target is
    NEURON_PLATFORM_TARGET_OVERRIDE, or trn3 by default. Arrays that the kernel writes to are updated in place.
    """
    return Simulated(kernel if isinstance(kernel, Kernel) else Kernel(kernel))


class Simulated:
    """A kernel returned by `nki.simulate`. Call it with arrays to run it on one core or, with [2], on two cores."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _simulate(self.kernel, args, kwargs)

    def __getitem__(self, grid: Any) -> Simulated:
        return Simulated(self.kernel[grid])


def _simulate(kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensors: list[Any] = []

    def from_torch(value: Any) -> Any:
        if not is_tensor(value):
            return value
        tensors.append(value)
        return array_of(value)

    args, kwargs = _each(args, from_torch), _each(kwargs, from_torch)
    core = NeuronCore(default_target(), dge=generates_descriptors())
    look_for(core, chosen())
    with one_thread():
        result = execute(core, kernel, args, kwargs, update_arguments=True)
    return _each(result, lambda a: tensor_of(a) if isinstance(a, np.ndarray) else a) if tensors else result


observers: list[Callable[[Run, list[str]], None]] = []  # called with every launch and the shapes of its arguments


def _check_programs(cores: list[NeuronCore], kernel: Kernel, returned: Any) -> None:
    """Reorder the program of each core according to the schedule of a kernel, and check that it fits in memory."""
    for core in cores:
        _follow(core.program, kernel.schedule)
        keep_scratch(core.program, _tensors(returned))
        core.memory = check(core.program, core.target)


def _check_arguments(kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise ArgumentsError if a kernel cannot be called with these arguments."""
    signature = inspect.signature(kernel.function, follow_wrapped=False)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise ArgumentsError(f"the call does not match {kernel.__name__}{signature}: {error}") from None


def execute(
    core: NeuronCore,
    kernel: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    update_arguments: bool = False,
) -> Any:
    """Run a kernel on `core` and return its results as arrays.

    Arrays are copied to HBM, and all other arguments are passed unchanged. If the core does not compute values, each
    resulting tensor is returned as None.
    """
    arguments: list[tuple[Any, NkiTensor]] = []
    jitted = kernel if isinstance(kernel, Kernel) else Kernel(kernel)

    def enter(value: Any) -> Any:
        value = array_of(value) if is_tensor(value) else value
        if not isinstance(value, (np.ndarray, TensorSpec)):
            _check_object(jitted.__name__, value)
            return value
        tensor = argument(core, value)
        arguments.append((value, tensor))
        return tensor

    _check_arguments(jitted, args, kwargs)
    cores = _cores(core, jitted)
    args, kwargs = _each(args, enter), _each(kwargs, enter)

    for member in cores:
        member.configs = jitted.configs

    def on_core(rank: int) -> Any:
        with running(cores[rank]):
            return jitted.function(*args, **kwargs)

    with watching(core.numeric):
        returned = on_core(0) if core.pair is None else core.pair.run(on_core)[0]
    if isinstance(returned, (Generator, Coroutine)):  # the body of the function has not run
        returned.close()
        raise NkiValidationError(f"{jitted.__name__}: a kernel must not yield or await; return the outputs")
    _compare_loops(cores)
    if core.recording is not None:
        core.recording.finish(arguments, returned)
    _check_programs(cores, jitted, returned)
    if core.sanitizer is not None:
        core.sanitizer.finish(_tensors(returned))
    if observers:
        notify(predict(core), jitted.__name__, [tensor for _, tensor in arguments], findings_of(core))
    result = _each(returned, lambda value: _leave(core, value))
    if update_arguments and core.functional:
        _copy_back(cores, arguments)
    return result


def _copy_back(cores: list[NeuronCore], arguments: list[tuple[Any, NkiTensor]]) -> None:
    """Copy argument tensors that the kernel has written back to the arrays that were passed."""
    written = {id(a.allocation) for core in cores for instruction in core.program for a in instruction.writes}
    for array, tensor in arguments:
        if id(tensor.storage.owner) in written:
            if not array.flags.writeable:
                raise NkiValidationError(
                    f"the kernel writes to its argument {list(array.shape)} {tensor.dtype}, a read-only array"
                )
            array[...] = release(tensor.values, tensor._dtype)


def notify(
    prediction: ProgramTiming, name: str, arguments: Iterable[Any], findings: Sequence[SanitizerFinding] = ()
) -> None:
    """Call the observers with a launch and the shapes of its arguments."""
    for observe in observers:
        shapes = [f"{list(value.shape)} {lookup(value.dtype).name}" for value in arguments]
        observe(Run(prediction, (), name, profiled=False, findings=findings), shapes)


def _cores(core: NeuronCore, kernel: Kernel) -> list[NeuronCore]:
    """Return the cores on which a kernel runs: `core` and, for a launch on two cores, its partner."""
    core.programs = degree(kernel)
    if core.programs != CORES:
        return [core]
    if core.target.generation < 3:
        raise NkiValidationError(
            f"{kernel.__name__}[{CORES}]: two cores require NeuronCore-v3 (trn2) or newer, got {core.target.name}"
        )
    other = NeuronCore(core.target, core.functional, core.dge)
    other.sanitizer, other.numeric = core.sanitizer, core.numeric
    other.rank, other.programs = 1, CORES
    core.pair = other.pair = Pair()
    core.partner = other
    return [core, other]


def degree(kernel: Kernel) -> int | None:
    """Return the number of cores of a launch, or None if it is not specified.

    The launcher takes precedence over the environment, and the environment over the launch grid in brackets.
    """
    if kernel.lnc is not None:
        return kernel.lnc
    setting = os.environ.get(LNC_VARIABLE)
    if setting is None:
        return kernel.programs
    if setting not in ("1", "2"):
        raise NkiValidationError(f"{LNC_VARIABLE} must be 1 or 2, got {setting!r}")
    if kernel.programs is not None and kernel.programs != int(setting):
        raise NkiValidationError(
            f"{kernel.__name__}[{kernel.programs}]: {LNC_VARIABLE} is {setting}; the launch grid must have that many "
            f"cores, or be omitted"
        )
    return int(setting)


def on_cores(kernel: Callable[..., Any], lnc: int) -> Kernel:
    """Return the kernel for a logical core of `lnc` (1 or 2) cores. This overrides the environment."""
    if lnc not in range(1, CORES + 1):
        raise NkiValidationError(f"lnc, the number of cores in a logical core, must be 1 or 2, got {lnc!r}")
    jitted = kernel if isinstance(kernel, Kernel) else Kernel(kernel)
    return Kernel(jitted.function, jitted.programs, jitted.schedule, jitted.configs, lnc)


def _compare_loops(cores: list[NeuronCore]) -> None:
    """Warn if two cores run a device loop a different number of times."""
    for (line, count), (_, other) in zip(cores[0].loops, cores[-1].loops):
        if count != other:
            warnings.warn_explicit(
                f"this loop runs {count} times on core 0 and {other} times on core 1; on the chip, both cores of a "
                f"logical core iterate in lockstep, so the kernel would hang",
                UndefinedOnChipWarning,
                *line,
            )


def predict(core: NeuronCore) -> ProgramTiming:
    """Predict the time of the program that has run on a core, and on its partner if it has one."""
    if core.partner is None or core.pair is None:
        return ProgramTiming(core.program, core.target, core.memory)
    memory = Memory(*(max(peaks) for peaks in zip(core.memory, core.partner.memory)))
    return PairTiming((core.program, core.partner.program), core.pair.meetings, core.target, memory)


def _follow(program: list[Instruction], edges: tuple[Edge, ...]) -> None:
    """Add the dependencies of `with_schedule` to a program. Every name must be the name of an instruction."""

    def named(name: str) -> list[Instruction]:
        instructions = [instruction for instruction in program if instruction.name == name]
        if not instructions:
            raise NkiValidationError(f"with_schedule: no instruction is named {name!r}")
        return instructions

    for after, firsts in edges:
        for later, first in itertools.product(named(after), itertools.chain.from_iterable(map(named, firsts))):
            if first.index >= later.index:
                raise NotSimulatedError(
                    f"with_schedule: {after!r} comes before {first.name!r} in the program; instructions are computed "
                    f"in program order, so only dependencies in that direction are simulated"
                )
            later.depends_on(first)


def _check_object(kernel: str, value: Any) -> None:
    """Raise an error for an object that contains arrays.

    Only arrays that are arguments, or elements of tuples, lists and dicts, are copied to HBM.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            if isinstance(getattr(value, field.name, None), np.ndarray):
                raise NkiValidationError(
                    f"{kernel}: {type(value).__name__}.{field.name} is an array; pass arrays as arguments of the "
                    f"kernel, because objects may contain only values that are known at compile time"
                )


def argument(core: NeuronCore, value: Array | TensorSpec) -> NkiTensor:
    """Copy an argument of a kernel to HBM."""
    if 0 in value.shape or len(value.shape) == 0:
        raise NkiValidationError(
            f"a kernel argument of shape {tuple(value.shape)} is empty or a scalar array; pass arrays that have "
            "elements, and pass scalars as Python numbers"
        )
    dtype = lookup(value.dtype) if isinstance(value, TensorSpec) else lookup(name_of_array(value))
    tensor = core.ndarray(tuple(value.shape), dtype, MemoryRegion.shared_hbm, "argument", argument=True)
    if core.sanitizer is not None:
        core.sanitizer.argument(tensor)
    if core.functional:
        if isinstance(value, TensorSpec):
            raise NkiValidationError("a TensorSpec has no values; pass arrays, or functional=False")
        tensor.storage.array = hold(np.ascontiguousarray(value), dtype).reshape(-1)
        tensor.storage.borrowed = True
    return tensor


def _tensors(value: Any) -> list[NkiTensor]:
    """Return the tensors contained in a kernel's results."""
    tensors: list[NkiTensor] = []
    _each(value, lambda item: tensors.append(item) if isinstance(item, NkiTensor) else None)
    return tensors


def _leave(core: NeuronCore, value: Any) -> Any:
    if not isinstance(value, NkiTensor):
        return value
    if value.storage.on_chip:
        raise NkiValidationError(f"the kernel returns {value.label}; outputs must be in nl.shared_hbm")
    return release(value.values, value._dtype) if core.functional else None


def _each(value: Any, convert: Callable[[Any], Any]) -> Any:
    """Return a copy of nested tuples, lists and dicts in which every other value is converted."""
    if type(value) in (tuple, list):
        return type(value)(_each(item, convert) for item in value)
    if type(value) is dict:
        return {name: _each(item, convert) for name, item in value.items()}
    return convert(value)
