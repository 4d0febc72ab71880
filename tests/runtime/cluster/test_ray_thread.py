"""Ray in a thread: nothing that it does holds the program up."""

from __future__ import annotations

import signal
import threading

import pytest
from trninfer.runtime.backend import BackendUnavailable
from trninfer.runtime.cluster.ray_thread import RayThread


class StandIn:
    """A Ray whose start takes until `start` is set, and then fails with `error` if there is one."""

    def __init__(self, error: Exception | None = None) -> None:
        self.start, self.shut_down, self.error, self.options = threading.Event(), False, error, None

    def init(self, **options: object) -> None:
        self.options = options
        self.start.wait()
        if self.error is not None:
            raise self.error

    def shutdown(self) -> None:
        self.shut_down = True
        raise RuntimeError("and that fails too")


def test_it_is_started_and_stopped() -> None:
    ray = StandIn()
    ray.start.set()
    thread = RayThread(ray, num_cpus=2)
    thread.wait(60)
    assert ray.options == {"num_cpus": 2} and not ray.shut_down
    thread.close(60)
    assert ray.shut_down


def test_what_ray_raises_is_raised() -> None:
    ray = StandIn(ZeroDivisionError("no luck"))
    ray.start.set()
    with pytest.raises(ZeroDivisionError, match="no luck"):
        RayThread(ray).wait(60)


def test_a_start_that_does_not_end_is_given_up() -> None:
    ray = StandIn()
    thread = RayThread(ray)
    with pytest.raises(BackendUnavailable, match="it took longer than 0 s"):
        thread.wait(0)
    with pytest.raises(BackendUnavailable, match="the disk is full"):
        thread.wait(60, lambda: "the disk is full")
    thread.close(60)  # at once: it has not started
    assert not ray.shut_down
    ray.start.set()


def test_sigterm_is_handled_as_before(monkeypatch) -> None:
    """Ray's handler is one of C++, which Python does not see; so it is set anew, whatever it was."""
    given = []
    monkeypatch.setattr(signal, "signal", lambda *arguments: given.append(arguments))
    ray = StandIn()
    ray.start.set()
    thread = RayThread(ray)
    thread.wait(60)
    thread.close(60)
    assert given == [(signal.SIGTERM, signal.getsignal(signal.SIGTERM))]
