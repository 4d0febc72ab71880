"""Ray as it is used here: a small one of our own on this machine, or a cluster that the user names."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from ..backend import BackendUnavailable
from .own_ray import STOPPED_WITHIN, own_ray
from .ray_package import check_search_path, first_line, import_ray, job_of, silent
from .ray_thread import RayThread

WORKER_STORE_BYTES = 256 << 20  # of shared memory for each worker: at most two batches are on their way to it
REACHED_WITHIN = 10  # seconds, in which a cluster takes a connection
CONNECTED_WITHIN = 60.0  # seconds, in which it lets this process join


@contextlib.contextmanager
def ray_for(address: str | None, workers: int, cores: Sequence[int] = (), shared_bytes: int = 0) -> Iterator[Any]:
    """Ray, connected: to the cluster at `address` ("auto", or host:port), else to one that is started for `workers`
    workers on this machine, one for each of the NeuronCores `cores` if any, and stopped when the block ends.
    `shared_bytes` are what all of them are given, beside batches.

    Where this process is connected to Ray already, that is used and left as it is. BackendUnavailable where Ray is not
    installed, does not start, or is not at the address.
    """
    earlier = sys.modules.get("ray")
    if earlier is not None and earlier.is_initialized():
        yield earlier
    elif address is not None:
        ray = import_ray()
        with silent(ray), _connected(ray, address):
            yield ray
    else:
        if sys.platform == "win32":
            raise BackendUnavailable("several workers on one machine need Linux or macOS; leave out --cores")
        store_bytes = shared_bytes + workers * WORKER_STORE_BYTES
        with own_ray(workers, cores, store_bytes) as ray:
            yield ray


def _reach(address: str) -> None:
    """Knock at a cluster's host:port, on which Ray itself waits for more than a minute; OSError or ValueError."""
    host, colon, port = address.rpartition(":")
    if "://" in address or address == "auto":
        return
    if not (host and colon and port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        raise ValueError("its host:port is needed, or auto")
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACHED_WITHIN).close()
    except (OSError, UnicodeError) as error:
        raise ValueError(f"no answer ({getattr(error, 'strerror', None) or error})") from None


@contextlib.contextmanager
def _connected(ray: Any, address: str) -> Iterator[None]:
    """A connection to the cluster at an address."""
    job = {} if "://" in address else {"job_config": job_of(ray)}  # the other side connects for a client
    thread = None
    try:
        try:
            _reach(address)
            thread = RayThread(ray, address=address, log_to_driver=False, logging_level="ERROR", **job)
            thread.wait(CONNECTED_WITHIN)
        except Exception as error:  # whatever Ray raises
            raise BackendUnavailable(f"no Ray cluster at {address!r}: {first_line(error)}") from None
        if job:
            check_search_path(ray)
        yield
    finally:
        if thread is not None:
            thread.close(STOPPED_WITHIN)
