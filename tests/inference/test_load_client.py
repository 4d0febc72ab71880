"""Load on a server: requests, counts, and kinds of failures."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from trninfer.inference.load_client import (
    LoadPlan,
    Message,
    run_load,
    tensor_message,
    wait_until_ready,
)
from trninfer.inference.server_address import Address, LoadError

METADATA = {
    "name": "net",
    "inputs": [
        {"name": "image", "datatype": "FP32", "shape": [-1, 1, 2, 3]},
        {"name": "ids", "datatype": "INT32", "shape": [-1, -1]},
    ],
}


class Server(ThreadingHTTPServer):
    """A server that delays answers by `delay` seconds and rejects every `fails`-th request with 429."""

    daemon_threads = True
    delay, fails = 0.0, 0
    meeting: threading.Barrier | None = None  # for the first requests, which wait for each other

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.bodies: list[tuple[str, bytes, dict[str, str]]] = []
        self.together = self.most = 0
        self.lock = threading.Lock()
        self.documents = {"/about": {"model": "net"}, "/v2/models/net": METADATA}

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that disconnect, which the tests do on purpose."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *arguments: object) -> None:
        pass

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        document = self.server.documents.get(self.path)
        self.answer(404 if document is None else 200, json.dumps(document).encode())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            self.server.bodies.append((self.path, body, dict(self.headers)))
            number = len(self.server.bodies)
            self.server.together += 1
            self.server.most = max(self.server.most, self.server.together)
        if self.server.meeting is not None and number <= self.server.meeting.parties:
            self.server.meeting.wait(60)
        time.sleep(self.server.delay)
        with self.server.lock:
            self.server.together -= 1
        self.answer(429 if self.server.fails and number % self.server.fails == 0 else 200, b"{}")


@pytest.fixture
def server() -> Iterator[Server]:
    served = Server()
    thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield served
    served.shutdown()
    thread.join()
    served.server_close()


MESSAGES = [Message("/classify", b"a", 1), Message("/classify", b"bb", 1)]


def test_tensors_follow_the_metadata(server) -> None:
    address = Address.parse(server.url, "secret")
    name, message = tensor_message(address, None, 3, 5.0)
    size = int(message.headers["Inference-Header-Content-Length"])
    head = json.loads(message.body[:size])
    assert name == "net" and message.path == "/v2/models/net/infer" and message.inputs == 3
    assert [(each["name"], each["shape"], each["parameters"]["binary_data_size"]) for each in head["inputs"]] == [
        ("image", [3, 1, 2, 3], 72),
        ("ids", [3, 1], 12),
    ]
    assert len(message.body) == size + 84
    run_load(address, [message], LoadPlan(1, 5.0, requests=1))
    path, body, headers = server.bodies[0]
    assert (path, body, headers["Authorization"]) == (message.path, message.body, "Bearer secret")


@pytest.mark.parametrize(
    ("documents", "told"),
    [
        ({}, "status 404"),
        ({"/about": {"model": 3}}, "specify one with --model"),
        ({"/about": {"model": "net"}, "/v2/models/net": {"inputs": []}}, "has no inputs"),
        (
            {"/about": {"model": "net"}, "/v2/models/net": {"inputs": [{"name": "x", "datatype": "BYTES"}]}},
            "input x is of BYTES",
        ),
    ],
)
def test_servers_that_cannot_be_asked(server, documents: dict, told: str) -> None:
    server.documents = documents
    with pytest.raises(LoadError, match=told):
        tensor_message(Address.parse(server.url), None, 1, 5.0)


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ("abc", "has no inputs"),
        (["a"], "input None is of None"),
        ([{"datatype": "FP32", "shape": [1]}], "contains an invalid tensor"),
        ([{"name": "x", "datatype": "FP32", "shape": "abc"}], "contains an invalid tensor"),
        ([{"name": "x", "datatype": "FP32", "shape": [1.5]}], "contains an invalid tensor"),
        ([{"name": "x", "datatype": ["a"], "shape": [1]}], "specify pictures"),
        ([{"name": "x", "datatype": "FP32", "shape": [-1, 10**9, 10**9]}], "which is not supported"),
        ([{"name": "x", "datatype": "FP32", "shape": [-1, -7]}], "which is not supported"),
        ([{"name": "x", "datatype": "FP32", "shape": [1] * 200}], "which is not supported"),
        ([{"name": f"x{i}", "datatype": "FP64", "shape": [-1, 4 << 20]} for i in range(12)], "take more than"),
    ],
)
def test_models_that_describe_themselves_badly(server, inputs: object, told: str) -> None:
    server.documents["/v2/models/net"] = {"inputs": inputs}
    with pytest.raises(LoadError, match=told):
        tensor_message(Address.parse(server.url), None, 1, 5.0)


def test_names_of_models_that_a_terminal_would_obey(server) -> None:
    for name in ("\x1b[2J", "a" * 1000):
        server.documents["/about"] = {"model": name}
        with pytest.raises(LoadError, match="specify one with --model"):
            tensor_message(Address.parse(server.url), None, 1, 5.0)


@contextmanager
def raw_server(answer: Callable[[socket.socket, bytes], None]) -> Iterator[Address]:
    """Start a server that answers each request by calling a function with its connection and the request."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=talk, args=(listening.accept()[0],), daemon=True).start()

    def talk(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            answer(connection, connection.recv(65536))

    threading.Thread(target=serve, daemon=True).start()
    yield Address.parse(f"http://127.0.0.1:{listening.getsockname()[1]}")
    listening.close()


def drip(connection: socket.socket, request: bytes) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while True:
        connection.sendall(b" ")
        time.sleep(0.05)


def drip_headers(connection: socket.socket, request: bytes) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nA: ")
    while True:
        connection.sendall(b"x")
        time.sleep(0.05)


@pytest.mark.parametrize("answer", [drip, drip_headers])
def test_servers_that_answer_a_byte_now_and_then_time_out(answer: Callable[[socket.socket, bytes], None]) -> None:
    with raw_server(answer) as address:
        with pytest.raises(LoadError, match="timeout"):
            address.get("/about", 0.5)
        result = run_load(address, MESSAGES, LoadPlan(2, 0.2, timeout=0.5))
        assert result.answered == 0 and set(result.errors) == {"timeout"}


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 500_000, "not JSON"),
        (b"HTTP/1.1 200 OK\r\n\r\n[" + b"{}," * 500_000 + b"{}]", "larger than"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{}", "connection closed"),
        (b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n", "status 302"),
        (b"\xff" * 1000, "not HTTP"),
        (b"", "connection closed"),
    ],
)
def test_answers_that_are_none(answer: bytes, told: str) -> None:
    with raw_server(lambda connection, request: connection.sendall(answer)) as address:
        with pytest.raises(LoadError, match=told):
            address.get("/about", 60.0)
        result = run_load(address, MESSAGES, LoadPlan(1, 60.0, requests=2))
        assert result.requests == 2
        sent = told in ("not JSON", "larger than")
        # if the server closed the connection before reading the whole request
        broken = result.errors.get("connection closed", 0)
        assert result.answered + (broken if sent else 0) == (2 if sent else 0)


