"""Profiles in neuron-explorer's format, with rows like those of a public one (trn2, attention in phases)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FLOW = "FLOW_DEPENDENCE"


def instruction(identity: int, engine: str, opcode: str, start: int, duration: int, *after: int, **more: Any) -> Any:
    """Return a row of "instruction" with the fields of real rows that are read, and some that are not."""
    return {
        "id": identity,
        "subgroup": engine,
        "label": "TensorMatrix" if opcode == "MATMUL" else engine,
        "opcode": opcode,
        "timestamp": start,
        "duration": duration,
        "instruction_type": "REGULAR",
        "bir_instruction_name": f"I-{identity}",
        "subgraph": "sg00",
        "operands": "S[5] (Tensor)>=8 src=fp32@0x2003000[1,1,1,1][512,1,1,1]",
        "predecessors": [{"id": one, "type": FLOW} for one in after],
        **more,
    }


def packet(engine: int, maker: str, start: int, duration: int, size: int, **more: Any) -> Any:
    return {
        "dma_engine": str(engine),
        "queue_type": maker,
        "timestamp": start,
        "duration": duration,
        "transfer_size": size,
        "read_size": size,
        "subgraph": "sg00",
        **more,
    }


PROFILE: dict[str, Any] = {
    "warnings": [],
    "instruction": [
        instruction(1, "Sync", "NOTIFY", 100, 10, instruction_type="", bir_instruction_name=""),
        instruction(2, "Tensor", "MATMUL", 5000, 630),
        instruction(3, "Vector", "COPY", 5660, 690, 2),
        instruction(4, "Scalar", "EVENT_SEMAPHORE", 4000, 2400),
        instruction(5, "Scalar", "COPY", 6400, 585, 3),
        instruction(6, "Scalar", "DMA_DIRECT2D", 7000, 524, 5),
        instruction(7, "Vector", "TENSOR_TENSOR", 11_000, 690, 6),
        instruction(8, "Tensor", "MATMUL", 5000, 100, subgraph="sg01"),
    ],
    "dma": [
        packet(64, "hardware_dynamic", 8200, 1000, 4096),
        packet(65, "hardware_dynamic", 8300, 1000, 4096),
        packet(64, "software_dynamic", 4200, 300, 256),
        packet(64, "static", 50, 20, 4),
    ],
    "metadata": [{"ntff_version": 6}],
}


def write(path: Path, profile: Any = PROFILE) -> Path:
    path.write_text(json.dumps(profile))
    return path


def write_tables(folder: Path, profile: Any = PROFILE) -> Path:
    """Write the same profile as a folder of Parquet tables, with the fields of schema version 12."""
    import pyarrow
    import pyarrow.parquet as parquet

    folder.mkdir()
    rows = [
        {
            "id": row["id"],
            "engine": row["subgroup"].lower(),
            "opcode": row["opcode"],
            "start_ts": row["timestamp"],
            "end_ts": row["timestamp"] + row["duration"],
            "duration_ns": row["duration"],
            "pcore_idx": int(row["subgraph"][2:]),
            "bir_instruction_name": row["bir_instruction_name"],
            "nki_source_location": "kernel.py:7" if row["opcode"] == "MATMUL" else None,
        }
        for row in profile["instruction"]
    ]
    parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "Instruction.parquet")
    packets = [
        {
            "dma_engine": int(row["dma_engine"]),
            "queue_type": row["queue_type"],
            "start_ts": row["timestamp"],
            "end_ts": row["timestamp"] + row["duration"],
            "transfer_size": row["transfer_size"],
            "pcore_idx": 0,
        }
        for row in profile["dma"]
    ]
    parquet.write_table(pyarrow.Table.from_pylist(packets[:2]), folder / "DmaPacket-0.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(packets[2:]), folder / "DmaPacket-1.parquet")
    return folder
