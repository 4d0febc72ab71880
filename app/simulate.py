"""`trninfer simulate`: run a script or kernel file that contains `import nki` on the simulator."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..runtime.launch_options import Target
from .errors import BAD_USAGE, CHECK_FAILED, UsageError, complain, reason
from .option_groups import takes_options, whole
from .output import check_files, check_kept, write_output, write_stderr, write_stdout
from .plain_values import PlainValues
from .text import printable, shorten

if TYPE_CHECKING:
    from ..runtime.selftest.archive import ArchivedKernel, ComparedKernel
    from ..simulator import Run

HELP = """Run a script that imports nki on a simulated NeuronCore, and print a line for each launch to standard error.

Runs the script like `python FILE ARGS`, but with its kernels on the simulator; no Neuron package is needed. Options
must precede FILE. The line of a launch shows the kernel, its arguments, the predicted time, the limiting resource, the
MFU and the DMAs. It is followed by the source lines that account for most of the critical path, and the resources that
they use. The last line shows the findings of `trninfer lint`: code that runs on the simulator but that the NKI compiler
would reject.

Scripts for older versions of NKI, and the modules in their folder that they import, are migrated in memory;
nki.benchmark reports predicted times.

\b
Examples:
  trninfer simulate my_kernels.py
  trninfer simulate --target trn1 --trace out.json my_kernels.py 512
  trninfer simulate run_benchmark.py --kernel tiled -n 25600
  trninfer simulate --sanitize my_kernels.py
  trninfer simulate --sanitize=numeric my_kernels.py
  trninfer simulate --sweep "TILE_N=128,256,512" --sweep BUFFERS=1,2 my_kernels.py
  trninfer simulate --compare-archive trninfer-selftest-trn2-chip-float32.zip my_kernels.py

