"""The options that commands share, each told once. Nothing heavy is imported here: the help must come up at once."""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Optional, get_args, get_origin, get_type_hints

import typer

from .errors import UsageError
from .output import check_files


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


class TargetName(str, Enum):
    """NeuronCore generations."""

    trn1 = "trn1"
    trn2 = "trn2"
    trn3 = "trn3"


class LaunchPer(str, Enum):
    """How a network is launched."""

    network = "network"
    layer = "layer"


class ConvolutionForm(str, Enum):
    """How 3x3 convolutions are multiplied."""

    quickest = "quickest"
    direct = "direct"


class Format(str, Enum):
    """Forms of the report."""

    table = "table"
    json = "json"
    csv = "csv"
    ndjson = "ndjson"


def whole(least: int, most: float = math.inf) -> Callable[[str | int], int]:
    """A reader of an option's whole number within bounds, in plain digits: Python reads `1_0` and others too."""

    def read(text: str | int) -> int:
        if isinstance(text, int):  # a default
            return text
        if re.fullmatch(r"[+-]?[0-9]{1,18}", text) and least <= int(text) <= most:
            return int(text)
        bounds = f"from {least} up" if most == math.inf else f"from {least} to {most}"
        raise typer.BadParameter(f"{text!r} is no whole number {bounds}.")

    return read


DtypeOption = Annotated[Dtype, typer.Option("--dtype", help="Type of weights and data; sums are float32 always.")]
BatchSizeOption = Annotated[
    int,
    typer.Option(
        "--batch-size", parser=whole(1, 65536), metavar="N", help="Inputs in one launch of a kernel, up to 65536."
    ),
]
LaunchesOption = Annotated[
    LaunchPer,
    typer.Option("--launches", help="As few launches as the network takes, or one or more for each layer."),
]
InstructionsOption = Annotated[
    int,
    typer.Option(
        "--instructions",
        parser=whole(1),
        metavar="N",
        help="Of a launch of a network, at most; what takes more is cut between layers or inputs.",
    ),
]
ConvolutionFormOption = Annotated[
    ConvolutionForm,
    typer.Option("--form", help="Of 3x3 convolutions: with fewer matmuls where that is quicker, or direct always."),
]
BackendOption = Annotated[
    BackendName, typer.Option("--backend", help="Run on the chip or on the simulator; auto: see trninfer doctor.")
]
TargetOption = Annotated[
    Optional[TargetName],  # noqa: UP045 (typer evaluates annotations on Python 3.10 too)
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
        parser=whole(0, 100_000),
        metavar="N",
        help="On the chip: calls of a kernel before it is timed. [default: 5]",
        show_default=False,
    ),
]
IterationsOption = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(
        "--iters",
        parser=whole(1, 100_000),
        metavar="N",
        help="On the chip: timed calls of a kernel, of which median and 99th percentile are told. [default: 20]",
        show_default=False,
    ),
]
DeviceTimesOption = Annotated[
    bool,
    typer.Option(
        "--device-times",
        help="On the chip: also time each kernel on the NeuronCore alone, by nrtpy's tracing, else by neuron-bench.",
    ),
]
NrtpyOption = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        "--nrtpy",
        metavar="DIR",
        help="On the chip: environment with nrtpy, where this one has none. [default: TRNINFER_NRTPY]",
        show_default=False,
    ),
]
CoresOption = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(
        "--cores",
        parser=whole(1, 4096),
        metavar="N",
        help="Workers to share batches out over, with a NeuronCore each (on the simulator a CPU); more than one needs "
        "the extra cluster. [default: 1; with --cluster, as many as it has room for]",
        show_default=False,
    ),
]
ClusterOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Share batches out over a Ray cluster: its host:port, or auto for that of RAY_ADDRESS or of this machine.",
    ),
]
ShipOption = Annotated[
    bool,
    typer.Option("--ship", help="Send a cluster's workers the pictures, not their paths, where they see other files."),
]
SelftestOption = Annotated[
    bool, typer.Option("--selftest", help="Run every kernel and the bundled networks; write an archive to send back.")
]
ArchiveOption = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        "--archive",
        metavar="FILE",
        help="With --selftest: the archive. [default: trninfer-selftest-TARGET-chip|simulator-DTYPE.zip]",
        show_default=False,
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
TopKOption = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(
        "--top-k",
        parser=whole(1),
        metavar="K",
        help="The most probable labels of each input. [default: 5]",
        show_default=False,
    ),
]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Go on from what an interrupted run with the same options left in --output.")
]


