"""Serve HTTP with uvicorn. Slow connections are closed. A signal stops the server after it has answered pending
requests."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..inference.serving.repository import GRACE
from .errors import UsageError, reason

PATIENCE = 10.0  # timeout in seconds for a request's head, for the next request, and for the client to read
MAX_CONNECTIONS = 512


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address. Raises UsageError if that fails."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
        try:
            if sys.platform != "win32":  # on Windows, this option would let two servers share a port
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            bound.listen(2048)
        except BaseException:
            bound.close()
            raise
    except (OSError, OverflowError, UnicodeError) as error:
        raise UsageError(f"cannot listen at {host}, port {port}: {reason(error)}") from None
    return bound


def run_server(app: Any, bound: socket.socket, listening: Callable[[], None] = lambda: None) -> HttpServer:
    """Handle requests on a socket until a signal arrives or `app.state.stop` is called; return the server.

    `listening` is called once the server accepts connections.
    """
    config = uvicorn.Config(
        app,
        http=_Connection,
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=int(PATIENCE),
        timeout_graceful_shutdown=int(GRACE),
    )
    server = HttpServer(config, listening)
    app.state.stop = server.stop
    server.run(sockets=[bound])
    return server


class HttpServer(uvicorn.Server):
    """A server that stops after its pending responses on the first signal, and immediately on the second. `forced_by`
    is the second signal."""

    def __init__(self, config: uvicorn.Config, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self.forced_by: int | None = None
        self._listening = listening
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening; the signal handlers are already installed at this point."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets=sockets)
        self._listening()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle SIGHUP like the signals that uvicorn handles, unless SIGHUP is ignored, as under nohup."""
        hangup: int | None = getattr(signal, "SIGHUP", None)
        is_taken = threading.current_thread() is threading.main_thread()
        if hangup is None or not is_taken or signal.getsignal(hangup) == signal.SIG_IGN:
            hangup = None
        previous = signal.signal(hangup, self.handle_exit) if hangup is not None else None
        try:
            with super().capture_signals():
                yield
        finally:
            if hangup is not None:
                signal.signal(hangup, previous)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        if self.should_exit:
            self.forced_by = sig
            self.force_exit = True
            logging.disable(logging.CRITICAL)  # errors on the connections closed here are expected
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._cut_off)
        self.should_exit = True

    def _cut_off(self) -> None:
        """Close all connections. Since Python 3.12, asyncio waits for open connections regardless of uvicorn's
        settings."""
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    def stop(self) -> None:
        """Stop the server as a signal would."""
        self.should_exit = True


class _Connection(H11Protocol):
    """A connection that is closed if the head of a request does not arrive in time, or the client does not read the
    response in time."""

    _head: asyncio.TimerHandle | None = None
    _watch: asyncio.TimerHandle | None = None
    _unsent = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._expect_head()
        self._look_at_unsent()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._head, self._watch):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        at_work = self.cycle is not None and not self.cycle.response_complete
        if at_work and self._head is not None:
            self._head.cancel()
            self._head = None
        elif not at_work and self._head is None:
            self._head = self.loop.call_later(PATIENCE, self._close)

    def _close(self) -> None:
        self._head = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()

    def _look_at_unsent(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        if unsent and unsent >= self._unsent > 0:
            self.transport.abort()
            return
        self._unsent = unsent
        self._watch = self.loop.call_later(PATIENCE, self._look_at_unsent)
