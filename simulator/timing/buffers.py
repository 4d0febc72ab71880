"""Buffers in SBUF and PSUM, given to versions of tiles in program order as earlier ones are freed.

A tile in PSUM begins at the beginning of a bank (nki/migration/index.rst), so that eight of them live at a time (A1: up
to eight outstanding accumulation groups), however small. A program that holds more of them than that in its own order
shares banks where it would stand still otherwise.

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
        self._tiles = [0] * PSUM_BANKS  # that live in each bank
        self._releases: tuple[list[tuple[float, int, Version]], ...] = ([], [])
        self._count = 0
        self._full = [False, False]  # the first that waits was tried and has no room before something is put back
        self.next_release = _NEVER  # when a buffer is freed that somebody waits for
        self.sbuf_peak = sbuf_placed
        self.psum_peak = psum_placed

    def release(self, version: Version) -> None:
        """The version's last access is scheduled; its buffer is free at `version.free_at`."""
        self._count += 1
        heapq.heappush(self._releases[version.psum], (version.free_at, self._count, version))
        if version.free_at < self.next_release and self._waiting[version.psum]:
            self.next_release = version.free_at

    def _find_next(self) -> None:
        self.next_release = _NEVER
        for waiting, releases in zip(self._waiting, self._releases):
            if waiting and releases and releases[0][0] < self.next_release:
                self.next_release = releases[0][0]

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
        self._find_next()
        return given

    def force(self, time: float) -> int:
        """Give the first waiting version its buffer whether there is room or not; in PSUM beside another if it can."""
        waiting = self._waiting[1] or self._waiting[0]
        index, version = waiting.popleft()
        self._full = [False, False]
        self._find_next()
        if not version.psum:
            self._room -= version.size
        elif version.size > max(self._banks):
            version.bank = PSUM_BANKS  # none of them
        else:
            self._take_part(version, self._banks.index(max(self._banks)))
        return index

    def _take_part(self, version: Version, bank: int) -> None:
        version.bank = bank
        self._banks[bank] -= version.size
        self._tiles[bank] += 1
        self._psum_used()

    def _psum_used(self) -> None:
        self.psum_peak = max(self.psum_peak, PSUM_BANKS * PSUM_BANK_BYTES - sum(self._banks))

    def _take(self, version: Version) -> bool:
        if not version.psum:
            if version.size > self._room:
                return False
            self._room -= version.size
            self.sbuf_peak = max(self.sbuf_peak, self._sbuf_bytes - self._room)
            return True
        banks = self._banks
        if version.size <= PSUM_BANK_BYTES:
            for bank, tiles in enumerate(self._tiles):
                if not tiles and banks[bank] >= version.size:
                    self._take_part(version, bank)
                    return True
            return False
        empty = [bank for bank, room in enumerate(banks) if room == PSUM_BANK_BYTES]
        count = -(-version.size // PSUM_BANK_BYTES)
        if len(empty) < count:
            return False
        version.whole = empty[:count]
        for bank in version.whole:
            banks[bank] = 0
            self._tiles[bank] = 1
        self._psum_used()
        return True

    def _put_back(self, version: Version) -> None:
        if not version.psum:
            self._room += version.size
        elif version.size > PSUM_BANK_BYTES:
            for bank in version.whole:
                self._banks[bank] = PSUM_BANK_BYTES
                self._tiles[bank] = 0
        elif version.bank < PSUM_BANKS:
            self._banks[version.bank] += version.size
            self._tiles[version.bank] -= 1
