"""Hand-written instructions for tests of the timing model: the bytes that each reads and writes, and its cost."""

from __future__ import annotations

from itertools import count
from typing import Any

from trninfer.simulator.machine.instruction import Access, Allocation, Cost, Instruction, Transfer, engine
from trninfer.simulator.machine.memory import SBUF
from trninfer.simulator.timing.constants import Machine, machine

ROWS = 128
_uids = count()


def tensor(region: Any = SBUF, row_bytes: int = 64, *, placed: bool = False, argument: bool = False) -> Allocation:
    """Return a storage with the given number of bytes on each of 128 partitions, or in each of 128 rows in HBM."""
    told = ("", region, (ROWS, row_bytes // 4), "float32")
    made = Allocation(next(_uids), region, row_bytes, told, ("kernel.py", 1), argument)
    made.placed = placed
    return made


def part(of: Allocation, start: int = 0, end: int | None = None, rows: tuple[int, int] = (0, ROWS)) -> Access:
    """Return the bytes [start, end) of some rows of a tensor, by default all."""
    end = of.row_bytes if end is None else end
    covers = (start, end, *rows) == (0, of.row_bytes, 0, ROWS)
    return Access(of, *rows, start, end, of.row_bytes, covers)


class Listing(list[Instruction]):
    """A program that grows by one instruction at a time."""

    def add(
        self,
        unit: str,
        writes: tuple[Access, ...] = (),
        reads: tuple[Access, ...] = (),
        *,
        takes: float = 100.0,
        dma: Transfer | None = None,
        ordered: bool = False,
    ) -> Instruction:
        """Add an instruction of an engine with a given duration in nanoseconds."""
        cost, moved = Cost(takes, takes, takes), 0 if dma is None else dma.bytes
        line = ("kernel.py", len(self) + 1)
        made = Instruction(len(self), "op", engine[unit], writes, reads, cost, dma, 0, moved, line, None, ordered)
        self.append(made)
        return made


def another_machine(target: str = "trn2", **values: float) -> Machine:
    """Use a target's machine with different values of some constants."""
    return Machine({**vars(machine(target)), **values})
