"""Malformed requests of every kind: 150 of them, or 3,000 by hand. TRNINFER_FUZZ_REQUESTS and TRNINFER_FUZZ_SEED
choose others."""

from __future__ import annotations

import json
import os
import random
import socket
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from serving import RunningServer, running_server
from small_inputs import draw_picture
from watched import cpu_seconds, watched_health

pytest.importorskip("fastapi")

REQUESTS = int(os.environ.get("TRNINFER_FUZZ_REQUESTS", "150"))
MOST_BUSY = 100  # limit on the CPU time of the server during a health check, as a multiple of that of a request
ODD = [
    [0, (1 << 32) - 1, (1 << 32) - 1], [1, 1 << 40], ["a" * 3000] + ["b"] * 700, [[]] * 2000, [{}] * 2000, "1" * 5000,
    None, True, -1, 0, 1, 2, 3, 256, 1 << 31, 1 << 63, 1 << 64, 10**400, 0.5, 1e308, -0.0, "", "x", "input", "FP32",
    "BYTES", "INT8", "\ud800", "\0", [], {}, [[]], [None], [1, [2]], ["1"], [1 << 70], {"name": "input"},
]  # fmt: skip
NAMES = [b"x.png", b"+2AA-.png", b"\xff\xfe", b"\xed\xa0\x80", b"a" * 5000, b""]
PATHS = [
    "/v2/models/tiny-cnn/infer", "/v2/models/tiny-cnn/versions/1/infer", "/classify", "/classify?top_k=3",
    "/classify?top_k=-1", "/v2/models/%00/infer", "/v2/models/tiny-cnn", "/metrics", "/v2//", "/%ff%fe", "/a" * 500,
    "/openapi.json", "/classify?" + "x=1&" * 50,
]  # fmt: skip


def tensor(rng: random.Random) -> dict[str, Any]:
    size = rng.choice([1, 1, 1, 2, 3])
    return {
        "name": "input",
        "shape": [size, 1, 16, 16],
        "datatype": rng.choice(["FP32", "FP64", "INT32"]),
        "data": [rng.randrange(3) for _ in range(256 * size)],
    }