Exit status: that of the script; 1 if it raises an exception, if --sanitize has findings, or if no variant of --sweep
can be used; 2 if the script cannot be run.
"""


NO_LAUNCH = "the script must call a kernel with arrays, as in kernel(np.ones((128, 512), np.float32))"

TraceOption = Annotated[
    Path | None,
    typer.Option("--trace", metavar="FILE", help="Write the timelines of all launches as a trace for Perfetto."),
]
SweepOption = Annotated[
    list[str] | None,
    typer.Option(
        "--sweep",
        metavar="NAME=VALUES",
        help="Run FILE once for each of these values of its top-level constant NAME, in parallel, and print a table. "
        "If given several times, run every combination.",
    ),
]
FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="table|json",
        help="With json, launches are written to standard output, and output of FILE is redirected to standard error.",
    ),
]
TargetOption = Annotated[
    Target | None,
    typer.Option("--target", help="NeuronCore to simulate.", show_default="NEURON_PLATFORM_TARGET_OVERRIDE, else trn2"),
]
DgeOption = Annotated[
    bool,
    typer.Option(
        "--disable-dge", help="Disable hardware DMA descriptor generation, like the compiler option of the same name."
    ),
]
MaxInstructionsOption = Annotated[
    int | None,
    typer.Option(
        "--max-instructions",
        parser=whole(1, 100_000_000),
        metavar="N",
        help="Maximum number of instructions of a kernel; each needs about 2 kB of memory.",
        show_default="2000000",
    ),
]
LinesOption = Annotated[
    int,
    typer.Option(
        "--lines", parser=whole(0, 1000), metavar="N", help="Number of slowest source lines to show for each kernel."
    ),
]
ReportOption = Annotated[
    Path | None, typer.Option("--report", metavar="FILE", help="Write all launches as an HTML page.")
]
CompareArchiveOption = Annotated[
    Path | None,
    typer.Option(
        "--compare-archive",
        metavar="ARCHIVE",
        help="Compare launches with AWS's estimates and measured times from an archive written by trninfer doctor "
        "--selftest. Kernels are matched by name, shapes, dtypes and target.",
    ),
]

FORMATS = ("table", "json")
SANITIZERS = ("memory", "numeric", "all")  # values defined in simulator/checking/sanitizing.py
SANITIZE_HELP = (
    "Check every launch for races, overlaps and lost values. --sanitize=numeric looks for the first NaN, infinity, "
    "saturation and loss of precision instead; --sanitize=all looks for both kinds of errors."
)


class SimulateCommand(PlainValues):
    """A command with a flag that accepts an optional value, `--sanitize=numeric`; Click would interpret FILE as the
    value of a bare `--sanitize`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Replace `--sanitize=KIND` before FILE with the equivalent hidden option."""
        valued = {name for option in self.params if not getattr(option, "is_flag", True) for name in option.opts}
        at = 0
        while at < len(args) and args[at].startswith("-") and args[at] not in ("-", "--"):
            option, value, kind = args[at].partition("=")
            if option == "--sanitize" and value:
                if kind not in SANITIZERS:
                    raise UsageError(
                        f"{args[at]}: unknown option; use one of "
                        f"{', '.join(f'--sanitize={sanitizer}' for sanitizer in SANITIZERS)}"
                    )
                args[at] = f"--sanitize-for={kind}"
            at += 2 if args[at] in valued else 1
        return super().parse_args(ctx, args)


def _show_results(launches: _Launches, output_format: str, compare_archive: Path | None) -> None:
    """Print the comparison with an archive, if there is one, and all launches as JSON, if requested."""
    if compare_archive is not None:
        launches.show_compared(compare_archive)
    if output_format == "json":
        write_stdout(f"{launches.as_json(compare_archive is not None)}\n")


@takes_options(HELP)
def simulate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A Python file that imports nki.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="ARGS", help="Arguments of the script (sys.argv).")
    ] = None,
    target: TargetOption = None,
    trace: TraceOption = None,
    report: ReportOption = None,
    sanitize: Annotated[bool, typer.Option("--sanitize", help=SANITIZE_HELP)] = False,
    sanitize_for: Annotated[str, typer.Option("--sanitize-for", hidden=True)] = "",
    sweeps: SweepOption = None,
    lines: LinesOption = 3,
    disable_dge: DgeOption = False,
    max_instructions: MaxInstructionsOption = None,
    output_format: FormatOption = "table",
    compare_archive: CompareArchiveOption = None,
) -> None:
    """Run a file, print each launch, and write the requested trace and page."""
    from ..simulator import NkiValidationError

    _check(file, trace, report, output_format)
    command = [str(file), *(arguments or [])]
    if sweeps:
        if any((trace, report, sanitize, sanitize_for, compare_archive)):
            others = "--trace, --report, --sanitize and --compare-archive"
            raise UsageError(f"--sweep cannot be combined with {others}; use them with a single variant")
        raise typer.Exit(_sweep(command, sweeps, target))
    trace, report = (path and Path(os.path.abspath(path)) for path in (trace, report))
    source = Path(os.path.abspath(file))
    archived = _read_archive(compare_archive) if compare_archive is not None else []
    started = time.perf_counter()
    launches = _Launches(source, str(file), lines, trace is not None or report is not None, archived)
    options = _Options(target, sanitize_for or sanitize, disable_dge, max_instructions, output_format == "json")
    try:
        status, is_migrated = _run(command, launches.observe, options)
    except NkiValidationError as error:
        raise UsageError(str(error)) from None
    if not launches.summaries and not status:
        write_stderr(f"{printable(str(file))}: no kernel was launched; {NO_LAUNCH}\n")
    if not is_migrated:
        _report_lint(source, str(file))
    _show_results(launches, output_format, compare_archive)
    if not _write_files(file.name, launches.kept, time.perf_counter() - started, trace, report):
        status = BAD_USAGE
    if launches.findings and not status:
        status = CHECK_FAILED
    raise typer.Exit(status)


@dataclass
class _Launches:
    """Prints the launches of a script as they finish.

    `name` is the path of the script as given, `lines` is the number of kernel lines to show, `keeps` is True if
    complete runs are stored, and `archived` holds the launches to compare with.
    """

    source: Path
    name: str
    lines: int
    keeps: bool
    archived: list[ArchivedKernel]
    kept: list[Run] = field(default_factory=list)
    summaries: list[dict[str, Any]] = field(default_factory=list)
    compared: list[ComparedKernel] = field(default_factory=list)
    matched: int = 0
    findings: int = 0

    def observe(self, run: Run, shapes: list[str]) -> None:
        """Print a launch, and store it for later reports."""
        from ..simulator.running.script import line_of, lines_of, summary

        lines = [f"  {finding}".replace(str(self.source), self.name) for finding in run.findings]
        _show([line_of(run, shapes), *lines_of(run, self.lines), *lines])
        self.findings += len(run.findings)
        self.summaries.append(summary(run, shapes))
        if self.keeps:
            self.kept.append(run)
        alike = [
            archived
            for archived in self.archived
            if (archived.check.kernel, archived.target, archived.operands) == (run.name, run.target, shapes)
        ]
        if len(alike) == 1:  # layers of a network may have launches that differ only in their program
            self.matched += 1
            paired = alike[0].beside(run)
            if paired not in self.compared:  # skip repeated launches
                self.compared.append(paired)

    def show_compared(self, archive: Path) -> None:
        """Print the launches next to the archive's results, and the number of launches that are not in the archive."""
        from .reports.compared import render_compared

        if self.compared:
            title = f"{archive}, compared with the predictions of {self.name}"
            write_stderr(render_compared(printable(title), self.compared, sys.stderr))
        missing = len(self.summaries) - self.matched
        if missing:
            kernels = ", ".join(sorted({archived.check.kernel for archived in self.archived}))
            counted = "1 launch is" if missing == 1 else f"{missing} launches are"
            message = (
                f"{archive}: {counted} not found by name, shapes, dtypes and target; the archive contains {kernels}"
            )
            write_stderr(f"{shorten(printable(message))}\n")

    def as_json(self, is_compared: bool) -> str:
        """Return the launches, and the comparison if there is one, as a JSON document."""
        from .reports.compared import rows_of

        compared = {"compare_archive": rows_of(self.compared)} if is_compared else {}
        document = {"schema_version": 1, "command": "simulate", "launches": self.summaries, **compared}
        return json.dumps(document, indent=2)


