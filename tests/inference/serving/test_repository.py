"""Several models on one server: routing, loading and unloading."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
from asgi import ask
from fastapi import FastAPI
from trninfer.inference.serving import routes
from trninfer.inference.serving.answering import Server
from trninfer.inference.serving.gate import Gate
from trninfer.inference.serving.metrics import Metrics
from trninfer.inference.serving.repository import Repository
from trninfer.inference.serving.settings import ServingSettings
from trninfer.models.errors import ModelError
from trninfer.runtime.backend import BackendInfo
from trninfer.runtime.workers.worker import Hello


class Pool:
    """A pool that is ready from start to stop."""

    rate, workers_ready = 1.0, 1

    def __init__(self, events: list[str]) -> None:
        self.is_ready, self._events = False, events

    def start(self) -> None:
        self._events.append("start")
        self.is_ready = True

    async def stop(self, grace: float) -> None:
        self._events.append("stop")
        self.is_ready = False


@pytest.fixture
def events() -> list[str]:
    return []


@pytest.fixture
def app(feature_model: Path, picture_model: Path, events: list[str]) -> FastAPI:
    """Serve two models, `rows` and `photos`, that clients may load and unload."""

    def server(name: str, path: Path) -> Server:
        settings = ServingSettings(path, name=name, model_control=True)
        found = Server(settings, settings.load(), Metrics())
        found.hello = Hello(BackendInfo("sim", "trn2", "predicted", "predicted"), (), "here", 1, "0")
        return found

    def prepare(server: Server, failed: Any) -> None:
        server.workers, server.decoders = Pool(events), Pool(events)  # type: ignore[assignment]
        if "broken" in events:
            failed(ModelError("the file is gone"))

    servers = [server("rows", feature_model), server("photos", picture_model)]
    for each in servers:
        prepare(each, None)
    application = FastAPI()
    application.state.repository = Repository(servers, prepare)
    application.state.server = servers[0]
    application.state.repository.start()
    routes.add_routes(application)
    application.add_middleware(Gate, metrics=Metrics(), token=None, hosts=())
    return application


def states(app: FastAPI) -> dict[str, str]:
    return {each["name"]: each["state"] for each in ask(app, "/v2/repository/index", b"{}").json()}


def test_each_model_has_its_own_addresses(app: FastAPI) -> None:
    assert ask(app, "/v2/models/rows").json()["inputs"][0]["shape"] == [-1, 6]
    assert ask(app, "/v2/models/photos").json()["inputs"][0]["shape"] == [-1, 1, 16, 16]
    assert "rows, photos, version 1, are served" in ask(app, "/v2/models/x").json()["detail"]
    assert ask(app, "/about").json()["model"] == "rows"
    assert ask(app, "/about", query="model=photos").json()["model"] == "photos"
    assert [each["name"] for each in ask(app, "/v2/models/stats").json()["model_stats"]] == ["rows", "photos"]
    assert ask(app, "/classify", b"x").status == 400  # the first model does not accept pictures
    assert ask(app, "/classify", b"x", query="model=x").status == 404


def test_models_are_unloaded_and_loaded_again(app: FastAPI, events: list[str]) -> None:
    assert states(app) == {"rows": "READY", "photos": "READY"}
    events.clear()
    assert ask(app, "/v2/repository/models/photos/unload", b"{}").status == 200
    assert events == ["stop", "stop"] and states(app) == {"rows": "READY", "photos": "UNAVAILABLE"}
    assert ask(app, "/v2/health/ready").status == 200 and ask(app, "/v2/models/photos/ready").status == 503
    assert ask(app, "/v2/repository/models/photos/unload", b"{}").status == 200 and len(events) == 2
    events[:] = ["broken"]
    failed = ask(app, "/v2/repository/models/photos/load", b"{}")
    assert failed.status == 400 and "the file is gone" in failed.json()["detail"]
    assert states(app)["photos"] == "UNAVAILABLE"
    events.clear()
    assert ask(app, "/v2/repository/models/photos/load", b"{}").status == 200
    assert events == ["start", "start"] and states(app)["photos"] == "READY"
    assert ask(app, "/v2/repository/models/x/load", b"{}").status == 404


def test_clients_cannot_change_a_fixed_repository(app: FastAPI) -> None:
    settings = app.state.server.settings
    object.__setattr__(settings, "model_control", False)
    assert ask(app, "/v2/repository/models/photos/unload", b"{}").status == 403
    assert states(app)["photos"] == "READY"


def test_names_are_used_once(app: FastAPI) -> None:
    server = app.state.server
    with pytest.raises(ModelError, match="two models have the same name: rows, rows"):
        Repository([server, server], lambda server, failed: None)


def test_all_models_are_stopped_together(app: FastAPI, events: list[str]) -> None:
    events.clear()
    asyncio.run(app.state.repository.stop())
    assert events == ["stop"] * 4


def test_a_model_whose_loading_is_cancelled_is_stopped(app: FastAPI, events: list[str]) -> None:
    repository: Repository = app.state.repository
    server = repository.find("photos")
    assert server is not None

    async def cancel() -> None:
        await repository.unload(server)
        for pool in server.pools:
            pool.is_ready = False
        events.clear()
        original = repository._prepare

        def prepare(server: Server, failed: Any) -> None:
            original(server, failed)
            for pool in server.pools:
                pool.start = lambda: events.append("start")  # type: ignore[method-assign]

        repository._prepare = prepare
        loading = asyncio.ensure_future(repository.load(server))
        await asyncio.sleep(0.01)
        loading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loading

    asyncio.run(cancel())
    assert events == ["start", "start", "stop", "stop"] and not server.is_loaded
