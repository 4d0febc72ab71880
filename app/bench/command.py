"""`trninfer bench`: time networks, single kernels and published problems."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..completion import complete_constant
from ..errors import CHECK_FAILED, UsageError
from ..option_groups import takes_options
from ..options import RunOptions
from .subject import BenchSubject
from .sweep_options import SweepOptions

if TYPE_CHECKING:
    from ..reports.regression import BaselineComparison
    from ..reports.report import Report
    from .what_if import Values

HELP = """Time networks, single kernels or published suites.

Without --model, --kernel and --suite, all bundled networks are shown, one batch of each. On the simulator, times are
predicted from shapes only, unless --verify also computes the values; on a chip, they are measured.

Each row is a layer, or a launch of a kernel. It shows its time on the critical path (0 if all its instructions overlap
with others'), so that rows add up; its bound, the resource that takes most of that time (launch, DMA issue, DMA
latency, DMA bandwidth, tensor, vector, scalar, gpsimd, semaphore, other core); its share; the time in which its own
instructions run; MFU and HFU, relative to the bfloat16 peak for every dtype; the bytes moved to and from HBM, and their
bandwidth during that time (docs/predictions.md explains how to read a critical path). A line below a table lists the
layers whose filters are not applied directly, tap by tap (`form` in JSON; docs/convolutions.md).

\b
Examples:
  All bundled networks, sixteen inputs at a time, in half precision:
    trninfer bench --batch-size 16 --dtype bfloat16
  A network of your own, from its ONNX file to a table of times:
    trninfer bench network.onnx
  A kernel at a shape (a wrong key lists the valid ones), on another chip:
    trninfer bench --kernel matmul --shape m=1024,k=1024,n=2048 --target trn1
    trninfer bench --kernel conv2d \\
        --shape batch=1,cin=256,cout=256,h=224,w=224,k=3,pool=2
  The batch with the highest throughput within 100 us, on two chips:
    trninfer bench --model digits-cnn --batch-size 1,2,4,8,16 \\
        --target trn2,trn3 --latency-limit 100us
  What would make it faster, and by how much:
    trninfer bench --model digits-cnn --advise
  A published suite, compared with its published figures:
    trninfer bench --suite cs149-part2
  A page to share: table, roofline, engines' timeline:
    trninfer bench --model digits-cnn --report report.html
  The network as a picture, its layers coloured by their time:
    trninfer bench --model digits-cnn --graph network.svg
  What if DMA moved 500 bytes a nanosecond (names and values: simulator/timing/constants/)?
    trninfer bench --model digits-cnn --set dma_sustained=500
  The same with the constants of version 0.2's first timing model:
    trninfer bench --set @benchmarks/data/earlier-constants.json
  On a chip: median and 99th percentile of 100 calls, and times on the device:
    trninfer bench --backend neuron --warmup 10 --iters 100 --device-times
  Compare predictions with estimates of AWS's compiler or with times on a chip:
    trninfer bench --compare-archive trninfer-selftest-trn2-trn3-compiler-float32.zip
  A network whose file leaves height and width open, at several sizes:
    trninfer bench --model net.onnx --input-size 160,224,320
  Keep a baseline, and fail if a later run is more than 2 % slower:
    trninfer bench --format json --output baseline.json
    trninfer bench --compare baseline.json --threshold 2%

Exit status: 0; 1 if --verify or --compare failed; 2 wrong usage; 3 the backend is not available; 130 interrupted.
"""


@takes_options(HELP)
def bench(
    subject: BenchSubject,
    compare: Annotated[
        Path | None,
        typer.Option(
            "--compare",
            metavar="FILE",
            help="Compare with an earlier bench, written by --format json; exit status 1 if something got slower.",
        ),
    ] = None,
    threshold: Annotated[
        str | None,
        typer.Option(
            "--threshold",
            metavar="PERCENT",
            help="Allowed slowdown of a layer or of the total, relative to the --compare file. [default: 5%]",
        ),
    ] = None,
    constants: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE|@FILE",
            autocompletion=complete_constant,
            help="Override timing constants for the prediction: NAME=VALUE, or a JSON file of values by name or by"
            " target and name; repeatable.",
        ),
    ] = None,
    *,
    sweep: SweepOptions,
    options: RunOptions,
) -> None:
    """Time the subject, and compare with an earlier bench if one is given."""
    started = time.perf_counter()
    subject = subject.named()
    combined, options = options, sweep.first(options)
    options.check()
    if subject.compare_archive is not None:
        from .archive import bench_archive

        bench_archive(subject, options, is_alone=compare is None and not constants and not sweep.is_sweep)
        return
    options.check_kept(subject.model)
    subject.check(options, compare is not None)
    if threshold is not None and compare is None:
        raise UsageError("--threshold needs --compare")

    from .what_if import parse_constants

    values = parse_constants(constants or [])
    if sweep.is_sweep:
        from .sweep import bench_sweep, check_sweep

        check_sweep(subject, options, compare is not None, sweep.cores, sweep.input_size is not None)
        report = bench_sweep(subject, sweep, combined, values, started)
        write(report, [], None, {"kernel": None, "shape": None, "batch_size": None}, options)
        return
    compared(subject, options, compare, threshold, values, started)


def compared(
    subject: BenchSubject,
    options: RunOptions,
    compare: Path | None,
    threshold: str | None,
    constants: Values,
    started: float,
) -> None:
    """Time one combination, and compare it with the baseline if one is given."""
    from ..reports.machine import to_document
    from ..reports.regression import DEFAULT_THRESHOLD, compare_documents, parse_threshold, read_baseline
    from .measure import measure
    from .output import bench_section

    allowed = parse_threshold(threshold or DEFAULT_THRESHOLD)
    baseline = read_baseline(compare) if compare is not None else None
    report, timelines = measure(subject, options, started, constants)
    section = bench_section(subject, options)
    comparison = None
    if compare is not None and baseline is not None:
        comparison = compare_documents({**to_document(report), "bench": section}, baseline, compare, allowed)
    write(report, timelines, comparison, section, options)
    raise typer.Exit(CHECK_FAILED if comparison is not None and not comparison.passed else report.exit_status)


def write(
    report: Report,
    timelines: list[tuple[str, object]],
    comparison: BaselineComparison | None,
    section: dict[str, Any],
    options: RunOptions,
) -> None:
    """Write the trace, the HTML page and the report."""
    from ..reports.html import write_report
    from ..reports.trace import write_trace
    from .output import write_bench

    write_trace(options.trace, timelines, report.backend)
    write_report(options.report_file, report, timelines, comparison)
    write_bench(report, section, comparison, options)
