"""Threads that delay neither an interruption nor the end of the program."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest
from trninfer.inference.daemon_pool import DaemonPool, wait_for


def test_results_and_errors_are_returned() -> None:
    pool = DaemonPool(2, "test")
    results = [pool.submit(lambda number=number: 6 // number) for number in (1, 2, 0, 3)]
    assert [results[position].result(60) for position in (0, 1, 3)] == [6, 3, 2]
    with pytest.raises(ZeroDivisionError):
        results[2].result(60)
    pool.close()


def test_a_result_is_waited_for_longer_than_one_step(monkeypatch) -> None:
    monkeypatch.setattr("trninfer.inference.daemon_pool._SIGNAL_CHECK_SECONDS", 0.01)
    go, pool = threading.Event(), DaemonPool(1, "test")
    threading.Timer(0.1, go.set).start()
    assert wait_for(pool.submit(lambda: go.wait(60))) is True
    with pytest.raises(TimeoutError):  # an error raised by the function itself ends the wait
        wait_for(pool.submit(lambda: (_ for _ in ()).throw(TimeoutError("of its own"))))
    pool.close()


def test_closing_cancels_what_has_not_begun_and_waits_for_nothing() -> None:
    begun, go = threading.Event(), threading.Event()
    pool = DaemonPool(1, "test")
    first = pool.submit(lambda: (begun.set(), go.wait(60)))
    second = pool.submit(lambda: None)
    assert begun.wait(60)
    pool.close()
    assert second.cancelled() and not first.done()
    go.set()
    assert first.result(60)


def test_threads_end_when_the_pool_is_closed() -> None:
    before = set(threading.enumerate())
    pool = DaemonPool(3, "test")
    ours = set(threading.enumerate()) - before
    pool.close()
    for thread in ours:
        thread.join(60)
    assert len(ours) == 3 and not any(thread.is_alive() for thread in ours)


STALLED = """
import os, signal, sys, time
from trninfer.inference import pictures
signal.signal(signal.SIGINT, signal.default_int_handler)
def stall(path):  # as a file system does whose server has gone
    os.write(1, b"stalled\\n")  # at once: several threads read
    time.sleep(3600)
pictures.open_regular = stall
from trninfer.app.main import main
main()
"""


@pytest.mark.parametrize(
    "number, status, said",
    [(signal.SIGINT, 130, "interrupted"), pytest.param(signal.SIGTERM, 143, "terminated", marks=pytest.mark.slow)],
)
def test_a_file_system_that_stalls_is_left_by_a_signal(pictures, picture_model, number, status, said) -> None:
    command = [sys.executable, "-c", STALLED, "classify", str(pictures), "--model", str(picture_model), "--quiet"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == "stalled\n"
        process.send_signal(number)  # when the main thread begins to wait
        assert process.communicate(timeout=300)[1] == f"trninfer: {said}\n"
        assert process.returncode == status
    finally:
        process.kill()
        process.wait()


LEFT_ALONE = """
import atexit, os, time
from trninfer.app.main import main
from trninfer.inference.daemon_pool import DaemonPool
class Last:
    def __del__(self):
        os.write(1, b"finalized\\n")
last = Last()
atexit.register(print, "left")
DaemonPool(1, "stuck").submit(lambda: time.sleep(3600))
main()
"""


def test_a_process_whose_threads_still_run_ends_without_finalization() -> None:
    """A thread that returns from C++ after the interpreter has ended aborts the process (status -6)."""
    command = [sys.executable, "-c", LEFT_ALONE, "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1:] == ["left"]
