"""`trninfer serve`: serve networks over HTTP."""

from __future__ import annotations

import ipaddress
import logging
import os
import re
import secrets
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..runtime.launch_options import DEFAULT_LAUNCHES
from . import options
from .config import ConfigOption
from .errors import UsageError
from .option_groups import seconds, takes_options, whole
from .output import write_stderr

if TYPE_CHECKING:
    from ..inference.serving.settings import ServingSettings
    from ..runtime.calibration import Calibration

TOKEN_VARIABLE = "TRNINFER_TOKEN"
INSTALL_HINT = "pip install 'trninfer[serve]'"

HELP = """Answer pictures and tensors over HTTP.

Implements version 2 of the Open Inference Protocol (like KServe and Triton), with tensors as JSON or raw bytes. Also
accepts pictures at /classify, serves a drag-and-drop upload page at /, and exposes Prometheus metrics at /metrics.

\b
Addresses:
  GET  /v2/health/live, /v2/health/ready
  GET  /v2, /v2/models/NAME, /v2/models/NAME/ready, config, stats
  POST /v2/models/NAME/infer   tensors, or pictures as BYTES (PNG, JPEG, ...)
  POST /v2/repository/index    the models, and whether they are ready
  POST /v2/repository/models/NAME/load, unload   with --model-control
  POST /classify               a picture, or a form with several
  POST /detect                 the same for a detection network (?confidence=0.5)
  POST /segment                the same for a segmentation network (?maps=true adds maps)
  GET  /metrics, /openapi.json, /

Concurrent requests are processed in batches: a batch starts when --max-batch inputs are waiting, or when the first of
them has waited for --max-delay. --model a=FILE,b=FILE serves several models; /classify?model=b selects one of them, and
each has its own --workers and --decoders. Each worker is a process with its own NeuronCore (on the simulator, a CPU).
If more than --max-queue inputs are waiting, further requests get status 429 with a Retry-After header; requests that
are not answered within --timeout get status 504.

By default, the server accepts connections from this machine only. If it listens on another address (--host), every
request must contain the header Authorization: Bearer TOKEN. The token is read from --token-file or TRNINFER_TOKEN, or
else generated and printed. Connections are not encrypted: on a shared network, put a TLS proxy in front of the server.

If no token is required, the server answers only requests whose Host header is localhost, so that a web page cannot
reach it under another name; --allow-host NAME permits the name that a reverse proxy passes on.

Ctrl-C, SIGTERM and SIGHUP stop the server after it has answered the requests that it has accepted; a second signal
stops it immediately. docs/serving.md describes deployment on many machines.

\b
Examples:
  trninfer serve
  curl --data-binary @7.png http://127.0.0.1:8000/classify
  trninfer serve --model digits=digits-cnn,photos=resnet.safetensors --model-control
  trninfer serve --model resnet.safetensors --workers 4 --max-batch 8 --dtype bfloat16
  trninfer serve --host 0.0.0.0 --token-file token.txt --log-format json 2>log.jsonl

Exit status: 0 if stopped by a signal; 2 for wrong usage, or if the port is in use; 3 if the backend is not available;
130 or 143 if stopped immediately by a second signal.
"""


