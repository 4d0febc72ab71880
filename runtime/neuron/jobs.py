"""Compilation jobs: a kernel with the shapes and dtypes of its operands, and its other arguments.

A job is passed as text to the process that compiles it, so its other arguments are pickled. They are also part of the
keys by which AWS's packages identify compiled kernels. `check_arguments` guards against the weaknesses of these keys
(docs/chip.md, "What each call rests on"): an argument is represented by its `repr` or `hash`, and an object with
`shape` and `dtype` counts as a tensor.
"""

from __future__ import annotations

import base64
import dataclasses
import importlib
import importlib.util
import pickle
import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np

from ...kernels import kernel as kernel_named
from ..backend import ArraySpec, KernelError
from .kernel_source import KernelSource

_PLAIN = (bool, int, float, str, bytes, type(None))


@dataclasses.dataclass(frozen=True)
class Job:
    """A kernel, the shapes and dtypes of its operands by name, and its other arguments by name."""

    kernel: Any
    source: KernelSource
    operands: dict[str, ArraySpec]
    parameters: dict[str, Any]
    target: str

    @property
    def label(self) -> str:
        """The kernel's name, its shapes and dtype, and the target, for messages."""
        operands = list(self.operands.values())
        shapes = " ".join(str(list(operand.shape)) for operand in operands)
        return f"{self.source.name} {shapes} {np.dtype(operands[0].dtype).name} for {self.target}"

    def material(self, way: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return everything that the compiled kernel depends on, as JSON values."""
        return {
            "way": way,
            "kernel": self.source.name,
            "source": self.source.digest,
            "operands": {name: form(operand) for name, operand in self.operands.items()},
            "parameters": {name: repr(value) for name, value in self.parameters.items()},
            "target": self.target,
            "settings": dict(settings),
        }

    def message(self) -> dict[str, Any]:
        """Return the job as JSON values, for `read_job` in another process.

        Raise KernelError if that process could not find the kernel.
        """
        if self.source.module is None:
            raise KernelError(
                f"{self.source.name}: a kernel must be a module-level function under its own name, so that another "
                f"process can import it"
            )
        return {
            "module": self.source.module,
            "file": self.source.file,
            "kernel": self.source.name,
            "operands": {name: form(operand) for name, operand in self.operands.items()},
            "parameters": base64.b64encode(pickle.dumps(self.parameters)).decode(),
        }


def read_job(message: Mapping[str, Any]) -> tuple[Any, dict[str, tuple[tuple[int, ...], str]], dict[str, Any]]:
    """Return the kernel of a job, the shapes and dtypes of its operands, keyed by name, and its other arguments.

    Call this only after the implementation of `nki` has been selected, since finding the kernel imports `nki`.
    """
    kernel = _find_kernel(message["module"], message["file"], message["kernel"])
    operands = {name: (tuple(shape), dtype) for name, (shape, dtype) in message["operands"].items()}
    return kernel, operands, pickle.loads(base64.b64decode(message["parameters"]))


def array_type(name: str) -> np.dtype[Any]:
    """Return the NumPy dtype with the given name. ml_dtypes provides bfloat16."""
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def form(operand: Any) -> list[Any]:
    """Return an operand's shape and dtype as JSON values."""
    return [list(operand.shape), np.dtype(operand.dtype).name]


def check_arguments(kernel: str, parameters: Mapping[str, Any]) -> None:
    """Raise KernelError, with the argument's name, for arguments that AWS's packages would misinterpret.

    Allowed are numbers, strings, None, enumeration members, and tuples and frozen dataclasses of them.
    """
    for name, value in parameters.items():
        problem = _problem(value)
        if problem is not None:
            raise KernelError(f"{kernel}: its argument {name} {problem}")


def _problem(value: Any) -> str | None:
    """Return a description of the problem with an argument, or None."""
    kind = type(value).__name__
    if hasattr(value, "shape") and hasattr(value, "dtype"):  # includes NumPy scalars
        return f"contains a {kind}, which would be treated as a tensor because it has shape and dtype"
    if isinstance(value, (*_PLAIN, Enum)):
        return None
    if isinstance(value, tuple):
        return next((problem for problem in map(_problem, value) if problem is not None), None)
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return (
            f"contains a {kind}; only numbers, strings, tuples and frozen dataclasses are allowed in addition to "
            f"tensors"
        )
    return _problem_of_record(value, kind)


def _problem_of_record(value: Any, kind: str) -> str | None:
    """Return a description of the problem with a dataclass or one of its fields, or None."""
    fields = dataclasses.fields(value)
    if not type(value).__dataclass_params__.frozen:
        return f"contains a {kind}, which is not frozen"
    hidden = [field.name for field in fields if not (field.repr and field.compare)]
    if hidden:
        return f"contains a {kind} whose {hidden[0]} is excluded from its repr or from comparisons"
    return _problem(tuple(getattr(value, field.name) for field in fields))


def _find_kernel(module: str, file: str | None, name: str) -> Any:
    """Find a kernel in trninfer.kernels, otherwise in the module of a given name, otherwise in a file."""
    if module.startswith(f"{__package__.split('.')[0]}.kernels."):
        return kernel_named(name)
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError:
        if file is None:
            raise
    spec = importlib.util.spec_from_file_location(module, file)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[module] = loaded
    spec.loader.exec_module(loaded)
    return getattr(loaded, name)


def arguments_hash(parameters: Mapping[str, Any]) -> int:
    """Return the hash of a kernel's arguments, as computed by a pre-release of torch-neuronx for its key.

    Some different arguments, such as -1 and -2, have the same hash.
    """
    return hash(tuple(sorted(parameters.items())))


def outputs_of(returned: Any) -> Sequence[Any]:
    """Return the results of a kernel as a sequence. A single tensor becomes a sequence of length one."""
    return returned if isinstance(returned, (tuple, list)) else (returned,)
