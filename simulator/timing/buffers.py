"""Allocate buffers in SBUF and PSUM to versions of tiles, in program order, as earlier versions are freed.

A tile in PSUM starts at a bank boundary (nki/migration/index.rst), so at most eight tiles are live at a time,
regardless of their size (A1: up to eight outstanding accumulation groups). If a program needs more than eight live
tiles when executed in program order, tiles share banks to avoid a deadlock.

Allocation in program order never deadlocks, because the program fits when executed in order (checked by capacity.py).
"""

from __future__ import annotations

import heapq
from collections import deque

from ..machine.chip import PSUM_BANK_BYTES, PSUM_BANKS
from .dependencies import Version

_NEVER = float("inf")
BufferAssignment = tuple[int, "Version | None"]


class Buffers:
    """The buffers of SBUF and PSUM.

    `births` contains (first instruction, version) pairs in program order. The `*_placed` bytes remain allocated for the
    whole program. If `shares_banks`, small tiles share banks of PSUM, to predict the gain from packing them.
    """

    def __init__(self, births: list[tuple[int, Version]], sbuf_placed: int, psum_placed: int, sbuf_bytes: int) -> None:
        self._sbuf = _Sbuf(deque([b for b in births if not b[1].psum]), sbuf_placed, sbuf_bytes)
        self._psum = _Psum(deque([b for b in births if b[1].psum]), psum_placed)
        self.next_release = _NEVER  # the earliest time at which an awaited buffer is freed

    @property
    def shares_banks(self) -> bool:
        return self._psum.shared

    @shares_banks.setter
    def shares_banks(self, shared: bool) -> None:
        self._psum.shared = shared

    @property
    def sbuf_peak(self) -> int:
        return self._sbuf.peak

    @property
    def psum_peak(self) -> int:
        return self._psum.peak

    def release(self, version: Version) -> None:
        """Free the buffer of a version at `version.free_at`, once the last access to it has been scheduled."""
        memory = self._psum if version.psum else self._sbuf
        if memory.waiting:
            free_at = version.free_at
            memory.count += 1
            heapq.heappush(memory.releases, (free_at, memory.count, version))
            if free_at < memory.next_release:
                memory.next_release = free_at
                if free_at < self.next_release:
                    self.next_release = free_at

    def give(self, time: float) -> list[BufferAssignment]:
        """Reuse the buffers that are free at `time`.

        Return the instructions whose versions received a buffer, each with the version that previously occupied the
        buffer (None if there was free space).
        """
        assignments: list[BufferAssignment] = []
        sbuf, psum = self._sbuf, self._psum
        if sbuf.next_release <= time or not sbuf.full:
            sbuf.give(time, assignments)
        if psum.next_release <= time or not psum.full:
            psum.give(time, assignments)
        self._find_next()
        return assignments

    def force(self, time: float) -> int:
        """Allocate a buffer for the first waiting version even if memory is full. In PSUM, share a bank if possible."""
        memory = self._psum if self._psum.waiting else self._sbuf
        index, version = memory.waiting.popleft()
        memory.force(version)
        for region in (self._sbuf, self._psum):
            region.full = False
            if not region.waiting:
                region.next_release = _NEVER
        self._find_next()
        return index

    def _find_next(self) -> None:
        first, second = self._sbuf.next_release, self._psum.next_release
        self.next_release = first if first < second else second


class _Memory:
    """The versions waiting for a buffer in one memory, and the buffers that will be freed in it."""

    def __init__(self, waiting: deque[tuple[int, Version]], peak: int) -> None:
        self.waiting = waiting
        self.peak = peak
        self.full = False  # True if the first waiting version does not fit until a buffer is freed
        self.next_release = _NEVER  # _NEVER if nothing waits
        self.releases: list[tuple[float, int, Version]] = []  # heap of (time, order, version) of buffers to be freed
        self.count = 0

    def give(self, time: float, given: list[BufferAssignment]) -> None:
        waiting, releases = self.waiting, self.releases
        freed = None
        while waiting:
            if not self.full:
                while waiting and self.take(waiting[0][1]):
                    given.append((waiting.popleft()[0], freed))
                self.full = True
            if not waiting or not releases or releases[0][0] > time:
                break
            freed = heapq.heappop(releases)[2]
            self.put_back(freed)
            self.full = False
        self.next_release = releases[0][0] if waiting and releases else _NEVER

    def take(self, version: Version) -> bool:
        """Allocate a buffer for a version. Return False if there is no space."""
        raise NotImplementedError

    def put_back(self, version: Version) -> None:
        raise NotImplementedError

    def force(self, version: Version) -> None:
        raise NotImplementedError


class _Sbuf(_Memory):
    def __init__(self, waiting: deque[tuple[int, Version]], placed: int, size: int) -> None:
        super().__init__(waiting, placed)
        self._size = size
        self._free = size - placed

    def take(self, version: Version) -> bool:
        free = self._free - version.size
        if free < 0:
            return False
        self._free = free
        if self._size - free > self.peak:
            self.peak = self._size - free
        return True

    def put_back(self, version: Version) -> None:
        self._free += version.size

    def force(self, version: Version) -> None:
        self._free -= version.size


class _Psum(_Memory):
    shared = False

    def __init__(self, waiting: deque[tuple[int, Version]], placed: int) -> None:
        super().__init__(waiting, placed)
        bank, rest = divmod(placed, PSUM_BANK_BYTES)
        self._banks = [0] * bank + [PSUM_BANK_BYTES - rest] * bool(rest)  # free bytes per bank
        self._banks += [PSUM_BANK_BYTES] * (PSUM_BANKS - len(self._banks))
        self._tiles = [0] * PSUM_BANKS  # number of tiles alive per bank

    def take(self, version: Version) -> bool:
        banks, tiles = self._banks, self._tiles
        if version.size <= PSUM_BANK_BYTES:
            if self.shared:
                return self._take_free(version)
            if 0 in tiles:
                for bank in range(tiles.index(0), PSUM_BANKS):
                    if not tiles[bank] and banks[bank] >= version.size:
                        self._take_part(version, bank)
                        return True
            return False
        empty = [bank for bank, free in enumerate(banks) if free == PSUM_BANK_BYTES]
        count = -(-version.size // PSUM_BANK_BYTES)
        if len(empty) < count:
            return False
        version.whole = empty[:count]
        for bank in version.whole:
            banks[bank] = 0
            self._tiles[bank] = 1
        self._used()
        return True

    def _take_free(self, version: Version) -> bool:
        """Place a version in the first bank that has enough free space beside its other tiles."""
        bank = next((bank for bank, free in enumerate(self._banks) if free >= version.size), None)
        if bank is None:
            return False
        self._take_part(version, bank)
        return True

    def put_back(self, version: Version) -> None:
        if version.size > PSUM_BANK_BYTES:
            for bank in version.whole:
                self._banks[bank] = PSUM_BANK_BYTES
                self._tiles[bank] = 0
        elif version.bank < PSUM_BANKS:
            self._banks[version.bank] += version.size
            self._tiles[version.bank] -= 1

    def force(self, version: Version) -> None:
        if version.size > max(self._banks):
            version.bank = PSUM_BANKS  # the version is not in any bank
        else:
            self._take_part(version, self._banks.index(max(self._banks)))

    def _take_part(self, version: Version, bank: int) -> None:
        version.bank = bank
        self._banks[bank] -= version.size
        self._tiles[bank] += 1
        self._used()

    def _used(self) -> None:
        used_bytes = PSUM_BANKS * PSUM_BANK_BYTES - sum(self._banks)
        if used_bytes > self.peak:
            self.peak = used_bytes
