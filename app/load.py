"""`trninfer load`: send requests to a server and report latencies."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .bench.sweep_options import several
from .errors import UsageError
from .option_groups import seconds, takes_options, whole
from .options import FormatOption, OutputOption, QuietOption
from .text import count

if TYPE_CHECKING:
    from rich.console import Console

    from ..inference.load_client import LoadPlan, LoadResult, Message
    from ..inference.server_address import Address

MOST_CONCURRENT = 512
THREADS_OF_RATE = 64  # default number of in-flight requests with --rate
MOST_PICTURES = 1000
MOST_PICTURE_BYTES = 64 << 20  # limit for the total size of all pictures

HELP = """Send requests to a server, and report how long they take.

URL is a server that implements version 2 of the Open Inference Protocol, such as trninfer serve, KServe or Triton. By
default, each request contains random tensors for --batch-size inputs of the model. With PATH, pictures are sent to the
address /classify of trninfer serve instead.

--concurrency N keeps N requests in flight; several values, such as 1,2,4,8, are tested one after the other. --rate R
sends R requests per second, whether or not the server keeps up; the time of a request is then measured from the moment
when it was due. A load ends after --duration seconds or --requests requests; the first --warmup seconds are not
counted.

The report contains the latencies of answered requests in milliseconds, measured by this client: p50, p90, p95, p99, the
mean and the maximum. Failed requests are counted by kind, such as status 429, timeout or connection refused. If this
client is busy all the time, a note warns that it may be the bottleneck.

\b
Examples:
  trninfer load http://127.0.0.1:8000
  trninfer load http://127.0.0.1:8000 --concurrency 1,2,4,8,16 --duration 5
  trninfer load http://127.0.0.1:8000 photos/ --rate 50
  trninfer load http://127.0.0.1:8000 --requests 1000 --format json --output load.json
  trninfer load https://models.example.org --model resnet --token-file token.txt

