"""Errors for Python operators and NumPy functions on tensors, which NKI does not support.

Each message names the alternative in NKI.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, NoReturn

from ..machine.errors import OperatorError, UnknownNameError
from .strided import StridedMemory

_COMPARED = "its contents are not known while a kernel is traced"
_INSTEAD = {  # name of the Python method: the operator, and the alternative in NKI
    "add": ("+", "nl.add or nisa.tensor_tensor"),
    "sub": ("-", "nl.subtract or nisa.tensor_tensor"),
    "mul": ("*", "nl.multiply or nisa.tensor_tensor"),
    "truediv": ("/", "nisa.reciprocal and nl.multiply"),
    "pow": ("**", "nl.power, or nl.square"),
    "matmul": ("@", "nisa.nc_matmul, or nl.matmul"),
    "neg": ("-", "nl.negative"),
    "lt": ("<", f"{_COMPARED}, nl.less compares elements on the chip"),
    "le": ("<=", f"{_COMPARED}, nl.less_equal compares elements on the chip"),
    "gt": (">", f"{_COMPARED}, nl.greater compares elements on the chip"),
    "ge": (">=", f"{_COMPARED}, nl.greater_equal compares elements on the chip"),
}
_METHODS = {  # methods of NumPy arrays and PyTorch tensors
    **dict.fromkeys(("T", "t", "transpose"), "nl.transpose and nisa.dma_transpose"),
    **dict.fromkeys(("astype", "to", "float", "copy", "clone"), "nl.copy(tile, dtype)"),
    **{name: f"nl.{name}(tile, axis)" for name in ("sum", "mean", "max", "min", "prod", "var")},
    **{name: f"nl.{name}(tile)" for name in ("abs", "exp", "sqrt")},
    **dict.fromkeys(("unsqueeze", "squeeze"), "expand_dim and squeeze_dim"),
    **dict.fromkeys(("item", "tolist", "numpy"), f"nl.device_print: {_COMPARED}"),
}


class WithoutOperators(StridedMemory):
    """A tensor that raises errors for `a + b`, `a < b` and NumPy functions."""

    __slots__ = ()

    __iter__: ClassVar[None] = None  # otherwise, Python would iterate over the partitions by index

    def __array_ufunc__(self, function: Any, *_: Any, **__: Any) -> NoReturn:
        raise OperatorError(f"numpy.{function.__name__} of {self.label}: NumPy runs on the host, not in a kernel")


def _refusal(operator: str, instead: str) -> Callable[..., NoReturn]:
    def refuse(tensor: WithoutOperators, *_: Any) -> NoReturn:
        raise OperatorError(f"{operator} of {tensor.label}: NKI has no operators on tensors; {instead}")

    return refuse


def _missing(name: str, instead: str) -> property:
    def refuse(tensor: WithoutOperators) -> NoReturn:
        raise UnknownNameError(f"a tensor has no {name!r}; use {instead}")

    return property(refuse)


@contextmanager
def naming_what_tensors_lack() -> Iterator[None]:
    """Raise UnknownNameError if the block reads an attribute that tensors do not have.

    Tensors have no `__getattr__`, because it would make every attribute access several times slower.
    """
    try:
        yield
    except AttributeError as error:
        if isinstance(error, UnknownNameError) or not isinstance(error.obj, WithoutOperators):
            raise
        raise UnknownNameError(f"a tensor has no {error.name!r}").with_traceback(error.__traceback__) from None


for _name, _instead in _METHODS.items():
    setattr(WithoutOperators, _name, _missing(_name, _instead))

for _name, _what in _INSTEAD.items():
    for _side in ("", "r", "i"):  # a + b, 1 + b, a += b
        setattr(WithoutOperators, f"__{_side}{_name}__", _refusal(*_what))
