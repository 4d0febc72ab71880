"""Running kernels: `jit` and `simulate` as NKI has them, and `run`, which also tells time."""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from .core import NeuronCore, is_active, running
from .dtypes import Array, hold, lookup, name_of_array, release
from .errors import EarlierNkiWarning, NkiValidationError, NotSimulatedError
from .garbage import uncollected
from .instruction import Instruction
from .instructions.prepared import prepared
from .memory import MemoryRegion
from .pair import CORES, Pair
from .replay import Recording, Replayed, Replays, never_changes
from .run import PairTiming, ProgramTiming, Run
from .sanitizer import Sanitizer, SanitizerFinding
from .targets import Target, default_target, find_target
from .tensor import NkiTensor
from .timing.capacity import Memory, check
from .timing.constants import changed, overrides
from .torch_tensors import array_of, is_tensor, tensor_of


@dataclass(frozen=True)
class TensorSpec:
    """The shape and dtype of a kernel argument whose values do not matter (`run(..., functional=False)`)."""

    shape: tuple[int, ...]
    dtype: Any


Edge = tuple[str, tuple[str, ...]]  # an instruction's name, and the names of what it runs after


class Kernel:
    """A function decorated with `nki.jit`: called in another kernel it inlines, called with arrays it simulates."""

    def __init__(
        self, function: Callable[..., Any], programs: int | None = None, schedule: tuple[Edge, ...] = ()
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.programs = programs  # of the launch grid: kernel[1], kernel[2]
        self.schedule = schedule
        self.__name__ = getattr(function, "__name__", "kernel")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if is_active():
            return self.function(*args, **kwargs)
        return _simulate(self, args, kwargs)

    def __getitem__(self, grid: Any) -> Kernel:
        cores = grid[0] if isinstance(grid, tuple) and len(grid) == 1 else grid
        if isinstance(cores, bool) or not isinstance(cores, (int, np.integer)) or not 1 <= cores <= CORES:
            raise NkiValidationError(f"{self.__name__}[{grid}]: a kernel runs on one core or two; allowed: 1, 2")
        return Kernel(self.function, int(cores), self.schedule)

    def with_schedule(self, edges: Iterable[tuple[str, str | Sequence[str]]]) -> Kernel:
        """The kernel with more to wait for: each pair is an instruction's name, and that or those it runs after."""
        pairs = tuple((after, (first,) if isinstance(first, str) else tuple(first)) for after, first in edges)
        return Kernel(self.function, self.programs, (*self.schedule, *pairs))


_EARLIER_OPTIONS = ("mode", "platform_target")


def jit(fn: Callable[..., Any] | None = None, **kwargs: Any) -> Any:
    """`nki.jit`: make a kernel of a function; usable with or without parentheses.

    `mode` and `platform_target` of earlier versions are taken with a note and change nothing: who launches chooses.
    """
    for name in kwargs:
        if name in _EARLIER_OPTIONS:
            warnings.warn(
                f"nki.jit({name}=...): a spelling of an earlier NKI, taken and ignored; `trninfer lint` tells what "
                "replaces it",
                EarlierNkiWarning,
                stacklevel=2,
            )
    if fn is None:
        return Kernel
    return Kernel(fn)


def simulate(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """`nki.simulate`: a callable that runs the kernel on the simulator and returns arrays, or PyTorch tensors for such.

    The target is NEURON_PLATFORM_TARGET_OVERRIDE, else trn3. Arrays that the kernel writes to are updated in place.
    """
    return Simulated(kernel if isinstance(kernel, Kernel) else Kernel(kernel))


class Simulated:
    """What `nki.simulate` returns: called with arrays, on one core or, with [2], on two."""

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
    core = NeuronCore(default_target())
    core.sanitizer = Sanitizer() if _sanitizing[0] else None
    result = execute(core, kernel, args, kwargs, update_arguments=True)
    return _each(result, lambda a: tensor_of(a) if isinstance(a, np.ndarray) else a) if tensors else result


observers: list[Callable[[Run, list[str]], None]] = []  # are shown every launch, with the shapes of its arguments


_sanitizing = [False]  # whether launches that name no choice are looked through for faults


@contextmanager
def sanitized(wanted: bool) -> Iterator[None]:
    """Launches inside are looked through for faults, where `wanted`; observers find them in `Run.findings`."""
    before = _sanitizing[0]
    _sanitizing[0] = wanted
    try:
        yield
    finally:
        _sanitizing[0] = before


def execute(
    core: NeuronCore,
    kernel: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    update_arguments: bool = False,
) -> Any:
    """Run a kernel on `core`: arrays go to HBM, everything else is passed as is; what it returns comes back as arrays
    (None for a tensor where the core does not compute)."""
    arguments: list[tuple[Any, NkiTensor]] = []

    def enter(value: Any) -> Any:
        if not isinstance(value, (np.ndarray, TensorSpec)):
            return value
        tensor = _argument(core, value)
        arguments.append((value, tensor))
        return tensor

    made = kernel if isinstance(kernel, Kernel) else Kernel(kernel)
    for name, value in (*enumerate(args), *kwargs.items()):
        if _holds_list(value):
            raise NkiValidationError(f"{made.__name__}: argument {name} holds a list, no kernel argument; pass a tuple")
    cores = _cores(core, made)
    args, kwargs = _each(args, enter), _each(kwargs, enter)

    def on_core(rank: int) -> Any:
        with running(cores[rank]):
            return made.function(*args, **kwargs)

    returned = on_core(0) if core.pair is None else core.pair.run(on_core)[0]
    if core.recording is not None:
        core.recording.arguments = [tensor for _, tensor in arguments]
        core.recording.fixed = [never_changes(array) for array, _ in arguments]
        core.recording.outputs = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    for each in cores:
        _follow(each.program, made.schedule)
        each.memory = check(each.program, each.target)
    if core.sanitizer is not None:
        core.sanitizer.finish(_tensors(returned))
    if observers:
        launched = Run(predict(core), (), made.__name__, profiled=False, findings=_findings(core))
        _tell(launched, [tensor for _, tensor in arguments])
    result = _each(returned, lambda value: _leave(core, value))
    if update_arguments and core.functional:
        written = {id(a.allocation) for each in cores for instruction in each.program for a in instruction.writes}
        for array, tensor in arguments:
            if id(tensor.storage.owner) in written:
                if not array.flags.writeable:
                    raise NkiValidationError(
                        f"the kernel writes to its argument {list(array.shape)} {tensor.dtype}, a read-only array"
                    )
                array[...] = release(tensor.values, tensor._dtype)
    return result


def _tell(launched: Run, arguments: Iterable[Any]) -> None:
    for observe in observers:
        observe(launched, [f"{list(value.shape)} {lookup(value.dtype).name}" for value in arguments])


def _cores(core: NeuronCore, kernel: Kernel) -> list[NeuronCore]:
    """The cores that a kernel runs on: `core`, and where it was launched on two the other one."""
    core.programs = kernel.programs
    if kernel.programs != CORES:
        return [core]
    if core.target.generation < 3:
        raise NkiValidationError(
            f"{kernel.__name__}[{CORES}]: two cores are one logical core from NeuronCore-v3 (trn2) on, came "
            f"{core.target.name}"
        )
    other = NeuronCore(core.target, core.functional, core.dge)
    other.sanitizer = core.sanitizer
    other.rank, other.programs = 1, CORES
    core.pair = other.pair = Pair()
    core.partner = other
    return [core, other]


def predict(core: NeuronCore) -> ProgramTiming:
    """The prediction of what has run on a core, and on its partner where there is one."""
    if core.partner is None or core.pair is None:
        return ProgramTiming(core.program, core.target, core.memory)
    memory = Memory(*(max(peaks) for peaks in zip(core.memory, core.partner.memory)))
    return PairTiming((core.program, core.partner.program), core.pair.meetings, core.target, memory)


def _follow(program: list[Instruction], edges: tuple[Edge, ...]) -> None:
    """Add what `with_schedule` gave a program to wait for; every name must be an instruction's."""
    named: dict[str, list[Instruction]] = {}
    for instruction in program if edges else ():
        if instruction.name:
            named.setdefault(instruction.name, []).append(instruction)
    for after, firsts in edges:
        for name in (after, *firsts):
            if name not in named:
                raise NkiValidationError(f"with_schedule: no instruction is named {name!r}")
        for later in named[after]:
            for first in [i for name in firsts for i in named[name]]:
                if first.index >= later.index:
                    raise NotSimulatedError(
                        f"with_schedule: {after!r} comes before {first.name!r} in the program; instructions are "
                        "computed in the program's order, only edges that go with it are simulated"
                    )
                later.depends_on(first)


def _holds_list(value: Any) -> bool:
    """Whether there is a list in what a kernel is called with: none since NKI 0.3 (nki/migration/index.rst)."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else ()
    return isinstance(value, list) or any(map(_holds_list, items))


def _argument(core: NeuronCore, value: Array | TensorSpec) -> NkiTensor:
    if 0 in value.shape or len(value.shape) == 0:
        raise NkiValidationError(
            f"a kernel argument of shape {tuple(value.shape)} is empty or a scalar array; pass arrays with "
            "elements, and numbers as numbers"
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
    """The tensors among what a kernel returned."""
    found: list[NkiTensor] = []
    _each(value, lambda item: found.append(item) if isinstance(item, NkiTensor) else None)
    return found


def _leave(core: NeuronCore, value: Any) -> Any:
    if not isinstance(value, NkiTensor):
        return value
    if value.storage.on_chip:
        raise NkiValidationError(f"the kernel returns {value.label}; outputs must be in nl.shared_hbm")
    return release(value.values, value._dtype) if core.functional else None


def _each(value: Any, convert: Callable[[Any], Any]) -> Any:
    """The same tuples, lists and dicts with every other value converted."""
    if type(value) in (tuple, list):
        return type(value)(_each(item, convert) for item in value)
    if type(value) is dict:
        return {name: _each(item, convert) for name, item in value.items()}
    return convert(value)


_PREDICTIONS: OrderedDict[Any, ProgramTiming] = OrderedDict()  # of shape-only runs, oldest first
_REPLAYS = Replays(prepared)
_REMEMBERED_INSTRUCTIONS = 100_000  # at most so many in all of them, of about 2 KB each


def run(
    kernel: Callable[..., Any],
    *arrays: Any,
    target: str = "trn2",
    dge: bool = True,
    profiled: bool = False,
    functional: bool = True,
    constants: Mapping[str, float] | None = None,
    sanitize: bool = False,
    pure: bool = False,
    **parameters: Any,
) -> Run:
    """Run a kernel on the simulator and predict its time on the chip.

    `dge`: descriptors of DMAs are generated by hardware (trn2 and newer), as without the compiler's --disable-dge.
    `profiled`: count the launch as a profile's total_time does, not as a benchmark does. `functional=False` walks
    shapes only: no values are computed, arguments may be TensorSpecs. `constants`: other values of the timing model's
    constants (timing/constants/), for a machine that might be; the run's note then says so. `pure`: the kernel depends
    on its arguments alone, not on helpers that change in a notebook: a launch seen before is replayed, not walked.
    `sanitize`: look for races, overlaps, lost and uninitialised values (sanitizer.py); `findings` of the run has them.
    """
    found = find_target(target)
    sanitize = sanitize or _sanitizing[0]
    with changed(found.name, constants or {}):
        key = _key(kernel, arrays, found, dge, parameters) if pure and not sanitize else None
        return _run(kernel, arrays, found, dge, profiled, functional, sanitize, parameters, key)


def _run(
    kernel: Callable[..., Any],
    arrays: tuple[Any, ...],
    found: Target,
    dge: bool,
    profiled: bool,
    functional: bool,
    sanitize: bool,
    parameters: dict[str, Any],
    key: Any,
) -> Run:
    """`run` with the constants as they are; `key` tells launches apart that may be known, None those that are not."""
    name = getattr(kernel, "__name__", "kernel")
    again: Any = None
    if functional:
        again = _REPLAYS.seen(key)
        if isinstance(again, Replayed):
            given = [value for value in (*arrays, *parameters.values()) if isinstance(value, np.ndarray)]
            if observers:
                _tell(Run(again.prediction, (), name, profiled=False), given)
            return Run(again.prediction, _REPLAYS.run(again, given), name, profiled)
    known = _PREDICTIONS.get(key) if key is not None and not functional else None
    if known is not None:
        _PREDICTIONS.move_to_end(key)
        return Run(known, known.blank_outputs, name, profiled)
    core = NeuronCore(found, functional, dge)
    core.sanitizer = Sanitizer() if sanitize else None
    if again:
        core.recording = Recording()
    with uncollected():
        returned = execute(core, kernel, arrays, parameters)
    outputs = tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)
    prediction = predict(core)
    if core.recording is not None:
        _REPLAYS.keep(key, _REPLAYS.make(core.recording, len(core.program), core.registers), prediction)
    elif key is not None and not functional:
        prediction.blank_outputs = outputs
        _remember(key, prediction)
    return Run(prediction, outputs, name, profiled, _findings(core))


def _findings(core: NeuronCore) -> list[SanitizerFinding]:
    return core.sanitizer.findings if core.sanitizer is not None else []


def _key(kernel: Any, arrays: tuple[Any, ...], target: Target, dge: bool, parameters: dict[str, Any]) -> Any:
    """What a shape-only run depends on; None where that cannot be told."""
    values = [*arrays, *parameters.values()]
    # By what they look like, too: -0.0 equals 0.0, and (1,) equals (1.0,).
    shapes = [
        (v.shape, str(v.dtype)) if isinstance(v, (np.ndarray, TensorSpec)) else (type(v), v, repr(v)) for v in values
    ]
    if isinstance(kernel, Kernel):
        kernel = (kernel.function, kernel.programs, kernel.schedule)
    key = (kernel, target.name, dge, overrides(), len(arrays), tuple(parameters), tuple(shapes))
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _remember(key: Any, prediction: ProgramTiming) -> None:
    _PREDICTIONS[key] = prediction
    while len(_PREDICTIONS) > 1 and sum(len(p.program) for p in _PREDICTIONS.values()) > _REMEMBERED_INSTRUCTIONS:
        _PREDICTIONS.popitem(last=False)
