"""Buffers in SBUF and PSUM, given to versions of tiles in program order as earlier ones are freed.

Because the program in its own order fits (capacity.py checks it), giving buffers in that order never deadlocks.
"""

from __future__ import annotations

import heapq
from collections import deque

from ..targets import PSUM_BANK_BYTES, PSUM_BANKS
from .dependencies import Version

_NEVER = float("inf")


class Buffers:
    """`births` are (first instruction, version) in program order; `*_placed` bytes are taken for good."""

    def __init__(self, births: list[tuple[int, Version]], sbuf_placed: int, psum_placed: int, sbuf_bytes: int) -> None:
        self._waiting = (deque(b for b in births if not b[1].psum), deque(b for b in births if b[1].psum))
        self._room = sbuf_bytes - sbuf_placed
        self._sbuf_bytes = sbuf_bytes
        whole, rest = divmod(psum_placed, PSUM_BANK_BYTES)
        self._banks = [0] * whole + [PSUM_BANK_BYTES - rest] * bool(rest)
        self._banks += [PSUM_BANK_BYTES] * (PSUM_BANKS - len(self._banks))
        self._releases: tuple[list[tuple[float, int, Version]], ...] = ([], [])
        self._count = 0
        self._full = [False, False]  # the first that waits was tried and has no room before something is put back
        self.sbuf_peak = sbuf_placed
        self.psum_peak = psum_placed

    def release(self, version: Version) -> None:
        """The version's last access is scheduled; its buffer is free at `version.free_at`."""
        self._count += 1
        heapq.heappush(self._releases[version.psum], (version.free_at, self._count, version))

    def next_release(self) -> float:
        """When a buffer is freed that somebody waits for."""
        first = _NEVER
        for waiting, releases in zip(self._waiting, self._releases):
            if waiting and releases:
                first = min(first, releases[0][0])
        return first

    def give(self, time: float) -> list[int]:
        """Take back what is free at `time` and give it out again: the instructions whose versions got their buffer."""
        given = []
        for kind in (0, 1):
            waiting, releases = self._waiting[kind], self._releases[kind]
            while waiting:
                if not self._full[kind]:
                    while waiting and self._take(waiting[0][1]):
                        given.append(waiting.popleft()[0])
                    self._full[kind] = True
                if not waiting or not releases or releases[0][0] > time:
                    break
                self._put_back(heapq.heappop(releases)[2])
                self._full[kind] = False
        return given

    def force(self, time: float) -> int:
        """Give the first waiting version its buffer whether there is room or not."""
        waiting = self._waiting[1] or self._waiting[0]
        index, version = waiting.popleft()
        self._full = [False, False]
        if version.psum:
            version.bank = PSUM_BANKS  # none of them
        else:
            self._room -= version.size
        return index

    def _take(self, version: Version) -> bool:
        if not version.psum:
            if version.size > self._room:
                return False
            self._room -= version.size
            self.sbuf_peak = max(self.sbuf_peak, self._sbuf_bytes - self._room)
            return True
        banks = self._banks
        if version.size > PSUM_BANK_BYTES:  # whole banks
            empty = [bank for bank, room in enumerate(banks) if room == PSUM_BANK_BYTES]
            count = -(-version.size // PSUM_BANK_BYTES)
            if len(empty) < count:
                return False
            version.bank = sum(1 << bank for bank in empty[:count])
            for bank in empty[:count]:
                banks[bank] = 0
        else:
            room = max(banks)
            if room < version.size:
                return False
            bank = banks.index(room)
            version.bank = bank
            banks[bank] -= version.size
        self.psum_peak = max(self.psum_peak, PSUM_BANKS * PSUM_BANK_BYTES - sum(banks))
        return True

    def _put_back(self, version: Version) -> None:
        if not version.psum:
            self._room += version.size
        elif version.size > PSUM_BANK_BYTES:
            for bank in range(PSUM_BANKS):
                if version.bank >> bank & 1:
                    self._banks[bank] = PSUM_BANK_BYTES
        elif version.bank < PSUM_BANKS:
            self._banks[version.bank] += version.size
