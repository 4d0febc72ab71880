"""A server in a separate process, on a free port of the loopback address."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

START_SECONDS = 300  # all time limits are for a machine that runs much else


@dataclass
class Reply:
    """The response of a server."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the body as JSON, which must not contain NaN."""
        return json.loads(self.body, parse_constant=lambda text: 1 / 0)


def _heed_signals() -> None:
    """Ignore no signal that the tests ignore, as they do under nohup or as a shell's background job."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@dataclass
class RunningServer:
    """A running server, and its log."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def ask(
        self, path: str, body: bytes | None = None, headers: dict[str, str] | None = None, method: str | None = None
    ) -> Reply:
        """Send a request on a new connection, with POST if there is a body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        try:
            connection.request(method or ("GET" if body is None else "POST"), path, body, headers or {})
            response = connection.getresponse()
            return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def lines(self) -> list[dict[str, Any]]:
        """Return the log so far."""
        lines = self.log.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if not line.startswith("trninfer: ")]  # lines for the user

    def children(self) -> set[int]:
        """Return the processes of its workers, according to the log."""
        started = [line for line in self.lines() if line["event"] == "worker ready"]
        return {int(str(line["process"]).partition(",")[0]) for line in started}


@contextmanager
def running_server(
    *arguments: object, ready: bool = True, cwd: Path | None = None, **environment: str
) -> Iterator[RunningServer]:
    """Run `trninfer serve` on the simulator with these arguments; if it still runs at the end of the block, stop it.

    With `cwd`, it runs like the console script, whose path does not include the current folder.
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
                preexec_fn=_heed_signals,
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
