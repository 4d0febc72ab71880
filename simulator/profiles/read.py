"""Reader of profiles exported by neuron-explorer: whole profiles as JSON (up to SDK 2.33), or folders of Parquet files.

The fields are specified in tools/neuron-explorer/profile-schema-reference (aws-neuron-sdk). The reader uses the fields
start_ts and end_ts in nanoseconds, engine, opcode and nki_source_location of Instruction, and the same times and the
queue type of DmaPacket. In the JSON of public profiles (trn2, data_version 8), the fields are called timestamp,
duration, subgroup and queue_type, and each instruction lists its predecessors.

All contents are validated before use, since profiles come from other machines.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .measured import (
    ENGINES,
    MOST_BYTES,
    MOST_ROWS,
    MeasuredInstruction,
    MeasuredPacket,
    MeasuredRun,
    ProfileError,
)
from .ntff import read_ntff

LATEST_NS = 3_600_000_000_000  # one hour, longer than any kernel
_MAKERS = {"hardware_dynamic": "hardware", "software_dynamic": "software"}
_RUNTIME = frozenset(("NOTIFY", "DRAIN", "NOP", "COMPARE_BRANCH"))
_NAME = 80  # maximum length of a name
MIN_PARSED, EXPANSION = 512 << 20, 16  # memory limits for parsed JSON: the minimum, and the bytes per byte of text
OBJECT_BYTES, LIST_BYTES, VALUE_BYTES = 232, 88, 40  # approximate sizes in CPython


def read_profile(path: Path, core: int = 0) -> MeasuredRun:
    """Read the JSON of a whole profile, a folder of Parquet tables, or a raw NTFF file.

    Raises ProfileError with a one-line reason if the profile cannot be read.
    """
    if path.is_dir():
        return _run(path.name, _Parquet(path), core)
    if path.suffix == ".ntff":
        return read_ntff(path, core)
    if path.suffix == ".neff":
        raise ProfileError(
            f"{path.name}: this is a program, not a profile; pass the NTFF of a run, or an export of neuron-explorer"
        )
    if path.suffix == ".parquet":
        raise ProfileError(f"{path.name}: this is a single table of a profile; pass its folder instead")
    return _run(path.name, _Json(path), core)


class _Json:
    """The tables of a profile that is stored as one JSON object."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        try:
            size = path.stat().st_size
            if size > MOST_BYTES:
                raise ProfileError(
                    f"{self.name}: must be at most {MOST_BYTES:,} bytes, got {size:,}; export it as Parquet"
                )
            content = path.read_bytes()
            if (needed := _parsed_bytes(content)) > max(MIN_PARSED, EXPANSION * len(content)):
                raise ProfileError(
                    f"{self.name}: reading it would take {needed:,} bytes of memory; export it as Parquet"
                )
            document = json.loads(content)
            del content
        except OSError as error:
            raise ProfileError(f"{self.name}: {error.strerror or error}") from None
        except (ValueError, RecursionError) as error:
            reason = "nested too deeply" if isinstance(error, RecursionError) else str(error).splitlines()[0]
            raise ProfileError(f"{self.name}: not JSON: {reason}") from None
        if not isinstance(document, dict) or "instruction" not in document:
            kind = "a summary without" if _is_summary(document) else "not a profile with"
            raise ProfileError(
                f"{self.name}: this is {kind} instructions; export the whole profile: neuron-explorer view ... parquet"
            )
        self.tables = document

    def _packets(self) -> str:
        """Return the name of the packet table, which is the table whose rows contain a DMA engine and a queue type."""
        return next((name for name, rows in self.tables.items() if _has_packets(rows)), "dma")

    def rows(self, table: str, columns: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
        del columns
        name = "instruction" if table == "Instruction" else self._packets()
        rows = self.tables.get(name, [])
        if not isinstance(rows, list):
            raise ProfileError(f"{self.name}: {name} is not a list of rows")
        for number, row in enumerate(rows):
            if not isinstance(row, dict):
                raise ProfileError(f"{self.name}: {name} {number} is not an object")
            yield row


def _parsed_bytes(content: bytes) -> int:
    """Estimate the memory that a parsed JSON text will occupy, in bytes, by counting its brackets and commas."""
    return OBJECT_BYTES * content.count(b"{") + LIST_BYTES * content.count(b"[") + VALUE_BYTES * content.count(b",")


def _has_packets(rows: Any) -> bool:
    first = rows[0] if isinstance(rows, list) and rows else None
    return isinstance(first, dict) and "queue_type" in first and "dma_engine" in first


def _is_summary(found: Any) -> bool:
    inner = next(iter(found.values()), None) if isinstance(found, dict) else None
    return isinstance(found, dict) and ("total_time" in found or (isinstance(inner, dict) and "total_time" in inner))


class _Parquet:
    """The tables of a profile that is stored as a folder, with one file or several numbered files per table."""

    def __init__(self, path: Path) -> None:
        self.name, self.path = path.name, path
        if not self._files("Instruction"):
            raise ProfileError(
                f"{path.name}: not a profile of neuron-explorer: the folder contains no Instruction.parquet"
            )

    def _files(self, table: str) -> list[Path]:
        files = self.path.glob(f"{table}*.parquet")
        return sorted(path for path in files if not path.stem.removeprefix(table).strip("._-0123456789"))

    def rows(self, table: str, columns: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
        try:
            import pyarrow.parquet as parquet
        except ImportError:
            raise ProfileError(f"{self.name}: reading Parquet requires pyarrow: pip install pyarrow") from None
        for path in self._files(table):
            try:
                file = parquet.ParquetFile(path)
                if file.metadata.num_rows > MOST_ROWS:
                    raise ProfileError(
                        f"{path.name}: must have at most {MOST_ROWS:,} rows, got {file.metadata.num_rows:,}"
                    )
                present = [name for name in columns if name in file.schema_arrow.names]
                for batch in file.iter_batches(columns=present):
                    yield from batch.to_pylist()
            except ProfileError:
                raise
            except Exception as error:  # pyarrow raises many kinds of errors for corrupt files
                raise ProfileError(f"{path.name}: not a Parquet table: {str(error).splitlines()[0][:_NAME]}") from None


_INSTRUCTION = (
    *("start_ts", "end_ts", "engine", "opcode", "id", "pcore_idx", "nki_source_location", "bir_instruction_name"),
    *("instruction_type", "predecessors"),
)
_PACKET = ("start_ts", "end_ts", "dma_engine", "queue_type", "pcore_idx", "transfer_size", "read_size", "size")


def _run(name: str, tables: _Json | _Parquet, core: int) -> MeasuredRun:
    instructions = list(_instructions(name, tables.rows("Instruction", _INSTRUCTION), core))
    packets = list(_packets(name, tables.rows("DmaPacket", _PACKET), core))
    if not instructions:
        raise ProfileError(f"{name}: no instruction of core {core}")
    missing = []
    if not packets:
        missing.append("DMA packets")
    if not any(instruction.after for instruction in instructions):
        missing.append("the dependencies of instructions: the path follows the latest predecessor of each")
    if not any(instruction.line for instruction in instructions):
        missing.append("lines of the kernel")
    ends = [instruction.end_ns for instruction in instructions] + [packet.end_ns for packet in packets]
    instructions.sort(key=lambda instruction: (instruction.start_ns, instruction.end_ns))
    packets.sort(key=lambda packet: packet.start_ns)
    return MeasuredRun(name, max(ends), tuple(instructions), tuple(packets), tuple(missing))


def _predecessors(row: Mapping[str, Any]) -> tuple[int, ...]:
    before = row.get("predecessors")
    listed = before if isinstance(before, list) else []
    return tuple(entry["id"] for entry in listed if isinstance(entry, dict) and isinstance(entry.get("id"), int))


def _instructions(name: str, rows: Iterable[Mapping[str, Any]], core: int) -> Iterator[MeasuredInstruction]:
    for number, row in enumerate(rows):
        where = f"{name}: instruction {number}"
        if number >= MOST_ROWS:
            raise ProfileError(f"{name}: more than {MOST_ROWS:,} instructions")
        if not _of_core(row, core):
            continue
        engine = _engine(row)
        if engine is None:
            continue  # not a compute engine
        yield _instruction(where, number, row, engine)


def _instruction(where: str, number: int, row: Mapping[str, Any], engine: str) -> MeasuredInstruction:
    start, end = _times(where, row)
    opcode = row.get("opcode")
    if not isinstance(opcode, str):
        raise ProfileError(f"{where}: opcode must be text, got {opcode!r:.40}")
    line = row.get("nki_source_location") or ""
    ours = bool(line or row.get("bir_instruction_name") or row.get("instruction_type")) and opcode not in _RUNTIME
    is_transpose = opcode == "MATMUL" and row.get("instruction_type") == "TRANSPOSE"
    identity = row.get("id")
    return MeasuredInstruction(
        id=identity if isinstance(identity, int) else -1 - number,
        engine=engine,
        opcode="TRANSPOSE" if is_transpose else opcode[:_NAME],
        start_ns=start,
        end_ns=end,
        after=_predecessors(row),
        line=str(line)[:_NAME],
        ours=ours,
    )


def _engine(row: Mapping[str, Any]) -> str | None:
    name = str(row.get("engine") or row.get("subgroup") or row.get("label") or "").lower()
    return next((engine for engine in ENGINES if name.startswith(engine)), None)


def _packets(name: str, rows: Iterable[Mapping[str, Any]], core: int) -> Iterator[MeasuredPacket]:
    for number, row in enumerate(rows):
        if number >= MOST_ROWS:
            raise ProfileError(f"{name}: more than {MOST_ROWS:,} DMA packets")
        if not _of_core(row, core):
            continue
        where = f"{name}: DMA packet {number}"
        start, end = _times(where, row)
        size = next((row[key] for key in ("transfer_size", "read_size", "size") if isinstance(row.get(key), int)), 0)
        if size < 0:
            raise ProfileError(f"{where}: its size must be at least 0 bytes, got {size}")
        engine = str(row.get("dma_engine") or "0")
        maker = _MAKERS.get(str(row.get("queue_type")), "prepared")
        yield MeasuredPacket(int(engine) if engine.isdecimal() else 0, maker, start, end, size)


def _of_core(row: Mapping[str, Any], core: int) -> bool:
    """Return True if a row belongs to the given core of a logical core.

    The core is identified by the index in the row or by the number in the name of its subgraph, such as "sg00".
    """
    index = row.get("pcore_idx")
    if isinstance(index, int):
        return index == core
    subgraph = str(row.get("subgraph") or f"sg{core:02}")
    return subgraph == f"sg{core:02}"


def _times(where: str, row: Mapping[str, Any]) -> tuple[int, int]:
    """Return the start and end of a row, in either naming scheme."""
    start: Any
    end: Any
    if "start_ts" in row:
        start, end = row["start_ts"], row.get("end_ts")
    else:
        start, duration = row.get("timestamp"), row.get("duration")
        end = start + duration if _is_time(start) and _is_time(duration) else None
    if not (_is_time(start) and _is_time(end) and start <= end):
        raise ProfileError(
            f"{where}: from {start!r:.30} to {end!r:.30} ns; expected two integers from 0 to "
            "one hour, in increasing order"
        )
    return int(start), int(end)


def _is_time(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LATEST_NS