@dataclass(frozen=True)
class RunOptions:
    """What every command that runs kernels can be told; None where the command line says nothing."""

    dtype: DtypeOption = Dtype.float32
    batch_size: BatchSizeOption = 1
    launches: LaunchesOption = LaunchPer.network
    instructions: InstructionsOption = 50_000
    convolutions: ConvolutionFormOption = ConvolutionForm.quickest
    backend: BackendOption = BackendName.auto
    target: TargetOption = None
    warmup: WarmupOption = None
    iterations: IterationsOption = None
    device_times: DeviceTimesOption = False
    nrtpy: NrtpyOption = None
    form: FormatOption = Format.table
    output: OutputOption = None
    verify: VerifyOption = False
    trace: TraceOption = None
    report_file: ReportOption = None
    quiet: QuietOption = False

    @property
    def target_name(self) -> str | None:
        """The target as the runtime knows it."""
        return self.target.value if self.target else None

    def check(self) -> None:
        """UsageError where options contradict each other or a file could not be written; called before the work."""
        check_files(self.output, self.trace, self.report_file)


@dataclass(frozen=True)
class AnswerOptions(RunOptions):
    """What a command that answers inputs can be told beside that."""

    top_k: TopKOption = None
    cores: CoresOption = None
    cluster: ClusterOption = None
    compare_backends: CompareBackendsOption = False
    resume: ResumeOption = False

    @property
    def is_shared(self) -> bool:
        """Whether workers answer, in processes of their own."""
        return self.cluster is not None or (self.cores or 1) > 1

    def check(self) -> None:
        """As for every run; and that what needs one core has one, and that an earlier run can be gone on with."""
        super().check()
        if self.resume and self.output is None:
            raise UsageError("--resume goes on from the answers in a file; it needs --output FILE")
        if self.resume and self.verify:
            raise UsageError("--resume and --verify exclude each other: earlier answers would go unchecked")
        if self.is_shared and self.trace is not None:
            raise UsageError("--trace shows one core; leave out --cores and --cluster, or give --cores 1")
        if self.compare_backends:
            self._check_comparison()

    def _check_comparison(self) -> None:
        if self.backend is BackendName.sim:
            raise UsageError("--compare-backends needs the chip beside the simulator; leave out --backend sim")
        if self.is_shared:
            raise UsageError("--compare-backends runs on one core; leave out --cores and --cluster, or give --cores 1")
        if self.resume:
            raise UsageError("--compare-backends and --resume exclude each other: a comparison is of one run")


@dataclass(frozen=True)
class PictureOptions(AnswerOptions):
    """What classify can be told beside its pictures."""

    batch_size: BatchSizeOption = 16
    ship: ShipOption = False

    def check(self) -> None:
        """As for all answers; and that what is sent goes to a cluster."""
        super().check()
        if self.ship and self.cluster is None:
            raise UsageError("--ship sends pictures to a cluster's workers; it needs --cluster ADDRESS")
        if self.ship and self.verify:
            raise UsageError("--verify reads the pictures here and sends what it read; leave out --ship")


@dataclass(frozen=True)
class RowOptions(AnswerOptions):
    """What ffnn can be told beside its features."""

    batch_size: BatchSizeOption = 2048


def takes_options(help_text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command as typer reads it: a parameter that is a dataclass of options becomes one parameter a field.

    The help stands beside the command, which it would drown.
    """

    def wrap(command: Callable[..., None]) -> Callable[..., None]:
        hints = {name: _told(kind) for name, kind in get_type_hints(command, include_extras=True).items()}
        groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
        parameters: list[inspect.Parameter] = []
        for name, parameter in inspect.signature(command).parameters.items():
            kinds = {name: hints[name]} if name not in groups else get_type_hints(groups[name], include_extras=True)
            defaults = _defaults(groups[name]) if name in groups else {name: parameter.default}
            parameters += [
                inspect.Parameter(key, parameter.KEYWORD_ONLY, default=default, annotation=kinds[key])
                for key, default in defaults.items()
            ]

        @functools.wraps(command)
        def call(**values: Any) -> None:
            for name, kind in groups.items():
                values[name] = kind(**{key: values.pop(key) for key in _defaults(kind)})
            command(**values)

        call.__doc__ = help_text
        call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return call

    return wrap


def _told(hint: Any) -> Any:
    """A parameter's annotation as it was written: Python 3.10 puts an Optional around it where the default is None,
    and typer does not look for its option inside."""
    return next((part for part in get_args(hint) if get_origin(part) is Annotated), hint)


def _defaults(kind: Any) -> dict[str, Any]:
    """The fields of a dataclass of options, and what each is where the command line says nothing."""
    return {field.name: field.default for field in fields(kind)}
