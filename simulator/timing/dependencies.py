"""Determine the dependencies of each instruction of a program, and the buffers that it accesses.

Dependencies (read after write, write after read, write after write) are determined from the regions that instructions
actually access. A tile has one physical address, no matter how often it is written (nki/migration/index.rst, "What are
block dimensions?"; rows o02 to o11 for PSUM, o27 to o35 for SBUF); a kernel that uses several buffers has to allocate
several tiles. The compiler of NKI 0.7 renames tiles only if the kernel's CompileConfig requests it
(non_ssa_legalization).

`renames` models the compiler of NKI's first beta (rows k08 to k11): a write that replaces the entire contents of a tile
in SBUF without reading it starts a new version of the tile, which is stored in a separate buffer. Since the scheduler
tracks memory use, the number of versions is limited.

If a tile (such as a stack of rows) is written only in disjoint byte ranges, each range is treated as a separate tile.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from ..machine.instruction import Access, Allocation, Instruction, engine
from ..machine.memory import PSUM, SBUF

# The event of the predecessor for which a successor waits.
RAW = 0  # the predecessor's result can be read
WAR = 1  # the predecessor has read its operands
WAW = 2  # the predecessor's write is done or, if both run on the same engine, the predecessor has been issued
ORDER = 3  # the predecessor has started

_NOBODY: list[int] = []  # shared empty list; never modified
_MANY = 4  # minimum number of segments for which caching the overlaps of a read is worthwhile
BUCKETS = 64  # number of buckets into which the extent of an HBM tensor is divided, to find overlapping accesses


class Version:
    """The contents of one buffer of a tile, from its first write to its last access."""

    __slots__ = ("bank", "free_at", "last", "left", "psum", "size", "whole")

    def __init__(self, size: int, psum: bool) -> None:
        self.size = size
        self.psum = psum
        self.left = 0  # number of accesses that are not scheduled yet
        self.free_at = 0.0
        self.last = -1  # the instruction whose access frees the buffer
        self.bank = -1  # PSUM bank of a buffer that fits in one; PSUM_BANKS if no bank had space
        self.whole: Sequence[int] = ()  # PSUM banks of a buffer that is larger than a bank


class Segment:
    """A region of memory and the most recent instructions that accessed it."""

    __slots__ = ("access", "readers", "writer")

    def __init__(self, access: Access, writer: int) -> None:
        self.access = access
        self.writer = writer
        self.readers: list[int] = []


class Unit:
    """A tile or a byte range of a tile, for which dependencies are tracked together.

    If `uniform` is True, all writes are to the same rectangle; `writer` is the last instruction that wrote it, and
    `readers` are the instructions that have read it since. Otherwise, accesses are tracked by segment.
    """

    __slots__ = ("_touched", "placed", "psum", "readers", "segments", "size", "uniform", "version", "writer")

    def __init__(self, allocation: Allocation, size: int, uniform: bool) -> None:
        self.size = size
        self.psum = allocation.region is PSUM
        self.placed = allocation.placed
        self.uniform = uniform
        self.writer = -1
        self.readers = _NOBODY
        self.version: Version | None = None
        if not uniform:
            self.segments: list[Segment] = []
            self._touched: dict[Access, list[Segment]] = {}  # segments that a read overlaps, cached if there are many

    def touched(self, access: Access) -> list[Segment]:
        """Return the segments that a read overlaps."""
        if len(self.segments) < _MANY:
            return [segment for segment in self.segments if segment.access.overlaps(access)]
        buckets = self._touched.get(access)
        if buckets is None:
            buckets = self._touched[access] = [s for s in self.segments if s.access.overlaps(access)]
        return buckets

    def replace(self, segments: list[Segment]) -> None:
        """Replace the segments of the unit after a write."""
        self.segments = segments
        if self._touched:
            self._touched = {}


class Dependencies(NamedTuple):
    """Dependencies between the instructions of a program.

    For instruction i, `successors[i]` contains (instruction, kind) pairs encoded as instruction * 4 + kind, `waits[i]`
    is the number of dependencies for which it waits, and `uses[i]` contains the versions that it accesses. `births`
    contains (first instruction, version) pairs in program order. `placed` contains the bytes per partition of SBUF and
    PSUM that are occupied by tiles at explicit addresses.
    """

    successors: list[list[int]]
    waits: list[int]
    uses: list[list[Version]]
    births: list[tuple[int, Version]]
    placed: dict[object, int]


def analyse(program: list[Instruction], renames: bool = False) -> Dependencies:
    """Return the dependencies of a program."""
    return _Analysis(program, renames).graph


class _Analysis:
    def __init__(self, program: list[Instruction], renames: bool) -> None:
        count = len(program)
        self.program = program
        self._renames = renames
        self.graph = Dependencies(
            [[] for _ in range(count)], [0] * count, [[] for _ in range(count)], [], {SBUF: 0, PSUM: 0}
        )
        self._prepare()
        self._ordered: dict[engine, int] = {}
        self._run()

    def _prepare(self) -> None:
        """Determine how each allocation is written, and divide it into units accordingly."""
        self._read = {access[0] for instruction in self.program for access in instruction.reads}
        self._single: dict[Allocation, Unit] = {}  # tiles that consist of a single unit
        self._several: dict[Allocation, list[Unit]] = {}
        self._starts: dict[Allocation, list[int]] = {}
        self._hbm: dict[Allocation, _HbmTensor] = {}
        for allocation, places in self._written().items():
            if allocation.region is SBUF or allocation.region is PSUM:
                self._divide(allocation, places)
            elif allocation in self._read:
                self._hbm[allocation] = _HbmTensor(max(a.high for a in places))

    def _written(self) -> dict[Allocation, list[Access]]:
        """Return the distinct regions of each allocation that are written. Usually there is only one."""
        written: dict[Allocation, list[Access]] = {}
        regions: set[tuple[Allocation, int, int, int, int, int]] = set()
        for access in (access for instruction in self.program for access in instruction.writes):
            places = written.get(access[0])
            if places is None:
                written[access[0]] = [access]
                continue
            first = places[0]
            if access[1:5] == first[1:5] and access[7] == first[7]:
                continue
            key = (access[0], access[1], access[2], access[3], access[4], access[7])
            if key not in regions:
                regions.add(key)
                places.append(access)
        return written

    def _divide(self, allocation: Allocation, places: list[Access]) -> None:
        """Divide a tile on the chip into units: one for each region that is written separately."""
        if allocation.placed:
            self.graph.placed[allocation.region] = allocation.row_bytes
        if len(places) == 1:
            self._single[allocation] = Unit(allocation, allocation.row_bytes, uniform=True)
            return
        ranges = sorted(places, key=lambda a: a.byte)
        apart = all(a.byte_end <= b.byte and not b.step for a, b in pairwise(ranges)) and not ranges[0].step
        if apart and allocation.region is SBUF and not allocation.placed:
            self._several[allocation] = [Unit(allocation, a.byte_end - a.byte, uniform=True) for a in ranges]
            self._starts[allocation] = [a.byte for a in ranges]
        else:
            self._single[allocation] = Unit(allocation, allocation.row_bytes, uniform=False)

    def _run(self) -> None:
        single = self._single
        for index, instruction in enumerate(self.program):
            uses = self.graph.uses[index]
            for access in instruction.reads:
                unit = single.get(access[0])
                if unit is not None:
                    self._read_unit(unit, index, access, uses)
                else:
                    self._read_parts(index, access, uses)
            for access in instruction.writes:
                unit = single.get(access[0])
                if unit is not None:
                    self._write_unit(unit, index, access, instruction, uses)
                else:
                    self._write_parts(index, access, instruction, uses)
            self._wait_in_order(index, instruction)
            for version in uses:
                version.left += 1

    def _read_parts(self, index: int, access: Access, uses: list[Version]) -> None:
        """Read a tile that consists of several units, or a tensor in HBM."""
        for unit in self._touched(access):
            self._read_unit(unit, index, access, uses)
        if access[0] in self._hbm:
            self._read_hbm(index, access)

    def _write_parts(self, index: int, access: Access, instruction: Instruction, uses: list[Version]) -> None:
        """Write to a tile that consists of several units, or to a tensor in HBM."""
        for unit in self._touched(access):
            self._write_unit(unit, index, access, instruction, uses)
        if access[0] in self._hbm:
            self._write_hbm(index, access)

    def _wait_in_order(self, index: int, instruction: Instruction) -> None:
        """Add the dependencies that do not come from accesses: explicit ones, and the order on an engine."""
        for producer in instruction.after:
            self._wait(index, producer.index, RAW)
        if instruction.ordered:
            before = self._ordered.get(instruction.engine)
            if before is not None:
                self._wait(index, before, ORDER)
            self._ordered[instruction.engine] = index

    def _wait(self, index: int, producer: int, kind: int) -> None:
        if producer != index:
            self.graph.successors[producer].append(index * 4 + kind)
            self.graph.waits[index] += 1

    def _touched(self, access: Access) -> Sequence[Unit]:
        """Return the units of a tile on the chip that an access overlaps."""
        units = self._several.get(access.allocation)
        if units is None:
            return ()
        starts = self._starts[access.allocation]
        first = max(0, bisect_right(starts, access.byte) - 1)
        if access.byte >= starts[first] + units[first].size:
            first += 1
        end = first
        while end < len(units) and starts[end] < access.byte_end:
            end += 1
        return units[first:end]

    def _new_version(self, unit: Unit, index: int) -> Version:
        version = unit.version = Version(unit.size, unit.psum)
        self.graph.births.append((index, version))
        return version

    def _use(self, unit: Unit, index: int, uses: list[Version]) -> None:
        version = unit.version
        if version is None and not unit.placed:
            version = self._new_version(unit, index)
        if version is not None and version not in uses:
            uses.append(version)

    def _read_unit(self, unit: Unit, index: int, access: Access, uses: list[Version]) -> None:
        version = unit.version
        if version is None or version not in uses:
            self._use(unit, index, uses)
        if unit.uniform:
            writer = unit.writer
            if writer >= 0:
                if writer != index:
                    self.graph.successors[writer].append(index * 4)  # RAW
                    self.graph.waits[index] += 1
                unit.readers.append(index)
            return
        successors = self.graph.successors
        for segment in unit.touched(access):
            if segment.writer != index:
                successors[segment.writer].append(index * 4)  # RAW
                self.graph.waits[index] += 1
            segment.readers.append(index)

    def _write_unit(
        self, unit: Unit, index: int, access: Access, instruction: Instruction, uses: list[Version]
    ) -> None:
        fresh = (
            (unit.uniform or access.covers)
            and (unit.version is None or (self._renames and not unit.psum))
            and not (unit.placed or instruction.ordered)
            and not _reads(instruction, access)
        )
        if fresh:
            uses.append(self._new_version(unit, index))
        else:
            self._use(unit, index, uses)
        if unit.uniform:
            if not fresh and unit.writer >= 0:
                self._await(index, unit.writer, unit.readers)
            unit.writer = index
            unit.readers = []
        else:
            self._write_segment(unit, index, access, fresh)

    def _write_segment(self, unit: Unit, index: int, access: Access, fresh: bool) -> None:
        remaining = []
        for segment in () if fresh else unit.segments:
            if segment.access.overlaps(access):
                self._await(index, segment.writer, segment.readers)
                if contains(access, segment.access):
                    continue
            remaining.append(segment)
        remaining.append(Segment(access, index))
        unit.replace(remaining)

    def _await(self, index: int, writer: int, readers: list[int]) -> None:
        """Make a write to a region wait for the region's previous readers and writer."""
        if index not in readers:  # otherwise, it also reads the region and therefore already waits for the writer
            self._wait(index, writer, WAW)
        for reader in readers:
            self._wait(index, reader, WAR)

    def _read_hbm(self, index: int, access: Access) -> None:
        tensor = self._hbm[access.allocation]
        for segment in tensor.overlapping(access):
            self._wait(index, segment.writer, RAW)
            segment.readers.append(index)
        tensor.readers_since(access, index)

    def _write_hbm(self, index: int, access: Access) -> None:
        tensor = self._hbm[access.allocation]
        for segment in tensor.overlapping(access):
            readers = [r for r in segment.readers if any(read.overlaps(access) for read in self.program[r].reads)]
            self._await(index, segment.writer, readers)
        for reader in tensor.unwritten_readers(access):
            self._wait(index, reader, WAR)
        tensor.add(Segment(access, index))


