"""Connecting to a cluster, and the messages if there is none."""

from __future__ import annotations

import re
import sys
import types

import pytest
from trninfer.runtime.backend import BackendUnavailable
from trninfer.runtime.cluster.connection import _call_in_thread, connected


@pytest.mark.parametrize(
    "address, says",
    [
        *[(text, "expected host:port or auto") for text in ("", "host", ":1", "h:0", "h:65536", "h:1_0", "h:\u0661")],
        ("127.0.0.1:1", r"no answer \(Connection refused\)"),
        ("x\ny:1", r"no answer \(.*\)"),
        (f"{'a' * 70}:1", r"no answer \(.*\)"),
        ("auto", "could not reach it"),
        ("ray://127.0.0.1:1", "could not reach it"),
    ],
)
def test_no_cluster_at_an_address_is_one_line(monkeypatch, address, says) -> None:
    class Nowhere:
        job_config = types.SimpleNamespace(JobConfig=types.SimpleNamespace)

        class _private:  # noqa: N801 (Ray's name)
            worker = None

        @staticmethod
        def is_initialized() -> bool:
            return False

        @staticmethod
        def init(**options: object) -> None:
            raise ConnectionError("could not reach it\nin three tries")

    monkeypatch.setitem(sys.modules, "ray", Nowhere)
    with (
        pytest.raises(BackendUnavailable, match=f"^no Ray cluster at {re.escape(repr(address))}: {says}$"),
        connected(address),
    ):
        pass


def test_a_call_that_does_not_return_is_abandoned() -> None:
    import threading

    end = threading.Event()
    with pytest.raises(TimeoutError, match="timed out after 0 s"):
        _call_in_thread(lambda: end.wait(20), 0.4)
    end.set()
