"""Bodies that are small when sent, and large or slow to read."""

from __future__ import annotations

import json
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi")
from serving import RunningServer, running_server
from watched import cpu_seconds, peak_bytes, watched_health

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")

MAX_PEAK = 1 << 30  # of any process of the server
# limit on the CPU time of the server's own process during a health check, as a multiple of the CPU time in which it
# receives a body of SIZE bytes and passes it to a decoder
MOST_BUSY = 2
SIZE = 31 << 20  # bytes, below the limit of 32 MiB for a body
PATH = "/v2/models/tiny-cnn/infer"
FORM = {"Content-Type": "multipart/form-data; boundary=b"}


@pytest.fixture(scope="module")
def server(picture_model: Path) -> Iterator[RunningServer]:
    with running_server("--model", picture_model, "--decoders", 1, "--max-batch", 1) as running:
        yield running


@pytest.fixture(scope="module")
def receiving(server: RunningServer) -> float:
    """Return the CPU time in seconds in which the server's own process receives a body that is refused at its first
    byte."""
    used = []
    for _ in range(3):
        began = cpu_seconds(server.process.pid)
        assert server.ask(PATH, bytes(SIZE)).status == 400
        used.append(cpu_seconds(server.process.pid) - began)
    return sorted(used)[1]


def tensor(data: bytes, shape: tuple[int, ...] = (1, 1, 16, 16), datatype: str = "FP32", more: bytes = b"") -> bytes:
    """Return a request as text, because `json` cannot produce all variants."""
    head = {"name": "input", "datatype": datatype, "shape": shape}
    return b'{%b"inputs": [%b, "data": %b}]}' % (more, json.dumps(head).encode()[:-1], data)


def repeated(text: bytes) -> bytes:
    """Return a JSON list that repeats a text up to the size limit of a body."""
    return b"[" + text + (b"," + text) * (SIZE // (len(text) + 1)) + b"]"


def form(content: bytes) -> bytes:
    return b'--b\r\nContent-Disposition: form-data; name="f"; filename="x"\r\n\r\n' + content + b"\r\n--b--\r\n"


TEXTS = json.dumps(["a" * 30_000] + ["b"] * 7000).encode()  # would take 880 MB as a NumPy array
LONG_TEXTS = json.dumps(["a" * 500_000] + ["b"] * 500_000).encode()  # a terabyte
BODIES: dict[str, Callable[[], bytes]] = {
    "texts among the numbers": lambda: tensor(TEXTS),
    "long texts among the numbers": lambda: tensor(LONG_TEXTS),
    "objects as data": lambda: tensor(repeated(b"{}")),
    "lists as data": lambda: tensor(repeated(b"[]")),
    "objects as inputs": lambda: b'{"inputs": %b}' % repeated(b"{}"),
    "inputs without end": lambda: b'{"inputs": %b}' % repeated(b'{"name":"","shape":[],"datatype":""}'),
    "outputs without end": lambda: tensor(b"[1]", more=b'"outputs": %b,' % repeated(b'{"name":""}')),
    "objects where nothing is read": lambda: b'{"more": %b}' % repeated(b"{}"),
    "lists in lists": lambda: b'{"more": ' + b"[" * SIZE,
    "lists in lists as data": lambda: tensor(b"[" * (SIZE // 2) + b"]" * (SIZE // 2)),
    "more numbers than the shape has": lambda: tensor(repeated(b"0")),
    "a shape without end": lambda: tensor(b"[1]").replace(b"[1, 1, 16, 16]", repeated(b"1")),
    "an input of a gigabyte": lambda: tensor(b"[1]", (1 << 22, 1, 16, 16)),
    "a number without end": lambda: tensor(b"[" + b"1" * SIZE + b"]", (1, 1, 16, 16), "INT64"),
    "a name without end": lambda: tensor(b"[1]").replace(b'"input"', b'"\\ud83d\\ude00' + b"a" * SIZE + b'"'),
}


@pytest.mark.parametrize("name", BODIES)
def test_requests_that_are_larger_than_they_look(server: RunningServer, receiving: float, name: str) -> None:
    check(server, receiving, BODIES[name](), PATH, {}, (400, 413))


PICTURES: dict[str, bytes] = {"lists for pictures": b"[]", "texts for pictures": b'""', "lists of texts": b'["",""]'}


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_in_requests_that_are_larger_than_they_look(
    server: RunningServer, receiving: float, name: str
) -> None:
    check(server, receiving, tensor(repeated(PICTURES[name]), (1,), "BYTES"), PATH, {}, (400,))


def png(depth: int, side: int) -> bytes:
    """Return a grey picture with a single value."""
    row = bytes(1 + side * depth // 8)
    parts = zlib.compressobj(9)
    data = b"".join(parts.compress(row) for _ in range(side)) + parts.flush()
    head = struct.pack(">IIBBBBB", side, side, depth, 0, 0, 0, 0)

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


FORMS: dict[str, Callable[[], bytes]] = {
    "line ends": lambda: form(b"\r" * SIZE),
    "almost boundaries": lambda: form(b"\r\n--" * (SIZE // 4)),
    "no part at all": lambda: b"\r\n" * (SIZE // 2),
    "a header without end": lambda: b"--b\r\nA: " + b"x" * SIZE,
    "headers without end": lambda: b"--b\r\n" + b"A: x\r\n" * (SIZE // 6),
    "parts without end": lambda: b"--b\r\n\r\n\r\n" * (SIZE // 9),
    "a picture of 64 megapixels": lambda: form(png(16, 8000)),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms_that_are_larger_than_they_look(server: RunningServer, receiving: float, name: str) -> None:
    check(server, receiving, FORMS[name](), "/classify", FORM, (400, 413, 422))


def test_a_large_request_that_is_right_is_answered(server: RunningServer, receiving: float) -> None:
    values = np.random.default_rng(0).random((50, 1, 16, 16))
    reply = check(server, receiving, tensor(json.dumps(values.tolist()).encode(), values.shape), PATH, {}, (200,))
    assert len(reply["outputs"]) == 3


def check(
    server: RunningServer, receiving: float, body: bytes, path: str, headers: dict[str, str], statuses: tuple[int, ...]
) -> Any:
    """Send a body while health checks run, and return the answer, which must have one of these statuses."""
    with watched_health(server) as health:
        reply = server.ask(path, body, headers)
    peaks = [peak_bytes(process) for process in (server.process.pid, *server.children())]
    busiest = f"busiest {1000 * health.busiest:.0f} of {1000 * receiving:.0f} ms"
    print(f"{len(body):9} bytes: {reply.status}, {busiest}, peaks", [p >> 20 for p in peaks])
    assert reply.status in statuses, reply
    assert health.asked and health.busiest < MOST_BUSY * receiving
    assert max(peaks) < MAX_PEAK
    assert len(reply.body) < 1 << 20 or reply.status == 200
    assert "Traceback" not in server.log.read_text()
    return reply.json()
