"""Model contention for the ports of SBUF and PSUM that several engines share.

On trn1, the Vector and Scalar Engines take turns accessing PSUM, and the Vector and GpSimd Engines take turns accessing
SBUF (A1). On trn2 and later, the Vector and Scalar Engines can access PSUM concurrently unless they access the same
bank (A2), in which case one of them waits; no further cost is published.
"""

from __future__ import annotations

from ..machine.chip import PSUM_BANK_BYTES, PSUM_BANKS
from ..machine.instruction import Instruction, engine
from ..machine.memory import PSUM, SBUF
from .dependencies import Version

_AT_PSUM = (engine.vector, engine.scalar)
_AT_SBUF = (engine.vector, engine.gpsimd)
_ALL_PSUM, _ALL_SBUF = 0, 1


class Ports:
    """The times at which each port becomes free, for one generation of NeuronCores."""

    def __init__(self, generation: int, psum_placed: bool) -> None:
        self._shared = generation == 2
        self._placed = psum_placed  # True if the kernel allocated tiles at explicit addresses in PSUM
        self._free = [0.0] * PSUM_BANKS
        self._holders = [-1] * PSUM_BANKS  # the last instruction that reserved each port
        self.held_by = -1  # the instruction for which the last `take` waited

    def take(
        self, instruction: Instruction, unit: engine, versions: list[Version], start: float, interval: float
    ) -> float:
        """Reserve the ports of an instruction that could start on `unit` at `start`, and return the time at which they
        are available."""
        if self._shared:
            banks = self._whole(instruction)
        elif unit in _AT_PSUM and (self._placed or any([version.psum for version in versions])):
            banks = _banks(instruction, versions)
        else:
            return start
        for port in banks:
            if self._free[port] > start:
                start, self.held_by = self._free[port], self._holders[port]
        for port in banks:
            self._free[port] = start + interval
            self._holders[port] = instruction.index
        return start

    def _whole(self, instruction: Instruction) -> list[int]:
        regions = {access.allocation.region for access in (*instruction.reads, *instruction.writes)}
        banks = []
        if PSUM in regions and instruction.engine in _AT_PSUM:
            banks.append(_ALL_PSUM)
        if SBUF in regions and instruction.engine in _AT_SBUF:
            banks.append(_ALL_SBUF)
        return banks


def _banks(instruction: Instruction, versions: list[Version]) -> list[int]:
    """Return the banks that an instruction accesses, from the buffers or the explicit addresses of its tiles."""
    ports = [version.bank for version in versions if 0 <= version.bank < PSUM_BANKS]
    larger = [version.whole for version in versions if version.whole]
    for access in (*instruction.reads, *instruction.writes):
        allocation = access.allocation
        if allocation.region is not PSUM:
            continue
        places = range(access.byte // PSUM_BANK_BYTES, (access.byte_end - 1) // PSUM_BANK_BYTES + 1)
        if allocation.placed:
            ports += places
        elif larger and allocation.row_bytes > PSUM_BANK_BYTES:
            ports += [bank for banks in larger for bank in banks[places.start : places.stop]]
    return ports
