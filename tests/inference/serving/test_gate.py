"""The middleware of every request: access control, request IDs, log lines, and metrics."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any

import pytest

pytest.importorskip("fastapi")
from asgi import Response, ask, scope_of
from trninfer.inference.serving.gate import Gate
from trninfer.inference.serving.logs import LOGGER
from trninfer.inference.serving.metrics import Metrics

TOKEN = "a-secret-token"


class Inner:
    """An application that returns the request it received, or fails before or after starting its response."""

    def __init__(self, fault: str = "") -> None:
        self.fault = fault
        self.asked: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked.append(scope.get("path", scope["type"]))
        if scope["type"] != "http":
            return
        scope["state"]["log"]["inputs"] = 3
        if self.fault == "before":
            raise ZeroDivisionError("secret")
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        if self.fault == "after":
            raise ZeroDivisionError("secret")
        await send({"type": "http.response.body", "body": b"fine"})


def gate(inner: Inner, token: str | None = None, hosts: tuple[str, ...] = ()) -> tuple[Gate, Metrics]:
    metrics = Metrics()
    return Gate(inner, metrics, token, hosts), metrics


def answer(
    path: str = "/v2", *headers: tuple[str, str], token: str | None = None, hosts: tuple[str, ...] = ()
) -> Response:
    return ask(gate(Inner(), token, hosts)[0], path, headers=headers)


def test_answers_pass_with_headers_that_keep_them_private() -> None:
    found = answer()
    assert (found.status, found.body, found.headers["content-type"]) == (200, b"fine", "text/plain")
    assert (found.headers["cache-control"], found.headers["x-content-type-options"]) == ("no-store", "nosniff")
    assert found.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("told", ["mine-7", "A.b_c-1", "x" * 64])
def test_a_client_may_name_its_request(told: str) -> None:
    assert answer("/v2", ("X-Request-Id", told)).headers["x-request-id"] == told


@pytest.mark.parametrize("told", ["", "x" * 65, "a b", "a\tb", "\u00fc", "a\n"])
def test_other_names_are_replaced(told: str) -> None:
    assert re.fullmatch(r"[0-9a-f]{16}", answer("/v2", ("X-Request-Id", told)).headers["x-request-id"])


@pytest.mark.parametrize(
    ("path", "header", "status"),
    [
        ("/v2", f"Bearer {TOKEN}", 200), ("/v2", f"bearer  {TOKEN} ", 200), ("/v2", "", 401), ("/v2", TOKEN, 401),
        ("/v2", f"Basic {TOKEN}", 401), ("/v2", f"Bearer {TOKEN}x", 401), ("/v2", "Bearer", 401),
        ("/metrics", "", 401), ("/", "", 200), ("/v2/health/live", "", 200), ("/v2/health/ready", "", 200),
        ("/v2/health/live/", "", 401),
    ],
)  # fmt: skip
def test_a_token_is_asked_for(path: str, header: str, status: int) -> None:
    found = answer(path, ("Authorization", header), ("Host", "elsewhere"), token=TOKEN, hosts=("localhost",))
    assert found.status == status
    if status == 401:
        assert found.headers["www-authenticate"] == "Bearer" and "Authorization: Bearer TOKEN" in found.json()["error"]
        assert found.headers["content-length"] == str(len(found.body)) and TOKEN not in found.body.decode()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200), ("LOCALHOST:8080", 200), ("[::1]:80", 200), ("[::1]", 200), ("evil.example", 421),
        ("", 421), ("localhost:x", 421), ("localhost.evil", 421), ("[::1].evil", 421), ("localhost:1:2", 421),
    ],
)  # fmt: skip
def test_without_a_token_only_known_hosts_are_answered(host: str, status: int) -> None:
    found = answer("/v2", ("Host", host), hosts=("localhost", "[::1]"))
    assert found.status == status
    assert (
        status == 200
        or "only answers requests for localhost, [::1]; the Host header specifies another" in found.json()["error"]
    )


def test_two_ways_to_end_a_body_are_refused_before_all_else() -> None:
    both = (("Content-Length", "5"), ("Transfer-Encoding", "chunked"), ("Authorization", f"Bearer {TOKEN}"))
    found = answer("/v2", *both, token=TOKEN)
    assert (found.status, found.headers["connection"]) == (400, "close") and "are mutually exclusive" in found.json()[
        "error"
    ]
    assert answer("/v2", both[1]).status == answer("/v2", both[0]).status == 200


def test_a_refused_request_does_not_reach_the_application() -> None:
    inner = Inner()
    assert ask(gate(inner, TOKEN)[0], "/v2").status == 401 and inner.asked == []


def test_an_internal_error_is_written_only_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, LOGGER.name)
    found = ask(gate(Inner("before"))[0], "/v2", headers=[("X-Request-Id", "mine")])
    after = ask(gate(Inner("after"))[0], "/v2")
    assert found.status == 500 and found.json()["error"] == "internal error; see the server's log for request mine"
    assert after.status == 200 and after.body == b""  # the response had already started
    faults = [record for record in caplog.records if record.getMessage() == "internal error"]
    assert len(faults) == 2 and faults[0].exc_info is not None and faults[0].exc_info[0] is ZeroDivisionError


def test_requests_are_counted_by_their_route_and_logged_with_what_was_asked(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, LOGGER.name)
    one, metrics = gate(Inner(), TOKEN)
    ask(one, "/secret/path", headers=[("Authorization", f"Bearer {TOKEN}"), ("X-Request-Id", "mine")])
    ask(one, "/v2")
    text = metrics.text().decode()
    assert 'trninfer_requests_total{endpoint="other",status="200"} 1.0' in text and "secret" not in text
    assert 'trninfer_requests_total{endpoint="other",status="401"} 1.0' in text
    fields = [record.fields for record in caplog.records if record.getMessage() == "request"]  # type: ignore[attr-defined]
    assert (fields[0]["id"], fields[0]["path"], fields[0]["status"], fields[0]["inputs"]) == (
        "mine",
        "/secret/path",
        200,
        3,
    )
    assert fields[0]["client"] == "127.0.0.1" and fields[1]["status"] == 401 and "inputs" not in fields[1]


def test_malformed_requests_are_refused() -> None:
    async def send(message: Any) -> None:
        raise AssertionError(message)

    for kind, asked in (("lifespan", ["lifespan"]), ("websocket", [])):
        inner = Inner()
        asyncio.run(gate(inner)[0]({**scope_of("/v2"), "type": kind, "path": kind}, None, send))
        assert inner.asked == asked
