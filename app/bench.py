"""`trninfer bench`: how long networks, single kernels and published problems take."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from . import options
from .errors import UsageError

if TYPE_CHECKING:
    from ..runtime.backend import Backend
    from ..runtime.session import Session
    from ..runtime.timing import LayerTiming
    from ..runtime.verify import Verification
    from .report import Report


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
    form: options.FormatOption = options.Format.table,
    output: options.OutputOption = None,
    verify: options.VerifyOption = False,
    trace: options.TraceOption = None,
    quiet: options.QuietOption = False,
) -> None:
    """Time networks, single kernels or published suites.

    Without --model, --kernel and --suite, all bundled networks are shown. On the simulator only shapes are walked,
    unless --verify asks for the values too.

    \b
    Examples:
      trninfer bench --batch-size 16 --dtype bfloat16
      trninfer bench --kernel conv2d --shape batch=1,cin=256,cout=256,h=224,w=224,k=3,pool=2
      trninfer bench --suite cs149-part2
    """
    from .output import check_output
    from .trace import check_trace, write_trace

    start = time.perf_counter()
    check_output(output)
    check_trace(trace)
    subjects = {"--model": model, "--kernel": kernel, "--suite": suite}
    given = [option for option, value in subjects.items() if value is not None]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude each other; give one of them")
    if shape is not None and kernel is None:
        raise UsageError("--shape needs --kernel")

    if suite is not None and (verify or trace is not None):
        raise UsageError("a suite is timed only; --verify and --trace go with --kernel or a model")

    from ..runtime.backend import choose_backend, latency_note
    from .report import Report, emit

    chosen = choose_backend(backend.value, target.value if target else None, trace is not None)
    report = Report("bench", model, chosen.name, chosen.target, dtype.value, chosen.latency_kind, latency_note(chosen))
    timelines: list[tuple[str, object]] = []
    if suite is not None:
        _bench_suite(report, suite, quiet)
    elif kernel is not None:
        timelines += _bench_kernel(report, kernel, shape or "", chosen, verify)
    else:
        timelines += _bench_models(report, model, chosen, batch_size, verify)
    report.host_seconds = time.perf_counter() - start
    write_trace(trace, timelines, chosen.name)
    emit(report, form, output, quiet)
    raise typer.Exit(report.exit_status)


def _bench_models(
    report: Report, model: str | None, backend: Backend, batch_size: int, verify: bool
) -> list[tuple[str, object]]:
    """Fill in the layers of one model or of all; their timelines."""
    from ..models.bundled import bundled_models
    from ..models.files import load_model
    from ..runtime.session import Session
    from .report import LayerTable

    names = [model] if model is not None else [bundled.name for bundled in bundled_models()]
    verdicts, timelines = [], []
    for name in names:
        loaded = load_model(name)
        session = Session(loaded, backend, report.dtype, batch_size)
        layers, verdict = _bench_model(session, verify)
        verdicts += [verdict] if verdict is not None else []
        prefix = "" if len(names) == 1 else f"{loaded.network.name}/"
        report.tables.append(LayerTable(f"{loaded.network.name}: a batch of {batch_size}", prefix, layers))
        timelines += [(f"{prefix}{step}", timeline) for step, timeline in session.timelines]
    if verdicts:
        report.verify = _worst(verdicts)
    return timelines


def _bench_model(session: Session, verify: bool) -> tuple[tuple[LayerTiming, ...], Verification | None]:
    """The layers of one batch; with `verify`, of random inputs that the golden model computes too."""
    import numpy as np

    from ..runtime.verify import Verifier

    if not verify:
        return session.time(session.batch_size).layers, None
    shape = (session.batch_size, *session.model.network.input.shape)
    verifier = Verifier(session.model, session.dtype)
    result = session.run_batches(verifier.watch([np.random.default_rng(0).standard_normal(shape, np.float32)]))
    return result.layers, verifier.compare(result)


def _bench_kernel(report: Report, name: str, shape: str, backend: Backend, verify: bool) -> list[tuple[str, object]]:
    """Fill in the row of a kernel; its timeline."""
    from ..runtime.kernel_bench import run_kernel, time_kernel
    from ..runtime.kernel_cases import kernel_case
    from .report import LayerTable

    case = kernel_case(name, _parse_shape(shape))
    timed = (run_kernel if verify else time_kernel)(name, case, backend, report.dtype)
    report.tables.append(LayerTable(f"{name} {shape.replace(',', ' ')}", "", (timed.row,)))
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
    from ..runtime.suites import load_suite, run_suite
    from .progress import progress_bar

    cases = load_suite(suite)
    report.model = suite
    report.latency_note = None
    report.target = ",".join(dict.fromkeys(case.target for case in cases))
    report.dtype = ",".join(dict.fromkeys(case.dtype for case in cases))
    with progress_bar(suite, len(cases), quiet) as progress:
        report.suite = list(run_suite(suite, lambda done, total, name: progress(done)))


def _worst(verdicts: list[Verification]) -> Verification:
    """The verdicts of several networks as one."""
    from ..runtime.verify import Verification

    return Verification(
        passed=all(verdict.passed for verdict in verdicts),
        max_abs_error=max(verdict.max_abs_error for verdict in verdicts),
        disagreements=sum(verdict.disagreements for verdict in verdicts),
        near_ties=sum(verdict.near_ties for verdict in verdicts),
        tolerance=verdicts[0].tolerance,
    )
