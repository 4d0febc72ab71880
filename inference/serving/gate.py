"""Middleware for all requests: authorisation, request id, log line, and metrics."""

from __future__ import annotations

import hmac
import json
import logging
import re
import secrets
import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .logs import LOGGER, log
from .metrics import Metrics

OPEN_TO_ALL = ("/", "/v2/health/live", "/v2/health/ready")  # paths that require no token
_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)


class Gate:
    """ASGI middleware around the application; see `ServingSettings` for `token` and `hosts`."""

    def __init__(self, app: ASGIApp, metrics: Metrics, token: str | None, hosts: tuple[str, ...]) -> None:
        self._app = app
        self._metrics = metrics
        self._token = token
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return  # returning closes the websocket
        began = time.perf_counter()
        headers = dict(scope["headers"])
        client_id = headers.get(b"x-request-id", b"").decode("latin-1")
        identifier = client_id if re.fullmatch(r"[\w.-]{1,64}", client_id, re.ASCII) else secrets.token_hex(8)
        fields: dict[str, Any] = {}
        scope.setdefault("state", {})["log"] = fields
        status = 0

        async def passed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                added = [*_HEADERS, (b"x-request-id", identifier.encode())]
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            await send(message)

        try:
            refusal = self._refuse(scope["path"], headers)
            if refusal is not None:
                await _respond(passed, *refusal)
            else:
                await self._app(scope, receive, passed)
        except Exception as error:  # a bug: details are written only to the log
            LOGGER.log(logging.ERROR, "internal error", exc_info=error, extra={"fields": {"id": identifier}})
            if not status:
                await _respond(passed, 500, f"internal error; see the server's log for request {identifier}")
        finally:
            self._log(scope, identifier, status, time.perf_counter() - began, fields)

    def _log(self, scope: Scope, identifier: str, status: int, seconds: float, fields: dict[str, Any]) -> None:
        endpoint = getattr(scope.get("route"), "path", "other")
        self._metrics.request(endpoint, status, seconds)
        client = (scope.get("client") or ("",))[0]
        watched = endpoint.startswith("/v2/health") or endpoint == "/metrics"  # these paths are polled
        log(
            "debug" if watched else "info" if status < 500 else "warning",
            "request",
            id=identifier,
            client=client,
            method=scope["method"][:20],
            path=scope["path"][:200],
            status=status,
            seconds=round(seconds, 6),
            **fields,
        )

    def _refuse(self, path: str, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
        """Return the status and the reason if a request is to be rejected."""
        if b"transfer-encoding" in headers and b"content-length" in headers:  # a proxy may use the other header
            return 400, "Content-Length and Transfer-Encoding are mutually exclusive"
        if self._token is not None:
            scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
            known = scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token.encode())
            return (
                None
                if known or path in OPEN_TO_ALL
                else (401, "this server requires a token; send the header Authorization: Bearer TOKEN")
            )
        if self._hosts and _host(headers.get(b"host", b"").decode("latin-1")) not in self._hosts:
            return (
                421,
                f"this server only answers requests for {', '.join(self._hosts)}; the Host header specifies another",
            )
        return None


def _host(header: str) -> str:
    """Return the host name in a Host header, without the port."""
    match = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^:]*)(?::\d+)?", header)
    return match.group(1).lower() if match else ""


async def _respond(send: Send, status: int, message: str) -> None:
    body = json.dumps({"error": message}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if status == 400:  # the start of the next request is unknown, so the connection is closed
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
