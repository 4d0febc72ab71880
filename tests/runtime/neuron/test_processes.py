"""Processes with limits, and their children."""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from trninfer.runtime.neuron import processes
from trninfer.runtime.neuron.processes import ProcessResult, run_limited


def run(tmp_path: Path, program: str, **options) -> ProcessResult:
    given = tmp_path / "given"
    given.write_text("hello")
    options = {"limit": 50.0, **options}
    return run_limited(
        [sys.executable, "-c", program],
        given=given,
        log=tmp_path / "log",
        variables={**os.environ, "X": "y"},
        **options,
    )


def test_input_output_status_and_memory(tmp_path: Path) -> None:
    program = "import os, sys; print(sys.stdin.read(), os.environ['X']); print('!', file=sys.stderr); sys.exit(3)"
    done = run(tmp_path, program)
    assert done.status == 3 and done.seconds > 0 and done.peak_bytes > 1 << 20
    assert sorted((tmp_path / "log").read_text().split()) == ["!", "hello", "y"]
    assert run(tmp_path, "import os; os.kill(os.getpid(), 9)").status == -9


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[-1].split()[0] != "Z"
    except OSError:
        return False


def ends(pid: int) -> bool:
    """Return True if a process ends within a few seconds."""
    deadline = time.monotonic() + 50
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not is_running(pid)


SLOW = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
child.wait()
"""


def test_process_over_its_time_limit_is_killed_with_its_children(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(processes, "NOTE_SECONDS", 0.3)
    notes: list[float] = []
    for limit in (1.5, 30.0):  # the first is long enough unless the machine is busy
        assert run(tmp_path, SLOW, limit=limit, note=notes.append).status is None
        if child := (tmp_path / "log").read_text():
            break
    assert notes and all(seconds > 0.3 for seconds in notes)
    assert ends(int(child))


def test_an_interrupt_ends_it_too(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(processes, "NOTE_SECONDS", 0.5)

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, SLOW, note=interrupt)
    text = (tmp_path / "log").read_text()
    assert not text or ends(int(text))


def test_all_that_runs_in_other_threads_can_be_ended(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, tmp_path, SLOW)
        deadline = time.monotonic() + 120
        while not (tmp_path / "log").exists() or not (tmp_path / "log").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        processes.end_all()
        assert running.result(120).status == -9
    assert ends(int((tmp_path / "log").read_text()))
    processes.end_all()  # nothing runs
