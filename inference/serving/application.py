"""The server as an ASGI application, used by `trninfer serve` and by Ray Serve."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from ...models.files import Model
from ...runtime.backend import check_cores, resolve_target
from ...runtime.choose import decide
from ...runtime.neuron.backend import open_neuron_backend
from ...runtime.neuron.system import VISIBLE_CORES, pick_cores
from ...runtime.simulated import open_for_worker
from ...runtime.workers.pool import PoolRules, WorkerPool
from ...runtime.workers.worker import BackendOpener, Hello, Setup
from ...version import __version__
from .answering import Server
from .decoding import DecodingWorker
from .gate import Gate
from .logs import log
from .metrics import Metrics
from .repository import Repository
from .routes import add_routes
from .settings import ServingSettings
from .workers import NetworkWorker


def create_application(
    settings: ServingSettings | Sequence[ServingSettings],
    failed: Callable[[Exception], None] | None = None,
    wait: bool = False,
) -> FastAPI:
    """Return the application that serves one or several models with these settings. It starts and stops the worker
    processes. The token, the hosts and the model control are taken from the first settings.

    Raises ModelError, TargetError or BackendUnavailable if the model or backend is missing. `failed` is called
    if a worker cannot be started. With `wait`, startup completes when the model is ready and fails if a worker cannot
    be started; otherwise, readiness is reported at /v2/health/ready.
    """
    failures: list[Exception] = []

    def note_failure(error: Exception) -> None:
        failures.append(error)
        if failed is not None:
            failed(error)

    several = [settings] if isinstance(settings, ServingSettings) else list(settings)
    metrics = Metrics()
    repository = _open_repository(several, metrics, note_failure)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        repository.start()
        try:
            while wait and not repository.is_ready:
                if failures:
                    raise failures[0]
                await asyncio.sleep(0.05)
            yield
        finally:
            await repository.stop()

    app = FastAPI(
        title="trninfer",
        version=__version__,
        description="The Open Inference Protocol, version 2, and predictions for pictures.",
        lifespan=lifespan,
        docs_url=None,  # the documentation page loads scripts from other hosts
        redoc_url=None,
    )
    app.state.repository = repository
    app.state.server = repository.servers[0]
    add_routes(app)
    app.add_exception_handler(StarletteHTTPException, _as_error)
    app.add_exception_handler(RequestValidationError, _as_wrong_query)
    app.add_middleware(Gate, metrics=metrics, token=several[0].token, hosts=several[0].hosts)
    return app


def _open_repository(
    several: Sequence[ServingSettings], metrics: Metrics, failed: Callable[[Exception], None]
) -> Repository:
    """Load the models, with process pools that are not started yet. On a chip, each model has separate cores."""
    models = [settings.load() for settings in several]
    servers = [Server(settings, model, metrics) for settings, model in zip(several, models)]
    firsts = [sum(settings.workers for settings in several[:position]) for position in range(len(several))]

    def prepare(server: Server, failed: Callable[[Exception], None]) -> None:
        position = servers.index(server)
        _add_pools(server, models[position], failed, firsts[position])

    for server in servers:
        prepare(server, failed)
    metrics.watch(
        waiting=lambda: sum(pool.waiting for server in servers for pool in server.pools),
        workers=lambda: sum(server.workers.workers_ready for server in servers),
    )
    return Repository(servers, prepare)


def _add_pools(server: Server, model: Model, failed: Callable[[Exception], None], first: int) -> None:
    """Add worker pools, which are not started yet, to a server; the first `first` cores are reserved for other
    models."""
    settings = server.settings
    setup, variables = _network_setup(settings, model, first)

    def greeted(hello: Hello) -> None:
        server.hello = hello

    def timed(microseconds: float) -> None:
        server.metrics.device_time(microseconds, server.info.latency_kind)

    def start_worker(number: int) -> NetworkWorker:
        return NetworkWorker(setup, variables[number], greeted, timed)

    rules = PoolRules(settings.workers, settings.max_batch, settings.max_delay, settings.timeout)
    server.workers = WorkerPool(start_worker, rules, _Observer(server, "worker"), failed)
    rules = PoolRules(settings.decoders, 1, 0.0, settings.timeout)
    signature = server.signature
    server.decoders = WorkerPool(lambda number: DecodingWorker(signature), rules, _Observer(server, "decoder"), failed)


def _network_setup(settings: ServingSettings, model: Model, first: int) -> tuple[Setup, list[dict[str, str]]]:
    """Return the setup of the workers, and the environment variables of each worker."""
    variables: list[dict[str, str]] = [{} for _ in range(settings.workers)]
    target = resolve_target(settings.target)
    check_cores(target, settings.lnc)  # checked once here rather than in each worker
    opener: BackendOpener = functools.partial(open_for_worker, target, settings.lnc)
    if decide(settings.backend).backend == "neuron":
        variables = [{VISIBLE_CORES: str(core)} for core in pick_cores(first + settings.workers, settings.lnc)[first:]]
        opener = functools.partial(open_neuron_backend, settings.target, lnc=settings.lnc, **settings.neuron_options)
    return Setup(model, opener, settings.dtype, None, settings.launches, settings.batch_sizes()), variables


class _Observer:
    """Counts and logs the events of a pool."""

    def __init__(self, server: Server, what: str) -> None:
        self._server = server
        self._what = what

    def batch_answered(self, size: int, waited: Sequence[float], seconds: float) -> None:
        self._server.metrics.batch(self._what, size, waited, seconds)
        self._server.statistics.batch(self._what, size, waited, seconds)
        log("debug", f"{self._what} batch", size=size, seconds=round(seconds, 6))

    def worker_ended(self, number: int, reason: str) -> None:
        self._server.metrics.worker_ended(self._what)
        log("warning", f"{self._what} ended", number=number, reason=reason)

    def worker_said(self, number: int, level: str, line: str) -> None:
        log(level, line, pool=self._what, worker=number)

    def note(self, level: str, event: str, **fields: Any) -> None:
        log(level, event, pool=self._what, **fields)


async def _as_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, (HTTPException, StarletteHTTPException))
    return JSONResponse({"error": str(error.detail)}, error.status_code, getattr(error, "headers", None))


async def _as_wrong_query(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(map(str, first.get("loc", ())))
    return JSONResponse({"error": f"{where}: {first.get('msg', 'not allowed')}"[:200]}, 400)
