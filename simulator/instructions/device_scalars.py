"""Scalars of NKI 0.7: loaded from memory, computed with, stored to memory.

Which engine computes them, and how long that takes, is published nowhere: they are counted as the registers are, each
operation one register move on the Sync Engine.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import active
from ..errors import NkiValidationError, OperatorError
from ..instruction import Instruction, engine
from ..memory import PSUM
from ..nki_version import is_traced
from ..registers import WIDTHS, NkiScalar
from ..tensor import NkiTensor


def scalar_load(src: NkiTensor) -> NkiScalar:
    """The one element of `src`, an int32 or int64 in SBUF or HBM, as a scalar of its dtype."""
    core = active("scalar_load")
    _only_traced("scalar_load")
    _single("scalar_load", "src", src)
    scalar = NkiScalar(None, src.dtype)
    scalar.loaded = core.issue("scalar_load", engine.sync, (), (src,), core.costs.register)
    scalar.unknown = not core.functional
    if core.functional:
        scalar.state = int(src.values.reshape(-1)[0])
    return scalar


def scalar_store(dst: NkiTensor, value: NkiScalar) -> None:
    """The one element of `dst`, in SBUF or HBM and of the scalar's dtype, = value."""
    core = active("scalar_store")
    _only_traced("scalar_store")
    if not isinstance(value, NkiScalar):
        raise OperatorError(
            f"scalar_store: value must be a scalar of nisa.scalar_load, came {type(value).__name__}; nisa.memset "
            "writes a constant"
        )
    _single("scalar_store", "dst", dst)
    value.usable("scalar_store")
    if dst.dtype != value.dtype:
        raise NkiValidationError(f"scalar_store: dst {dst.label} must be of the scalar's dtype, {value.dtype}")
    instruction = core.issue("scalar_store", engine.sync, (dst,), (), core.costs.register)
    _follow(instruction, value)
    if core.functional:
        dst.write(np.full(dst.shape, value.read("scalar_store"), dst._dtype.held))


def _issued(op: str, operands: tuple[Any, ...]) -> Instruction:
    """Note the instruction that computes a scalar of others."""
    core = active(op)
    instruction = core.issue(op, engine.sync, (), (), core.costs.register)
    for operand in operands:
        if isinstance(operand, NkiScalar):
            _follow(instruction, operand)
    return instruction


NkiScalar.issued = staticmethod(_issued)


def _follow(instruction: Instruction, scalar: NkiScalar) -> None:
    if scalar.loaded is not None:
        instruction.depends_on(scalar.loaded)


def _only_traced(op: str) -> None:
    if not is_traced():
        raise NkiValidationError(f"{op} is new in NKI 0.7; in 0.6 registers hold numbers (nisa.register_load)")


def _single(op: str, operand: str, tensor: Any) -> None:
    if not isinstance(tensor, NkiTensor):
        raise NkiValidationError(f"{op}: {operand} must be an NkiTensor, came {type(tensor).__name__}")
    if tensor.size != 1 or tensor.storage.region is PSUM or tensor.dtype not in WIDTHS:
        raise NkiValidationError(
            f"{op}: {operand} {tensor.label} must be one element of int32 or int64 in SBUF or HBM; unsigned dtypes are "
            "not accepted"
        )