def change(value: Any, rng: random.Random) -> Any:
    """Return a JSON value with an invalid part inserted."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        key = rng.choice(list(value))
        return {**value, key: change(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.8:
        position = rng.randrange(len(value))
        return [*value[:position], change(value[position], rng), *value[position + 1 :]]
    return rng.choice(ODD)


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Return bytes with some of them changed, removed or duplicated."""
    content = bytearray(data)
    for _ in range(rng.randrange(1, 8)):
        position = rng.randrange(len(content) + 1)
        kind = rng.randrange(4)
        if kind == 0 and content:
            content[min(position, len(content) - 1)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del content[position : position + rng.randrange(1, 200)]
        elif kind == 2:
            content[position:position] = content[position : position + rng.randrange(1, 200)]
        else:
            content[position:position] = rng.randbytes(rng.randrange(1, 30))
    return bytes(content)


def any_request(rng: random.Random, pictures: list[bytes]) -> tuple[str, bytes, dict[str, str]]:
    """Return path, body and headers."""
    headers: dict[str, str] = {}
    kind = rng.randrange(5)
    if kind == 0:
        request = {"id": "1", "inputs": [tensor(rng)], "outputs": [{"name": "label"}], "parameters": {}}
        for _ in range(rng.randrange(3)):
            request = change(request, rng)
        body = json.dumps(request).encode()
    elif kind == 1:
        document = {"inputs": [{**tensor(rng), "parameters": {"binary_data_size": rng.choice([0, 1024, 1 << 40])}}]}
        document["inputs"][0].pop("data")
        text = json.dumps(document).encode()
        body = text + rng.randbytes(rng.choice([0, 1023, 1024, 5000]))
        headers["Inference-Header-Content-Length"] = rng.choice(
            [str(len(text)), "0", "-1", "9" * 30, "1e3", str(1 << 62)]
        )
    elif kind == 2:
        body = mutate(rng.choice(pictures), rng)
    elif kind == 3:
        head = b'--b\r\nContent-Disposition: form-data; name="f"; filename="' + rng.choice(NAMES) + b'"\r\n\r\n'
        whole = head + rng.choice(pictures) + b"\r\n--b--\r\n"
        body = mutate(whole, rng) if rng.random() < 0.7 else whole
        headers["Content-Type"] = rng.choice(
            [
                "multipart/form-data; boundary=b",
                "multipart/form-data; boundary=" + "b" * 300,
                "multipart/form-data; boundary=b; charset=utf-7",
                "multipart/form-data; charset=punycode; boundary=b",
                "multipart/form-data; boundary=",
                "multipart/form-data",
            ]
        )
    else:
        body = rng.randbytes(rng.choice([0, 1, 100, 5000]))
    if rng.random() < 0.2:
        name = rng.choice(["Content-Type", "X-Request-Id", "Content-Encoding", "Accept", "Authorization", "Expect"])
        headers[name] = rng.choice(["", "x" * 2000, "gzip", "text/html; charset=\x7f", "100-continue", "Bearer x"])
    path = rng.choice(PATHS) if rng.random() < 0.4 else PATHS[0] if kind < 2 else "/classify"
    return path, body, headers


def raw_nonsense(server: RunningServer, rng: random.Random) -> None:
    """Return bytes that are not HTTP, or only almost."""
    start = rng.choice(
        [b"", b"GET / HTTP/1.1\r\n", b"POST /classify HTTP/1.1\r\nContent-Length: -5\r\n\r\n", b"\x16\x03\x01"]
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(start + rng.randbytes(rng.randrange(300)))
        connection.shutdown(socket.SHUT_WR)
        try:
            while connection.recv(1 << 16):
                pass
        except OSError:
            pass


def memory_of(process: int) -> int:
    """Resident bytes."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("requests", [REQUESTS, pytest.param(3_000, marks=pytest.mark.by_hand)])
def test_nonsense_is_answered_with_a_line(picture_model: Path, tmp_path: Path, requests: int) -> None:
    samples = Path(__file__).parents[3] / "samples"
    pictures = [draw_picture(tmp_path / "0.png").read_bytes(), (samples / "9-phone-photo.jpg").read_bytes()]
    rng = random.Random(int(os.environ.get("TRNINFER_FUZZ_SEED", "0")))
    statuses: Counter[int] = Counter()
    options = ("--model", picture_model, "--max-batch", 2, "--max-bytes", 100_000)
    with running_server(*options) as server, watched_health(server) as health:
        before, began = 0, cpu_seconds(server.process.pid)
        for number in range(requests):
            if rng.random() < 0.1:
                raw_nonsense(server, rng)
                continue
            path, body, headers = any_request(rng, pictures)
            reply = server.ask(path, body, headers, "POST" if rng.random() < 0.95 else rng.choice(["PUT", "HEAD", "X"]))
            statuses[reply.status] += 1
            assert reply.status < 500, (path, body[:300], headers, reply)
            if reply.body.startswith(b"{"):
                told = reply.json()  # rejects NaN
                assert reply.status == 200 or len(told["error"]) <= 400, told
            assert b"Traceback" not in reply.body
            if not before and number >= requests // 2:
                before = memory_of(server.process.pid)
        assert server.ask("/classify", pictures[0]).status == 200
        assert memory_of(server.process.pid) < before + (40 << 20)
        each = (cpu_seconds(server.process.pid) - began) / requests
        text = server.log.read_text()
        assert "Traceback" not in text and "internal error" not in text and " ended" not in text
    assert statuses[200] and statuses[400] and statuses[422], statuses
    print(sum(statuses.values()), dict(statuses), f"busiest {1000 * health.busiest:.0f} ms, {1000 * each:.1f} ms each")
    assert health.asked and health.busiest < MOST_BUSY * each