Exit status: 0 on success; 2 for wrong usage, or if the server answered no request; 130 if interrupted.
"""


@dataclass(frozen=True)
class LoadOptions:
    """Options of a load test."""

    model: Annotated[
        str | None,
        typer.Option("--model", metavar="NAME", help="Name of the model on the server. [default: its only model]"),
    ] = None
    concurrency: Annotated[
        Any,
        typer.Option(
            "--concurrency",
            parser=several(whole(1, MOST_CONCURRENT)),
            metavar="N[,N...]",
            help=f"Number of requests in flight. [default: 1; with --rate, up to {THREADS_OF_RATE}]",
        ),
    ] = None
    rate: Annotated[
        Any,
        typer.Option(
            "--rate",
            parser=several(whole(1, 100_000)),
            metavar="R[,R...]",
            help="Send this many requests per second, evenly spaced.",
        ),
    ] = None
    duration: Annotated[
        float,
        typer.Option("--duration", parser=seconds(0.1, 3600), metavar="SECONDS", help="Duration of a load."),
    ] = 10.0
    requests: Annotated[
        int | None,
        typer.Option("--requests", parser=whole(1, 10_000_000), metavar="N", help="Stop each load after N requests."),
    ] = None
    warmup: Annotated[
        float,
        typer.Option(
            "--warmup",
            parser=seconds(0, 600),
            metavar="SECONDS",
            help="Duration of the warm-up, during which requests are not counted.",
        ),
    ] = 1.0
    batch_size: Annotated[
        int,
        typer.Option("--batch-size", parser=whole(1, 4096), metavar="N", help="Number of inputs per tensor request."),
    ] = 1
    wait: Annotated[
        float,
        typer.Option(
            "--wait", parser=seconds(0, 3600), metavar="SECONDS", help="Time to wait for the server to become ready."
        ),
    ] = 0.0
    timeout: Annotated[
        float,
        typer.Option("--timeout", parser=seconds(0.1, 3600), metavar="SECONDS", help="Time limit for an answer."),
    ] = 30.0
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="File whose first line is the token of the server. [default: the token in TRNINFER_TOKEN]",
        ),
    ] = None
    recursive: Annotated[bool, typer.Option("--recursive", "-r", help="Include nested folders of pictures.")] = False
    form: FormatOption = "table"
    output: OutputOption = None
    quiet: QuietOption = False

    def plans(self) -> list[LoadPlan]:
        """Return the loads in the order in which they are run. Raises UsageError for mutually exclusive options."""
        from ..inference.load_client import LoadPlan

        threads = self.concurrency or ((THREADS_OF_RATE,) if self.rate else (1,))
        if self.rate and len(threads) > 1:
            raise UsageError("--rate accepts a single --concurrency value (the maximum number of requests in flight)")
        # --requests counts all requests, so it would include those of a warm-up.
        warmup = 0.0 if self.requests is not None else self.warmup
        return [
            LoadPlan(count, self.duration, rate, self.requests, warmup, self.timeout)
            for rate in self.rate or (None,)
            for count in threads
        ]


@takes_options(HELP)
def load(
    url: Annotated[str, typer.Argument(metavar="URL", help="The server, such as http://127.0.0.1:8000.")],
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="[PATH]...", help="Pictures to send: files, folders, globs.")
    ] = None,
    *,
    options: LoadOptions,
) -> None:
    """Run the loads against a server."""
    from ..inference.load_client import run_load, tensor_message, wait_until_ready
    from ..inference.server_address import Address, LoadError
    from .output import check_output
    from .progress import progress_bar
    from .serve import read_token

    check_output(options.output)
    plans = options.plans()
    try:
        address = Address.parse(url, read_token(options.token_file))
        wait_until_ready(address, options.wait, options.timeout)
        if paths:
            if options.batch_size != 1 or options.model is not None:
                raise UsageError("pictures are sent one per request, to /classify; omit --batch-size and --model")
            model, messages = "", _pictures(paths, options.recursive)
        else:
            model, message = tensor_message(address, options.model, options.batch_size, options.timeout)
            messages = [message]
    except LoadError as error:
        raise UsageError(str(error)) from None
    results = []
    for plan in plans:
        expected = plan.requests or round((plan.rate or 0) * plan.seconds) or 1
        with progress_bar(_title(plan), expected, options.quiet or not (plan.requests or plan.rate)) as progress:
            results.append(run_load(address, messages, plan, progress))
    _write(address, model, results, options)
    raise typer.Exit(0 if any(result.answered for result in results) else 2)


def _title(plan: LoadPlan) -> str:
    return f"{plan.rate:g} a second" if plan.rate is not None else f"{plan.concurrency} at once"


def _pictures(paths: list[str], recursive: bool) -> list[Message]:
    """Return one request per picture. Raises UsageError if there are no pictures, or if they exceed the memory
    limit."""
    from ..inference.load_client import Message
    from ..inference.search import find_pictures

    names, problems = find_pictures(paths, recursive=recursive)
    if problems:
        raise UsageError(str(problems[0]))
    messages, size = [], 0
    for name in names[:MOST_PICTURES]:
        body = Path(name).read_bytes()
        size += len(body)
        if size > MOST_PICTURE_BYTES:
            break
        messages.append(Message("/classify", body, 1, {"Content-Type": "application/octet-stream"}))
    if not messages:
        raise UsageError(f"{paths[0]}: no pictures to send")
    return messages


def _write(address: Address, model: str, results: list[LoadResult], options: LoadOptions) -> None:
    from .output import stream_of, write_output
    from .reports.console import to_text
    from .reports.emit import emit_rows

    if options.form != "table":
        rows = [{"url": str(address), "model": model or None, **dataclasses.asdict(result)} for result in results]
        emit_rows(rows, "load", options.form, options.output)
        return
    subject = f"{model}, {count(options.batch_size, 'input')} per request" if model else "pictures"
    title = f"load on {address}: {subject}"
    stream = stream_of(options.output)
    write_output(to_text(lambda console: print_load(console, title, results), stream), options.output)


def print_load(console: Console, title: str, results: list[LoadResult]) -> None:
    """Print one row per load, and notes on it."""
    from .reports.columns import ReportColumn, number_column
    from .reports.console import figures, print_rows

    def milliseconds(heading: str, name: str, rank: int = 0) -> ReportColumn[LoadResult]:
        return number_column(heading, lambda result: getattr(result, name), "{:,.2f}".format, rank)

    columns: list[ReportColumn[LoadResult]] = [
        ReportColumn("rate" if any(result.rate is not None for result in results) else "concurrency", _load_of, "name"),
        number_column("requests/s", lambda result: result.requests_per_second, "{:,.1f}".format),
        number_column("inputs/s", lambda result: result.inputs_per_second, "{:,.1f}".format, 5),
        milliseconds("p50 ms", "p50_ms"),
        milliseconds("p90 ms", "p90_ms", 3),
        milliseconds("p95 ms", "p95_ms", 2),
        milliseconds("p99 ms", "p99_ms"),
        milliseconds("mean ms", "mean_ms", 6),
        milliseconds("max ms", "max_ms", 4),
        number_column("errors", lambda result: sum(result.errors.values()), str, 1),
    ]
    print_rows(console, title, figures(columns, results))
    places = [f" at {columns[0].heading} {_load_of(result)}" if len(results) > 1 else "" for result in results]
    _print_notes(console, places, results)


def _load_of(result: LoadResult) -> str:
    return str(result.concurrency) if result.rate is None else f"{result.rate:g}"


def _print_notes(console: Console, places: list[str], results: list[LoadResult]) -> None:
    from .reports.console import print_line

    for where, result in zip(places, results):
        if result.errors:
            kinds = ", ".join(f"{kind}: {count:,}" for kind, count in result.errors.items())
            print_line(console, f"errors{where}: {kinds}", "red")
        if result.is_client_busy:
            share = f"{100 * result.client_share:.0f} %"
            print_line(console, f"this client was busy for {share} of the time{where}, so it may be the bottleneck")