def test_client_waits_for_a_starting_server(server) -> None:
    address = Address.parse(server.url)
    wait_until_ready(address, 0.0, 60.0)  # a time limit of 0 sends no request
    with pytest.raises(LoadError, match="status 404; waited"):
        wait_until_ready(address, 0.1, 60.0)
    timer = threading.Timer(0.3, server.documents.__setitem__, ("/v2/health/ready", {"ready": True}))
    timer.start()
    wait_until_ready(address, 60.0, 60.0)
    timer.join()


def test_requests_in_flight_and_failures_by_kind(server) -> None:
    server.delay, server.fails, server.meeting = 0.03, 4, threading.Barrier(4)
    result = run_load(Address.parse(server.url), MESSAGES, LoadPlan(4, 60.0, requests=20))
    assert server.most == 4 and len(server.bodies) == 20
    assert {body for _, body, _ in server.bodies} == {b"a", b"bb"}
    assert (result.requests, result.answered, result.errors) == (20, 15, {"status 429": 5})
    assert result.p50_ms is not None and result.p99_ms is not None and result.max_ms is not None
    assert 30 <= result.p50_ms <= result.p90_ms <= result.p95_ms <= result.p99_ms <= result.max_ms
    assert result.inputs_per_second == pytest.approx(result.requests_per_second)


def test_a_load_ends_by_itself_and_leaves_out_its_warm_up(server) -> None:
    server.delay = 0.02
    began = time.monotonic()
    result = run_load(Address.parse(server.url), MESSAGES, LoadPlan(1, 0.5, warmup=0.5))
    assert time.monotonic() - began >= 1
    assert 0 < result.requests < len(server.bodies)


def test_times_at_a_rate_begin_when_a_request_is_due(server) -> None:
    """One thread, answers of 50 ms, 40 requests a second: each request waits longer than the one before."""
    server.delay = 0.05
    result = run_load(Address.parse(server.url), MESSAGES, LoadPlan(1, 60.0, rate=40, requests=10))
    assert result.answered == 10 and result.p50_ms is not None and result.max_ms is not None
    assert result.max_ms >= 275 and result.p50_ms >= 150  # 50 ms, plus 25 ms for each earlier request
    server.delay = 0.0
    steady = run_load(Address.parse(server.url), MESSAGES, LoadPlan(8, 0.5, rate=40))
    assert steady.answered == 20


def test_failures_have_names(server) -> None:
    server.delay = 0.5
    slow = run_load(Address.parse(server.url), MESSAGES, LoadPlan(1, 5.0, requests=1, timeout=0.1))
    assert slow.errors == {"timeout": 1} and slow.answered == 0 and slow.p50_ms is None
    refused = run_load(Address.parse("127.0.0.1:1"), MESSAGES, LoadPlan(1, 5.0, requests=2))
    assert refused.errors == {"connection refused": 2}


@pytest.mark.parametrize("url", ["ftp://host", "http://", "http://u:p@host", "http://host/?a=1", "http://host:99999",
                                 "http://a b/", "http://.../", "http://" + "ü" * 70])  # fmt: skip
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(LoadError):
        Address.parse(url)


def test_addresses() -> None:
    assert str(Address.parse("localhost:8000")) == "http://localhost:8000"
    assert str(Address.parse("http://localhost/ü")) == "http://localhost:80/%C3%BC"
    assert str(Address.parse("https://[::1]/models/")) == "https://[::1]:443/models"
