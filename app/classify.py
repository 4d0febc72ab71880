"""`trninfer classify`: pictures to labels."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from . import options
from .errors import UsageError


def classify(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Pictures, folders, globs, or - for standard input.")
    ],
    model: Annotated[str, typer.Option("--model", help="A bundled name or a .safetensors file.")] = "digits-cnn",
    dtype: options.DtypeOption = options.Dtype.float32,
    batch_size: options.BatchSizeOption = 16,
    backend: options.BackendOption = options.BackendName.auto,
    target: options.TargetOption = None,
    form: options.FormatOption = options.Format.table,
    output: options.OutputOption = None,
    verify: options.VerifyOption = False,
    trace: options.TraceOption = None,
    quiet: options.QuietOption = False,
) -> None:
    """Tell what pictures show, and how long each layer takes.

    A picture that cannot be used is named on standard error; the others are answered, and the exit status is 2.

    \b
    Examples:
      trninfer classify photo.jpg
      trninfer classify samples/ --format json --output answers.json
      cat photo.jpg | trninfer classify -
    """
    from .inputs import find_pictures
    from .output import check_output
    from .trace import check_trace, write_trace

    start = time.perf_counter()
    check_output(output)
    check_trace(trace)
    found, problems = find_pictures(paths)

    from ..models.files import load_model
    from ..models.network import ImageInput
    from ..runtime.backend import choose_backend, latency_note

    chosen = choose_backend(backend.value, target.value if target else None, trace is not None)
    loaded = load_model(model)
    spec = loaded.network.input
    if not isinstance(spec, ImageInput):
        raise UsageError(f"model {model!r} reads features, not pictures; use trninfer ffnn")

    from ..runtime.session import Session
    from ..runtime.verify import Verifier
    from .pictures import PictureBatches
    from .progress import progress_bar
    from .report import LayerTable, Report, count, emit, predictions

    session = Session(loaded, chosen, dtype.value, batch_size)
    verifier = Verifier(loaded, dtype.value) if verify else None
    batches = PictureBatches(found, spec, batch_size)
    with progress_bar("classifying", len(found), quiet) as progress:
        result = session.run_batches(
            verifier.watch(batches) if verifier else batches, lambda done: progress(done + len(batches.problems))
        )
    title = f"{loaded.network.name}: {count(len(result.classes), 'picture')} in batches of at most {batch_size}"
    report = Report(
        command="classify",
        model=loaded.network.name,
        backend=chosen.name,
        target=chosen.target,
        dtype=dtype.value,
        latency_kind=chosen.latency_kind,
        latency_note=latency_note(chosen),
        tables=[LayerTable(title, "", result.layers)],
        predictions=predictions(batches.names, loaded.network.labels, result.classes, result.probabilities),
        host_seconds=time.perf_counter() - start,
        verify=verifier.compare(result) if verifier else None,
        errors=problems + batches.problems,
    )
    write_trace(trace, session.timelines, chosen.name)
    emit(report, form, output, quiet)
    raise typer.Exit(report.exit_status)
