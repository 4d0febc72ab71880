"""A Ray of our own: how a start that fails is noticed. Its start and end on this machine: tests/app/test_sharing.py."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from trninfer.runtime.backend import BackendUnavailable
from trninfer.runtime.cluster import own_ray
from trninfer.runtime.cluster.ray_thread import RayThread

RAY = SimpleNamespace(job_config=SimpleNamespace(JobConfig=SimpleNamespace), init=lambda **options: time.sleep(600))
LOG = """[2026-11-23 05:09:00,543 I 8901 8901] (raylet) main.cc:12: Starting
[2026-11-23 05:09:01,543 C 8901 8901] (raylet) agent_manager.cc:80:  Check failed: port The agent did not start
[2026-11-23 05:09:01,543 I 8901 8901] (raylet) main.cc:99: errors: 0
*** StackTrace Information ***
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("reaped", [False, True])
def test_a_server_that_ends_is_noticed_and_told_with_its_last_words(tmp_path, reaped) -> None:
    (tmp_path / "session_latest" / "logs").mkdir(parents=True)
    (tmp_path / "session_latest" / "logs" / "raylet.out").write_text(LOG)
    shutil.copy(shutil.which("sleep") or "", tmp_path / "raylet")
    server = subprocess.Popen([tmp_path / "raylet", "1"])
    reaper = threading.Thread(target=server.wait)
    if reaped:
        reaper.start()
    told = "Ray does not start on this machine: its raylet ended: Check failed: port The agent did not start"
    with pytest.raises(BackendUnavailable, match=rf"^{told}$"):
        own_ray._wait(RayThread(RAY), str(tmp_path))
    server.wait()


@pytest.mark.parametrize(
    "error", [ConnectionError("a\nb"), RuntimeError("a"), type("AuthenticationError", (Exception,), {})("a")]
)
def test_whatever_ray_raises_is_one_line(error) -> None:
    def fail(**options: object) -> None:
        raise error

    with pytest.raises(BackendUnavailable, match=r"^Ray does not start on this machine: a$"):
        own_ray._wait(RayThread(SimpleNamespace(init=fail)), "/nowhere")


def test_without_shared_memory_ray_takes_the_disk(monkeypatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: path != own_ray._SHARED_MEMORY)
    monkeypatch.setattr(own_ray, "_SHARED_MEMORY", "/proc")
    assert own_ray._options(RAY, 2, 0, 1 << 30, "/folder")["_plasma_directory"] == "/folder"
    monkeypatch.setattr(own_ray, "_SHARED_MEMORY", "/no/such/folder")
    assert "_plasma_directory" not in own_ray._options(RAY, 2, 0, 1 << 30, "/folder")
