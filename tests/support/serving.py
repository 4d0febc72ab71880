"""A server as a process of its own, on a free port of the loopback address."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

START_SECONDS = 60


@dataclass
class Reply:
    """What a server answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON, in which there is no NaN."""
        return json.loads(self.body, parse_constant=lambda text: 1 / 0)


@dataclass
class RunningServer:
    """A server that runs, and its log."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def ask(
        self, path: str, body: bytes | None = None, headers: dict[str, str] | None = None, method: str | None = None
    ) -> Reply:
        """One request on a connection of its own; `POST` where there is a body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method or ("GET" if body is None else "POST"), path, body, headers or {})
            response = connection.getresponse()
            return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def lines(self) -> list[dict[str, Any]]:
        """The log so far."""
        lines = self.log.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if not line.startswith("trninfer: ")]  # what is for people

    def children(self) -> set[int]:
        """The processes of its workers, by the log."""
        started = [line for line in self.lines() if line["event"] == "worker ready"]
        return {int(str(line["process"]).partition(",")[0]) for line in started}


@contextmanager
def running_server(
    *arguments: object, ready: bool = True, cwd: Path | None = None, **environment: str
) -> Iterator[RunningServer]:
    """`trninfer serve` with these arguments, on the simulator; it is ended with the block where it still runs.

    With `cwd` it runs as the console script does, whose path has not the current folder.
    """
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.jsonl"
        words = ["serve", "--port", "0", "--backend", "sim", "--log-format", "json", *map(str, arguments)]
        script = "import sys; del sys.path[0]; from trninfer.app.main import main; main()"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [sys.executable, *(("-m", "trninfer") if cwd is None else ("-c", script)), *words],
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stderr=stream,
                env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
            )
        try:
            server = RunningServer(process, 0, log)
            server.port = _port(server)
            while ready and server.ask("/v2/health/ready").status != 200:
                _look_alive(server)
            yield server
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()


def _port(server: RunningServer) -> int:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        _look_alive(server)
        text = server.log.read_text(encoding="utf-8")
        for line in text.splitlines(keepends=True):
            if line.startswith("{") and line.endswith("\n") and '"listening"' in line:
                return int(json.loads(line)["address"].rpartition(":")[2].strip("/"))
    raise AssertionError(f"the server does not listen: {server.log.read_text()}")


def _look_alive(server: RunningServer) -> None:
    time.sleep(0.1)
    assert server.process.poll() is None, server.log.read_text()
