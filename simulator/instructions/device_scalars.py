"""Scalars of NKI 0.7: loads from memory, arithmetic, and stores to memory.

Neither the engine that executes these operations nor their time is published. As for registers, each operation is
modelled as one register move on the Sync Engine.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from ..machine.errors import OperatorError
from ..machine.instruction import DECLARATIONS, Instruction, engine
from ..machine.registers import WIDTHS, NkiScalar
from ..tensors.tensor import NkiTensor
from .core import active
from .declaration import declared
from .operands import Call
from .tensor_operands import OneElement


def _value_of_scalar(call: Call) -> None:
    """value must be a scalar created by nisa.scalar_load, with the same dtype as dst."""
    dst, value = call.dst, call.value
    if not isinstance(value, NkiScalar):
        raise OperatorError(
            f"scalar_store: value must be a scalar of nisa.scalar_load, got {type(value).__name__}; nisa.memset "
            "writes a constant"
        )
    value.usable("scalar_store")
    if dst.dtype != value.dtype:
        raise call.refuse("dst", dst, f"must be of the scalar's dtype, {value.dtype}")


@declared(engine.sync, cost=("register",))
def scalar_load(src: Annotated[NkiTensor, OneElement(tuple(WIDTHS))]) -> NkiScalar:
    """Load the single element of `src`, an int32 or int64 in SBUF or HBM, and return it as a scalar of the same
    dtype."""
    core = active("scalar_load")
    _, cost, _, _ = DECLARATIONS["scalar_load"](core, src)
    scalar = NkiScalar(None, src.dtype)
    scalar.loaded = core.issue("scalar_load", engine.sync, (), (src,), cost)
    scalar.unknown = not core.functional
    if core.functional:
        scalar.state = int(src.values.reshape(-1)[0])
    return scalar


@declared(engine.sync, cost=("register",), rules=(_value_of_scalar,))
def scalar_store(dst: Annotated[NkiTensor, OneElement(tuple(WIDTHS), written=True)], value: NkiScalar) -> None:
    """Store a scalar in the single element of `dst`, which is in SBUF or HBM and has the same dtype as the scalar."""
    core = active("scalar_store")
    _, cost, _, _ = DECLARATIONS["scalar_store"](core, dst, value)
    instruction = core.issue("scalar_store", engine.sync, (dst,), (), cost)
    _follow(instruction, value)
    if core.functional:
        dst.write(np.full(dst.shape, value.read("scalar_store"), dst._dtype.held))


def _issued(op: str, operands: tuple[Any, ...]) -> Instruction:
    """Record the instruction that computes a scalar from other scalars."""
    core = active(op)
    instruction = core.issue(op, engine.sync, (), (), core.costs.register())
    for operand in operands:
        if isinstance(operand, NkiScalar):
            _follow(instruction, operand)
    return instruction


NkiScalar.issued = staticmethod(_issued)


def _follow(instruction: Instruction, scalar: NkiScalar) -> None:
    if scalar.loaded is not None:
        instruction.depends_on(scalar.loaded)
