"""Request bodies: limits on the size of each, and on the total that is read at the same time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("fastapi")
from asgi import receiver, scope_of
from starlette.requests import Request
from trninfer.inference.serving import bodies
from trninfer.inference.serving.bodies import BodyError, BodyReader


def read(reader: BodyReader, *parts: bytes, ends: bool = True, seconds: float = 5.0, **headers: str) -> bytes:
    given = [(name.replace("_", "-"), value) for name, value in headers.items()]

    async def reading() -> bytes:
        with reader.hold() as lease:
            return await reader.read(Request(scope_of("/", "POST", given), receiver(*parts, ends=ends)), lease, seconds)

    return asyncio.run(reading())


def refused(reader: BodyReader, *parts: bytes, **more: Any) -> tuple[int, str]:
    with pytest.raises(BodyError) as error:
        read(reader, *parts, **more)
    return error.value.status, str(error.value)


def test_a_body_of_the_largest_size() -> None:
    reader = BodyReader(6)
    assert read(reader, b"abc", b"", b"def") == b"abcdef" and read(reader, b"") == b""
    assert read(reader, b"abcdef", content_length="006", content_encoding="Identity") == b"abcdef"
    assert refused(reader, b"abc", b"defg") == (413, "the body is larger than 6 bytes")
    assert reader._held == 0


@pytest.mark.parametrize("length", ["7", "0007", str(1 << 62), "9" * 5000])
def test_a_content_length_above_the_limit_is_refused(length: str) -> None:
    async def receive() -> dict:
        raise AssertionError("nothing is read")

    async def reading() -> bytes:
        reader = BodyReader(6)
        with reader.hold() as lease:
            return await reader.read(Request(scope_of("/", "POST", [("content-length", length)]), receive), lease, 1.0)

    with pytest.raises(BodyError, match="larger than 6 bytes"):
        asyncio.run(reading())


@pytest.mark.parametrize("length", ["", "x", "-1", "3"])
def test_any_other_length_is_not(length: str) -> None:
    assert read(BodyReader(6), b"abcdef", content_length=length) == b"abcdef"


def test_packed_slow_and_broken_bodies() -> None:
    assert refused(BodyReader(6), b"a", content_encoding="gzip") == (
        415, "content-encoding 'gzip' is not supported; send the body uncompressed",
    )  # fmt: skip
    assert refused(BodyReader(6), b"a", ends=False) == (bodies.CLIENT_GONE, "the client disconnected")

    async def slow() -> dict:
        await asyncio.sleep(60)
        return {}

    async def reading() -> bytes:
        reader = BodyReader(6)
        with reader.hold() as lease:
            return await reader.read(Request(scope_of("/", "POST"), slow), lease, 0.01)

    with pytest.raises(BodyError, match=r"^the body did not arrive within 0\.01 seconds$"):
        asyncio.run(reading())


def test_no_more_is_held_than_a_few_of_the_largest() -> None:
    reader = BodyReader(10)

    async def several() -> tuple[int, str]:
        leases = [reader.hold() for _ in range(bodies.BODIES_AT_ONCE)]
        for held in leases:
            request = Request(scope_of("/", "POST"), receiver(b"x" * 10))
            assert len(await reader.read(request, held.__enter__(), 1.0)) == 10
        with pytest.raises(BodyError) as error, reader.hold() as lease:
            await reader.read(Request(scope_of("/", "POST"), receiver(b"y")), lease, 1.0)
        leases[0].__exit__(None, None, None)  # its answer was sent
        with reader.hold() as lease:
            assert await reader.read(Request(scope_of("/", "POST"), receiver(b"y")), lease, 1.0) == b"y"
        return error.value.status, str(error.value)

    assert asyncio.run(several()) == (503, "too many large requests at once; try again later")
