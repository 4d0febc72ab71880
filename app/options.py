"""The options that commands share, each told once. Nothing heavy is imported here: the help must come up at once."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Optional

import typer


class Dtype(str, Enum):
    """Types that a network can be run in."""

    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"


class BackendName(str, Enum):
    """Where kernels run."""

    auto = "auto"
    neuron = "neuron"
    sim = "sim"


class Target(str, Enum):
    """NeuronCore generations."""

    trn1 = "trn1"
    trn2 = "trn2"
    trn3 = "trn3"


class Format(str, Enum):
    """Forms of the report."""

    table = "table"
    json = "json"
    csv = "csv"
    ndjson = "ndjson"


DtypeOption = Annotated[Dtype, typer.Option("--dtype", help="Type of weights and data; sums are float32 always.")]
BatchSizeOption = Annotated[
    int, typer.Option("--batch-size", min=1, max=65536, metavar="N", help="Inputs in one launch of a kernel.")
]
BackendOption = Annotated[
    BackendName, typer.Option("--backend", help="Run on the chip or on the simulator; auto: see trninfer doctor.")
]
TargetOption = Annotated[
    Optional[Target],  # noqa: UP045 (typer evaluates annotations on Python 3.10 too)
    typer.Option(
        "--target",
        help="NeuronCore to simulate. [default: NEURON_PLATFORM_TARGET_OVERRIDE, else trn2]",
        show_default=False,
    ),
]
FormatOption = Annotated[
    Format, typer.Option("--format", help="Form of the report; machine formats have standard output for themselves.")
]
OutputOption = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--output", metavar="FILE", help="Write the report to a file, whole or not at all."),
]
VerifyOption = Annotated[
    bool, typer.Option("--verify", help="Check against the NumPy reference; exit status 1 where it differs.")
]
TraceOption = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--trace", metavar="FILE", help="Write the engines' timeline of one batch, for ui.perfetto.dev."),
]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Answers and errors only: no layer tables, no progress.")]
