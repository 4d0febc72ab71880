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
        help="NeuronCore to simulate, or to compile for. [default: NEURON_PLATFORM_TARGET_OVERRIDE, else the chip that "
        "is used, else trn2]",
        show_default=False,
    ),
]
# These four are of the chip: on the simulator, whose times are predicted, they have no effect, which is said.
WarmupOption = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(
        "--warmup",
        min=0,
        max=100_000,
        metavar="N",
        help="On the chip: calls of a kernel before it is timed. [default: 5]",
        show_default=False,
    ),
]
IterationsOption = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(
        "--iters",
        min=1,
        max=100_000,
        metavar="N",
        help="On the chip: timed calls of a kernel, of which median and 99th percentile are told. [default: 20]",
        show_default=False,
    ),
]
DeviceTimesOption = Annotated[
    bool,
    typer.Option(
        "--device-times",
        help="On the chip: also time each kernel on the device alone, by nrtpy, neuron-explorer or neuron-profile, on "
        "another NeuronCore that is free.",
    ),
]
NrtpyOption = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        "--nrtpy",
        metavar="DIR",
        help="Environment with nrtpy for --device-times. [default: TRNINFER_NRTPY]",
        show_default=False,
    ),
]
CoresOption = Annotated[
    int,
    typer.Option(
        "--cores", min=1, max=512, metavar="N", help="NeuronCores to share batches out over, one process each."
    ),
]
CompareBackendsOption = Annotated[
    bool,
    typer.Option(
        "--compare-backends",
        help="Run each kernel on the chip and on the simulator; exit status 1 where outputs differ. --format csv then "
        "writes the measurements, in the columns of benchmarks/data/latency-kernels.csv.",
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
ReportOption = Annotated[
    Optional[Path],  # noqa: UP045 (typer evaluates annotations on Python 3.10 too)
    typer.Option("--report", metavar="FILE", help="Write a page of HTML: layers, timeline, roofline."),
]
