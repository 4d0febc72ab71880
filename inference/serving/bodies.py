"""Bodies of requests, read within limits on their size and on all that are read at once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.requests import ClientDisconnect, Request

BODIES_AT_ONCE = 8  # of the largest size that is allowed, all requests together
_DIGITS = 18  # of a Content-Length that is compared; no body has more
CLIENT_GONE = 499  # a status for the log alone: nobody is there to read it


class BodyError(Exception):
    """A body that is not read; an HTTP status and a line for the client."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class BodyReader:
    """Reads bodies of at most `max_bytes`, and at most BODIES_AT_ONCE of that size at once."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held = 0

    @contextmanager
    def hold(self) -> Iterator[Lease]:
        """Room for one body, until the block ends."""
        lease = Lease()
        try:
            yield lease
        finally:
            self._held -= lease.size

    async def read(self, request: Request, lease: Lease, seconds: float) -> bytes:
        """The body; BodyError where it is too large, packed, or not received in time."""
        packing = request.headers.get("content-encoding", "identity").lower()
        if packing != "identity":
            raise BodyError(415, f"content-encoding {packing[:40]!r} is not unpacked; send the body as it is")
        length = re.fullmatch(r"0*([0-9]*)", request.headers.get("content-length", ""))
        if length and (len(length[1]) > _DIGITS or int(length[1] or 0) > self._max_bytes):
            raise self._too_large()
        try:
            return await asyncio.wait_for(self._collect(request, lease), seconds)
        except ClientDisconnect:
            raise BodyError(CLIENT_GONE, "the client went away") from None
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
    """The bytes that a request holds."""

    size = 0
