"""`trninfer ffnn`: feature batches to classes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Optional

import typer

from . import options
from .errors import UsageError

BUNDLED = "digits-ffnn"


def ffnn(
    data: Annotated[
        Path,
        typer.Option("--data", metavar="FILE", help="Rows of features: .bin (raw float32), .npy, .npz or .csv."),
    ],
    weights: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--weights", metavar="DIR", help="Folder with W1.bin b1.bin W2.bin b2.bin; sizes follow from the files."
        ),
    ] = None,
    labels: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--labels", metavar="FILE", help="The right classes, raw int32 .bin: scores the answers."),
    ] = None,
    model: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--model",
            help=f"A bundled name or a .safetensors file, in place of --weights. [default: {BUNDLED}]",
            show_default=False,
        ),
    ] = None,
    dtype: options.DtypeOption = options.Dtype.float32,
    batch_size: options.BatchSizeOption = 2048,
    backend: options.BackendOption = options.BackendName.auto,
    target: options.TargetOption = None,
    form: options.FormatOption = options.Format.table,
    output: options.OutputOption = None,
    verify: options.VerifyOption = False,
    trace: options.TraceOption = None,
    quiet: options.QuietOption = False,
) -> None:
    """Classify rows of features, and time each layer.

    \b
    Examples:
      trninfer ffnn --data samples/digits-X.bin --labels samples/digits-Y.bin --verify
      trninfer ffnn --data X.bin --weights lab/ --format csv --output classes.csv
    """
    from .output import check_output
    from .trace import check_trace, write_trace

    start = time.perf_counter()
    check_output(output)
    check_trace(trace)
    if weights is not None and model is not None:
        raise UsageError("--weights and --model both name a network; give one of them")

    from ..models.files import load_model
    from ..models.network import FeatureInput
    from ..runtime.backend import choose_backend, latency_note
    from .features import read_features, read_labels, read_weights

    chosen = choose_backend(backend.value, target.value if target else None, trace is not None)
    loaded = read_weights(weights) if weights is not None else load_model(model or BUNDLED)
    network = loaded.network
    if not isinstance(network.input, FeatureInput):
        raise UsageError(f"model {model!r} reads pictures, not features; use trninfer classify")
    rows = read_features(data, network.input.features)
    wanted = read_labels(labels, len(rows), len(network.labels)) if labels is not None else None

    from ..runtime.session import Session, split_batches
    from ..runtime.verify import Verifier
    from .progress import progress_bar
    from .report import LayerTable, Report, Score, count, emit, predictions

    session = Session(loaded, chosen, dtype.value, batch_size)
    verifier = Verifier(loaded, dtype.value) if verify else None
    batches = split_batches(rows, batch_size)
    with progress_bar("classifying rows", len(rows), quiet) as progress:
        result = session.run_batches(verifier.watch(batches) if verifier else batches, progress)
    title = (
        f"{network.name}: {count(len(rows), 'row')} of {count(network.input.features, 'feature')} "
        f"in batches of at most {batch_size}"
    )
    report = Report(
        command="ffnn",
        model=network.name,
        backend=chosen.name,
        target=chosen.target,
        dtype=dtype.value,
        latency_kind=chosen.latency_kind,
        latency_note=latency_note(chosen),
        tables=[LayerTable(title, "", result.layers)],
        predictions=predictions(range(len(rows)), network.labels, result.classes, result.probabilities),
        host_seconds=time.perf_counter() - start,
        verify=verifier.compare(result) if verifier else None,
        score=Score(int((result.classes == wanted).sum()), len(rows)) if wanted is not None else None,
    )
    write_trace(trace, session.timelines, chosen.name)
    emit(report, form, output, quiet)
    raise typer.Exit(report.exit_status)