@dataclass(frozen=True)
class ServeOptions:
    """Options of the server."""

    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1"
    port: Annotated[
        int,
        typer.Option("--port", parser=whole(0, 65535), metavar="N", help="Port to listen on; 0 selects a free port."),
    ] = 8000
    workers: Annotated[
        int,
        typer.Option(
            "--workers",
            parser=whole(1, 4096),
            metavar="N",
            help="Number of worker processes, each with one NeuronCore.",
        ),
    ] = 1
    decoders: Annotated[
        int | None,
        typer.Option(
            "--decoders",
            parser=whole(1, 256),
            metavar="N",
            help="Number of processes that decode pictures. [default: one per CPU, at most 4]",
        ),
    ] = None
    max_batch: Annotated[
        int,
        typer.Option("--max-batch", parser=whole(1, 65536), metavar="N", help="Maximum number of inputs in a batch."),
    ] = 16
    max_delay: Annotated[
        float,
        typer.Option(
            "--max-delay",
            parser=seconds(0, 60),
            metavar="SECONDS",
            help="Maximum time that an input waits for a batch to fill.",
        ),
    ] = 0.002
    max_queue: Annotated[
        int,
        typer.Option(
            "--max-queue",
            parser=whole(1, 1 << 20),
            metavar="N",
            help="Maximum number of waiting inputs; further requests are rejected.",
        ),
    ] = 256
    max_bytes: Annotated[
        int,
        typer.Option(
            "--max-bytes", parser=whole(1, 1 << 32), metavar="N", help="Maximum size of a request body in bytes."
        ),
    ] = 32 << 20
    timeout: Annotated[
        float,
        typer.Option("--timeout", parser=seconds(0.01, 86_400), metavar="SECONDS", help="Time limit for a request."),
    ] = 30.0
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file", metavar="FILE", help="File whose first line is the token that requests must contain."
        ),
    ] = None
    model_control: Annotated[
        bool,
        typer.Option(
            "--model-control",
            help="Allow clients to load and unload models (the repository extension of the protocol).",
        ),
    ] = False
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            metavar="NAME",
            help="Also accept requests whose Host header is this name, as required behind a reverse proxy. May be "
            "repeated.",
        ),
    ] = None
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Name of the model in requests. [default: same as --model]")
    ] = ""
    dtype: options.DtypeOption = "float32"
    eight_bits: options.EightBitsOption = DEFAULT_LAUNCHES.eight_bits
    calibrate: options.CalibrateOption = None
    backend: options.BackendOption = "auto"
    target: options.TargetOption = None
    launches: options.LaunchesOption = DEFAULT_LAUNCHES.per
    instructions: options.InstructionsOption = DEFAULT_LAUNCHES.instructions
    convolutions: options.ConvolutionsOption = DEFAULT_LAUNCHES.form
    lnc: options.LncOption = 1
    log_format: Annotated[
        Literal["auto", "text", "json"],
        typer.Option(
            "--log-format",
            help="Format of the log on standard error; auto is text on a terminal and JSON lines otherwise.",
        ),
    ] = "auto"
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Log warnings and errors only.")] = False
    verbose: Annotated[int, typer.Option("--verbose", "-v", count=True, help="Log each batch too.")] = 0
    config: ConfigOption = None


@takes_options(HELP)
def serve(
    model: options.ModelOption = "digits-cnn",
    *,
    options: ServeOptions,
) -> None:
    """Run the server until a signal arrives."""
    needed = ("fastapi", "uvicorn", "prometheus_client", "python_multipart", "msgspec")
    missing = [name for name in needed if not find_spec(name)]
    if missing:
        raise UsageError(f"trninfer serve needs {', '.join(missing)}, which are not installed ({INSTALL_HINT})")
    from ..inference.serving.application import create_application
    from .http_server import listen, run_server

    failures: list[Exception] = []

    def failed(error: Exception) -> None:
        failures.append(error)
        app.state.stop()

    bound = listen(options.host, options.port)
    try:
        app = create_application(_settings(model, options), failed)
        _log_to_stderr(options)
        names, port = [entry.name for entry in app.state.repository.servers], bound.getsockname()[1]
        server = run_server(app, bound, lambda: _announce(",".join(names), options.host, port))
    finally:
        bound.close()
    for entry in app.state.repository.servers:
        for pool in entry.pools:
            pool.kill()
    _log_summary(app.state.server.metrics.quantiles())
    if failures:
        raise failures[0]
    raise typer.Exit(0 if server.forced_by is None else 128 + server.forced_by)


def _calibration(model: str, serve_options: ServeOptions) -> Calibration | None:
    """Return the pictures of --calibrate. Raises UsageError if the dtype or the model does not use them."""
    options.check_eight_bits(serve_options.dtype, serve_options.calibrate, serve_options.eight_bits)
    if serve_options.calibrate is None:
        return None
    from .backends import load
    from .calibration import read_calibration

    return read_calibration(serve_options.calibrate, load(model, quiet=True))


def parse_models(text: str) -> list[tuple[str, str]]:
    """Parse `a=FILE,b=FILE` into (name, model) pairs; a model without a name yields ("", model)."""
    parts = text.split(",")
    if os.path.exists(text) or not all(re.fullmatch(r"[\w.-]+=.+", part, re.ASCII) for part in parts):
        return [("", text)]
    return [(part.partition("=")[0], part.partition("=")[2]) for part in parts]


