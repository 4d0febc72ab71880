"""The published measurements in `data/`."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).resolve().parent / "data"


@dataclass(frozen=True)
class Measurement:
    """A row of a measurements file. `latency_us` is the published time, and `device` is the name of the target."""

    id: str
    source: str
    kernel: str
    variant: str
    shapes: str
    dtype: str
    device: str
    metric: str
    latency_us: float
    notes: str


def load_kernel_rows() -> list[Measurement]:
    """Load the measured kernels (latency-kernels.csv)."""
    return _load("latency-kernels.csv")


def load_other_rows() -> list[Measurement]:
    """Load the measured kernels of other authors (latency-kernels-others.csv)."""
    return _load("latency-kernels-others.csv")


def load_attention_rows() -> list[Measurement]:
    """Load the measurements of attention, in phases and fused, from a third repository
    (latency-kernels-attention.csv)."""
    return _load("latency-kernels-attention.csv")


def load_all_kernel_rows() -> list[Measurement]:
    """Load the kernels of all three files."""
    return load_kernel_rows() + load_other_rows() + load_attention_rows()


def is_others(row: Measurement) -> bool:
    """True if the measured kernel was not written for this project."""
    return row.id[0] in "op"


def family(row: Measurement) -> tuple[str, str, str]:
    """Return (source, kernel, device): one author's variants of one kernel on one chip."""
    return repository(row), kernel_name(row), row.device


def repository(row: Measurement) -> str:
    """Return the public repository or document that published a row."""
    return row.source.split(maxsplit=1)[0]


def kernel_name(row: Measurement) -> str:
    """Return the kernel of a row. All optimization steps of the matmul count as one kernel."""
    if is_others(row):
        return next(name for word, name in _OTHERS.items() if word in row.kernel)
    return _family(row)


_OTHERS = {  # the kernel name for the first of these words that the text of a row contains
    "fp8": "fused MoE, fp8",
    "fused MoE": "fused MoE, bf16",
    "MoE": "sparse MoE",
    "phases": "attention in phases",
    "fused attention": "fused attention",
    "prefill": "attention prefill",
    "decode": "attention decode",
    "matmul": "autotuned matmul",
}


def load_instruction_rows() -> list[Measurement]:
    """Load the measured and documented instructions (latency-instructions.csv)."""
    return _load("latency-instructions.csv")


def _load(name: str) -> list[Measurement]:
    with (DATA / name).open(newline="", encoding="utf-8") as file:
        return [
            Measurement(
                id=row["id"],
                source=row["source"],
                kernel=row["kernel"],
                variant=row.get("variant", ""),
                shapes=row["shapes"],
                dtype=row["dtype"],
                device=row["device"],
                metric=row["metric"],
                latency_us=float(row["latency_us"]),
                notes=row["notes"],
            )
            for row in csv.DictReader(file)
        ]


def _family(row: Measurement) -> str:
    return "matmul" if "matmul" in row.kernel or row.kernel.startswith("matrix_multiply") else row.kernel
