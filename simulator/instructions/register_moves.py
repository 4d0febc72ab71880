"""Registers of the engines' sequencers: set, loaded from memory, stored to memory.

A register that addresses a DMA belongs to the queue's engine, so these run on the Sync Engine.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import active
from ..dtypes import release
from ..errors import NkiValidationError
from ..instruction import Instruction, engine
from ..memory import PSUM
from ..nki_version import is_traced
from ..registers import VirtualRegister, wrap
from ..tensor import NkiTensor

_DTYPES = ("uint8", "uint16", "uint32", "int8", "int16", "int32", "float32")  # nki-language-guide.rst, registers


def register_alloc(x: int | None = None) -> VirtualRegister:
    """A register that holds x, or nothing yet."""
    register = VirtualRegister()
    if x is not None:
        register_move(register, x)
    return register


def register_move(dst: VirtualRegister, src: Any) -> Instruction:
    """dst = src, an integer or another register."""
    core = active("register_move")
    _writable("register_move", dst)
    instruction = core.issue("register_move", engine.sync, (), (), core.costs.register)
    if isinstance(src, VirtualRegister):
        if not src.unknown:
            src.read("register_move")
        _follow(instruction, src)
        dst.state, dst.unknown = src.state, src.unknown
    elif isinstance(src, (int, np.integer)) and not isinstance(src, bool):
        if not -(1 << 31) <= src < 1 << 32:
            raise NkiValidationError(f"register_move: src {src} does not fit the 32 bits of a register")
        dst.state, dst.unknown = wrap(int(src)), False
    else:
        raise NkiValidationError(f"register_move: src must be an integer or a register, came {type(src).__name__}")
    _follow(instruction, dst)
    dst.loaded = instruction
    return instruction


def register_load(dst: VirtualRegister, src: NkiTensor) -> Instruction:
    """dst = the one element of src, in HBM or SBUF (of a float its bits; of narrow ones since NKI 0.7)."""
    core = active("register_load")
    _writable("register_load", dst)
    _single("register_load", "src", src, narrow=is_traced())
    instruction = core.issue("register_load", engine.sync, (), (src,), core.costs.register)
    _follow(instruction, dst)
    dst.loaded = instruction
    dst.unknown = not core.functional
    if core.functional:
        dst.state = wrap(_number(src))
    return instruction


def register_store(dst: NkiTensor, src: VirtualRegister) -> Instruction:
    """The one element of dst, in HBM or SBUF, = src, its low bits where the element is narrower."""
    core = active("register_store")
    if not isinstance(src, VirtualRegister):
        raise NkiValidationError(f"register_store: src must be a register, came {type(src).__name__}")
    _single("register_store", "dst", dst)
    if not src.unknown:
        src.read("register_store")
    instruction = core.issue("register_store", engine.sync, (dst,), (), core.costs.register)
    _follow(instruction, src)
    if core.functional:
        bits = np.array([src.read("register_store")], np.int32)
        values = bits.view(np.float32) if dst.dtype == "float32" else bits.astype(dst._dtype.held)
        dst.write(values.reshape(dst.shape))
    return instruction


def _number(src: NkiTensor) -> int:
    """The one element as an integer, a float's bits as one without a sign."""
    value = src.values.reshape(-1)[:1]
    if not src._dtype.is_float:
        return int(value[0])
    bits = release(value, src._dtype).astype(src._dtype.bits)
    return int(bits.view(f"u{bits.itemsize}")[0])


def _follow(instruction: Instruction, register: VirtualRegister) -> None:
    if register.loaded is not None:
        instruction.depends_on(register.loaded)


def _writable(op: str, register: Any) -> None:
    if not isinstance(register, VirtualRegister):
        raise NkiValidationError(f"{op}: dst must be a register of nisa.register_alloc, came {type(register).__name__}")
    if register.frozen:
        raise NkiValidationError(f"{op}: dst is the variable of a dynamic loop, which cannot be written")


def _single(op: str, operand: str, tensor: Any, narrow: bool = False) -> None:
    if not isinstance(tensor, NkiTensor):
        raise NkiValidationError(f"{op}: {operand} must be an NkiTensor, came {type(tensor).__name__}")
    known = tensor.dtype in _DTYPES or (narrow and tensor._dtype.is_float)
    if tensor.size != 1 or tensor.storage.region is PSUM or not known:
        more = " or any other float" if narrow else ""
        raise NkiValidationError(
            f"{op}: {operand} {tensor.label} must be one element in HBM or SBUF of {', '.join(_DTYPES)}{more}"
        )
