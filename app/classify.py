"""`trninfer classify`: pictures to labels."""

from __future__ import annotations

import time
from typing import Annotated, Optional

import typer

from . import options, stream_options
from .errors import UsageError


def classify(
    paths: Annotated[
        Optional[list[str]],  # noqa: UP045 (typer evaluates annotations on Python 3.10 too)
        typer.Argument(metavar="PATH", help="Pictures, folders, globs, or - for a picture on standard input."),
    ] = None,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Look into the folders in a folder too, but not through links.")
    ] = False,
    from_list: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--from-list", metavar="FILE", help="Also the pictures named in a file, one a line; - for standard input."
        ),
    ] = None,
    model: Annotated[str, typer.Option("--model", help="A bundled name or a .safetensors file.")] = "digits-cnn",
    top_k: stream_options.TopKOption = None,
    dtype: options.DtypeOption = options.Dtype.float32,
    batch_size: options.BatchSizeOption = 16,
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
    """Tell what pictures show, and how long each layer takes.

    Pictures are BMP, GIF, JPEG, PNG, PNM, TIFF and WebP files of at most 64
    megapixels. In folders and globs, hidden files are left out and names are
    sorted; in folders, only files with a picture's suffix count. A picture is
    answered once, whatever names lead to it. They are decoded ahead while the
    batch before them is computed, so any number of them fits in memory.

    A picture that cannot be used is named on standard error; the others are
    answered, and the exit status is 2.

    \b
    Formats:
      table   for people: label and probability (the --top-k if given), layers
      csv     input,label,class_index,probability,error: a line an answer, then
              a line an input that could not be used, with the reason as error
      ndjson  an object a line, told apart by "type": prediction, layer, error,
              and a summary at the end
      json    one document; its schema is app/reports/report.schema.json in the package

    csv and ndjson appear on standard output as answers come. With --output,
    answers wait in FILE.partial until all are there; then FILE is written whole.
    After an interruption (Ctrl-C, a full disk) FILE.partial is kept, and the same
    command with --resume answers what is missing: the earlier answers stay first,
    inputs with an error are tried again. --model, --top-k, --dtype, --backend and
    --target must be the same. A finished csv or ndjson FILE can be added to too.

    On a chip times are measured: median and 99th percentile of --iters calls,
    from host to host; --device-times adds the time on the device alone. --cores
    shares the batches out; layers then add up all cores, and the time that passed
    on the busiest is told. --compare-backends shows each launch on the chip and
    on the simulator; its csv has the measurements in place of the answers.

    \b
    Examples:
      trninfer classify photo.jpg
      trninfer classify samples/ --format json --output answers.json
      trninfer classify photos/ --recursive --format csv --output all.csv --resume
      find . -name '*.png' | trninfer classify --from-list - --format ndjson
      cat photo.jpg | trninfer classify - --top-k 3
      trninfer classify photos/ --backend neuron --cores 4
      trninfer classify samples/ --compare-backends --format csv --output trn2.csv
    """
    from .backends import BackendOptions, choice_note, cores_of, open_session
    from .output import check_output
    from .picture_list import find_named_pictures
    from .reports.html import check_report, write_report
    from .reports.trace import check_trace, write_trace

    start = time.perf_counter()
    check_output(output)
    check_trace(trace)
    check_report(report_file)
    stream_options.check_resume(resume, output, verify)
    if not paths and from_list is None:
        raise UsageError("no pictures named; give files, folders, - or --from-list FILE (see trninfer classify --help)")
    if resume and paths and "-" in paths:
        raise UsageError("- and --resume exclude each other: a picture on standard input has no name to know it by")
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
    found, problems = find_named_pictures(paths or [], recursive, from_list)

    from ..models.files import load_model
    from ..models.network import ImageInput
    from ..runtime.backend import latency_note

    note = choice_note(where.name)  # tells what is missing before anything is read
    loaded = load_model(model)
    network = loaded.network
    if not isinstance(network.input, ImageInput):
        raise UsageError(f"model {model!r} reads features, not pictures; use trninfer ffnn")

    from ..inference.pictures import PictureBatches, ignore_warnings
    from ..inference.stream import answer_batches
    from .journal.answers import check_top_k, identify, open_answers, unanswered
    from .progress import progress_bar
    from .reports.emit import emit
    from .reports.report import LayerTable, Report, count

    top = check_top_k(top_k, network.labels)
    ignore_warnings()
    if compare_backends:
        batches = PictureBatches(found, network.input, batch_size)
        report = run_comparison("classify", loaded, batches, where, dtype.value, batch_size, top, verify)
        report.errors = problems + batches.problems
        report.host_seconds = time.perf_counter() - start
        write_report(report_file, report)
        emit(report, form, output, quiet)
        raise typer.Exit(report.exit_status)
    with (
        open_session(loaded, where, dtype.value, batch_size) as session,
        open_answers(
            form, output, identify("classify", loaded, session.info, dtype.value, top), network.labels, resume, quiet
        ) as answers,
    ):
        wanted = unanswered(found, answers.answered())
        batches = PictureBatches(wanted, network.input, batch_size)
        with progress_bar("classifying", len(wanted), quiet or answers.on_screen) as progress:
            result = answer_batches(
                session,
                batches,
                answers,
                top,
                lambda done: progress(done + len(batches.problems)),
                dtype.value if verify else None,
            )
        title = f"{network.name}: {count(result.count, 'picture')} in batches of at most {batch_size}"
        report = Report(
            command="classify",
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
            errors=problems + batches.problems,
        )
        write_trace(trace, result.timelines, session.info.name)
        write_report(report_file, report, result.timelines)
        answers.finish(report, quiet, top_k)
    raise typer.Exit(report.exit_status)
