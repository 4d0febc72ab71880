"""Raw profiles (NTFF) with the fields of public ones that are read: two cores, four instructions, two DMA elements."""

from __future__ import annotations

import struct
from pathlib import Path

BASE = 0x8005C0410000  # of an engine's instructions
TICK = 1000  # picoseconds in a nanosecond
BEGIN = 5_000_000_000  # picoseconds of the clock at the beginning of the run
TENSOR, SCALAR, GPSIMD, VECTOR = 0, 1, 2, 3


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(number: int, value: int | bytes) -> bytes:
    """Encode a field of a message; if `value` is bytes, the field is a string or a nested message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def code(opcode: int, waits: tuple[int, int] = (0, 0), raises: int = 0, more: dict[int, int] | None = None) -> bytes:
    """Encode an instruction that waits for (semaphore, value) and then increments another semaphore."""
    data = bytearray(64)
    data[0] = opcode
    if waits[0]:
        data[4], data[5] = 5, waits[0]
        data[8:12] = waits[1].to_bytes(4, "little")
    if raises:
        data[6], data[7] = 0x13, raises
    for place, value in (more or {}).items():
        data[place] = value
    return bytes(data)


NOTIFY = 0xA6
# The runtime's instructions surround the kernel's; DMAs increment the semaphore in byte 13 by the number in byte 14.
CODES = {
    TENSOR: [code(NOTIFY, more={36: 2}), code(0x02, raises=5), code(0x02, raises=5, more={34: 1}), code(0x99)],
    VECTOR: [code(0xA2), code(0x46, waits=(5, 2), raises=6), code(NOTIFY, more={40: 3})],
    GPSIMD: [code(0xA2), code(0xA0, waits=(5, 1)), code(0xB8, waits=(6, 1), more={13: 8, 14: 16}), code(0xA2)],
}
# (engine, address of the instruction, nanoseconds from the beginning of the run, duration)
RAN = [
    (TENSOR, 0, -2, 4),
    (TENSOR, 1, 1000, 300),
    (TENSOR, 2, 1110, 272),
    (VECTOR, 1, 1420, 585),
    (GPSIMD, 1, 1340, 20),
    (GPSIMD, 2, 3198, 37),
    (VECTOR, 2, 6000, 4),
]
ELEMENTS = [(3, 1, 3831, 158, 4096), (3, 14, 3900, 20, 64)]  # DMA engine, ring, nanoseconds, duration, bytes


def record(identity: int, kind: int, payload: int, nanoseconds: int) -> bytes:
    return struct.pack("<HBBIQ", identity & 0xFFFF, 0, kind, payload, BEGIN + nanoseconds * TICK)


def made_ntff(version: int = 6, with_run: bool = True) -> bytes:
    """Return the bytes of a profile; core 1 is idle. `with_run`: the message contains the beginning and end of the
    run."""
    instructions = b""
    for engine, place, start, duration in RAN:
        identity = (BASE >> 6) + place
        instructions += record(identity, 0x84 + 4 * engine, 0, start)
        instructions += record(identity, 0x85 + 4 * engine, 0, start + duration)
    elements = b""
    for engine, ring, start, duration, size in ELEMENTS:
        elements += record(0, 0x80 + engine, ring << 4 | 1, start)
        elements += record(size, 0x80 + engine, ring << 4 | 5, start + duration)
    sections = [(0, instructions), (4, elements)]
    payload, buffers, regions = b"", b"", b""
    for engine, codes in CODES.items():
        data, last = b"".join(codes), 64 * (len(codes) - 1)
        where = field(3, data) if version == 5 else field(7, len(payload)) + field(8, len(data))
        payload += data if version != 5 else b""
        buffers += field(4, field(1, engine) + field(2, BASE) + where)
        own = field(2, field(1, 0) + field(2, 1)) + field(2, field(1, 64)) + field(2, field(1, last))
        regions += field(5, field(1, engine) + own)
    traces = b""
    for kind, data in sections:
        place = field(1, kind) + field(5, len(payload)) + field(6, len(data))
        traces += field(6, place) if version == 5 else field(16, place + field(7, 4))
        payload += data
    queues = field(7, field(1, 67) + field(2, 1) + field(4, b"qPoolDynamic"))
    core = field(1, b"sg00") + field(3, 4) + buffers + regions + queues + (traces if version == 5 else b"")
    other = field(1, b"sg01") + field(3, 5)
    message = field(1, b"made.neff") + field(4, field(4, field(1, core) + field(1, other)))
    message += b"" if version == 5 else traces
    if with_run:
        message += field(15, field(2, BEGIN) + field(3, BEGIN + 6002 * TICK))
    return bytes([version]) + len(message).to_bytes(7, "little") + bytes(120) + message + payload


def write_ntff(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path
