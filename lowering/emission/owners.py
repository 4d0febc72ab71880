"""Map each instruction of a launch to the operation of the program that issued it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...kernels.tensor_names import OpId, TensorName
from ...simulator.machine.instruction import Instruction


class Owner(NamedTuple):
    """An operation, and the pass in which it runs."""

    pass_number: int
    operation: OpId


def owners_of(instructions: Sequence[Instruction]) -> list[Owner | None]:
    """Return the owner of each instruction. If the launch does not run a program, every owner is None.

    An operation owns all instructions, in program order, up to the last one that writes or stores one of its tensors.
    """
    owners: list[Owner | None] = [None] * len(instructions)
    names = [name_of(instruction) for instruction in instructions]
    last = next((name for name in reversed(names) if name is not None), None)
    for index, name in reversed(list(enumerate(names))):
        last = name or last
        owners[index] = None if last is None else Owner(last.pass_number, last.operation)
    return owners


def name_of(instruction: Instruction) -> TensorName | None:
    """Return the name of the tensor that an instruction writes or stores, or None if it does not belong to an
    operation."""
    is_store = instruction.dma is not None and not instruction.dma.load
    for access in instruction.reads if is_store else instruction.writes:
        name = access.allocation.identity[0]
        if isinstance(name, TensorName):
            return name
    return None
