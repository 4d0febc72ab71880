"""`trninfer bench`: how long networks, single kernels and published problems take."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from . import options
from .errors import CHECK_FAILED, UsageError

if TYPE_CHECKING:
    from ..runtime.backend import Backend
    from ..runtime.session import Result, Session
    from ..runtime.verify import Verification
    from .reports.regression import Comparison
    from .reports.report import Report


def bench(
    model: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--model", help="A bundled name or a .safetensors file. [default: all bundled]", show_default=False
        ),
    ] = None,
    kernel: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--kernel",
            help="One kernel, at --shape: conv2d, matmul, transpose, bias_activation, argmax, vector_add or ffnn.",
        ),
    ] = None,
    shape: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--shape", metavar="KEY=N,...", help="Shape of the kernel; a wrong key names those there are."),
    ] = None,
    suite: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--suite", help="A published suite, in its own dtypes and targets, beside its figures."),
    ] = None,
    dtype: options.DtypeOption = options.Dtype.float32,
    batch_size: options.BatchSizeOption = 1,
    backend: options.BackendOption = options.BackendName.auto,
    target: options.TargetOption = None,
    warmup: options.WarmupOption = None,
    iterations: options.IterationsOption = None,
    device_times: options.DeviceTimesOption = False,
    nrtpy: options.NrtpyOption = None,
    form: options.FormatOption = options.Format.table,
    output: options.OutputOption = None,
    verify: options.VerifyOption = False,
    trace: options.TraceOption = None,
    report_file: options.ReportOption = None,
    compare: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--compare",
            metavar="FILE",
            help="Compare with an earlier bench, as --format json wrote it; exit status 1 where something got slower.",
        ),
    ] = None,
    threshold: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--threshold",
            metavar="PERCENT",
            help="How much slower than the --compare file a layer or the total may be. [default: 5%]",
            show_default=False,
        ),
    ] = None,
    quiet: options.QuietOption = False,
) -> None:
    """Time networks, single kernels or published suites.

    Without --model, --kernel and --suite, all bundled networks are shown, one batch of each. On the simulator times
    are predicted, and only shapes are walked unless --verify asks for the values too; on a chip they are measured.

    A row is one launch of a kernel: its time with the launch, what bounds it (tensor, vector, scalar, gpsimd, dma,
    or latency where no engine is busy for half of it), its share of the whole, MFU (of the bfloat16 peak in every
    dtype), bytes moved to and from HBM and the bandwidth that makes.

    \b
    Examples:
      All bundled networks, sixteen inputs at a time, in half precision:
        trninfer bench --batch-size 16 --dtype bfloat16
      A kernel at a shape (a wrong key names those there are), on another chip:
        trninfer bench --kernel matmul --shape m=1024,k=1024,n=2048 --target trn1
        trninfer bench --kernel conv2d \\
            --shape batch=1,cin=256,cout=256,h=224,w=224,k=3,pool=2
      A published suite beside its published figures:
        trninfer bench --suite cs149-part2
      A page to look at and to send: table, roofline, engines' timeline:
        trninfer bench --model digits-cnn --report report.html
      On a chip: median and 99th percentile of 100 calls, and times on the device:
        trninfer bench --backend neuron --warmup 10 --iters 100 --device-times
      Keep a baseline, and fail where a later run is more than 2 % slower:
        trninfer bench --format json --output baseline.json
        trninfer bench --compare baseline.json --threshold 2%

    Exit status: 0; 1 where --verify or --compare failed; 2 wrong usage; 3 the backend is not there; 130 interrupted.
    """
    from .backends import BackendOptions, choice_note, open_backend
    from .output import check_output
    from .reports.html import check_report, write_report
    from .reports.regression import DEFAULT_THRESHOLD, compare_documents, parse_threshold, read_baseline
    from .reports.trace import check_trace, write_trace

    start = time.perf_counter()
    check_output(output)
    check_trace(trace)
    check_report(report_file)
    subjects = {"--model": model, "--kernel": kernel, "--suite": suite}
    given = [option for option, value in subjects.items() if value is not None]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude each other; give one of them")
    if shape is not None and kernel is None:
        raise UsageError("--shape needs --kernel")
    if threshold is not None and compare is None:
        raise UsageError("--threshold needs --compare")
    if suite is not None and (verify or trace is not None):
        raise UsageError("a suite is timed only; --verify and --trace go with --kernel or a model")
    if suite is not None and backend is options.BackendName.neuron:
        raise UsageError("a suite is predicted, by the simulator; leave out --backend neuron")
    sizes = None if kernel is None else _parse_shape(shape or "")
    allowed = parse_threshold(threshold or DEFAULT_THRESHOLD)
    baseline = read_baseline(compare) if compare is not None else None

    from ..runtime.backend import latency_note
    from .reports.machine import to_document
    from .reports.report import Report

    where = BackendOptions(
        backend.value if suite is None else "sim",
        target.value if target else None,
        warmup=warmup,
        iterations=iterations,
        device_times=device_times,
        nrtpy=nrtpy,
        trace=trace is not None,
        keep_timelines=report_file is not None,
        quiet=quiet,
    )
    note = choice_note(where.name)
    chosen = open_backend(where)
    info = chosen.info
    report = Report("bench", model, info.name, info.target, dtype.value, info.latency_kind, latency_note(info))
    report.latency_label = info.latency_label
    report.choice_note = note
    timelines: list[tuple[str, object]] = []
    if suite is not None:
        _bench_suite(report, suite, quiet)
    elif kernel is not None:
        timelines += _bench_kernel(report, kernel, sizes or {}, chosen, verify)
    else:
        timelines += _bench_models(report, model, chosen, batch_size, verify)
    report.host_seconds = time.perf_counter() - start

    networks = suite is None and kernel is None
    sections: dict[str, Any] = {
        "bench": {"kernel": kernel, "shape": sizes, "batch_size": batch_size if networks else None}
    }
    comparison = None
    if compare is not None and baseline is not None:
        comparison = compare_documents({**to_document(report), **sections}, baseline, compare, allowed)
        sections["compare"] = comparison.section()
    write_trace(trace, timelines, info.name)
    write_report(report_file, report, timelines, comparison)
    _emit(report, sections, comparison, form, output, quiet)
    failed = comparison is not None and not comparison.passed
    raise typer.Exit(CHECK_FAILED if failed else report.exit_status)


def _emit(
    report: Report,
    sections: dict[str, Any],
    comparison: Comparison | None,
    form: options.Format,
    output: Path | None,
    quiet: bool,
) -> None:
    """Write a report like `report.emit`, with the sections that only a bench has: in JSON as fields, in NDJSON a line
    each; the comparison also as a table, which a machine format leaves to standard error."""
    from .output import write_output, write_stderr, write_stdout
    from .reports import machine as report_machine
    from .reports import table as report_table
    from .reports.regression import render_comparison

    if form is options.Format.table:
        stream = sys.stdout if output is None else None
        text = report_table.render(report, quiet, stream)
        text += render_comparison(comparison, stream) if comparison is not None else ""
        write_stdout(text) if output is None else write_output(text, output)
        return
    text = report_machine.render(report, form)
    if form is options.Format.json:
        text = json.dumps({**json.loads(text), **sections}, indent=2) + "\n"
    elif form is options.Format.ndjson:
        text += "".join(json.dumps({"type": kind, **section}) + "\n" for kind, section in sections.items())
    write_output(text, output)
    if not quiet:
        write_stderr(report_table.render_layers(report, sys.stderr))
        write_stderr(render_comparison(comparison, sys.stderr) if comparison is not None else "")


def _bench_models(
    report: Report, model: str | None, backend: Backend, batch_size: int, verify: bool
) -> list[tuple[str, object]]:
    """Fill in the layers of one model or of all; their timelines."""
    from ..models.bundled import bundled_models
    from ..models.files import load_model
    from ..runtime.session import Session
    from ..runtime.verify import merge
    from .reports.report import LayerTable

    names = [model] if model is not None else [bundled.name for bundled in bundled_models()]
    verdicts, timelines = [], []
    for name in names:
        loaded = load_model(name)
        report.model = loaded.network.name if model is not None else None
        session = Session(loaded, backend, report.dtype, batch_size)
        result, verdict = _bench_model(session, verify)
        verdicts += [verdict] if verdict is not None else []
        prefix = "" if len(names) == 1 else f"{loaded.network.name}/"
        report.tables.append(LayerTable(f"{loaded.network.name}: a batch of {batch_size}", prefix, result.layers))
        timelines += [(f"{prefix}{step}", timeline) for step, timeline in result.timelines]
    if verdicts:
        report.verify = merge(verdicts)
    return timelines


def _bench_model(session: Session, verify: bool) -> tuple[Result, Verification | None]:
    """The result of one batch; with `verify`, of random inputs that the golden model computes too."""
    import numpy as np

    from ..runtime.verify import Verifier

    if not verify:
        return session.time(session.batch_size), None
    shape = (session.batch_size, *session.model.network.input.shape)
    inputs = np.random.default_rng(0).standard_normal(shape, np.float32)
    result = session.run(inputs)
    verifier = Verifier(session.model, session.dtype)
    verifier.check(inputs, result.classes, result.probabilities)
    return result, verifier.verdict


def _bench_kernel(
    report: Report, name: str, shape: dict[str, str], backend: Backend, verify: bool
) -> list[tuple[str, object]]:
    """Fill in the row of a kernel; its timeline."""
    from ..runtime.measure.kernel_bench import run_kernel, time_kernel
    from ..runtime.measure.kernel_cases import kernel_case
    from .reports.report import LayerTable

    case = kernel_case(name, shape)
    timed = (run_kernel if verify else time_kernel)(name, case, backend, report.dtype)
    report.tables.append(
        LayerTable(f"{name} {' '.join(f'{key}={size}' for key, size in shape.items())}", "", (timed.row,))
    )
    report.verify = timed.verification
    return [(name, timed.timeline)] if timed.timeline is not None else []


def _parse_shape(text: str) -> dict[str, str]:
    """`m=128,n=64` as {"m": "128", "n": "64"}."""
    shape: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value):
            raise UsageError(f"--shape: {part!r} is not of the form key=value, as in m=128,n=64")
        if key in shape:
            raise UsageError(f"--shape: {key} is given twice")
        shape[key] = value
    return shape


def _bench_suite(report: Report, suite: str, quiet: bool) -> None:
    """Fill in the cases of a suite, which has its own targets and dtypes."""
    from ..runtime.measure.suites import load_suite, run_suite
    from .progress import progress_bar

    cases = load_suite(suite)
    report.model = suite
    report.latency_note = None
    report.target = ",".join(dict.fromkeys(case.target for case in cases))
    report.dtype = ",".join(dict.fromkeys(case.dtype for case in cases))
    with progress_bar(suite, len(cases), quiet) as progress:
        report.suite = list(run_suite(suite, lambda done, total, name: progress(done)))
