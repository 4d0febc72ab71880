"""Read the published measurements in `data/`, and create the launch that predicts each of them."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trninfer import kernels
from trninfer.benchmarks.kernels.conv2d import conv2d_row_groups, conv2d_single_rows
from trninfer.benchmarks.kernels.matmul import matmul_blocked
from trninfer.benchmarks.kernels.transpose import matrix_transpose
from trninfer.benchmarks.kernels.vector_add import vector_add_tiled
from trninfer.benchmarks.other_launches import build
from trninfer.simulator import TensorSpec

DATA = Path(__file__).resolve().parent / "data"
DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}

# The courses' harness captures profiles with DGE off; AWS's optimization guide captures them with DGE on, which is the
# default.
PROFILE_WITHOUT_DGE = "profile total_time"
PROFILE_WITH_DGE = "neuron explorer total time"
HARNESS_WITHOUT_DGE = "(=> --disable-dge)"  # noted for benchmarks that were run with the profiling flag


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


@dataclass(frozen=True)
class Launch:
    """Arguments of `simulator.run(..., functional=False)` that predict a row."""

    kernel: Any
    arguments: tuple[TensorSpec, ...]
    target: str
    dge: bool
    profiled: bool
    parameters: dict[str, Any] = field(default_factory=dict)


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
                r["id"],
                r["source"],
                r["kernel"],
                r.get("variant", ""),
                r["shapes"],
                r["dtype"],
                r["device"],
                r["metric"],
                float(r["latency_us"]),
                r["notes"],
            )
            for r in csv.DictReader(file)
        ]


def launch_of(row: Measurement) -> Launch:
    """Return the launch that reproduces a measured kernel."""
    if is_others(row):
        kernel, arguments, parameters = build(row.id, row.kernel, row.shapes)
        return Launch(kernel, arguments, row.device, dge=True, profiled=True, parameters=parameters)
    kernel, arguments, parameters = _BUILDERS[_family(row)](row)
    dge = row.metric != PROFILE_WITHOUT_DGE and HARNESS_WITHOUT_DGE not in row.notes
    profiled = row.metric in (PROFILE_WITHOUT_DGE, PROFILE_WITH_DGE)
    return Launch(kernel, arguments, row.device, dge, profiled, parameters)


_Built = tuple[Any, tuple[TensorSpec, ...], dict[str, Any]]


def _family(row: Measurement) -> str:
    return "matmul" if "matmul" in row.kernel or row.kernel.startswith("matrix_multiply") else row.kernel


def _vector_add_tiled(row: Measurement) -> _Built:
    vector = TensorSpec((_number(row.shapes, "n"),), DTYPES[row.dtype])
    by_hardware = row.device != "trn1"  # addresses in a loop that the compiler of NKI's first beta did not unroll
    return (
        vector_add_tiled,
        (vector, vector),
        {"row_chunk": _number(row.variant, "ROW_CHUNK"), "by_hardware": by_hardware},
    )


def _vector_add_stream(row: Measurement) -> _Built:
    vector = TensorSpec((_number(row.shapes, "n"),), DTYPES[row.dtype])
    return kernels.vector_add_stream, (vector, vector), {"free": _number(row.variant, "FREE_DIM")}


def _matrix_transpose(row: Measurement) -> _Built:
    rows, columns = (int(extent) for extent in row.shapes.split("x"))
    return matrix_transpose, (TensorSpec((rows, columns), DTYPES[row.dtype]),), {}


def _conv2d(row: Measurement) -> _Built:
    kernel = conv2d_row_groups if row.variant == "final" else conv2d_single_rows
    x, w, bias = (TensorSpec(shape, DTYPES[row.dtype]) for shape in _shapes(row.shapes))
    return kernel, (x, w, bias), {"pool_size": 2 if "pool2" in row.shapes else 1}


def _matmul(row: Measurement) -> _Built:
    (m, k), (_, n) = _shapes(row.shapes)
    # The name of the kernel identifies the optimization step: by a word in the tutorial, by a version in the
    # optimization guide.
    rungs = {
        "tiled": kernels.matmul_tiled,
        "hoist_load": kernels.matmul_hoist_load,
        "block_free": kernels.matmul_block_free_dimension,
        "fully": matmul_blocked,
    }
    kernel = next(kernel for word, kernel in rungs.items() if word in row.kernel)
    # In float32, the published blocks of 8 tiles of K need 228 KiB per partition, so the compiler spilled them.
    blocks = {"tiles_in_block_k": 4} if kernel is matmul_blocked and row.dtype == "fp32" else {}
    return kernel, (TensorSpec((k, m), DTYPES[row.dtype]), TensorSpec((k, n), DTYPES[row.dtype])), blocks


_BUILDERS: dict[str, Callable[[Measurement], _Built]] = {
    "vector_add_tiled": _vector_add_tiled,
    "vector_add_stream": _vector_add_stream,
    "matrix_transpose": _matrix_transpose,
    "fused_conv2d_maxpool": _conv2d,
    "matmul": _matmul,
}


def _number(text: str, name: str) -> int:
    found = re.search(rf"\b{name}=(\d+)", text)
    assert found, f"{name} is missing in {text!r}"
    return int(found[1])


def _shapes(text: str) -> list[tuple[int, ...]]:
    """Return the bracketed shapes in a text, such as [(1, 256), (3, 3)] for `X[1,256] @ W[3,3]`."""
    return [tuple(int(extent) for extent in shape.split(",")) for shape in re.findall(r"\[([\d,]+)\]", text)]
