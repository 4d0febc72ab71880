"""`trninfer serve` as a process: access control, startup and shutdown."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from processes import is_alive, wait_for_ends
from serving import RunningServer, running_server
from small_inputs import draw_picture
from traps import set_traps, sprung
from trninfer.app.serve import parse_models

pytest.importorskip("fastapi")
QUICK = ("--max-batch", 1, "--decoders", 1)


def in_background(server: RunningServer, body: bytes, count: int) -> tuple[list[threading.Thread], list[int]]:
    """Send requests in separate threads, and return the statuses of the responses. The server has accepted all of
    them."""
    statuses: list[int] = []
    sent = threading.Barrier(count + 1, timeout=300)
    head = f"POST /classify HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n"

    def send() -> None:
        with socket.create_connection(("127.0.0.1", server.port), timeout=300) as connection:
            connection.sendall(head.encode())
            assert connection.recv(1000).startswith(b"HTTP/1.1 100 ")  # it waits for the body
            connection.sendall(body)
            sent.wait()
            statuses.append(int(connection.makefile("rb").readline().split()[1]))

    threads = [threading.Thread(target=send) for _ in range(count)]
    for thread in threads:
        thread.start()
    sent.wait()
    return threads, statuses


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_accepted_requests_are_answered_before_the_server_stops(
    picture_model: Path, tmp_path: Path, number: int
) -> None:
    body = draw_picture(tmp_path / "0.png").read_bytes()
    with running_server("--model", picture_model, *QUICK) as server:
        threads, statuses = in_background(server, body, 8)
        while not any(line["event"] == "request" and line["path"] == "/classify" for line in server.lines()):
            time.sleep(0.01)
        server.process.send_signal(number)
        assert server.process.wait(120) == 0
        for thread in threads:
            thread.join()
        assert statuses == [200] * 8
        wait_for_ends(server.children())


@pytest.mark.slow
def test_the_second_signal_ends_it_at_once(picture_model: Path, tmp_path: Path) -> None:
    with running_server("--model", picture_model, *QUICK) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as waiting:
            head = b"POST /classify HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n"
            waiting.sendall(head)
            assert waiting.recv(1000).startswith(b"HTTP/1.1 100 ")  # it waits for the body
            server.process.send_signal(signal.SIGINT)
            time.sleep(0.5)
            assert server.process.poll() is None  # a request is in flight
            server.process.send_signal(signal.SIGINT)
            assert server.process.wait(120) == 130
        wait_for_ends(server.children())
        assert "Traceback" not in server.log.read_text()


@pytest.mark.slow
def test_workers_end_when_the_server_is_killed(picture_model: Path) -> None:
    with running_server("--model", picture_model, *QUICK) as server:
        children = server.children()
        assert len(children) == 2 and all(map(is_alive, children))
        server.process.kill()
        server.process.wait()
        wait_for_ends(children)


@pytest.mark.slow
def test_workers_that_are_killed_are_replaced(picture_model: Path, tmp_path: Path) -> None:
    body = draw_picture(tmp_path / "0.png").read_bytes()
    with running_server("--model", picture_model, *QUICK) as server:
        for child in server.children():
            os.kill(child, signal.SIGKILL)
        end = time.monotonic() + 120
        while (reply := server.ask("/classify", body)).status in (503, 500) and time.monotonic() < end:
            time.sleep(0.1)
        assert reply.status == 200
        assert len([line for line in server.lines() if line["event"].endswith(" ended")]) == 2
        assert b'trninfer_worker_ends_total{pool="decoder"} 1.0' in server.ask("/metrics").body


@pytest.mark.slow
def test_elsewhere_a_token_is_needed(picture_model: Path, tmp_path: Path) -> None:
    body = draw_picture(tmp_path / "0.png").read_bytes()
    token = tmp_path / "token"
    token.write_text("a-token-of-ours\n")
    arguments = ("--model", picture_model, *QUICK, "--host", "0.0.0.0", "--token-file", token)
    with running_server(*arguments, TRNINFER_TOKEN="not-this-one") as server:
        right = {"Authorization": "Bearer a-token-of-ours"}
        assert server.ask("/classify", body, right).status == 200
        assert server.ask("/v2/health/ready").status == server.ask("/").status == 200
        for path in ("/classify", "/metrics", "/v2", "/nothing", "/openapi.json"):
            for wrong in ({}, {"Authorization": "Bearer not-this-one"}, {"Authorization": "a-token-of-ours"}):
                reply = server.ask(path, b"" if path == "/classify" else None, wrong)
                assert (reply.status, reply.headers["www-authenticate"]) == (401, "Bearer"), path
        assert server.ask("/v2", None, {**right, "Host": "any.example"}).status == 200
        assert "a-token-of-ours" not in server.log.read_text()


def test_a_proxy_may_pass_on_an_allowed_host_and_the_log_sums_up(picture_model: Path, tmp_path: Path) -> None:
    body = draw_picture(tmp_path / "0.png").read_bytes()
    with running_server("--model", picture_model, *QUICK, "--allow-host", "models.example") as server:
        assert server.ask("/v2", None, {"Host": "models.example:443"}).status == 200
        assert server.ask("/v2", None, {"Host": "other.example"}).status == 421
        assert server.ask("/classify", body).status == 200
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(120) == 0
        summed = {line["part"]: line for line in server.lines() if line["event"] == "summary"}
        assert {"request", "decode", "queue", "worker", "device_predicted"} == set(summed)
        assert all(line["p50_ms"] <= line["p99_ms"] for line in summed.values())


@pytest.mark.slow
def test_several_models_answer_and_one_is_loaded_again(
    picture_model: Path, feature_model: Path, tmp_path: Path
) -> None:
    body = draw_picture(tmp_path / "0.png").read_bytes()
    models = f"rows={feature_model},photos={picture_model}"
    with running_server("--model", models, *QUICK, "--model-control") as server:
        assert server.ask("/classify", body).status == 400
        assert server.ask("/classify?model=photos", body).status == 200
        assert server.ask("/v2/repository/models/photos/unload", b"").status == 200
        assert server.ask("/classify?model=photos", body).status == 503
        assert server.ask("/v2/repository/models/photos/load", b"").status == 200
        assert server.ask("/classify?model=photos", body).status == 200


@pytest.mark.parametrize(
    ("text", "models"),
    [
        ("digits-cnn", [("", "digits-cnn")]),
        ("a=digits-cnn", [("a", "digits-cnn")]),
        ("a=x.onnx,b=y.safetensors", [("a", "x.onnx"), ("b", "y.safetensors")]),
        ("a=x,y", [("", "a=x,y")]),
    ],
)
def test_models_are_named_before_their_files(text: str, models: list[tuple[str, str]]) -> None:
    assert parse_models(text) == models


def test_server_answers_while_loading_and_generates_a_token(feature_model: Path) -> None:
    with running_server("--model", feature_model, "--max-batch", 1, "--host", "0.0.0.0", ready=False) as server:
        assert server.ask("/v2/health/live").status == 200
        first = server.log.read_text().splitlines()[0]
        assert first.startswith("trninfer: 0.0.0.0 is reachable from other machines; requests must contain the token ")
        token = first.rpartition(" ")[2]
        assert len(token) >= 32 and server.ask("/v2").status == 401
        right = {"Authorization": f"Bearer {token}"}
        assert server.ask("/v2", None, right).status == 200
        reply = server.ask("/about", None, right)
        assert reply.status == 200 or int(reply.headers["retry-after"]) >= 1


def test_failure_to_start_is_explained(cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trninfer.runtime.neuron.environment.neuron_devices", lambda: ())

    def line(*arguments: object, status: int = 2) -> str:
        outcome = cli("serve", *arguments)
        assert outcome.status == status and outcome.messages == 1, outcome
        return str(outcome.err)

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert line("--port", port) == f"trninfer: cannot listen at 127.0.0.1, port {port}: Address already in use\n"
    assert "cannot listen at nowhere.invalid" in line("--host", "nowhere.invalid", "--port", 0)
    assert "no Neuron device" in line("--backend", "neuron", "--port", 0, status=3)
    assert "no such model" in line("--model", "nonsense", "--port", 0)
    assert "no such file" in line("--token-file", tmp_path / "none", "--port", 0)
    monkeypatch.setenv("TRNINFER_TOKEN", "short")
    assert "token must have 8 to 200" in line("--port", 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--timeout", "nan"), "'nan' is not a number of seconds from 0.01 to 86400"),
        (("--max-delay", "1_0"), "'1_0' is not a number of seconds from 0 to 60"),
        (("--port", "70000"), "'70000' is not an integer from 0 to 65535"),
        (("--workers", "0"), "'0' is not an integer from 1 to 4096"),
        (("--allow-host", "models.example:80"), "expected a host name without a port"),
    ],
)
def test_wrong_options(cli: Any, arguments: tuple[str, ...], message: str) -> None:
    outcome = cli("serve", *arguments)
    assert outcome.status == 2 and message in outcome.err and outcome.messages == 1


def test_missing_package_is_named(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trninfer.app.serve.find_spec", lambda name: None if name == "uvicorn" else object())
    outcome = cli("serve")
    assert (
        outcome.status == 2 and "needs uvicorn, which are not installed (pip install 'trninfer[serve]')" in outcome.err
    )


@pytest.mark.slow
def test_server_imports_nothing_from_the_current_folder(picture_model: Path, tmp_path: Path) -> None:
    for name in ("numpy", "PIL", "trninfer", "fastapi", "uvicorn", "json", "pickle", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\n")
    body = draw_picture(tmp_path / "0.png").read_bytes()
    script = Path(sys.executable).with_name("trninfer")
    command = [script, "serve", "--port", "0", "--backend", "sim", "--model", picture_model, *QUICK]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([*map(str, command), "--log-format", "json"], cwd=tmp_path, stderr=log)
    try:
        server = RunningServer(process, 0, tmp_path / "log")
        while not server.log.read_text().count("\n") >= 3:
            time.sleep(0.1)
            assert process.poll() is None, server.log.read_text()
        server.port = int(server.lines()[0]["address"].rpartition(":")[2].strip("/"))
        assert server.ask("/classify", body).status == 200
    finally:
        process.terminate()
        process.wait(120)
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
def test_a_server_runs_nothing_that_is_in_the_current_folder(pictures, picture_model) -> None:
    set_traps(pictures)
    with running_server("--model", picture_model, "--workers", 2, "--decoders", 2, cwd=pictures) as server:
        for path in sorted(pictures.glob("*.png")):
            assert server.ask("/classify", path.read_bytes()).status == 200
        assert len(server.children()) in (3, 4)  # decoders are also processes, started when none is idle
    assert sprung(pictures) == []
