"""Requests to an ASGI application in this process, without a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass
class Response:
    """The response of an application."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the body as JSON."""
        return json.loads(self.body)


def scope_of(
    path: str, method: str = "GET", headers: Iterable[tuple[str, str]] = (), query: str = ""
) -> dict[str, Any]:
    """Return a request as servers pass it on."""
    return {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": query.encode(), "root_path": "",
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers],
        "client": ("127.0.0.1", 5), "server": ("127.0.0.1", 80), "state": {},
    }  # fmt: skip


def receiver(*parts: bytes, ends: bool = True) -> Any:
    """Return a function that passes on a body in parts and then waits for the client to disconnect, which happens at
    once if the body is incomplete."""
    messages = [
        {"type": "http.request", "body": part, "more_body": not ends or number < len(parts)}
        for number, part in enumerate(parts, 1)
    ]

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop(0)
        if ends:
            await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    return receive


def ask(app: Any, path: str, *parts: bytes, headers: Iterable[tuple[str, str]] = (), query: str = "") -> Response:
    """Send a request to an application, with POST if there is a body."""
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = scope_of(path, "POST" if parts else "GET", headers, query)
    asyncio.run(app(scope, receiver(*(parts or (b"",))), send))
    start = next(message for message in sent if message["type"] == "http.response.start")
    body = b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body")
    return Response(start["status"], {name.decode(): value.decode() for name, value in start["headers"]}, body)
