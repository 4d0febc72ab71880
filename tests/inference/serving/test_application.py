"""A server from the client's view: the protocol, pictures, and limits."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trninfer
from serving import Reply, RunningServer, running_server
from small_inputs import draw_picture, write_model
from trninfer.models import Dense, FeatureInput, Network, Output, run_network
from trninfer.models.files import load_model

pytest.importorskip("fastapi")
MAX_BYTES = 200_000
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MAX_QUEUE = 8


@pytest.fixture(scope="module")
def server(picture_model: Path) -> Iterator[RunningServer]:
    limits = ("--max-batch", 4, "--max-bytes", MAX_BYTES, "--max-queue", MAX_QUEUE, "--decoders", 1)
    with running_server("--model", picture_model, *limits) as running:
        yield running


@pytest.fixture(scope="module")
def prepared() -> np.ndarray:
    return np.random.default_rng(0).random((3, 1, 16, 16), np.float32)


@pytest.fixture
def picture(tmp_path: Path) -> bytes:
    return draw_picture(tmp_path / "0.png").read_bytes()


def form(*files: tuple[str, bytes]) -> tuple[bytes, dict[str, str]]:
    """Return a form with files, as a browser or curl sends it."""
    parts = [
        f'--bound\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode()
        + content
        + b"\r\n"
        for name, content in files
    ]
    return b"".join(parts) + b"--bound--\r\n", {"Content-Type": "multipart/form-data; boundary=bound"}


def infer(server: RunningServer, tensor: dict[str, Any], **fields: Any) -> Any:
    body = json.dumps({"inputs": [{"name": "input", "datatype": "FP32", **tensor}], **fields}).encode()
    return server.ask("/v2/models/tiny-cnn/infer", body)


@pytest.mark.slow
def test_health_and_metadata(server: RunningServer) -> None:
    assert server.ask("/v2/health/live").json() == {"live": True}
    assert server.ask("/v2/health/ready").json() == {"ready": True}
    assert server.ask("/v2/models/tiny-cnn/ready").json() == {"name": "tiny-cnn", "ready": True}
    told = server.ask("/v2").json()
    assert told["name"] == "trninfer" and told["version"] == trninfer.__version__
    for path in ("/v2/models/tiny-cnn", "/v2/models/tiny-cnn/versions/1"):
        model = server.ask(path).json()
        assert model["inputs"] == [{"name": "input", "datatype": "FP32", "shape": [-1, 1, 16, 16]}]
        assert [output["name"] for output in model["outputs"]] == ["probabilities", "class_index", "label"]
    assert server.ask("/about").json()["latency_kind"] == "predicted"
    assert "/classify" in server.ask("/openapi.json").json()["paths"]


def test_the_page_loads_no_external_resources(server: RunningServer) -> None:
    page = server.ask("/")
    assert page.status == 200 and "default-src 'none'" in page.headers["content-security-policy"]
    assert not re.findall(rb"https?://|src=[\"']|@import", page.body)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_the_page_in_a_browser(server: RunningServer, tmp_path: Path) -> None:
    """The page's script complies with the page's own content security policy, and shows the model that the server
    reports."""
    assert CHROMIUM is not None
    flags = (
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=10000", "--dump-dom",
    )  # fmt: skip
    done = subprocess.run([CHROMIUM, *flags, f"http://127.0.0.1:{server.port}/"], capture_output=True, timeout=300)
    page = done.stdout.decode()
    assert '<h1 id="name">tiny-cnn</h1>' in page and "predicted times" in page, page


def test_pictures_are_answered_as_classify_does(server: RunningServer, picture_model: Path, tmp_path: Path) -> None:
    paths = [draw_picture(tmp_path / f"{number}.png", number) for number in range(3)]
    expected = trninfer.classify(paths, picture_model, backend="sim", top_k=3)
    one = server.ask("/classify?top_k=3", paths[1].read_bytes())
    assert one.status == 200
    report = one.json()
    assert (report["model"], report["backend"], report["latency_kind"]) == ("tiny-cnn", "sim", "predicted")
    several = server.ask("/classify?top_k=3", *form(*((path.name, path.read_bytes()) for path in paths))).json()
    assert [answer["input"] for answer in several["predictions"]] == ["0.png", "1.png", "2.png"]
    for answers, truth in (
        (several["predictions"], expected.predictions),
        (report["predictions"], expected.predictions[1:2]),
    ):
        for answer, right in zip(answers, truth, strict=True):
            assert answer["label"] == right.label and len(answer["top"]) == 3
            assert answer["probability"] == pytest.approx(right.probability, rel=1e-4)
            assert answer["batch_us"] > 0 and 1 <= answer["batch_size"] <= 4


def test_unreadable_picture_is_reported_and_others_are_answered(server: RunningServer, picture: bytes) -> None:
    mixed = server.ask("/classify", *form(("good.png", picture), ("bad.png", b"junk"), ("cut.png", picture[:60])))
    assert mixed.status == 200 and len(mixed.json()["predictions"]) == 1
    assert [error["input"] for error in mixed.json()["errors"]] == ["bad.png", "cut.png"]
    alone = server.ask("/classify", b"junk")
    assert alone.status == 422 and "not a picture in a known format" in alone.json()["error"]


def test_tensors_are_answered_as_the_golden_model_does(
    server: RunningServer, picture_model: Path, prepared: np.ndarray
) -> None:
    model = load_model(picture_model)
    golden = run_network(model.network, model.tensors, prepared).probabilities
    reply = infer(server, {"shape": [3, 1, 16, 16], "data": prepared.ravel().tolist()}, id="some id")
    assert reply.status == 200 and reply.json()["id"] == "some id"
    outputs = {output["name"]: output for output in reply.json()["outputs"]}
    found = np.array(outputs["probabilities"]["data"]).reshape(outputs["probabilities"]["shape"])
    assert np.allclose(found, golden, atol=1e-4)
    assert outputs["class_index"]["data"] == golden.argmax(axis=1).tolist()
    assert outputs["label"]["data"] == [str(index) for index in golden.argmax(axis=1)]
    assert reply.json()["parameters"]["latency_kind"] == "predicted"


def test_a_public_client_of_the_protocol(server: RunningServer, picture_model: Path, prepared: np.ndarray) -> None:
    client_module = pytest.importorskip("tritonclient.http")
    model = load_model(picture_model)
    golden = run_network(model.network, model.tensors, prepared).probabilities
    client = client_module.InferenceServerClient(f"127.0.0.1:{server.port}")
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("tiny-cnn", "1")
    assert client.get_server_metadata()["extensions"][:2] == ["binary_tensor_data", "classification"]
    assert client.get_model_metadata("tiny-cnn")["platform"]
    for binary in (True, False):
        tensor = client_module.InferInput("input", list(prepared.shape), "FP32")
        tensor.set_data_from_numpy(prepared, binary_data=binary)
        wanted = [
            client_module.InferRequestedOutput(name, binary_data=binary)
            for name in ("label", "class_index", "probabilities")
        ]
        for outputs in (None, wanted):
            result = client.infer("tiny-cnn", [tensor], outputs=outputs, request_id="7")
            assert np.allclose(result.as_numpy("probabilities"), golden, atol=1e-4)
            assert result.as_numpy("class_index").tolist() == golden.argmax(axis=1).tolist()
            labels = [item.decode() if isinstance(item, bytes) else item for item in result.as_numpy("label")]
            assert labels == [str(index) for index in golden.argmax(axis=1)]
        top = [client_module.InferRequestedOutput("probabilities", binary_data=binary, class_count=2)]
        best = client.infer("tiny-cnn", [tensor], outputs=top).as_numpy("probabilities")
        assert best.shape == (3, 2) and str(best[0, 0]).split(":")[1] == str(golden[0].argmax())
    with pytest.raises(Exception, match="no such model or version"):
        client.infer("other", [tensor])


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (
            {"shape": [1, 1, 16, 15], "data": [0.0] * 240},
            r"input has the shape \[1, 1, 16, 15\]; expected \[N, 1, 16, 16\]",
        ),
        ({"shape": [0, 1, 16, 16], "data": []}, "N from 1 up"),
        ({"shape": [256], "data": [0.0] * 256}, r"input has the shape \[256\]"),
        ({"shape": [1, 1, 16, 16], "data": [1e39] * 256}, "outside the range of float32"),
        ({"shape": [1, 1, 16, 16], "data": [0.0] * 255}, "does not match the shape"),
        ({"shape": [1, 1, 16, 16], "data": ["x"] * 256}, "data must be a list of numbers"),
    ],
)
def test_tensors_that_cannot_be_used(server: RunningServer, tensor: dict[str, Any], message: str) -> None:
    reply = infer(server, tensor)
    assert reply.status == 400 and re.search(message, reply.json()["error"])


def test_other_types_of_numbers_are_read(server: RunningServer) -> None:
    for datatype, value in (("UINT8", 1), ("INT64", 1), ("FP64", 1.0), ("FP16", 1.0), ("BOOL", True)):
        reply = infer(server, {"shape": [1, 1, 16, 16], "datatype": datatype, "data": [value] * 256})
        assert reply.status == 200, reply.body


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "message"),
    [
        ("/nothing", None, {}, 404, "Not Found"),
        ("/classify", None, {}, 405, "Method Not Allowed"),
        ("/v2/models/other", None, {}, 404, "tiny-cnn, version 1, is served"),
        ("/v2/models/tiny-cnn/versions/2/infer", b"{}", {}, 404, "no such model or version"),
        ("/v2/models/tiny-cnn/infer", b"{}", {"Inference-Header-Content-Length": "x"}, 400, "must be an integer"),
        ("/v2/models/tiny-cnn/infer", b"{}", {}, 400, "missing required field `inputs`"),
        ("/classify", b"", {}, 400, "the body is empty"),
        ("/classify?top_k=99", b"x", {}, 400, "top_k is 99; the model has 10 labels"),
        ("/classify?top_k=x", b"x", {}, 400, "query.top_k"),
        ("/classify", b"x" * (MAX_BYTES + 1), {}, 413, f"larger than {MAX_BYTES} bytes"),
        ("/classify", b"x", {"Content-Encoding": "gzip"}, 415, "'gzip' is not supported"),
        ("/classify", b"x", {"Content-Type": "multipart/form-data"}, 400, "the form cannot be read"),
        ("/classify", b"junk", {"Content-Type": "multipart/form-data; boundary=b"}, 400, "the form"),
        ("/classify", *form(), 400, "the form contains no file"),
        ("/classify", *form(*[("x.png", b"x")] * (MAX_QUEUE + 1)), 400, "Too many files"),
        ("/v2/health/live", None, {"Host": "evil.example"}, 421, "the Host header specifies another"),
    ],
)
def test_requests_that_are_refused(
    server: RunningServer, path: str, body: bytes | None, headers: dict[str, str], status: int, message: str
) -> None:
    reply = server.ask(path, body, headers)
    assert (reply.status, message in reply.json()["error"]) == (status, True), reply
    assert len(reply.json()["error"]) < 300


def test_more_inputs_than_may_wait(server: RunningServer) -> None:
    many = np.zeros((MAX_QUEUE + 1, 1, 16, 16), np.float32)
    reply = infer(server, {"shape": list(many.shape), "data": many.ravel().tolist()})
    assert reply.status == 413 and "9 inputs; a request may contain at most 8" in reply.json()["error"]


def test_a_body_without_a_length_is_cut_off(server: RunningServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        head = "POST /classify HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head.encode())
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        try:
            for _ in range(100):
                connection.sendall(chunk)
        except OSError:
            pass  # it is already closed
        assert b" 413 " in connection.recv(100)


@pytest.mark.parametrize("length", [MAX_BYTES + 1, 1 << 62, 10**19, f"000{MAX_BYTES + 1}"])
def test_a_length_that_is_too_large_is_refused_before_the_body_comes(server: RunningServer, length: int | str) -> None:
    head = f"POST /classify HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(head.encode())  # and nothing else
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


def test_two_ways_to_end_a_body_are_refused_and_no_second_request_is_read(server: RunningServer) -> None:
    second = b"GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    head = f"POST /classify HTTP/1.1\r\nHost: localhost\r\nContent-Length: {5 + len(second)}\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + second)
        answer = b""
        while part := connection.recv(1 << 16):
            answer += part
    assert answer.startswith(b"HTTP/1.1 400 ") and answer.count(b"HTTP/1.1") == 1, answer
    assert b"mutually exclusive" in answer


def test_overload_is_answered_with_retry_after(server: RunningServer, picture: bytes) -> None:
    body, headers = form(*[("x.png", picture)] * 4)
    replies: list[Reply] = []
    with ThreadPoolExecutor(12) as threads:
        for _ in range(10):  # the first time, unless the machine is busy
            replies += threads.map(lambda _: server.ask("/classify", body, headers), range(36))
            if any(reply.status == 429 for reply in replies):
                break
    assert {reply.status for reply in replies} == {200, 429}
    refused = next(reply for reply in replies if reply.status == 429)
    assert int(refused.headers["retry-after"]) >= 1 and "at most 8 are allowed" in refused.json()["error"]
    assert server.ask("/classify", body, headers).status == 200


def test_clients_that_go_away_leave_no_trace(server: RunningServer, picture: bytes) -> None:
    body, _ = form(*[("x.png", picture)] * 4)
    kind = f"Content-Type: multipart/form-data; boundary=bound\r\nContent-Length: {len(body)}"
    head = f"POST /classify HTTP/1.1\r\nHost: localhost\r\n{kind}\r\n\r\n"

    def leave(part: int) -> None:
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
            connection.sendall((head.encode() + body)[:part])

    threads = [threading.Thread(target=leave, args=(part,)) for part in (10, len(head), len(head) + 500, 10**6) * 5]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _ in range(1000):
        reply = server.ask("/classify", picture)
        if reply.status == 200:
            break
    assert reply.status == 200
    assert not [line for line in server.lines() if line["event"] == "internal error"]


def test_counts_for_prometheus(server: RunningServer, picture: bytes) -> None:
    def count(line: str) -> float:
        text = server.ask("/metrics").body.decode()
        return float(next((row.split()[-1] for row in text.splitlines() if row.startswith(line)), "0"))

    names = (
        'trninfer_requests_total{endpoint="/classify",status="200"}',
        "trninfer_batch_size_count",
        "trninfer_predicted_device_seconds_count",
        'trninfer_inputs_total{pool="decoder"}',
        'trninfer_input_failures_total{fault="input"}',
    )
    before = [count(name) for name in names]
    server.ask("/classify", picture)
    server.ask("/classify", b"junk")
    assert [count(name) - old for name, old in zip(names, before)] == [1, 1, 1, 2, 1]
    assert count("trninfer_workers_ready") == 1 and count("trninfer_queue_inputs") == 0
    assert "measured" not in server.ask("/metrics").body.decode()


def test_every_request_has_an_id_and_a_line_in_the_log(server: RunningServer, picture: bytes) -> None:
    assert server.ask("/classify", picture, {"X-Request-Id": "mine-7"}).headers["x-request-id"] == "mine-7"
    other = server.ask("/classify", b"x", {"X-Request-Id": "not\tsafe"}).headers["x-request-id"]
    assert re.fullmatch(r"[0-9a-f]{16}", other)
    server.ask("/%0d%0a%22{evil}?secret=1")
    lines = {line.get("id"): line for line in server.lines() if line["event"] == "request"}
    mine = lines["mine-7"]
    assert (mine["method"], mine["path"], mine["status"], mine["inputs"]) == ("POST", "/classify", 200, 1)
    assert lines[other]["status"] == 422
    assert "secret" not in server.log.read_text()


@pytest.mark.slow
def test_rows_of_features_are_answered_too(tmp_path: Path, feature_model: Path) -> None:
    rows = np.random.default_rng(1).random((5, 6), np.float32)
    model = load_model(feature_model)
    golden = run_network(model.network, model.tensors, rows).probabilities
    with running_server("--model", feature_model, "--max-batch", 2, "--dtype", "bfloat16") as server:
        assert server.ask("/v2/models/tiny-ffnn").json()["inputs"][0]["shape"] == [-1, 6]
        body = json.dumps({"inputs": [{"name": "input", "shape": [5, 6], "datatype": "FP32", "data": rows.tolist()}]})
        outputs = server.ask("/v2/models/tiny-ffnn/infer", body.encode()).json()["outputs"]
        assert np.allclose(np.reshape(outputs[0]["data"], (5, 3)), golden, atol=0.02)
        reply = server.ask("/classify", b"x")
        assert reply.status == 400 and "send tensors to /v2/models/tiny-ffnn/infer" in reply.json()["error"]


@pytest.mark.slow
def test_one_input_that_overflows_leaves_the_others_their_answers(tmp_path: Path) -> None:
    network = Network("values", FeatureInput(2), (Dense("d", 2, 2),), (), Output("values"))
    path = write_model(tmp_path / "values.safetensors", network)
    with running_server("--model", path, "--dtype", "float16", "--max-batch", 8, "--max-delay", 0.3) as server:

        def ask(value: float) -> Any:
            tensor = {"name": "input", "shape": [1, 2], "datatype": "FP32", "data": [value, value]}
            return server.ask("/v2/models/values/infer", json.dumps({"inputs": [tensor]}).encode())

        with ThreadPoolExecutor(3) as threads:
            good, bad, fine = threads.map(ask, (1.0, 1e30, 2.0))
        assert (good.status, bad.status, fine.status) == (200, 422, 200), bad
        assert "not finite in float16" in bad.json()["error"]
        assert good.json()["outputs"][0]["name"] == "values"
