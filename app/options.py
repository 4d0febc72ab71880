"""Options shared by several commands, each defined once. No large module is imported here, so that --help is fast."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ..runtime.launch_options import (
    DEFAULT_LAUNCHES,
    BackendName,
    Dtype,
    EightBitLayers,
    Form,
    Per,
    Target,
)
from .completion import complete_model
from .config import ConfigOption
from .errors import UsageError
from .logs import VerboseOption, log_to_stderr
from .option_groups import fraction, seconds, whole
from .output import check_files, check_kept, is_special

Format = Literal["table", "json", "csv", "ndjson"]
ReportFormat = Literal["table", "json", "csv", "ndjson", "markdown"]
LabelFormat = Literal["table", "json", "csv", "ndjson", "parquet"]
AnswerFormat = Literal["table", "json", "csv", "ndjson", "parquet", "coco"]
ResumeCheck = Literal["name", "stat", "hash"]
Header = Literal["auto", "yes", "no"]  # header of a .csv file; see inference/csv_tables.py for the rules


def output_path(text: str) -> Path | None:
    """Parse the value of --output; None denotes standard output."""
    return None if text == "-" else Path(text)


DtypeOption = Annotated[
    Dtype,
    typer.Option(
        "--dtype",
        help="Dtype of weights and activations; sums are always float32. With float8_e4m3 (networks only), the first "
        "and the last layer use bfloat16 (see docs/eight-bits.md).",
    ),
]
BatchSizeOption = Annotated[
    int,
    typer.Option("--batch-size", parser=whole(1, 65536), metavar="N", help="Number of inputs per launch, up to 65536."),
]
LaunchesOption = Annotated[
    Per,
    typer.Option("--launches", help="Use as few launches as possible for the network, or separate ones per layer."),
]
InstructionsOption = Annotated[
    int,
    typer.Option(
        "--instructions",
        parser=whole(1),
        metavar="N",
        help=("Maximum number of instructions per launch; larger launches are split between layers or inputs."),
    ),
]
ConvolutionsOption = Annotated[
    Form,
    typer.Option("--form", help="Algorithm of 3x3 convolutions: minimal filtering if it is faster, or always direct."),
]
LncOption = Annotated[
    int,
    typer.Option(
        "--lnc",
        parser=whole(1, 2),
        metavar="1|2",
        help="Number of NeuronCores per logical core; 2 requires trn2 or trn3.",
    ),
]
EightBitsOption = Annotated[
    EightBitLayers,
    typer.Option(
        "--eight-bits",
        help="With float8_e4m3: which layers may use 8 bits: inner means all except the first and the last.",
    ),
]
CalibrateOption = Annotated[
    Path | None,
    typer.Option(
        "--calibrate",
        metavar="DIR",
        help="With float8_e4m3: folder of pictures from which the scales of layer outputs are computed. [default: the "
        "network's samples, else random numbers]",
    ),
]
BackendOption = Annotated[
    BackendName,
    typer.Option(
        "--backend", help="Run on the chip or on the simulator; trninfer doctor prints which one auto selects."
    ),
]
TargetOption = Annotated[
    Target | None,
    typer.Option(
        "--target",
        help="NeuronCore to simulate, or to compile for. [default: NEURON_PLATFORM_TARGET_OVERRIDE, else "
        "the chip in use, else trn2]",
    ),
]
CompileTimeoutOption = Annotated[
    int | None,
    typer.Option(
        "--compile-timeout",
        parser=whole(1, 1_000_000),
        metavar="SECONDS",
        help="On the chip: time limit for compiling a launch, before smaller launches are tried. [default: 1800]",
    ),
]
FORMAT_HELP = (
    "Format of the report. With formats other than table, nothing else is written to standard output. [default: the "
    "format of the suffix of --output, such as .csv, or else table]"
)
FormatOption = Annotated[Format, typer.Option("--format", help=FORMAT_HELP)]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        metavar="FILE",
        parser=output_path,
        help="Write the report atomically to this file, or to standard output if it is -.",
    ),
]
ModelOption = Annotated[
    str,
    typer.Option(
        "--model",
        autocompletion=complete_model,
        help="Name of a bundled network, or a .safetensors or ONNX file.",
    ),
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print only answers and errors, without layer tables and progress.")
]


def check_eight_bits(dtype: str, calibrate: Path | None, eight_bits: str) -> None:
    """Raise UsageError if float8_e4m3 options are given with another dtype."""
    options = {"--calibrate": calibrate is not None, "--eight-bits": eight_bits != DEFAULT_LAUNCHES.eight_bits}
    for name, is_given in options.items():
        if is_given and dtype != "float8_e4m3":
            raise UsageError(f"{name} requires --dtype float8_e4m3, not {dtype}")


def fail_under_option(measure: str, example: str = "") -> Any:
    """Return the --fail-under option of a command that computes this metric."""
    help_text = f"Exit with status 1 if the {measure} against --labels is below this value{example}."
    return typer.Option("--fail-under", parser=fraction, metavar="SHARE", help=help_text)


@dataclass(frozen=True)
class RunOptions:
    """Options of every command that runs kernels. An option is None if it is not given on the command line."""

    dtype: DtypeOption = "float32"
    batch_size: BatchSizeOption = 1
    launches: LaunchesOption = DEFAULT_LAUNCHES.per
    instructions: InstructionsOption = DEFAULT_LAUNCHES.instructions
    convolutions: ConvolutionsOption = DEFAULT_LAUNCHES.form
    lnc: LncOption = 1
    eight_bits: EightBitsOption = DEFAULT_LAUNCHES.eight_bits
    calibrate: CalibrateOption = None
    backend: BackendOption = "auto"
    target: TargetOption = None
    warmup: Annotated[
        int | None,
        typer.Option(
            "--warmup",
            parser=whole(0, 100_000),
            metavar="N",
            help="On the chip: number of warm-up calls before a kernel is timed. [default: 5]",
        ),
    ] = None
    iterations: Annotated[
        int | None,
        typer.Option(
            "--iters",
            parser=whole(1, 100_000),
            metavar="N",
            help="On the chip: number of timed calls of a kernel (for the median and 99th percentile). [default: 20]",
        ),
    ] = None
    device_times: Annotated[
        bool,
        typer.Option(
            "--device-times",
            help="On the chip: also measure the time on the NeuronCore alone, with a device profile or the runtime's "
            "benchmark.",
        ),
    ] = False
    compile_timeout: CompileTimeoutOption = None
    form: Annotated[ReportFormat, typer.Option("--format", help=FORMAT_HELP)] = "table"
    csv_safe: Annotated[
        bool,
        typer.Option(
            "--csv-safe",
            help="Prefix an apostrophe to CSV cells that a spreadsheet would interpret as formulas (= + - @).",
        ),
    ] = False
    output: OutputOption = None
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare answers with the golden NumPy model; exit with 1 if they differ.")
    ] = False
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace", metavar="FILE", help="Write the timeline of one batch, which can be opened at ui.perfetto.dev."
        ),
    ] = None
    report_file: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Write an HTML page of layers, times and roofline.")
    ] = None
    wide: Annotated[
        bool,
        typer.Option("--wide", help="Show all columns of a table, even if lines become wider than the terminal."),
    ] = False
    quiet: QuietOption = False
    verbose: VerboseOption = 0
    config: ConfigOption = None

    def check(self) -> None:
        """Raise UsageError if options contradict each other or a file could not be written. Called before any work.

        Logging is started if --verbose is given.
        """
        log_to_stderr(self.verbose)
        check_eight_bits(self.dtype, self.calibrate, self.eight_bits)
        if self.csv_safe and self.form != "csv":
            raise UsageError("--csv-safe requires --format csv")
        if self.lnc > 1 and self.launches == "layer":
            raise UsageError(f"--launches layer runs every kernel on one NeuronCore; omit --lnc {self.lnc}")
        check_files(self.output, self.trace, self.report_file)

    def check_kept(self, *read: str | Path | None) -> None:
        """Raise UsageError if --output, --trace or --report would overwrite an input file, except an --output with
        --resume."""
        output = None if getattr(self, "resume", False) else self.output
        written = (("--output", output), ("--trace", self.trace), ("--report", self.report_file))
        check_kept((name for name in read if name is not None), *written)


@dataclass(frozen=True)
class AnswerOptions(RunOptions):
    """Additional options of commands that make predictions."""

    form: Annotated[LabelFormat, typer.Option("--format", help=FORMAT_HELP)] = "table"  # type: ignore[assignment]
    top_k: Annotated[
        int | None,
        typer.Option(
            "--top-k", parser=whole(1), metavar="K", help="Number of most probable labels for each input. [default: 5]"
        ),
    ] = None
    cores: Annotated[
        int | None,
        typer.Option(
            "--cores",
            parser=whole(1, 4096),
            metavar="N",
            help="Number of worker processes that share the batches, each with one NeuronCore (on the simulator, one "
            "CPU). [default: 1; with --cluster, as many as fit]",
        ),
    ] = None
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="ADDRESS",
            help="Distribute batches over the Ray cluster at host:port; auto uses the cluster at RAY_ADDRESS or on "
            "this machine. Requires the extra cluster.",
        ),
    ] = None
    compare_backends: Annotated[
        bool,
        typer.Option(
            "--compare-backends",
            help="Run each kernel on the chip and on the simulator. The exit status is 1 if outputs differ. --format "
            "csv writes the measurements with the columns of benchmarks/data/latency-kernels.csv.",
        ),
    ] = False
    max_errors: Annotated[
        int,
        typer.Option(
            "--max-errors",
            parser=whole(0),
            metavar="N",
            help="Exit with status 0 if at most N inputs cannot be used; they are still reported.",
        ),
    ] = 0
    fail_under: Annotated[float | None, fail_under_option("accuracy", ", such as 0.97")] = None
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Resume an interrupted run with the same options and the same --output."),
    ] = False

    @property
    def is_shared(self) -> bool:
        """Return True if batches are run by worker processes."""
        return self.cluster is not None or (self.cores or 1) > 1

    def check(self) -> None:
        """Check the options of every run. Also check that options that support only one core are not used with several
        cores, and that an earlier run can be resumed."""
        super().check()
        if self.resume and self.output is None:
            raise UsageError("--resume continues from the answers in a file, so it requires --output FILE")
        if self.resume and self.verify:
            raise UsageError("--resume and --verify cannot be used together: earlier answers would not be verified")
        if self.is_shared and self.trace is not None:
            raise UsageError("--trace shows one core; omit --cores and --cluster, or use --cores 1")
        if self.form == "parquet":
            self._check_parquet()
        if self.compare_backends:
            self._check_comparison()

    def _check_parquet(self) -> None:
        from .reports.parquet import import_pyarrow

        if self.output is None or is_special(self.output):
            raise UsageError("--format parquet is binary, so it requires --output FILE")
        import_pyarrow()

    def _check_comparison(self) -> None:
        if self.lnc > 1:
            raise UsageError("--compare-backends runs layer by layer, on one NeuronCore; omit --lnc")
        if self.backend == "sim":
            raise UsageError("--compare-backends requires the chip; omit --backend sim")
        if self.form == "parquet":
            raise UsageError("--compare-backends does not support --format parquet; use csv for the measurements")
        if self.is_shared:
            raise UsageError("--compare-backends runs on one core; omit --cores and --cluster, or use --cores 1")
        if self.dtype == "float8_e4m3":
            raise UsageError("--compare-backends runs layer by layer, which requires a 32-bit or 16-bit --dtype")
        if self.resume:
            raise UsageError("--compare-backends and --resume cannot be used together")


@dataclass(frozen=True)
class PictureOptions(AnswerOptions):
    """Options of `classify` except those that specify its pictures."""

    batch_size: BatchSizeOption = 16
    ship: Annotated[
        bool,
        typer.Option(
            "--ship", help="Send the contents of pictures to the workers of a cluster, if they cannot read the files."
        ),
    ] = False
    picture_timeout: Annotated[
        float,
        typer.Option(
            "--picture-timeout",
            parser=seconds(0.01, 86_400),
            metavar="SECONDS",
            help="Time limit for decoding one picture; a slower picture is reported as an error.",
        ),
    ] = 10.0
    resume_check: Annotated[
        ResumeCheck,
        typer.Option(
            "--resume-check",
            help="How --resume recognises pictures that have not changed: by name, by size and modification time "
            "(stat), or by contents (hash; must also be given in the first run, and reads each picture twice).",
        ),
    ] = "stat"
    layout: Annotated[
        Literal["CHW", "HWC"] | None,
        typer.Option(
            "--layout",
            help="Layout of arrays: channels first or last. [default: layout in the model file]",
            show_default=False,
        ),
    ] = None

    def check(self) -> None:
        """Check the options of all commands that make predictions; also check that sources are sent only to a
        cluster."""
        super().check()
        if self.ship and self.cluster is None:
            raise UsageError("--ship sends pictures to the workers of a cluster, so it requires --cluster ADDRESS")
        if self.resume_check == "hash" and self.output is None:
            raise UsageError("--resume-check hash stores hashes next to the answers, so it requires --output FILE")
        if self.ship and self.verify:
            raise UsageError("--verify always sends the pictures; omit --ship")


@dataclass(frozen=True)
class RowOptions(AnswerOptions):
    """Options of `ffnn` except those that specify its features."""

    batch_size: BatchSizeOption = 2048
