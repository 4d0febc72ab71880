"""A connection to a Ray cluster specified by the user."""

from __future__ import annotations

import contextlib
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

from ..backend import BackendUnavailable
from .ray_package import check_search_path, first_line, import_ray, job_of, silent

_REACHED_SECONDS = 10  # maximum seconds for a cluster to accept a connection
_CONNECTED_SECONDS = 60.0  # maximum seconds for this process to join the cluster
_DISCONNECTED_SECONDS = 3.0
_STEP_SECONDS = 0.2  # seconds of each wait; Python handles signals between waits


@contextlib.contextmanager
def connected(address: str) -> Iterator[Any]:
    """Yield the `ray` module, which is connected to the cluster at `address` ("auto" or host:port) while the block
    runs.

    If this process is already connected to Ray, that connection is used and left open. Raises BackendUnavailable if Ray
    is not installed, or if there is no cluster at the address.
    """
    earlier = sys.modules.get("ray")
    if earlier is not None and earlier.is_initialized():
        yield earlier
        return
    ray = import_ray()
    job = {} if "://" in address else {"job_config": job_of(ray)}  # for a client, the server connects with its own job
    options = {"address": address, "log_to_driver": False, "logging_level": "ERROR", **job}
    with silent(ray):
        try:
            _reach(address)
            _call_in_thread(lambda: ray.init(**options), _CONNECTED_SECONDS)
            _take_back_sigterm()
        except Exception as error:  # Ray may raise any exception
            raise BackendUnavailable(f"no Ray cluster at {address!r}: {first_line(error)}") from None
        try:
            if job:
                check_search_path(ray)
            yield ray
        finally:
            with contextlib.suppress(Exception):
                _call_in_thread(ray.shutdown, _DISCONNECTED_SECONDS)


def _reach(address: str) -> None:
    """Try to connect to a cluster's host:port, because Ray itself would wait for more than a minute.

    Raises ValueError if this fails.
    """
    host, colon, port = address.rpartition(":")
    if "://" in address or address == "auto":
        return
    if not (host and colon and port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        raise ValueError("expected host:port or auto")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _REACHED_SECONDS).close()
    except (OSError, UnicodeError) as error:
        raise ValueError(f"no answer ({getattr(error, 'strerror', None) or error})") from None


def _call_in_thread(call: Any, seconds: float) -> None:
    """Call an uninterruptible function of Ray in a thread that can be abandoned.

    Raises the exceptions of the function, or TimeoutError.
    """
    errors: list[Exception] = []

    def run() -> None:
        try:
            call()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="ray", daemon=True)
    thread.start()
    for _ in range(round(seconds / _STEP_SECONDS)):
        thread.join(_STEP_SECONDS)
        if not thread.is_alive():
            break
    else:
        raise TimeoutError(f"timed out after {seconds:.0f} s")
    if errors:
        raise errors[0]


def _take_back_sigterm() -> None:
    """Restore the SIGTERM handler, which Ray replaces with one that first prints a C++ stack trace."""
    handler = signal.getsignal(signal.SIGTERM)
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)
