"""The address of an inference server, and connections to it with a timeout that also applies if the server sends data
very slowly."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

MOST_DOCUMENT_BYTES = 1 << 20  # maximum number of bytes of a JSON document about the server or a model


class LoadError(ValueError):
    """The server cannot be load-tested; the message is a single line for the user."""


@dataclass(frozen=True)
class Address:
    """A server, `http://host:port/prefix`, and the headers of each request."""

    scheme: str
    host: str
    port: int
    prefix: str
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, url: str, token: str | None = None) -> Address:
        """Parse an address. Raises LoadError if it is malformed."""
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            port = parts.port
        except ValueError as error:
            raise LoadError(f"{url}: not an address: {error}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise LoadError(f"{url}: not an address of the form http://HOST:PORT")
        if parts.username is not None or parts.query or parts.fragment:
            raise LoadError(f"{url}: use only host, port and path; pass a token with --token-file")
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        default = 443 if parts.scheme == "https" else 80
        prefix = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~")
        address = cls(parts.scheme, parts.hostname, port or default, prefix, headers)
        try:
            parts.hostname.encode("idna")
            address.connect(1.0)  # checks the syntax of the host name
        except (UnicodeError, http.client.HTTPException):
            raise LoadError(f"{url}: not a host name") from None
        return address

    def connect(self, timeout: float) -> http.client.HTTPConnection:
        """Return a connection, which is opened by its first request."""
        if self.scheme == "https":
            return http.client.HTTPSConnection(
                self.host, self.port, timeout=timeout, context=ssl.create_default_context()
            )
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def get(self, path: str, timeout: float) -> Any:
        """Return a JSON document from the server. Raises LoadError if that fails."""
        connection = self.connect(timeout)
        watch = threading.Timer(timeout, shut_down, [connection])
        watch.daemon = True
        began = time.monotonic()
        watch.start()
        try:
            connection.request("GET", self.prefix + path, headers=self.headers)
            answer = connection.getresponse()
            body = read_answer(answer, MOST_DOCUMENT_BYTES, began + timeout)
        except (OSError, ValueError, http.client.HTTPException) as error:
            failure = TimeoutError() if time.monotonic() >= began + timeout else error
            raise LoadError(f"{self}{path}: {describe_failure(failure)}") from None
        finally:
            watch.cancel()
            connection.close()
        if answer.status != 200:
            hint = "; pass a token with --token-file or TRNINFER_TOKEN" if answer.status == 401 else ""
            raise LoadError(f"{self}{path}: status {answer.status}{hint}")
        if len(body) > MOST_DOCUMENT_BYTES:
            raise LoadError(f"{self}{path}: the response is larger than {MOST_DOCUMENT_BYTES} bytes")
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise LoadError(f"{self}{path}: the response is not JSON") from None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.prefix}"


def read_answer(answer: http.client.HTTPResponse, most: int, deadline: float) -> bytes:
    """Return the body of a response, or its first `most` + 1 bytes. Raises OSError if it is truncated or late."""
    body = answer.read(most + 1)
    if time.monotonic() >= deadline:
        raise TimeoutError
    if len(body) <= most and answer.length:
        raise ConnectionError
    return body


def shut_down(connection: http.client.HTTPConnection) -> None:
    """Close a connection on which another thread is waiting."""
    if (stream := connection.sock) is not None:
        with contextlib.suppress(OSError):
            stream.shutdown(socket.SHUT_RDWR)


def describe_failure(error: Exception) -> str:
    """Describe a failure in a few words. Failures of the same kind have the same description."""
    if isinstance(error, TimeoutError):
        return "timeout"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, (ConnectionError, http.client.RemoteDisconnected)):
        return "connection closed"
    if isinstance(error, socket.gaierror):
        return "unknown host"
    if isinstance(error, ssl.SSLError):
        return "TLS error"
    if isinstance(error, OSError):
        return (error.strerror or type(error).__name__).lower()
    return "not HTTP"
