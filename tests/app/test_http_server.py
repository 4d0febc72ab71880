"""Slow connections to a server that runs in a separate thread."""

from __future__ import annotations

import asyncio
import http.client
import logging
import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("uvicorn")

from trninfer.app import http_server


class App:
    """Answers with as many bytes as the path specifies."""

    class state:  # noqa: N801 (as FastAPI has it)
        stop: Any = None

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.done = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        self.asked.append(scope["path"])
        body = b"x" * int(scope["path"][1:])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})
        self.done += 1


@pytest.fixture
def app(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[App, int]]:
    monkeypatch.setattr(http_server, "PATIENCE", getattr(request, "param", 1.0))
    app, bound = App(), http_server.listen("127.0.0.1", 0)
    thread = threading.Thread(target=http_server.run_server, args=(app, bound))
    thread.start()
    yield app, bound.getsockname()[1]
    while app.state.stop is None:
        time.sleep(0.01)
    app.state.stop()
    thread.join(120)
    assert not thread.is_alive()


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=60)


@pytest.mark.parametrize("app", [60.0], indirect=True)
def test_requests_are_answered_one_after_the_other(app: tuple[App, int]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", app[1], timeout=60)
    for _ in range(3):
        connection.request("GET", "/5")
        assert connection.getresponse().read() == b"xxxxx"
        time.sleep(0.2)
    connection.close()
    assert app[0].asked == ["/5"] * 3


@pytest.mark.parametrize("head", [b"", b"GET /5 HTT", b"GET /5 HTTP/1.1\r\nHost: x\r\n"])
def test_a_head_that_does_not_end_is_not_waited_for(app: tuple[App, int], head: bytes) -> None:
    with connect(app[1]) as connection:
        connection.sendall(head)
        assert connection.recv(1000) == b""  # closed
    with connect(app[1]) as connection:  # also after a request
        connection.sendall(b"GET /5 HTTP/1.1\r\nHost: x\r\n\r\nGET /6")
        got = b""
        while part := connection.recv(1000):
            got += part
        assert got.endswith(b"xxxxx")
    assert app[0].asked == ["/5"]


@pytest.mark.slow
def test_an_unread_response_is_dropped(app: tuple[App, int]) -> None:
    with connect(app[1]) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(b"GET /50000000 HTTP/1.1\r\nHost: x\r\n\r\n")
        with pytest.raises(OSError):  # the other end is closed
            for _ in range(300):
                connection.sendall(b"x")
                time.sleep(0.2)


def test_the_second_signal_cuts_connections_off() -> None:
    """uvicorn leaves them open, and since Python 3.12 asyncio waits for them."""

    class Connection:
        transport = None
        aborted = False

        def abort(self) -> None:
            self.aborted = True

    async def run() -> tuple[bool, bool]:
        server = http_server.HttpServer(http_server.uvicorn.Config(lambda: None), lambda: None)
        server._loop = asyncio.get_running_loop()
        connection = Connection()
        connection.transport = connection  # type: ignore[assignment]
        server.server_state.connections.add(connection)  # type: ignore[arg-type]
        server.handle_exit(signal.SIGINT, None)
        await asyncio.sleep(0)
        first = connection.aborted
        server.handle_exit(signal.SIGINT, None)
        await asyncio.sleep(0.01)
        return first, connection.aborted

    try:
        assert asyncio.run(run()) == (False, True)
    finally:
        logging.disable(logging.NOTSET)