def _reads(instruction: Instruction, written: Access) -> bool:
    """Return True if an instruction reads the region that it writes."""
    return any(read[0] is written[0] and read.overlaps(written) for read in instruction.reads)


def contains(outer: Access, inner: Access) -> bool:
    """Return True if a write to `outer` overwrites all of `inner`."""
    same_comb = (
        outer.step == inner.step
        and outer.run == inner.run
        and (not outer.step or (inner.byte - outer.byte) % outer.step == 0)
    )
    return (
        (not outer.step or same_comb)
        and outer.row <= inner.row
        and inner.row_end <= outer.row_end
        and outer.byte <= inner.byte
        and inner.byte_end <= outer.byte_end
    )


class _HbmTensor:
    """The writes to an HBM tensor that the program also reads; they can be searched by address."""

    def __init__(self, size: int) -> None:
        self._step = max(1, -(-size // BUCKETS))
        self._buckets: list[list[Segment]] = [[] for _ in range(BUCKETS + 1)]
        self._readers: list[
            tuple[Access, int]
        ] = []  # reads of data that the kernel did not write (such as an argument that it updates later)

    def _range(self, access: Access) -> range:
        last = min(BUCKETS, (access.high - 1) // self._step)
        return range(min(BUCKETS, access.low // self._step), last + 1)

    def overlapping(self, access: Access) -> list[Segment]:
        places = self._range(access)
        if len(places) == 1:
            return [s for s in self._buckets[places[0]] if s.access.overlaps(access)]
        segments = {id(s): s for bucket in places for s in self._buckets[bucket]}
        return [s for s in segments.values() if s.access.overlaps(access)]

    def readers_since(self, access: Access, index: int) -> None:
        if access.allocation.argument:
            self._readers.append((access, index))

    def unwritten_readers(self, access: Access) -> list[int]:
        return [index for read, index in self._readers if read.overlaps(access)]

    def add(self, segment: Segment) -> None:
        access = segment.access
        for index in self._range(access):
            bucket = self._buckets[index]
            bucket[:] = [s for s in bucket if not (s.access.pitch == access.pitch and contains(access, s.access))]
            bucket.append(segment)
