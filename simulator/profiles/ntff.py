"""Reader of raw profiles (NTFF), as far as their layout can be inferred from public files.

AWS does not document the format. It was inferred from public files of versions 5 and 6 (trn2) that were published
together with neuron-explorer's JSON of the same run, by comparing instructions. The header has 128 bytes: the first is
the version, and the next seven are the length of a message. The header is followed by the message in Protocol Buffers
encoding and by the payload, which consists of records of 16 bytes. The message describes the instructions of each
engine, with 64 bytes per instruction, and the location of the records of each core.

Every number is validated before use, since profiles come from other machines.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from .measured import MOST_BYTES, MOST_ROWS, MeasuredInstruction, MeasuredPacket, MeasuredRun, ProfileError

VERSIONS = (5, 6)
_ENGINES = ("tensor", "scalar", "gpsimd", "vector", "sync")  # engine numbers in the file
HEADER_BYTES = 128
INSTRUCTION_BYTES = 64
LATEST_PS = 3_600_000_000_000_000  # one hour, longer than any kernel
_RECORD = struct.Struct("<HBBIQ")  # identity, unused, type, payload, time in picoseconds
_INSTRUCTIONS, _DMA = 0, 4  # kinds of sections
_FIRST_INSTRUCTION, _FIRST_DMA, _LAST_DMA = 0x84, 0x80, 0x9F  # types of records
_START, _END = 0, 1  # kinds of instruction records, for each engine
_READ_BEGINS, _READ_DONE = 1, 5  # kinds of records of DMA elements
_RUNTIME_RING = 14
_FIRST_DMA_ENGINE = 64
_MATMUL, _NOTIFY, _WAIT, _NOP, _DMA_TRIGGER = 0x02, 0xA6, 0xA0, 0xA4, 0xB8
_MARKERS = {2: "first", 3: "last"}  # markers of a run, set by NOTIFY instructions of the runtime
_AT_LEAST, _INCREMENTS = 5, 0x13  # codes of the semaphore operations of an instruction
_OPCODES = {  # names from neuron-explorer's JSON of the same runs; other opcodes are identified by number
    0x01: "LDWEIGHTS",
    _MATMUL: "MATMUL",
    0x21: "ACTIVATE",
    0x23: "ACT_TABLE_LOAD",
    0x41: "TENSOR_TENSOR",  # inferred from the kernels that use it
    0x42: "TENSOR_REDUCE",
    0x43: "TENSOR_SCALAR",
    0x46: "COPY",
    0x47: "CAST",
    0x48: "RECIPROCAL",
    0x49: "MEMSET",  # inferred from the kernels that use it
    _WAIT: "EVENT_SEMAPHORE",
    0xA2: "DRAIN",
    _NOP: "NOP",
    0xA5: "WRITE",
    _NOTIFY: "NOTIFY",
    0xA9: "COMPARE_BRANCH",
    0xAA: "TENSOR_LOAD",
    0xB0: "EVENT_SEMAPHORE_RANGE_CLEAR",
    0xB1: "SET_ORDERING_MODE",
    _DMA_TRIGGER: "DMA_DIRECT2D",
}


class _Message(Mapping[int, "list[int | bytes]"]):
    """The fields of a Protocol Buffers message. Each field number maps to the values of the field, in order."""

    def __init__(self, data: bytes, where: str) -> None:
        self.where = where
        self._fields: dict[int, list[int | bytes]] = {}
        at = 0
        while at < len(data):
            key, at = self._varint(data, at)
            value, at = self._value(data, at, key & 7)
            self._fields.setdefault(key >> 3, []).append(value)

    def _value(self, data: bytes, at: int, kind: int) -> tuple[int | bytes, int]:
        """Return the value of a field and the position after it."""
        if kind == 0:
            return self._varint(data, at)
        if kind == 2:
            size, at = self._varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ProfileError(f"{self.where}: damaged: the kind of each field must be 0, 1, 2 or 5, got {kind}")
        if size > len(data) - at:
            left = len(data) - at
            raise ProfileError(f"{self.where}: truncated: a field has {size:,} bytes, but only {left:,} bytes remain")
        return data[at : at + size], at + size

    def _varint(self, data: bytes, at: int) -> tuple[int, int]:
        value = 0
        for shift in range(0, 64, 7):
            if at >= len(data):
                break
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value, at
        raise ProfileError(f"{self.where}: damaged: an unterminated number")

    def __getitem__(self, number: int) -> list[int | bytes]:
        return self._fields[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def number(self, field: int) -> int:
        """Return the value of an integer field, or 0 if the message does not contain it."""
        value = self.get(field, [0])[0]
        if not isinstance(value, int):
            raise ProfileError(f"{self.where}: damaged: field {field} is not an integer")
        return value

    def bytes_of(self, field: int) -> bytes:
        """Return the bytes of a text or message field, which are empty if the field is missing."""
        value = self.get(field, [b""])[0]
        return value if isinstance(value, bytes) else b""

    def messages(self, field: int) -> list[_Message]:
        return [_Message(value, self.where) for value in self.get(field, ()) if isinstance(value, bytes)]


class _Code(NamedTuple):
    """The instructions of an engine; those in [first, last) belong to the kernel."""

    base: int
    data: bytes
    first: int
    last: int

    def position(self, identity: int) -> int:
        """Return the index of the instruction whose address has these lower 16 bits, or -1 if there is none."""
        position = (identity - (self.base >> 6)) & 0xFFFF
        return position if (position + 1) * INSTRUCTION_BYTES <= len(self.data) else -1

    def at(self, position: int) -> bytes:
        return self.data[position * INSTRUCTION_BYTES : (position + 1) * INSTRUCTION_BYTES]


class _Execution(NamedTuple):
    """An executed instruction. Times are in picoseconds."""

    engine: int
    position: int
    code: bytes
    start: int
    end: int
    ours: bool


def read_ntff(path: Path, core: int) -> MeasuredRun:
    """Read the raw profile of one core of a logical core.

    Raise ProfileError with a one-line reason if it is invalid.
    """
    name = path.name
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise ProfileError(f"{name}: must be at most {MOST_BYTES:,} bytes, got {size:,}; export it as Parquet")
        data = path.read_bytes()
    except OSError as error:
        raise ProfileError(f"{name}: {error.strerror or error}") from None
    if len(data) < HEADER_BYTES:
        raise ProfileError(f"{name}: {len(data)} bytes; an NTFF has at least {HEADER_BYTES} bytes of header")
    if data[0] not in VERSIONS:
        raise ProfileError(
            f"{name}: the NTFF version must be {' or '.join(map(str, VERSIONS))}, got {data[0]}; export it instead: "
            "neuron-explorer view -n FILE.neff -s FILE.ntff --output-format parquet --output-file FOLDER --ingest-only"
        )
    length = int.from_bytes(data[1:8], "little")
    if length > len(data) - HEADER_BYTES:
        raise ProfileError(f"{name}: truncated: a message of {length:,} bytes in a file of {len(data):,}")
    top = _Message(data[HEADER_BYTES : HEADER_BYTES + length], name)
    return _Reader(name, top, data[HEADER_BYTES + length :], data[0], core).run()


class _Reader:
    def __init__(self, name: str, top: _Message, payload: bytes, version: int, core: int) -> None:
        self.name, self.top, self.payload, self.version = name, top, payload, version
        prefix = f"sg{core:02}"
        cores = [
            subgraph
            for outer in top.messages(4)
            for inner in outer.messages(4)
            for subgraph in inner.messages(1)
            if subgraph.bytes_of(1).decode("ascii", "replace") == prefix
        ]
        if not cores:
            raise ProfileError(f"{name}: no instruction of core {core}")
        self.core = cores[0]
        self.codes = dict(self._codes())

    def run(self) -> MeasuredRun:
        executions = self._executions()
        begin, end = self._span(executions)
        instructions = self._instructions([e for e in executions if begin <= e.start and e.end <= end], begin)
        packets = self._packets(begin, end)
        missing = ["lines of the kernel"] if packets else ["DMA packets", "lines of the kernel"]
        instructions.sort(key=lambda instruction: (instruction.start_ns, instruction.end_ns))
        packets.sort(key=lambda packet: packet.start_ns)
        if not instructions:
            raise ProfileError(f"{self.name}: no instruction between the first and the last marker of the run")
        return MeasuredRun(self.name, (end - begin) // 1000, tuple(instructions), tuple(packets), tuple(missing))

    def _codes(self) -> Iterator[tuple[int, _Code]]:
        regions = {
            message.number(1): [(region.number(1), region.number(2)) for region in message.messages(2)]
            for message in self.core.messages(5)
        }
        for buffer in self.core.messages(4):
            engine = buffer.number(1)
            if self.version == VERSIONS[0]:
                data = buffer.bytes_of(3)
            else:
                data = self._section(buffer.number(7), buffer.number(8))
            engine_regions = regions.get(engine, [])
            first, last = (engine_regions[1][0], engine_regions[-1][0]) if len(engine_regions) > 2 else (0, 0)
            yield engine, _Code(buffer.number(2), data, first // INSTRUCTION_BYTES, last // INSTRUCTION_BYTES)

    def _section(self, offset: int, size: int) -> bytes:
        if offset + size > len(self.payload):
            raise ProfileError(
                f"{self.name}: truncated: {size:,} bytes at {offset:,} of a payload of {len(self.payload):,}"
            )
        return self.payload[offset : offset + size]

    def _records(self, kind: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield (identity, type, payload, picoseconds) for each record of a kind."""
        sections = self.core.messages(6) if self.version == VERSIONS[0] else self.top.messages(16)
        number, count = self.core.number(3), 0
        for section in sections:
            if section.number(1) != kind or (self.version != VERSIONS[0] and section.number(7) != number):
                continue
            data = self._section(section.number(5), section.number(6))
            for identity, _, record_kind, payload, time in _RECORD.iter_unpack(data[: len(data) // 16 * 16]):
                count += 1
                if count > MOST_ROWS:
                    raise ProfileError(f"{self.name}: contains more than {MOST_ROWS:,} records of one kind")
                yield identity, record_kind, payload, time

    def _executions(self) -> list[_Execution]:
        """Return every instruction with a recorded start and end, sorted by start time."""
        starts: dict[tuple[int, int], deque[int]] = {}
        executions = []
        records = sorted(self._records(_INSTRUCTIONS), key=lambda record: record[3])
        for identity, record_kind, _, time in records:
            engine, event = divmod(record_kind - _FIRST_INSTRUCTION, 4)
            code = self.codes.get(engine)
            if code is None or event not in (_START, _END) or not 0 <= engine < len(_ENGINES):
                continue
            if event == _START:
                starts.setdefault((engine, identity), deque()).append(time)
            elif starts.get((engine, identity)):
                start, position = starts[engine, identity].popleft(), code.position(identity)
                if position >= 0:
                    ours = code.first <= position < code.last
                    executions.append(_Execution(engine, position, code.at(position), start, time, ours))
        return sorted(executions, key=lambda e: (e.start, e.end))

    def _span(self, executions: list[_Execution]) -> tuple[int, int]:
        """Return the times of the first and the last marker of the run in picoseconds, as neuron-explorer does."""
        for run in self.top.messages(15):
            begin, end = run.number(2), run.number(3)
            if 0 < begin < end <= begin + LATEST_PS:
                return begin, end
        marks: dict[int, list[int]] = {marker: [] for marker in _MARKERS}
        for e in executions:
            if e.code[0] == _NOTIFY:
                for marker in {e.code[36], e.code[40]} & set(marks):
                    marks[marker].append((e.start + e.end) // 2)
        first, last = marks.values()
        if not first or not last or max(last) <= min(first):
            raise ProfileError(f"{self.name}: contains no markers of the start and the end of a run")
        if max(last) - min(first) > LATEST_PS:
            raise ProfileError(f"{self.name}: the run takes more than an hour")
        return min(first), max(last)

    def _instructions(self, executions: list[_Execution], begin: int) -> list[MeasuredInstruction]:
        after = _waited_for(executions)
        return [
            MeasuredInstruction(
                id=number,
                engine=_ENGINES[e.engine],
                opcode=_opcode(e.code),
                start_ns=(e.start - begin) // 1000,
                end_ns=(e.end - begin) // 1000,
                after=after.get(number, ()),
                line="",
                ours=e.ours and e.code[0] != _NOP,
            )
            for number, e in enumerate(executions)
        ]

    def _packets(self, begin: int, end: int) -> list[MeasuredPacket]:
        """Return the elements for which both the start and the end of the read were recorded."""
        makers = {(q.number(1), q.number(2)): _maker(q.bytes_of(4)) for q in self.core.messages(7)}
        starts: dict[tuple[int, int], deque[int]] = {}
        packets = []
        for identity, record_kind, payload, time in sorted(self._records(_DMA), key=lambda record: record[3]):
            engine, event, ring = record_kind - _FIRST_DMA, payload & 15, payload >> 4 & 15
            if not _FIRST_DMA <= record_kind <= _LAST_DMA or ring == _RUNTIME_RING or not begin <= time <= end:
                continue
            if event == _READ_BEGINS:
                starts.setdefault((engine, ring), deque()).append(time)
            elif event == _READ_DONE and starts.get((engine, ring)):
                start = starts[engine, ring].popleft()
                maker = makers.get((engine + _FIRST_DMA_ENGINE, ring), "prepared")
                packets.append(MeasuredPacket(engine, maker, (start - begin) // 1000, (time - begin) // 1000, identity))
        return packets


def _opcode(code: bytes) -> str:
    if code[0] == _MATMUL and code[34]:
        return "TRANSPOSE"
    return _OPCODES.get(code[0], f"OPCODE_{code[0]:02X}")


def _maker(queue: bytes) -> str:
    """Return the origin of a queue's descriptors: hardware (qSPDynamicHW), software (qPoolDynamic) or prepared."""
    if b"Dynamic" not in queue:
        return "prepared"
    return "hardware" if queue.endswith(b"HW") else "software"


def _semaphore_values(executions: list[_Execution]) -> dict[int, list[tuple[int, int]]]:
    """Return the values of each semaphore over time, as pairs of a value and the instruction that set it."""
    raised: dict[int, list[tuple[int, int]]] = {}
    for number, e in sorted(enumerate(executions), key=lambda item: item[1].end):
        if not e.ours:
            continue
        if e.code[0] == _DMA_TRIGGER:
            semaphore, by = e.code[13], int.from_bytes(e.code[14:16], "little")
        elif e.code[6] == _INCREMENTS:
            semaphore, by = e.code[7], 1
        else:
            continue
        values = raised.setdefault(semaphore, [])
        values.append((values[-1][0] + by if values else by, number))
    return raised


def _waited_for(executions: list[_Execution]) -> dict[int, tuple[int, ...]]:
    """Return the instructions for which each instruction waited, according to its semaphores.

    An instruction waits for at most one semaphore; additional waits are separate instructions that precede it.
    """
    raised = _semaphore_values(executions)
    after: dict[int, tuple[int, ...]] = {}
    pending: dict[int, list[int]] = {}
    for number, e in enumerate(executions):
        waits = pending.setdefault(e.engine, [])
        if e.ours and e.code[4] == _AT_LEAST:
            value = int.from_bytes(e.code[8:12], "little")
            enough = (event for reached, event in raised.get(e.code[5], ()) if reached >= value)
            event = next(enough, None)
            if event is not None and executions[event].start < e.end:
                waits.append(event)
        if e.code[0] != _WAIT:
            after[number], pending[e.engine] = tuple(waits), []
    return after
