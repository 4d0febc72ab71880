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

Without --model, --kernel and --suite, one batch of each bundled network is timed. On the simulator, times are predicted
from shapes alone (with --verify, values are also computed); on a chip, they are measured.

Each row describes a layer, or a launch of a kernel: its time on the critical path (0 if all its instructions overlap
with those of other layers), so that rows add up; the resource that takes most of that time (launch, DMA issue, DMA
latency, DMA bandwidth, tensor, vector, scalar, gpsimd, semaphore, other core); its share of the total; the time during
which its own instructions run; MFU and HFU, relative to the bfloat16 peak for every dtype; the bytes moved to and from
HBM, and the bandwidth during that time. docs/predictions.md explains how to read a critical path. A line below a table
lists the layers that use a convolution algorithm other than the direct one (`form` in JSON; see docs/convolutions.md).

\b
Examples:
  Time all bundled networks with batches of 16 in bfloat16:
    trninfer bench --batch-size 16 --dtype bfloat16
  Time your own network from its ONNX file:
    trninfer bench network.onnx
  Time a kernel at a shape (an invalid key prints the valid ones), on another chip:
    trninfer bench --kernel matmul --shape m=1024,k=1024,n=2048 --target trn1
    trninfer bench --kernel conv2d \\
        --shape batch=1,cin=256,cout=256,h=224,w=224,k=3,pool=2
  Find the batch size with the highest throughput within 100 us, on two chips:
    trninfer bench --model digits-cnn --batch-size 1,2,4,8,16 \\
        --target trn2,trn3 --latency-limit 100us
  Print changes that would make a network faster, and by how much:
    trninfer bench --model digits-cnn --advise
  Compare the predictions for a published suite with the published times:
    trninfer bench --suite cs149-part2
  Write an HTML page with the table, roofline and timeline:
    trninfer bench --model digits-cnn --report report.html
  Draw the network, with layers coloured by time:
    trninfer bench --model digits-cnn --graph network.svg
  Predict with a DMA bandwidth of 500 B/ns (constants: simulator/timing/constants/):
    trninfer bench --model digits-cnn --set dma_sustained=500
  Predict with the constants of an earlier version of the timing model:
    trninfer bench --set @benchmarks/data/earlier-constants.json
  On a chip, measure 100 calls, and the times on the device alone:
    trninfer bench --backend neuron --warmup 10 --iters 100 --device-times
  Compare predictions with estimates of AWS's compiler or with measured times:
    trninfer bench --compare-archive trninfer-selftest-trn2-trn3-compiler-float32.zip
  Time a network whose ONNX file does not fix height and width, at several sizes:
    trninfer bench --model net.onnx --input-size 160,224,320
  Save a baseline, and fail if a later run is more than 2 % slower:
    trninfer bench --format json --output baseline.json
    trninfer bench --compare baseline.json --threshold 2%

Exit status: 0 on success; 1 if --verify or --compare failed; 2 for wrong usage; 3 if the backend is not available; 130
if interrupted.
"""


@takes_options(HELP)
def bench(
    subject: BenchSubject,
    compare: Annotated[
        Path | None,
        typer.Option(
            "--compare",
            metavar="FILE",
            help="Compare with an earlier result of bench --format json. The exit status is 1 if any time increased "
            "by more than --threshold.",
        ),
    ] = None,
    threshold: Annotated[
        str | None,
        typer.Option(
            "--threshold",
            metavar="PERCENT",
            help="Maximum slowdown of a layer or of the total, relative to the --compare file. [default: 5%]",
        ),
    ] = None,
    constants: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE|@FILE",
            autocompletion=complete_constant,
            help="Override constants of the timing model: NAME=VALUE, or @FILE, where FILE is a JSON object of values "
            "keyed by name, or by target and then name. May be repeated.",
        ),
    ] = None,
    *,
    sweep: SweepOptions,
    options: RunOptions,
) -> None:
    """Time the subject, and compare it with an earlier result if one is given."""
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
