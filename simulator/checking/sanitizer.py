"""Detect faults in a running kernel that neither violate the limits of the machine nor affect the computed values.

    uninitialised   an instruction reads memory that has not been written
    overlap         elements of a tensor were last written through another tensor at overlapping addresses
    dead store      an instruction writes to a tile, and none of the values are read before the kernel ends
    lost            values are overwritten before they have been read
    not begun       a matmul accumulates into a sum that was not started by a matmul
    resumed         a matmul without `accumulate` adds to a sum that has already been read
    cut short       a sum of matmuls uses only some of the partitions that were written in the columns of an operand
    unwritten       the kernel returns elements that have never been written
    clobbered       an instruction overwrites elements before it has read them
    race            both cores access an element, at least one writes to it, and no barrier separates the accesses

Every tensor has a shadow that records the last writer of each element, and whether the element has been read since.
Within one core, the compiler orders instructions according to their reads and writes, so there are no races.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..machine.chip import PARTITIONS
from ..machine.dtypes import Array
from ..machine.instruction import Instruction, engine
from ..machine.memory import MemoryRegion, Storage
from ..machine.psum_writes import LastWriter
from ..tensors.tensor import IndirectTensor, NkiTensor

KINDS = (
    "uninitialised",
    "overlap",
    "dead store",
    "lost",
    "not begun",
    "resumed",
    "cut short",
    "unwritten",
    "clobbered",
    "race",
)
_NEVER, _ARGUMENT = 0, 1  # writers; instructions are numbered from 2 on


class SanitizerFinding(NamedTuple):
    """A fault.

    `line` is its location; `other` is the location of the other instruction involved, or "" if there is none.
    """

    kind: str
    line: str
    other: str
    bytes: int
    why: str

    def __str__(self) -> str:
        size = f" ({self.bytes} bytes)" if self.bytes else ""
        return f"{self.line}: {self.kind}: {self.why}{size}"


class Shadow:
    """The state of each element of a storage, or of each byte of the memory that placed tensors share."""

    __slots__ = ("grain", "label", "partitions", "read_epoch", "tensor", "unread", "write_epoch", "writer")

    def __init__(self, count: int, grain: int, label: str, partitions: int, placed: bool, shared: bool) -> None:
        self.grain = grain  # bytes per entry
        self.partitions = partitions
        self.label = label
        self.writer = np.zeros(count, np.int32)
        self.unread = np.zeros(count, bool)
        # number of the tensor through which each element was last written
        self.tensor = np.zeros(count, np.int32) if placed else None
        self.write_epoch = [np.zeros(count, np.int32) for _ in range(2)] if shared else None
        self.read_epoch = [np.zeros(count, np.int32) for _ in range(2)] if shared else None


class _Part(NamedTuple):
    """An operand of a sum of matmuls, each of which reads only some of its partitions."""

    label: str
    line: str
    others: set[int]  # partitions that at least one matmul of the sum skips
    used: set[int]


class Sanitizer:
    """An observer that examines every instruction of a launch, on one or two cores, and collects findings."""

    def __init__(self) -> None:
        self.findings: list[SanitizerFinding] = []
        self._known: set[tuple[str, str, str]] = set()
        self._seen: list[tuple[int, Instruction]] = []  # (core, instruction) in the order of writer numbers
        self._epochs = [1, 1]  # number of barriers that each core has passed, plus 1
        self._shadows: list[Shadow] = []
        self._on_chip: list[Shadow] = []  # tiles placed by the compiler; they may be freed before the kernel ends
        self._idle: set[int] = set()  # writers that are matmuls of constants
        self._copies: set[int] = set()  # writers that copy values of which a kernel may read any part
        self._tensors = 0
        self._sources: dict[int, list[tuple[tuple[int, int], range]]] = {}  # operands by writer number
        self._taken: dict[int, dict[tuple[int, int], _Part]] = {}  # keyed by the shadows of the sum and of the operand

    def see(self, rank: int, instruction: Instruction, writes: tuple[Any, ...], reads: tuple[Any, ...]) -> None:
        """Record an instruction. Called when it is issued, before its values are computed."""
        self._seen.append((rank, instruction))
        if instruction.op == "nc_matmul" and all(self._is_written_by(tensor, _FILLS) for tensor in reads[:2]):
            self._idle.add(len(self._seen) + 1)
        if instruction.op == "core_barrier":
            self._epochs[rank] += 1
            return
        if instruction.op == "nc_matmul":
            self._operands(instruction, writes[0], reads[:2])
        elif instruction.engine is not engine.dma:
            self._sources[len(self._seen) + 1] = [self._columns(t) for t in reads if isinstance(t, NkiTensor)]
        if instruction.op == "tensor_copy" and self._is_written_by(reads[0], _CUT_AT_WILL):
            self._copies.add(len(self._seen) + 1)
        for tensor in reads:
            self._read(rank, instruction, tensor)
        for tensor in writes:
            self._write(rank, instruction, tensor)

    def accumulates(self, instruction_line: tuple[str, int], dst: Any, found: LastWriter) -> None:
        """Report a matmul with accumulate=True whose tile was not completely written by a first matmul."""
        line = _place(instruction_line)
        self._find("not begun", line, "", dst.size * dst._dtype.itemsize, f"{dst.label}: {found.value}")

    def resumes(self, instruction_line: tuple[str, int], dst: Any) -> None:
        """Check a matmul without accumulate= that adds to a tile last written by matmuls."""
        shadow = self._shadow(dst.storage)
        if not _entries(shadow.unread, dst, shadow.grain).any():
            last = int(_entries(shadow.writer, dst, shadow.grain).max())
            message = "a sum that was already read: accumulate=False starts a new sum, True continues it"
            why = f"nc_matmul adds to {dst.label}, {message}"
            self._find("resumed", _place(instruction_line), self._line(last), dst.size * dst._dtype.itemsize, why)

    def clobbers(self, instruction_line: tuple[str, int], dst: Any, why: str) -> None:
        """Report an instruction that overwrites elements of `dst` before reading them (see `overlap.py`)."""
        self._find("clobbered", _place(instruction_line), "", dst.size * dst._dtype.itemsize, why)

    def argument(self, tensor: NkiTensor) -> None:
        """Record a tensor whose values are provided by the caller."""
        shadow = self._shadow(tensor.storage)
        shadow.writer[:] = _ARGUMENT

    def finish(self, returned: list[NkiTensor]) -> None:
        """Complete the checks. Called after the kernel has returned these tensors."""
        for tensor in returned:
            shadow = self._shadow(tensor.storage)
            missing = int((_entries(shadow.writer, tensor, shadow.grain) == _NEVER).sum())
            if missing:
                why = f"{tensor.label} is returned, but parts of it were never written"
                self._find("unwritten", tensor.storage.line, "", missing * shadow.grain, why)
        for shadow in self._shadows:
            self._summed(shadow)
        for shadow in self._on_chip:
            self._unread(shadow)

    def _unread(self, shadow: Shadow) -> None:
        """Report instructions whose results in a tile were never read."""
        waiting = shadow.unread & (shadow.writer > _ARGUMENT)
        for last in np.unique(shadow.writer[waiting]).tolist():
            is_own = shadow.writer == last
            _, instruction = self._seen[last - 2]
            if (is_own & ~shadow.unread).any() or self._is_for_something_else(last, instruction):
                continue
            why = f"nothing reads the values that {instruction.op} writes to {shadow.label}"
            self._find("dead store", _place(instruction.line), "", int(is_own.sum()) * shadow.grain, why)

    def _is_for_something_else(self, number: int, instruction: Instruction) -> bool:
        """Return True for instructions that may have a purpose although their result is not read.

        Such instructions are fills, instructions with additional outputs or with accumulator registers, and matmuls of
        constants, which keep the Tensor Engine warm.
        """
        following = [entry for rank, entry in self._seen[number - 1 : number + 1] if rank == self._seen[number - 2][0]]
        accumulates = any(entry.op == "activation_read_accumulators" for entry in following)
        return instruction.op in _FILLS or len(instruction.writes) > 1 or accumulates or number in self._idle

    # Instructions

    def _is_written_by(self, tensor: Any, operations: tuple[str, ...]) -> bool:
        """Return True if only some operations, such as fills, have written a tensor."""
        if isinstance(tensor, IndirectTensor):
            return False
        shadow = self._shadow(tensor.storage)
        writers = np.unique(_entries(shadow.writer, tensor, shadow.grain)).tolist()
        return all(w > _ARGUMENT and self._seen[w - 2][1].op in operations for w in writers)

    def _operands(self, instruction: Instruction, dst: Any, operands: tuple[Any, ...]) -> None:
        """Record which partitions a sum reads from operands that have more partitions."""
        sources = self._taken.setdefault(id(self._shadow(dst.storage)), {})
        for tensor in operands:
            shadow = self._shadow(tensor.storage)
            if tensor.storage.arena is not None or isinstance(tensor, IndirectTensor):
                continue
            (_, first), rows = self._columns(tensor)
            last = int(_entries(shadow.writer, tensor, shadow.grain).max())
            # reading a copy counts as reading everything from which it was copied
            for column, some in ((id(shadow), first), rows), *self._sources.get(last, ()):
                if column in sources:
                    sources[column].used.update(some)
            writers = shadow.writer.reshape(shadow.partitions, -1)[:, first]
            others = {row for row in np.flatnonzero(writers > _ARGUMENT).tolist() if row not in rows}
            if others and any(
                self._seen[w - 2][1].op not in _CUT_AT_WILL and w not in self._copies
                for w in {int(writers[row]) for row in others}
            ):
                part = sources.setdefault(
                    (id(shadow), first), _Part(tensor.label, _place(instruction.line), others, set())
                )
                part.used.update(rows)

    def _columns(self, tensor: NkiTensor) -> tuple[tuple[int, int], range]:
        """Return two items: the ID of the shadow of a tensor with the tensor's first column in it, and the tensor's
        partitions."""
        shadow = self._shadow(tensor.storage)
        first = tensor.offset % tensor.row * tensor._dtype.itemsize // shadow.grain
        return (id(shadow), first), range(tensor.access.row, tensor.access.row_end)

    def _summed(self, shadow: Shadow) -> None:
        """Complete a sum: it will not read any more partitions of its operands."""
        for part in self._taken.pop(id(shadow), {}).values():
            left = part.others - part.used
            if left:
                why = (
                    f"the sum uses {len(part.used)} partitions of {part.label}, whose columns contain {len(left)} more"
                )
                self._find("cut short", part.line, "", len(left), why)

    def _read(self, rank: int, instruction: Instruction, tensor: Any) -> None:
        shadow = self._shadow(tensor.storage)
        if instruction.engine is not engine.tensor and id(shadow) in self._taken:
            self._summed(shadow)
        if isinstance(tensor, IndirectTensor):
            table = tensor._table()
            _entries(shadow.unread, table, shadow.grain)[...] = False
            return
        line = _place(instruction.line)
        writer = _entries(shadow.writer, tensor, shadow.grain)
        never = writer == _NEVER
        if never.any():
            why = f"{instruction.op} reads {tensor.label}, parts of which were never written"
            self._find("uninitialised", line, "", int(never.sum()) * shadow.grain, why)
        if shadow.tensor is not None:
            others = (_entries(shadow.tensor, tensor, shadow.grain) != tensor.storage.number) & ~never
            if others.any():
                last = int(writer[others].max())
                why = (
                    f"{instruction.op} reads {tensor.label}, part of which {self._shown(last)} has overwritten with "
                    f"another tensor"
                )
                self._find("overlap", line, self._line(last), int(others.sum()), why)
        _entries(shadow.unread, tensor, shadow.grain)[...] = False
        self._race(rank, instruction, tensor, shadow, writes=False)

    def _write(self, rank: int, instruction: Instruction, tensor: Any) -> None:
        shadow = self._shadow(tensor.storage)
        if isinstance(tensor, IndirectTensor):
            table = tensor._table()
            _entries(shadow.writer, table, shadow.grain)[...] = len(self._seen) + 1
            _entries(shadow.unread, table, shadow.grain)[...] = False
            return
        writer = _entries(shadow.writer, tensor, shadow.grain)
        unread = _entries(shadow.unread, tensor, shadow.grain)
        if 0 not in tensor.strides:
            self._lost(rank, instruction, tensor, shadow, writer, unread)
        self._race(rank, instruction, tensor, shadow, writes=True)
        writer[...] = len(self._seen) + 1
        unread[...] = True
        if shadow.tensor is not None:
            _entries(shadow.tensor, tensor, shadow.grain)[...] = tensor.storage.number

    def _lost(
        self, rank: int, instruction: Instruction, tensor: Any, shadow: Shadow, writer: Array, unread: Array
    ) -> None:
        """Report values that are overwritten before they are read.

        The write must overlap another tensor, or cover everything that an earlier instruction wrote.
        """
        lost = unread & (writer > _ARGUMENT)
        if not lost.any():
            return
        last = int(writer[lost].max())
        core, before = self._seen[last - 2]
        if core != rank:
            return  # either a race, or ordered by a barrier
        if shadow.tensor is not None:
            others = lost & (_entries(shadow.tensor, tensor, shadow.grain) != tensor.storage.number)
            if others.any():
                last = int(writer[others].max())
                why = (
                    f"{instruction.op} overwrites unread values of another tensor with {tensor.label}; they were "
                    f"written by {self._shown(last)}"
                )
                self._find("lost", _place(instruction.line), self._line(last), int(others.sum()), why)
                return
        if before.op in _FILLS or len(before.writes) > 1 or not lost.all() or int(writer.min()) != last:
            return
        why = (
            f"{instruction.op} overwrites {tensor.label} before anything has read the values written by "
            f"{self._shown(last)}"
        )
        self._find("lost", _place(instruction.line), self._line(last), int(lost.sum()) * shadow.grain, why)

    def _race(self, rank: int, instruction: Instruction, tensor: Any, shadow: Shadow, writes: bool) -> None:
        if shadow.write_epoch is None or shadow.read_epoch is None:
            return
        epoch, other = self._epochs[rank], 1 - rank
        clash = _entries(shadow.write_epoch[other], tensor, shadow.grain) == epoch
        if writes:
            clash = clash | (_entries(shadow.read_epoch[other], tensor, shadow.grain) == epoch)
        if clash.any():
            writer = _entries(shadow.writer, tensor, shadow.grain)
            last = int(writer[clash].max())
            action = "writes" if writes else "reads"
            why = (
                f"core {rank}'s {instruction.op} {action} {tensor.label}, which core {other} uses too "
                f"({self._shown(last)} wrote it last), without a barrier between them"
            )
            self._find("race", _place(instruction.line), self._line(last), int(clash.sum()) * shadow.grain, why)
        mine = shadow.write_epoch if writes else shadow.read_epoch
        _entries(mine[rank], tensor, shadow.grain)[...] = epoch

    # Shadows and lines

    def _shadow(self, storage: Storage) -> Shadow:
        if storage.shadow is None:
            self._tensors += 1
            storage.number = self._tensors
            if storage.arena is not None:
                arena = storage.arena
                if arena.shadow is None:
                    arena.shadow = Shadow(
                        PARTITIONS * arena.row_bytes, 1, "placed tensors", PARTITIONS, placed=True, shared=False
                    )
                storage.shadow = arena.shadow
            else:
                shared = storage.region is MemoryRegion.shared_hbm
                storage.shadow = Shadow(
                    storage.size, storage.dtype.itemsize, storage.label, storage.shape[0], placed=False, shared=shared
                )
                self._shadows.append(storage.shadow)
                if storage.on_chip:
                    self._on_chip.append(storage.shadow)
        shadow: Shadow = storage.shadow
        return shadow

    def _line(self, writer: int) -> str:
        return _place(self._seen[writer - 2][1].line) if writer > _ARGUMENT else ""

    def _shown(self, writer: int) -> str:
        if writer <= _ARGUMENT:
            return "the caller" if writer else "nothing"
        rank, instruction = self._seen[writer - 2]
        return f"{instruction.op} of {_place(instruction.line)} on core {rank}"

    def _find(self, kind: str, line: str, other: str, size: int, why: str) -> None:
        if (kind, line, other) not in self._known:
            self._known.add((kind, line, other))
            self.findings.append(SanitizerFinding(kind, line, other, size, why))


_FILLS = ("memset", "iota", "full")  # not reported if overwritten unread: kernels often clear tiles first
_CUT_AT_WILL = (*_FILLS, "shared_identity_matrix")  # a kernel may also read only part of an identity matrix


def _place(line: tuple[str, int]) -> str:
    return f"{line[0]}:{line[1]}"


def _entries(entries: Array, tensor: Any, grain: int) -> Array:
    """Return the entries for the elements of a view, as a view of the flat array with an additional axis for the
    entries of each element."""
    storage, size = tensor.storage, tensor._dtype.itemsize
    strides, offset = [stride * size for stride in tensor.strides], tensor.offset * size
    if storage.arena is not None:
        partition, element = divmod(tensor.offset, tensor.row)
        offset = (storage.partition_base + partition) * storage.arena.row_bytes + storage.base + element * size
        strides[0] = storage.arena.row_bytes
    if size < grain:  # elements are smaller than an entry, so `grain // size` adjacent elements share an entry
        first = offset // grain
        return entries[first : first + max(1, tensor.size * size // grain)]
    item = entries.itemsize
    shape = (*tensor.shape, size // grain)
    found: Array = np.ndarray(
        shape, entries.dtype, entries, offset // grain * item, (*[s // grain * item for s in strides], item)
    )
    return found
