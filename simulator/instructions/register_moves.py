"""Instructions that set, load and store registers of the engines' sequencers.

A register that addresses a DMA belongs to the engine of the queue, so these instructions run on the Sync Engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from ..machine.dtypes import release
from ..machine.errors import NkiValidationError
from ..machine.instruction import DECLARATIONS, Instruction, engine
from ..machine.registers import VirtualRegister, wrap
from ..tensors.tensor import NkiTensor
from .core import active
from .declaration import declared
from .operands import FLOATS, Call, Operand
from .tensor_operands import OneElement

_DTYPES = ("uint8", "uint16", "uint32", "int8", "int16", "int32", "float32")


@dataclass(frozen=True, eq=False)
class Register(Operand):
    """A register. If `written`, it must not be the variable of a dynamic loop."""

    written: bool = False

    def check(self, call: Call, name: str, value: Any) -> Any:
        if not isinstance(value, VirtualRegister):
            actual = type(value).__name__
            why = f"{name} must be a register of nisa.register_alloc, got {actual}"
            raise NkiValidationError(f"{call.instruction}: {why}")
        if self.written and value.frozen:
            why = f"{name} is the variable of a dynamic loop, which cannot be written"
            raise NkiValidationError(f"{call.instruction}: {why}")
        return value

    @property
    def limits(self) -> str:
        return "a register"


def _value_of_register(call: Call) -> None:
    """src must be a register, or an integer that fits the 32 bits of a register."""
    src = call.src
    if isinstance(src, VirtualRegister):
        return
    if isinstance(src, bool) or not isinstance(src, (int, np.integer)):
        raise NkiValidationError(f"register_move: src must be an integer or a register, got {type(src).__name__}")
    if not -(1 << 31) <= src < 1 << 32:
        raise NkiValidationError(f"register_move: src {src} does not fit in a 32-bit register")


def register_alloc(x: int | None = None) -> VirtualRegister:
    """Return a new register that contains x. If x is None, the register is uninitialised."""
    register = VirtualRegister()
    if x is not None:
        register_move(register, x)
    return register


@declared(engine.sync, cost=("register",), rules=(_value_of_register,))
def register_move(dst: Annotated[VirtualRegister, Register(written=True)], src: Any) -> Instruction:
    """Copy src, which is an integer or another register, to dst."""
    core = active("register_move")
    _, cost, _, _ = DECLARATIONS["register_move"](core, dst, src)
    instruction = core.issue("register_move", engine.sync, (), (), cost)
    if isinstance(src, VirtualRegister):
        if not src.unknown:
            src.read("register_move")
        _follow(instruction, src)
        dst.state, dst.unknown = src.state, src.unknown
    else:
        dst.state, dst.unknown = wrap(int(src)), False
    _follow(instruction, dst)
    dst.loaded = instruction
    return instruction


@declared(engine.sync, cost=("register",), source="nki-language-guide.rst, registers")
def register_load(
    dst: Annotated[VirtualRegister, Register(written=True)],
    src: Annotated[NkiTensor, OneElement((*_DTYPES, *FLOATS))],
) -> Instruction:
    """Load the single element of src, in HBM or SBUF, into dst.

    If the element is a float, its bits are loaded; narrow floats are supported since NKI 0.7.
    """
    core = active("register_load")
    _, cost, _, _ = DECLARATIONS["register_load"](core, dst, src)
    instruction = core.issue("register_load", engine.sync, (), (src,), cost)
    _follow(instruction, dst)
    dst.loaded = instruction
    dst.unknown = not core.functional
    if core.functional:
        dst.state = wrap(_number(src))
    return instruction


@declared(engine.sync, cost=("register",), source="nki-language-guide.rst, registers")
def register_store(
    dst: Annotated[NkiTensor, OneElement(_DTYPES, written=True)], src: Annotated[VirtualRegister, Register()]
) -> Instruction:
    """Store src in the single element of dst, in HBM or SBUF. A narrower element receives only the low bits."""
    core = active("register_store")
    _, cost, _, _ = DECLARATIONS["register_store"](core, dst, src)
    if not src.unknown:
        src.read("register_store")
    instruction = core.issue("register_store", engine.sync, (dst,), (), cost)
    _follow(instruction, src)
    if core.functional:
        bits = np.array([src.read("register_store")], np.int32)
        values = bits.view(np.float32) if dst.dtype == "float32" else bits.astype(dst._dtype.held)
        dst.write(values.reshape(dst.shape))
    return instruction


def _number(src: NkiTensor) -> int:
    """Return the single element as an integer. If it is a float, return its bits as an unsigned integer."""
    value = src.values.reshape(-1)[:1]
    if not src._dtype.is_float:
        return int(value[0])
    bits = release(value, src._dtype).astype(src._dtype.bits)
    return int(bits.view(f"u{bits.itemsize}")[0])


def _follow(instruction: Instruction, register: VirtualRegister) -> None:
    if register.loaded is not None:
        instruction.depends_on(register.loaded)
