"""What is left of a Ray of our own is cleared away, whatever ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from trninfer.runtime.cluster import janitor
from trninfer.runtime.cluster.janitor import MARK, clear_left_over, own_folder, processes_of

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs Linux's /proc")


@pytest.fixture(autouse=True)
def temporary(tmp_path_factory, monkeypatch) -> Iterator[Path]:
    """A short folder for temporary files, of this test alone."""
    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)


def sleeper(folder: str) -> subprocess.Popen[bytes]:
    """A process of a folder, which has started."""
    program = "import time, sys; sys.stdout.write('.'); sys.stdout.flush(); time.sleep(600)"
    environment = {**os.environ, MARK: folder}
    process = subprocess.Popen([sys.executable, "-S", "-c", program], env=environment, stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.read(1) == b"."
    return process


def wait_until(condition) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_folder_goes_with_its_processes_and_no_others() -> None:
    with own_folder() as folder:
        ours, others = sleeper(folder), sleeper(f"{folder}-2")
        assert processes_of(folder) == [ours.pid]
        (Path(folder) / "logs").mkdir()
    try:
        assert ours.wait(10) == -signal.SIGKILL and others.poll() is None and not os.path.exists(folder)
    finally:
        others.kill()
        others.wait()


def test_it_goes_where_the_process_is_killed(temporary) -> None:
    program = (
        "from trninfer.runtime.cluster.janitor import own_folder; import os, subprocess, sys, time\n"
        f"with own_folder() as folder:\n"
        f"    subprocess.Popen(['sleep', '600'], env={{**os.environ, '{MARK}': folder}})\n"
        f"    print(folder, flush=True); time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    folder = process.stdout.readline().strip()
    wait_until(lambda: processes_of(folder))
    process.kill()
    wait_until(lambda: not processes_of(folder) and list(temporary.iterdir()) == [])


def test_what_is_just_being_started_goes_too_where_the_process_is_killed(temporary) -> None:
    program = (
        "from trninfer.runtime.cluster.janitor import own_folder; import os, signal, subprocess\n"
        "with own_folder() as folder:\n"
        f"    late = 'sleep 0.5; {MARK}=' + folder + ' exec sleep 600'\n"
        "    subprocess.Popen(['sh', '-c', late], stdout=subprocess.DEVNULL)\n"
        "    print(folder, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    folder = process.stdout.readline().strip()
    process.wait()
    wait_until(lambda: list(temporary.iterdir()) == [])
    time.sleep(1)
    assert processes_of(folder) == []


def test_what_a_killed_janitor_left_goes_with_the_next_run(temporary) -> None:
    left, new, old = (temporary / f"{janitor.PREFIX}{name}" for name in ("left", "new", "old"))
    for folder in (left, new, old):
        folder.mkdir()
    (left / "lock").touch()
    os.utime(old, (0, 0))
    (temporary / f"{janitor.PREFIX}link").symlink_to("/etc")
    process = sleeper(str(left))
    with own_folder() as folder:
        assert process.wait(10) == -signal.SIGKILL
        clear_left_over()  # by another run: ours is in use
        assert {path.name for path in temporary.iterdir()} == {Path(folder).name, new.name, f"{janitor.PREFIX}link"}


def test_long_folders_for_temporary_files_are_left_for_short_ones(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / ("long" * 20)))
    os.mkdir(tmp_path / ("long" * 20))
    with own_folder() as folder:
        assert len(folder) <= janitor.LONGEST_FOLDER and os.path.isdir(folder)
