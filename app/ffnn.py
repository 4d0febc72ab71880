"""`trninfer ffnn`: feature batches to classes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Optional

import typer

from . import options, stream_options
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
    top_k: stream_options.TopKOption = None,
    dtype: options.DtypeOption = options.Dtype.float32,
    batch_size: options.BatchSizeOption = 2048,
    backend: options.BackendOption = options.BackendName.auto,
    target: options.TargetOption = None,
    cores: options.CoresOption = 1,
    warmup: options.WarmupOption = None,
    iterations: options.IterationsOption = None,
    device_times: options.DeviceTimesOption = False,
    nrtpy: options.NrtpyOption = None,
    compare_backends: options.CompareBackendsOption = False,
    form: options.FormatOption = options.Format.table,
    output: options.OutputOption = None,
    resume: stream_options.ResumeOption = False,
    verify: options.VerifyOption = False,
    trace: options.TraceOption = None,
    report_file: options.ReportOption = None,
    quiet: options.QuietOption = False,
) -> None:
    """Classify rows of features, and time each layer.

    \b
    Features (--data), a row an input, all finite:
      .bin  raw little-endian float32, row by row; the network tells how many
            make a row
      .npy  one array of real numbers [rows, features]; nothing is unpickled
      .npz  the same; one array, or the one that is named x
      .csv  a row a line, perhaps below a line of names

    Rows are read a batch at a time, so a file may be larger than memory. A file
    that has anything wrong with it is refused before anything is computed.

    --weights takes the files of one hidden layer (relu) and a softmax: W1.bin
    [features, hidden], b1.bin [hidden], W2.bin [hidden, classes] and b2.bin
    [classes], raw little-endian float32. All sizes follow from those of the files.

    \b
    Formats:
      table   for people: the first rows, the score with --labels, the layers
      csv     input,label,class_index,probability,error: a line a row, whose
              number from 0 is its input; error stays empty
      ndjson  an object a line, told apart by "type": prediction, layer, and a
              summary at the end
      json    one document; its schema is app/reports/report.schema.json in the package

    csv and ndjson appear on standard output as answers come. With --output,
    answers wait in FILE.partial until all are there; then FILE is written whole.
    After an interruption (Ctrl-C, a full disk) FILE.partial is kept, and the same
    command with --resume goes on after the last row answered. --data, the network,
    --top-k, --dtype, --backend and --target must be the same.

    On a chip times are measured; --iters, --device-times, --cores and
    --compare-backends are as in trninfer classify --help.

    \b
    Examples:
      trninfer ffnn --data samples/digits-X.bin --labels samples/digits-Y.bin --verify
      trninfer ffnn --data X.bin --weights lab/ --format csv --output classes.csv
      trninfer ffnn --data big.npy --format ndjson --top-k 1 | head
      trninfer ffnn --data X.bin --backend neuron --cores 2 --batch-size 512
    """
    from .backends import BackendOptions, choice_note, cores_of, open_session
    from .output import check_output
    from .reports.html import check_report, write_report
    from .reports.trace import check_trace, write_trace

    start = time.perf_counter()
    check_output(output)
    check_trace(trace)
    check_report(report_file)
    stream_options.check_resume(resume, output, verify)
    if weights is not None and model is not None:
        raise UsageError("--weights and --model both name a network; give one of them")
    where = BackendOptions(
        backend.value,
        target.value if target else None,
        cores,
        warmup,
        iterations,
        device_times,
        nrtpy,
        trace=trace is not None,
        keep_timelines=report_file is not None,
        quiet=quiet,
    )
    where.check()
    if compare_backends:
        from .compare_backends import check_comparison, run_comparison

        where = check_comparison(where, resume)

    from ..inference.features import read_features, read_labels, read_weights
    from ..models.files import load_model
    from ..models.network import FeatureInput
    from ..runtime.backend import latency_note

    note = choice_note(where.name)  # tells what is missing before anything is read
    loaded = read_weights(weights) if weights is not None else load_model(model or BUNDLED)
    network = loaded.network
    if not isinstance(network.input, FeatureInput):
        raise UsageError(f"model {model!r} reads pictures, not features; use trninfer classify")

    from ..inference.feature_rows import numbered
    from ..inference.stream import answer_batches
    from .journal.answers import check_top_k, identify, open_answers
    from .progress import progress_bar
    from .reports.emit import emit
    from .reports.report import LayerTable, Report, Score, count
    from .row_inputs import Scored, describe_data, first_unanswered

    top = check_top_k(top_k, network.labels)
    with read_features(data, network.input.features) as rows:
        truth = read_labels(labels, len(rows), len(network.labels)) if labels is not None else None
        if compare_backends:
            batches = numbered(rows, batch_size, 0)
            report = run_comparison("ffnn", loaded, batches, where, dtype.value, batch_size, top, verify)
            if truth is not None:
                right = sum(answer.class_index == truth[int(answer.input)] for answer in report.predictions)
                report.score = Score(int(right), len(truth))
            report.host_seconds = time.perf_counter() - start
            write_report(report_file, report)
            emit(report, form, output, quiet)
            raise typer.Exit(report.exit_status)
        with (
            open_session(loaded, where, dtype.value, batch_size) as session,
            open_answers(
                form,
                output,
                identify("ffnn", loaded, session.info, dtype.value, top, describe_data(data)),
                network.labels,
                resume,
                quiet,
            ) as answers,
        ):
            first = first_unanswered(answers.answered(), len(rows))
            scored = Scored(answers, truth)
            with progress_bar("classifying rows", len(rows) - first, quiet or answers.on_screen) as progress:
                result = answer_batches(
                    session,
                    numbered(rows, batch_size, first),
                    scored,
                    top,
                    progress,
                    dtype.value if verify else None,
                )
            title = (
                f"{network.name}: {count(result.count, 'row')} of {count(network.input.features, 'feature')} "
                f"in batches of at most {batch_size}"
            )
            report = Report(
                command="ffnn",
                model=network.name,
                backend=session.info.name,
                target=session.info.target,
                dtype=dtype.value,
                latency_kind=session.info.latency_kind,
                latency_note=latency_note(session.info),
                latency_label=session.info.latency_label,
                choice_note=note,
                cores=cores_of(where, result.worker_us),
                tables=[LayerTable(title, "", result.layers)],
                host_seconds=time.perf_counter() - start,
                verify=result.verification,
                score=scored.score(),
            )
            write_trace(trace, result.timelines, session.info.name)
            write_report(report_file, report, result.timelines)
            answers.finish(report, quiet, None)
    raise typer.Exit(report.exit_status)
