"""Read request bodies, and limit the size of each body and their total size."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.requests import ClientDisconnect, Request

BODIES_AT_ONCE = 8  # limit on the memory for all bodies, in bodies of the maximum size
_DIGITS = 18  # maximum number of digits of a Content-Length
CLIENT_GONE = 499  # status used only in the log, since the client has disconnected


class BodyError(Exception):
    """A body that is rejected, with an HTTP status and a one-line message for the client."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class BodyReader:
    """Reads bodies of at most `max_bytes` each. The total in memory is at most BODIES_AT_ONCE times that size."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held = 0

    @contextmanager
    def hold(self) -> Iterator[Lease]:
        """Reserve memory for one body until the block ends."""
        lease = Lease()
        try:
            yield lease
        finally:
            self._held -= lease.size

    async def read(self, request: Request, lease: Lease, seconds: float) -> bytes:
        """Return the body. Raises BodyError if it is too large, compressed, or late."""
        packing = request.headers.get("content-encoding", "identity").lower()
        if packing != "identity":
            raise BodyError(415, f"content-encoding {packing[:40]!r} is not supported; send the body uncompressed")
        length = re.fullmatch(r"0*([0-9]*)", request.headers.get("content-length", ""))
        if length and (len(length[1]) > _DIGITS or int(length[1] or 0) > self._max_bytes):
            raise self._too_large()
        try:
            return await asyncio.wait_for(self._collect(request, lease), seconds)
        except ClientDisconnect:
            raise BodyError(CLIENT_GONE, "the client disconnected") from None
        except asyncio.TimeoutError:
            raise BodyError(408, f"the body did not arrive within {seconds:g} seconds") from None

    async def _collect(self, request: Request, lease: Lease) -> bytes:
        parts = []
        async for part in request.stream():
            if lease.size + len(part) > self._max_bytes:
                raise self._too_large()
            if self._held + len(part) > BODIES_AT_ONCE * self._max_bytes:
                raise BodyError(503, "too many large requests at once; try again later")
            lease.size += len(part)
            self._held += len(part)
            parts.append(part)
        return b"".join(parts)

    def _too_large(self) -> BodyError:
        return BodyError(413, f"the body is larger than {self._max_bytes} bytes")


class Lease:
    """The number of bytes reserved by a request."""

    size = 0
