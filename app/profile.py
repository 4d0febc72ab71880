"""`trninfer profile`: compare a measured profile with the prediction of the same kernel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..runtime.launch_options import Target
from .errors import CHECK_FAILED, UsageError
from .option_groups import whole
from .output import write_stdout
from .text import printable

if TYPE_CHECKING:
    from ..simulator import Run
    from ..simulator.profiles import MeasuredRun

KERNEL_HELP = (
    "Python file that launches the kernel, as for trninfer simulate. Its last launch is compared with the profile."
)


def profile(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Profile: a raw NTFF file, a folder of Parquet tables, or a JSON file."),
    ],
    kernel: Annotated[Path | None, typer.Option("--kernel", metavar="FILE", help=KERNEL_HELP)] = None,
    target: Annotated[
        Target | None, typer.Option("--target", help="NeuronCore to predict for.", show_default="trn2")
    ] = None,
    core: Annotated[
        int,
        typer.Option("--core", parser=whole(0, 1), metavar="N", help="Physical core to show within the logical core."),
    ] = 0,
    steps: Annotated[
        int,
        typer.Option(
            "--steps",
            parser=whole(0, 100_000),
            metavar="N",
            help="Number of longest steps of the critical path to show.",
        ),
    ] = 10,
) -> None:
    """Show a profile that was measured on a chip, and compare it with the prediction of the same kernel (--kernel).

    The command shows the total measured time, how busy each engine and the DMA engines were, how descriptors were
    generated, and the critical path. With --kernel, it compares each kind of operation on each engine with the
    prediction, and names the constant of the timing model that would explain a difference; bench --set can change it.

    Versions 5 and 6 of raw NTFF files (trn2) are supported. Export other versions with neuron-explorer view -n
    FILE.neff -s FILE.ntff --output-format parquet --output-file FOLDER --ingest-only. Up to SDK 2.33, --output-format
    json works as well.

    \b
    Examples:
      trninfer profile profile.ntff
      trninfer profile FOLDER --kernel my_kernel.py
      trninfer profile profile_full.json --core 1 --steps 30

    Exit status: 0 on success; 1 if the --kernel script fails; 2 if a file cannot be read.
    """
    from ..simulator.profiles import ProfileError, read_profile

    if not file.exists():
        raise UsageError(f"{file}: no such file or folder")
    if not file.is_dir() and not file.is_file():
        raise UsageError(f"{file}: neither a file nor a folder")
    if kernel is not None and not kernel.is_file():
        raise UsageError(f"--kernel {kernel}: {'no such file' if not kernel.exists() else 'not a regular file'}")
    try:
        run = read_profile(file, core)
    except ProfileError as error:
        raise UsageError(str(error)) from None
    _print(_measured(run, steps))
    if kernel is not None:
        predicted = _predict(kernel, target)
        _print(["", *_beside(run, predicted)])


def _print(lines: Iterable[str]) -> None:
    write_stdout("".join(f"{printable(line)}\n" for line in lines))


def _measured(run: MeasuredRun, steps: int) -> Iterator[str]:
    from ..simulator.profiles import critical_path, engines, makers

    yield f"{run.name}: measured {run.total_ns / 1000:.2f} us, {len(run.instructions):,} instructions"
    for missing in run.missing:
        yield f" the profile does not contain {missing}"
    yield ""
    rows: list[tuple[str, ...]] = []
    for e in engines(run):
        rows.append((e.engine, f"{e.busy_us:.2f}", f"{100 * e.share:.1f} %", f"{e.instructions:,}"))
    yield from _table(("engine", "busy us", "of the time", "instructions, packets"), rows)
    counts = makers(run)
    if counts:
        yield ""
        rows = [(maker, f"{count:,}", f"{size:,}") for maker, (count, size) in sorted(counts.items())]
        yield from _table(("descriptors by", "packets", "bytes"), rows)
    path = critical_path(run)
    spent: dict[str, int] = {}
    for step in path:
        spent[step.resource] = spent.get(step.resource, 0) + step.end_ns - step.start_ns
    yield ""
    rows = [
        (name, f"{time / 1000:.2f}", f"{100 * time / max(run.total_ns, 1):.1f} %")
        for name, time in sorted(spent.items(), key=lambda item: -item[1])
    ]
    yield from _table(("critical path", "us", "of the time"), rows)
    longest = sorted(path, key=lambda step: step.start_ns - step.end_ns)[:steps]
    if longest:
        yield ""
        rows = [
            (f"{s.start_ns / 1000:.2f}", f"{(s.end_ns - s.start_ns) / 1000:.3f}", s.resource, s.opcode, s.line)
            for s in sorted(longest)
        ]
        yield from _table(("from us", "us", "spent by", "instruction", "line"), rows)


def _predict(kernel: Path, target: str | None) -> Run:
    """Run a script and return its last launch."""
    from ..simulator import NkiValidationError
    from ..simulator.running.script import run_script

    runs: list[Run] = []
    try:
        status = run_script([str(kernel)], lambda run, shapes: runs.append(run), target)
    except NkiValidationError as error:
        raise UsageError(f"--kernel: {error}") from None
    if status:
        raise typer.Exit(CHECK_FAILED)
    if not runs:
        raise UsageError(f"--kernel {kernel}: no kernel was launched")
    return runs[-1]


def _beside(measured: MeasuredRun, run: Run) -> Iterator[str]:
    from ..simulator import Run
    from ..simulator.profiles import compare

    counted = Run(run.prediction, (), run.name, profiled=True)  # the launch, counted as in profiles
    error = 100 * (counted.latency_us / (measured.total_ns / 1000) - 1) if measured.total_ns else 0.0
    yield f"{run.name} on {run.target}: predicted {counted.latency_us:.2f} us ({error:+.1f} %)"
    yield ""
    rows = [
        (
            f"{d.engine}: {d.kind}",
            f"{d.measured:,} / {d.predicted:,}",
            f"{d.measured_ns:.0f} / {d.predicted_ns:.0f}",
            f"{d.error:+.1f} %" if d.measured and d.predicted else "",
            f"--set {d.explains}" if d.explains else "",
        )
        for d in compare(measured, run)
    ]
    yield from _table(("operation", "number", "median ns", "error", "would explain it"), rows)
    yield "number and median are shown as measured / predicted"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(cell) for cell in column) for column in zip(header, *rows)]
    for row in (header, *rows):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
