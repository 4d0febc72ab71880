"""Answering requests: timeouts, and the limit on waiting inputs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi")
from asgi import receiver, scope_of
from fastapi import HTTPException
from starlette.requests import Request
from trninfer.inference.serving import answering
from trninfer.inference.serving.answering import Server, as_status
from trninfer.inference.serving.decoding import PictureTask
from trninfer.inference.serving.metrics import Metrics
from trninfer.inference.serving.settings import ServingSettings
from trninfer.inference.serving.tensors import ProtocolError, TooManyExamples
from trninfer.inference.serving.workers import InputAnswer
from trninfer.models.errors import InputError
from trninfer.runtime.backend import BackendInfo, KernelError
from trninfer.runtime.session import OverflowedError
from trninfer.runtime.workers.pool import PoolStopped
from trninfer.runtime.workers.process import WorkerEnded
from trninfer.runtime.workers.worker import Hello

ANSWER = InputAnswer(1, np.array([0.25, 0.5, 0.25], np.float32), 4, 30.0)


class Pool:
    """Workers that do what a source says: return an answer, raise an error, or wait."""

    def __init__(self, rate: float = 0.0) -> None:
        self.is_ready, self.rate, self.workers_ready = True, rate, 2

    async def submit(self, source: Any) -> Any:
        if isinstance(source, Exception):
            raise source
        if isinstance(source, float):
            await asyncio.sleep(source)
        return source if isinstance(source, InputAnswer) else ANSWER


@pytest.fixture
def server(feature_model: Path) -> Server:
    settings = ServingSettings(feature_model, max_batch=4, max_queue=5, top_k=2, timeout=7.0)
    found = Server(settings, settings.load(), Metrics())
    found.decoders = found.workers = Pool()  # type: ignore[assignment]
    found.hello = Hello(BackendInfo("sim", "trn2", "predicted", "predicted", lnc=2), (), "here", 1, "0")
    return found


def ask(server: Server, *sources: Any, seconds: float = 60.0, leaves: bool = False) -> tuple[list[Any], dict[str, Any]]:
    """Return the answers, and the lines for the log."""
    scope = scope_of("/", "POST")
    scope["state"]["log"] = {}

    async def asking() -> list[Any]:
        request = Request(scope, receiver(b"", ends=not leaves))
        return await server.answer(request, sources, time.monotonic() + seconds)

    return asyncio.run(asking()), scope["state"]["log"]


@pytest.mark.parametrize(
    ("error", "statuses"), [(WorkerEnded("it ran out of memory"), (422, 413)), (PoolStopped("stopped"), (503, 503))]
)
def test_input_that_ends_decoders_is_a_client_error(server: Server, error: Exception, statuses: Any) -> None:
    class Decoders(Pool):
        def submit(self, source: Any) -> Any:
            return asyncio.ensure_future(self.run())

        async def run(self) -> Any:
            raise error

    server.decoders = Decoders()  # type: ignore[assignment]
    ((answer,), _) = ask(server, PictureTask(b"bomb"))
    assert as_status(answer).status_code == statuses[0] and str(error) in str(as_status(answer).detail)
    task = Reading(None, 1 << 20)
    status, said, _ = refused(lambda: asyncio.run(server.read(task, time.monotonic() + 60)))
    assert status == statuses[1] and str(error) in said


def refused(call: Callable[[], Any]) -> tuple[int, str, dict[str, str] | None]:
    with pytest.raises(HTTPException) as error:
        call()
    return error.value.status_code, str(error.value.detail), error.value.headers  # type: ignore[return-value]


def test_pictures_of_a_request_go_to_the_workers_together(server: Server) -> None:
    """Decoding one picture takes longer than workers wait for other inputs to join a batch."""
    steps: list[str] = []

    class Decoders(Pool):
        async def submit(self, source: Any) -> Any:
            await asyncio.sleep(float(source.content))
            steps.append("decoded")
            return ANSWER

    class Workers(Pool):
        async def submit(self, source: Any) -> Any:
            steps.append("sent")
            return ANSWER

    server.decoders, server.workers = Decoders(), Workers()  # type: ignore[assignment]
    answers, _ = ask(server, *(PictureTask(seconds) for seconds in (b"0.2", b"0", b"0.1", b"0")))
    assert answers == [ANSWER] * 4 and steps == ["decoded"] * 4 + ["sent"] * 4


def test_each_input_has_an_answer_or_an_error(server: Server) -> None:
    bad, lost = InputError("no picture"), RuntimeError("secret")
    answers, told = ask(server, ANSWER, bad, lost)
    assert answers == [ANSWER, bad, lost] and told == {"inputs": 3, "batch": 4}
    text = server.metrics.text().decode()
    assert 'input_failures_total{fault="input"} 1.0' in text and 'input_failures_total{fault="worker"} 1.0' in text
    assert ask(server, bad)[1] == {"inputs": 1, "batch": 0} and ask(server)[0] == []


class Reading:
    """A task of a given size with a given result or error."""

    def __init__(self, result: Any, size: int = 0) -> None:
        self.result, self.size = result, size

    def run(self, signature: Any) -> Any:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


@pytest.mark.parametrize("size", [answering.LARGE_BODY, answering.LARGE_BODY + 1])
@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (ProtocolError("no JSON"), (400, "no JSON")),
        (TooManyExamples("5 inputs"), (413, "5 inputs")),
        (InputError("not finite"), (400, "not finite")),
        ("read", "read"),
    ],
)
def test_large_bodies_are_read_by_decoders(server: Server, size: int, result: Any, expected: Any) -> None:
    class Decoders(Pool):
        used = False

        def submit(self, source: Any) -> Any:
            self.used = True
            return asyncio.ensure_future(self.run(source))

        async def run(self, source: Any) -> Any:
            return source.run(None)

    server.decoders = Decoders()  # type: ignore[assignment]

    def read() -> Any:
        return asyncio.run(server.read(Reading(result, size), time.monotonic() + 60))

    assert (refused(read)[:2] if isinstance(result, Exception) else read()) == expected
    assert server.decoders.used is (size > answering.LARGE_BODY)  # type: ignore[attr-defined]


def test_a_body_that_takes_too_long_to_read(server: Server) -> None:
    class Decoders(Pool):
        def submit(self, source: Any) -> Any:
            return asyncio.ensure_future(asyncio.sleep(60))

    server.decoders = Decoders()  # type: ignore[assignment]
    task = Reading(None, 1 << 20)
    assert refused(lambda: asyncio.run(server.read(task, time.monotonic() + 0.05)))[0] == 504
    server.decoders.is_ready = False  # type: ignore[misc]
    assert refused(lambda: asyncio.run(server.read(task, time.monotonic() + 60)))[0] == 503


def test_files_are_decoded_first(server: Server) -> None:
    class Decoders(Pool):
        async def submit(self, source: Any) -> Any:
            if source.content == b"bad":
                raise InputError("no picture")
            return InputAnswer(0, ANSWER.scores, len(source.content), 1.0)  # returned by the workers

    server.decoders = Decoders()  # type: ignore[assignment]

    async def asking() -> list[Any]:
        scope = scope_of("/", "POST")
        scope["state"]["log"] = {}
        request = Request(scope, receiver(b""))
        return await server.answer(request, [PictureTask(b"123"), PictureTask(b"bad")], time.monotonic() + 60)

    answer, error = asyncio.run(asking())
    assert answer.batch_size == 3 and isinstance(error, InputError)
    assert server.pools == [server.decoders, server.workers] and server.is_ready
    server.decoders.is_ready = False  # type: ignore[misc]
    assert not server.is_ready


def test_time_runs_out_or_the_client_leaves(server: Server) -> None:
    assert refused(lambda: ask(server, 60.0, seconds=0.01))[:2] == (504, "not answered within 7 seconds")
    assert refused(lambda: ask(server, 60.0, seconds=-1.0))[0] == 504
    assert refused(lambda: ask(server, 60.0, leaves=True))[:2] == (499, "the client disconnected")
    assert server._accepted == 0


def test_no_more_wait_than_may(server: Server) -> None:
    assert refused(lambda: ask(server, *[ANSWER] * 6))[:2] == (413, "6 inputs; a request may contain at most 5")
    assert len(ask(server, *[ANSWER] * 5)[0]) == 5 and server._accepted == 0
    server._admit(3)
    server._admit(2)
    assert refused(lambda: server._admit(1)) == (
        429,
        "5 inputs are pending; at most 5 are allowed",
        {"Retry-After": "1"},
    )
    for rate, seconds in ((1.0, "3"), (0.01, "60"), (1000.0, "1")):  # for two workers
        server.workers.rate = rate  # type: ignore[misc]
        assert refused(lambda: server._admit(1))[2] == {"Retry-After": seconds}
    server.workers.is_ready = False  # type: ignore[misc]
    assert refused(lambda: server._admit(1)) == (503, "the model is not ready", {"Retry-After": "1"})


def test_a_report_has_answers_and_errors_by_name(server: Server) -> None:
    report = server.report(
        ["a", "b", "c"], [ANSWER, InputError("truncated"), RuntimeError("secret")], server.labels(None)
    )
    assert report["errors"] == [
        {"input": "b", "message": "truncated"},
        {"input": "c", "message": "a worker failed on this input; see the server's log"},
    ]
    (answer,) = report["predictions"]
    assert (answer["input"], answer["label"], answer["probability"]) == ("a", "green", 0.5)
    assert (answer["batch_size"], answer["batch_us"], len(answer["top"])) == (4, 30.0, 2)
    assert {key: report[key] for key in ("command", "model", "backend", "target", "lnc", "dtype", "latency_kind")} == {
        "command": "serve", "model": "tiny-ffnn", "backend": "sim", "target": "trn2", "lnc": 2, "dtype": "float32",
        "latency_kind": "predicted",
    }  # fmt: skip
    tops = [len(server.report(["a"], [ANSWER], server.labels(k))["predictions"][0]["top"]) for k in (1, 3, 9)]
    assert tops == [1, 3, 3]


def test_the_longest_batch_is_reported(server: Server) -> None:
    shorter = InputAnswer(0, ANSWER.scores, 2, 10.0)
    assert server.batch_parameters([shorter, ANSWER, shorter]) == {
        "latency_kind": "predicted", "batch_us": 30.0, "batch_size": 4,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("error", "status"),
    [(InputError("x"), 422), (KernelError("x"), 422), (OverflowedError("x"), 422), (ValueError("x"), 500)],
)
def test_whose_fault_it_is(error: Exception, status: int) -> None:
    found = as_status(error)
    assert found.status_code == status and (found.detail == "x") == (status == 422)