def _settings(model: str, serve_options: ServeOptions) -> list[ServingSettings]:
    """Return the settings of each model. Raises UsageError for values that are out of range."""
    models = parse_models(model)
    if models[0][0] and serve_options.name:
        raise UsageError(f"--name {serve_options.name}: --model already specifies the names of the models")
    token = _access(serve_options)
    return [_settings_of(path, name or serve_options.name, serve_options, token) for name, path in models]


def _access(serve_options: ServeOptions) -> str | None:
    """Return the token that requests require, or None if the server is reachable only from this machine."""
    token = read_token(serve_options.token_file)
    if token is None and not _is_loopback(serve_options.host):
        token = secrets.token_urlsafe(24)
        write_stderr(
            f"trninfer: {serve_options.host} is reachable from other machines; "
            f"requests must contain the token {token}\n"
        )
    return token


def _settings_of(model: str, name: str, serve_options: ServeOptions, token: str | None) -> ServingSettings:
    from ..inference.serving.settings import ServingSettings
    from ..runtime.launch_options import LaunchOptions

    local = _is_loopback(serve_options.host)
    decoders: dict[str, Any] = {} if serve_options.decoders is None else {"decoders": serve_options.decoders}
    try:
        return ServingSettings(
            model=model,
            name=name,
            dtype=serve_options.dtype,
            target=serve_options.target,
            backend=serve_options.backend,
            lnc=serve_options.lnc,
            launches=LaunchOptions(
                serve_options.launches,
                serve_options.instructions,
                serve_options.convolutions,
                _calibration(model, serve_options),
                serve_options.eight_bits,
            ),
            workers=serve_options.workers,
            **decoders,
            max_batch=serve_options.max_batch,
            max_delay=serve_options.max_delay,
            max_queue=max(serve_options.max_queue, serve_options.max_batch),
            max_bytes=serve_options.max_bytes,
            timeout=serve_options.timeout,
            token=token,
            model_control=serve_options.model_control,
            hosts=("localhost", "127.0.0.1", "[::1]", serve_options.host.lower(), *_names(serve_options))
            if local
            else (),
        )
    except ValueError as error:
        raise UsageError(str(error)) from None


def _names(serve_options: ServeOptions) -> list[str]:
    """Return the names given by --allow-host. Raises UsageError for text that a Host header cannot contain."""
    for name in serve_options.allow_host or ():
        if not re.fullmatch(r"[a-zA-Z0-9.-]{1,253}|\[[0-9a-fA-F:.]+\]", name):
            raise UsageError(f"--allow-host {name}: expected a host name without a port")
    return [name.lower() for name in serve_options.allow_host or ()]


def _is_loopback(host: str) -> bool:
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def read_token(path: Path | None) -> str | None:
    """Return the token from the first line of a file, or from the environment if no file is given; return None if there
    is no token."""
    from ..models.regular_files import describe, open_regular

    if path is None:
        return os.environ.get(TOKEN_VARIABLE) or None
    try:
        with open_regular(path) as file:
            return file.readline(1000).decode("ascii").strip()
    except (OSError, ValueError) as error:
        raise UsageError(f"--token-file {path}: {describe(error)}") from None


def _log_to_stderr(serve_options: ServeOptions) -> None:
    from ..inference.serving.logs import LOGGER, JsonFormatter, TextFormatter

    text = serve_options.log_format == "text" or (
        serve_options.log_format == "auto" and sys.stderr is not None and sys.stderr.isatty()
    )
    handler = logging.StreamHandler()
    handler.setFormatter(TextFormatter() if text else JsonFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # the library logs every malformed form
    LOGGER.setLevel(
        logging.WARNING if serve_options.quiet else logging.DEBUG if serve_options.verbose else logging.INFO
    )


def _log_summary(quantiles: dict[str, dict[float, float]]) -> None:
    """Log percentiles of each phase in milliseconds; log nothing if there were no requests."""
    from ..inference.serving.logs import log

    for part, values in quantiles.items():
        log("info", "summary", part=part, **{f"p{100 * share:g}_ms": 1e3 * time for share, time in values.items()})


def _announce(name: str, host: str, port: int) -> None:
    from ..inference.serving.logs import log

    where = f"[{host}]" if ":" in host else host
    log("info", "listening", model=name, address=f"http://{where}:{port}/")
