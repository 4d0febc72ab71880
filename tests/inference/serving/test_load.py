"""A server under load, with slow, broken and hostile clients beside well-behaved ones."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from serving import RunningServer, running_server
from small_inputs import draw_picture

pytest.importorskip("fastapi")
REQUESTS = int(os.environ.get("TRNINFER_LOAD_REQUESTS", "200"))

LOCUSTFILE = """
import gevent, pathlib
from locust import FastHttpUser, task

PICTURE = pathlib.Path({picture!r}).read_bytes()

class Client(FastHttpUser):
    asked = 0

    @task
    def classify(self):
        Client.asked += 1
        if Client.asked == {requests}:
            gevent.spawn(self.environment.runner.quit)  # which ends this client too
        with self.client.post("/classify", data=PICTURE, catch_response=True) as reply:
            if reply.status_code == 429:
                assert int(reply.headers["retry-after"]) >= 1
                reply.success()
            elif reply.status_code != 200 or reply.json()["predictions"][0]["label"] != {label!r}:
                reply.failure(f"status {{reply.status_code}}")
"""


def bother(server: RunningServer, ended: threading.Event) -> None:
    """Send requests that never end, break off, or are invalid, until the event is set."""
    head = b"POST /classify HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"
    slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
    for connection in slow:
        connection.sendall(head)
    while not ended.wait(0.1):
        for connection in slow:
            with contextlib.suppress(OSError):  # the server may have closed the connection
                connection.sendall(b"x")
        for start in (head + b"x" * 500, b"\x00" * 100, head[:30]):
            with socket.create_connection(("127.0.0.1", server.port)) as connection:
                connection.sendall(start)
    for connection in slow:
        connection.close()


@pytest.mark.slow
def test_good_clients_are_answered_beside_bad_ones(picture_model: Path, tmp_path: Path) -> None:
    # not imported here, because gevent would patch the process of the tests
    if importlib.util.find_spec("locust") is None:
        pytest.skip("could not import 'locust'")
    picture = draw_picture(tmp_path / "0.png")
    with running_server("--model", picture_model, "--max-batch", 4, "--max-queue", 6, "--timeout", 120) as server:
        reply = server.ask("/classify", picture.read_bytes())
        file = tmp_path / "locustfile.py"
        label = reply.json()["predictions"][0]["label"]
        file.write_text(LOCUSTFILE.format(picture=str(picture), label=label, requests=REQUESTS))
        ended = threading.Event()
        bad = threading.Thread(target=bother, args=(server, ended))
        bad.start()
        users = ["--headless", "--users", "10", "--spawn-rate", "100", "--run-time", "300s", "--json"]
        command = [sys.executable, "-m", "locust", "-f", str(file), "--host", f"http://127.0.0.1:{server.port}"]
        try:
            done = subprocess.run([*command, *users], capture_output=True, text=True)
        finally:
            ended.set()
            bad.join()
        assert done.returncode == 0, done.stdout + done.stderr
        (total,) = json.loads(done.stdout)
        assert total["num_requests"] >= REQUESTS / 2 and total["num_failures"] == 0, total
        assert server.ask("/classify", picture.read_bytes()).status == 200
        text = server.log.read_text()
        assert "Traceback" not in text and "ended" not in text
        answered = [line for line in server.lines() if line.get("status") == 200]
        assert max(line.get("batch", 0) for line in answered) > 1  # simultaneous requests shared batches
