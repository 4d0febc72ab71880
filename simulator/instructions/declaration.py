"""Declarations of instructions, which define their operands, engines, limits and cost in one place.

An instruction is a function with the signature documented by `nki.isa`, decorated with `@declared(...)`. Its
annotations declare the allowed operands (operands.py). `NeuronCore.settle` uses the declaration to check the operands
of a call and to determine its engine and cost; the linter and the documentation use the same declarations. A function
decorated with `@instruction(...)` only computes the values; the declaration checks the call, determines its cost and
issues it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from ..machine.errors import NkiValidationError
from ..machine.instruction import DECLARATIONS, Instruction, SettledCall, engine
from ..machine.memory import PSUM
from ..tensors.tensor import NkiTensor
from .checks import member, read_together
from .core import NeuronCore, active
from .operands import Call, Operand, Scalar, Unchecked
from .tensor_operands import Tile

_UNKNOWN, _GPSIMD = engine.unknown, engine.gpsimd
_MISSING = inspect.Parameter.empty
_VERSIONS = {3: "v3 (trn2) or newer", 4: "v4 (trn3)"}

Rule = Callable[[Call], None]
_P = ParamSpec("_P")
_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False)
class Engine(Operand):
    """The parameter `engine`, which must be one of the engines declared for the instruction."""

    @property
    def limits(self) -> str:
        return "one of the engines"


@dataclass(frozen=True, eq=False)
class Declaration:
    """The declaration of an instruction of `nki.isa`. Its operands are the parameters except `name`.

    `rules` check conditions that involve several operands. Each rule raises NkiValidationError if its condition is
    violated, and may set `unit`, `cost` and `options` of the call. Its docstring states the condition and is shown in
    the documentation.
    """

    function: Callable[..., Any]
    engines: tuple[engine, ...]  # engines that can execute it, starting with the default
    cost: tuple[str, ...] = ()  # a method of `Costs` and its operands; () if a rule sets the cost
    generation: int = 2  # the first NeuronCore version that supports it
    # for engines that support the instruction only from a later NeuronCore version on: that version
    engine_generations: Mapping[engine, int] = field(default_factory=dict)
    default: Callable[[Call], engine] | None = None  # selects the engine if the kernel does not specify it
    together: tuple[str, ...] = ()  # two operands that are read simultaneously
    rules: tuple[Rule, ...] = ()
    finds: tuple[str, ...] = ()  # attributes that rules set and the instruction's function receives
    flops: tuple[int, str] = (0, "dst")  # operations per element of the given operand
    state: Mapping[engine, str] = field(default_factory=dict)  # engine state shared with other instructions
    # called for every call with the core, the name, the resolved operands and `finds`
    watch: Callable[[NeuronCore, str, tuple[Any, ...]], None] | None = None
    repeatable: bool = False  # True if it depends only on its operands and writes only the first one
    packed: int = 0  # number of trailing operands that `settle` receives as one tuple, to speed up the cache
    source: str = ""  # source in addition to the documentation page of the instruction

    @cached_property
    def name(self) -> str:
        return self.function.__name__

    @cached_property
    def operands(self) -> dict[str, Operand]:
        """Return the operands in order. A parameter without a declaration accepts any value."""
        parameters = inspect.signature(self.function, eval_str=True).parameters.values()
        declared = {p.name: getattr(p.annotation, "__metadata__", (Operand(),))[-1] for p in parameters}
        declared.pop("name", None)
        return declared

    @cached_property
    def checked(self) -> tuple[str, ...]:
        """Return the operands passed to `NeuronCore.settle`, in order."""
        return tuple(name for name, operand in self.operands.items() if not isinstance(operand, Unchecked))

    @cached_property
    def resolved(self) -> tuple[str, ...]:
        """Return the operands that are resolved to other objects, such as operators and enum members."""
        return tuple(name for name, operand in self.operands.items() if operand.resolves)

    @cached_property
    def _alone(self) -> list[tuple[str, Callable[[Call, str, Any], Any]]]:
        """Return the checks that involve a single operand."""
        return [(n, o.check) for n, o in self.operands.items() if type(o).check is not Operand.check]

    @cached_property
    def _related(self) -> list[tuple[str, Callable[[Call, str, Any], None]]]:
        """Return the checks of operands against other operands."""
        return [(n, o.relate) for n, o in self.operands.items() if type(o).relate is not Operand.relate and o.relates]

    @cached_property
    def _noted(self) -> tuple[str, ...]:
        return (*self.resolved, *self.finds)

    @cached_property
    def _tensors(self) -> list[str]:
        return [name for name, operand in self.operands.items() if isinstance(operand, (Tile, Scalar))]

    def __call__(self, core: NeuronCore, *given: Any) -> SettledCall:
        """Check the operands of a call.

        Raises NkiValidationError for the first invalid operand. Its message contains the allowed values.
        """
        if core.target.generation < self.generation:
            raise NkiValidationError(
                f"{self.name}: requires NeuronCore-{_VERSIONS[self.generation]}, got {core.target.name}"
            )
        if self.packed:
            given = (*given[:-1], *given[-1])
        call = Call(core, self.name, zip(self.checked, given))
        values = call.__dict__
        for name, check in self._alone:
            values[name] = check(call, name, values[name])
        for name, relate in self._related:
            relate(call, name, values[name])
        if self.together:
            first, second = (values[name] for name in self.together)
            if isinstance(first, NkiTensor) and isinstance(second, NkiTensor):
                read_together(self.name, self.together[0], first, self.together[1], second)
        call.unit = self._engine(call)
        for rule in self.rules:
            rule(call)
        if call.unit is _GPSIMD:
            self._refuse_psum(values)
        if self.cost:
            method, *names = self.cost
            call.cost = getattr(core.costs, method)(*[values[name] for name in names])
        return call.unit, call.cost, call.options, tuple([values[name] for name in self._noted])

    def _engine(self, call: Call) -> engine:
        default = self.default(call) if self.default is not None else self.engines[0]
        if not self._chooses or call.engine is _UNKNOWN:
            return default
        unit = member(self.name, "engine", engine, call.engine)
        if unit is _UNKNOWN:
            return default
        generation = call.core.target.generation
        allowed = [e for e in self.engines if self.engine_generations.get(e, 2) <= generation]
        if unit not in allowed:
            names = ", ".join(e.name for e in allowed)
            raise NkiValidationError(f"{self.name}: does not run on engine {unit.name}; allowed: {names}")
        return unit

    def _refuse_psum(self, values: Mapping[str, Any]) -> None:
        """Reject operands in PSUM, which GpSimd cannot access (trainium_inferentia2_arch.rst, "GpSimd Engine")."""
        for name in self._tensors:
            tensor = values[name]
            if isinstance(tensor, NkiTensor) and tensor.storage.region is PSUM:
                raise NkiValidationError(f"{self.name}: GpSimd Engine cannot access PSUM, where {tensor.label} is")

    @cached_property
    def _chooses(self) -> bool:
        """Return True if the kernel can choose the engine."""
        return isinstance(self.operands.get("engine"), Engine)

    def bind(self, given: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call, keyed by parameter name, in order.

        Raises Python's TypeError if the arguments do not match the parameters.
        """
        names = self._names
        values = self._defaults | dict(zip(names, given)) | named
        fits = len(values) == len(names) and len(given) + len(named) <= len(names)
        for name in self._required:
            fits = fits and values[name] is not _MISSING
        if not fits or (given and named and not named.keys().isdisjoint(names[: len(given)])):
            self.function(*given, **named)
        return values

    @cached_property
    def _defaults(self) -> dict[str, Any]:
        return {p.name: p.default for p in inspect.signature(self.function).parameters.values()}

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(self._defaults)

    @cached_property
    def _required(self) -> list[str]:
        return [name for name, default in self._defaults.items() if default is _MISSING]

    @cached_property
    def _written(self) -> list[str]:
        return [name for name, operand in self.operands.items() if isinstance(operand, Tile) and operand.written]

    @cached_property
    def _read(self) -> list[str]:
        """Return the operands that may be tensors to read. Operands that are only partly written come last."""
        preserved = [n for n in self._written if getattr(self.operands[n], "kept", False)]
        return [name for name in self._tensors if name not in self._written] + preserved

    def run(self, core: NeuronCore, values: dict[str, Any]) -> Instruction:
        """Check a call, issue it with the operands that it reads and writes, and compute its values.

        Operators, enum members and the engine are resolved before the function is called.
        """
        name = values.pop("name", None)
        unit, cost, options, findings = core.settle(self.name, *[values[operand] for operand in self.checked])
        writes = tuple([values[operand] for operand in self._written if values[operand] is not None])
        reads = tuple([values[operand] for operand in self._read if isinstance(values[operand], NkiTensor)])
        per_element, of = self.flops
        flops = per_element * values[of].size if per_element else 0
        issued = core.issue(self.name, unit, writes, reads, cost, name, flops=flops, options=options)
        if self.state:
            core.share(self.state[unit], issued)
        if self.watch is not None:
            self.watch(core, self.name, findings)
        values.update(zip(self.resolved, findings))
        if self._chooses:
            values["engine"] = unit
        if self.repeatable:
            core.perform(self.function, *values.values())
        elif core.functional:
            with np.errstate(all="ignore"):  # infinity and NaN are ordinary values, as on the chip
                self.function(*values.values())
        return issued


def declared(*engines: engine, **limits: Any) -> Callable[[_Function], _Function]:
    """Declare an instruction whose function itself checks, issues and computes its calls.

    `limits` are the other fields of Declaration.
    """

    def declare(function: _Function) -> _Function:
        DECLARATIONS[function.__name__] = Declaration(function, engines, **limits)
        return function

    return declare


def instruction(*engines: engine, **limits: Any) -> Callable[[Callable[_P, None]], Callable[_P, Instruction]]:
    """Declare an instruction, and create it from a function that only computes its values."""

    def declare(function: Callable[_P, None]) -> Callable[_P, Instruction]:
        declaration = DECLARATIONS[function.__name__] = Declaration(function, engines, **limits)

        @wraps(function)
        def issue(*given: _P.args, **named: _P.kwargs) -> Instruction:
            values = declaration.bind(given, named)
            return declaration.run(active(declaration.name), values)

        return issue

    return declare