def _read_archive(path: Path) -> list[ArchivedKernel]:
    from ..runtime.selftest.archive import ArchiveError, read_archive

    try:
        return read_archive(path)
    except ArchiveError as error:
        raise UsageError(f"--compare-archive {error}") from None


@dataclass(frozen=True)
class _Options:
    """Options of a run."""

    target: str | None
    sanitize: bool | str
    disable_dge: bool
    max_instructions: int | None
    diverts_output: bool  # the script's standard output is redirected to standard error


def _run(arguments: list[str], observe: Callable[..., None], options: _Options) -> tuple[int, bool]:
    """Run a script, migrated in memory if it uses an older dialect; return its exit status and whether it was
    migrated."""
    from ..simulator.machine.settings import MAX_INSTRUCTIONS_VARIABLE, NO_DGE_VARIABLE, changed_environment
    from ..simulator.running.script import Edits, run_script
    from .left_children import ending_children

    with ExitStack() as stack:
        stack.enter_context(ending_children())
        text = _migrated(arguments[0], stack)
        if options.disable_dge:
            stack.enter_context(changed_environment({NO_DGE_VARIABLE: "1"}))
        if options.max_instructions is not None:
            stack.enter_context(changed_environment({MAX_INSTRUCTIONS_VARIABLE: str(options.max_instructions)}))
        if options.diverts_output:
            stack.enter_context(redirect_stdout(sys.stderr))
        edits = Edits(text=text) if text is not None else None
        status = run_script(arguments, observe, options.target, options.sanitize, edits)
    return status, text is not None


def _migrated(script: str, stack: ExitStack) -> tuple[str, str] | None:
    """Migrate imported modules of older NKI dialects while `stack` is open. Return the migrated script, or None if the
    script uses the current dialect."""
    from ..simulator.machine.errors import EarlierRunnerWarning

    try:
        from ..simulator.migrate.in_memory import migrated, migrated_imports
    except ImportError:  # libcst is missing; this is reported when the script imports neuronxcc
        return None
    stack.enter_context(warnings.catch_warnings())

    def notify(line: str) -> None:
        _show([line])
        warnings.simplefilter("ignore", EarlierRunnerWarning)

    stack.enter_context(migrated_imports(notify))
    return migrated(os.path.abspath(script), notify)


def _show(lines: list[str]) -> None:
    write_stderr("".join(f"{shorten(printable(line))}\n" for line in lines))


def _sweep(arguments: list[str], sweeps: list[str], target: str | None) -> int:
    """Run the variants of a script, print them, and return the exit status."""
    from ..simulator import NkiValidationError
    from ..simulator.search.sweep import read_axis, sweep

    try:
        ranking = sweep(arguments, [read_axis(text) for text in sweeps], target)
    except NkiValidationError as error:
        raise UsageError(str(error)) from None
    write_stdout("".join(f"{printable(line)}\n" for line in str(ranking).splitlines()))
    return CHECK_FAILED if ranking.best is None else 0


def _check(file: Path, trace: Path | None, report: Path | None, output_format: str) -> None:
    """Raise UsageError if the script does not exist or a file is not writable."""
    if output_format not in FORMATS:
        raise UsageError(f"--format {output_format}: allowed: {', '.join(FORMATS)}")
    if not file.is_file():
        raise UsageError(f"{file}: {'no such file' if not file.exists() else 'not a regular file'}")
    if file.suffix == ".ipynb":
        raise UsageError(f"{file}: a notebook; convert it to a Python file with jupyter nbconvert --to script")
    check_files(None, trace, report)
    check_kept((file,), ("--trace", trace), ("--report", report))


def _write_files(source: str, runs: list[Run], seconds: float, trace: Path | None, report: Path | None) -> bool:
    """Write the requested files independently of each other; return True if all of them were written.

    A folder that the script has removed is created again.
    """
    from ..simulator import write_trace
    from .reports.html import page_of_launches

    files: tuple[tuple[str, Path | None, Callable[[Path], None]], ...] = (
        ("--trace", trace, lambda path: write_trace(os.path.realpath(path), runs)),
        ("--report", report, lambda path: write_output(page_of_launches(source, runs, seconds), path, "--report")),
    )
    well = True
    for option, path, write in files:
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                write(path)
        except (OSError, UsageError) as error:
            message = (
                f"{option} {path}: cannot be written: {reason(error)}" if isinstance(error, OSError) else str(error)
            )
            complain(message)
            well = False
    return well


def _report_lint(file: Path, name: str) -> None:
    """Print a line with the number of lint findings. Running the script does not reveal these problems: the simulator
    runs any Python code, whereas the compiler accepts only a subset."""
    from ..simulator.checking.lint import SourceError, check_file

    try:
        findings = sorted(finding for finding in check_file(file) if not finding.is_warning)
    except SourceError:
        return
    if findings:
        count = "1 finding" if len(findings) == 1 else f"{len(findings)} findings, the first"
        first = str(findings[0]).replace(str(file), name)
        write_stderr(f"{shorten(printable(f'{name}: trninfer lint has {count}: {first}'))}\n")
