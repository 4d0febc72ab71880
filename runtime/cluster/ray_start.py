"""Ray as it is used here: a small one of our own on this machine, or a cluster that the user names.

Ray's own is quiet, reports nothing to anyone, has no dashboard, and listens on the loopback address alone. By default
Ray listens on all addresses of a Linux machine; the variable that makes it take the loopback address is the one with
which Ray itself does so on macOS and Windows (ray/_private/ray_constants.py). Whether it did is checked.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..backend import BackendUnavailable
from ..neuron.system import VISIBLE_CORES

NEURON_CORES = "neuron_cores"  # what Ray calls NeuronCores, which it gives to actors by NEURON_RT_VISIBLE_CORES

WORKER_STORE_BYTES = 256 << 20  # of shared memory for each worker: at most two batches are on their way to it
INSTALL_HINT = "pip install 'trninfer[cluster]'"
REACHED_WITHIN = 10  # seconds, in which a cluster takes a connection
_LONGEST_FOLDER = 40  # bytes: Ray adds up to 64

# Read by Ray's processes when they start.
_QUIET_AND_PRIVATE = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_worker_niceness": "0",  # not 15: workers stand in for the command, beside whatever else the machine does
}


class _NoFolders(list[str]):
    """A list that stays empty.

    Ray puts the current folder, and that of the script, at the front of the workers' search path
    (ray/_private/worker.py, `connect`): a `numpy.py` beside pictures would run in every worker.
    """

    def extend(self, folders: Iterable[str]) -> None:
        """Leave out what Ray adds."""


def import_ray() -> Any:
    """The module `ray`; BackendUnavailable with what to install where it is not here."""
    try:
        import ray
    except ImportError as error:
        raise BackendUnavailable(f"several workers need Ray, which is not installed ({INSTALL_HINT})") from error
    return ray


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
        return
    if address is not None:
        ray = import_ray()
        with _silent(ray):
            _connect(ray, address)
            try:
                yield ray
            finally:
                ray.shutdown()
        return
    folder = _folder()
    try:
        visible = {VISIBLE_CORES: ",".join(map(str, cores))} if cores else {}  # Ray reads a list, not a range
        with _variables({**_QUIET_AND_PRIVATE, **visible}):
            ray = import_ray()
        with _silent(ray):
            with _variables({**_QUIET_AND_PRIVATE, **visible}):
                _start(ray, workers, len(cores), shared_bytes + workers * WORKER_STORE_BYTES, folder)
            try:
                yield ray
            finally:
                ray.shutdown()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _folder() -> str:
    """A new folder for Ray's files. Ray's sockets lie in it, whose paths Unix limits to 107 bytes."""
    folder = tempfile.mkdtemp(prefix="trninfer-ray-")
    if len(os.fsencode(folder)) > _LONGEST_FOLDER:
        os.rmdir(folder)
        folder = tempfile.mkdtemp(prefix="trninfer-ray-", dir="/tmp")
    return folder


@contextlib.contextmanager
def _silent(ray: Any) -> Iterator[None]:
    """Without what Ray says on standard output when a worker dies, also with `log_to_driver=False`: that is for
    reports, and a worker's end is told in our own words (ray/_private/worker.py, `listen_error_messages`)."""
    module = ray._private.worker
    before = getattr(module, "print_to_stdstream", None)
    if before is not None:
        module.print_to_stdstream = lambda *arguments, **options: None
    try:
        yield
    finally:
        if before is not None:
            module.print_to_stdstream = before


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


def _connect(ray: Any, address: str) -> None:
    try:
        _reach(address)
        job = {} if "://" in address else {"job_config": _job(ray)}  # the other side connects for a client
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", **job)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise BackendUnavailable(f"no Ray cluster at {address!r}: {reason}") from None
    if job:
        _check_search_path(ray)


def _start(ray: Any, workers: int, cores: int, store_bytes: int, folder: str) -> None:
    from ray._private import ray_constants  # what the variable above has set, where Ray was not imported before it

    before = getattr(ray_constants, "ENABLE_RAY_CLUSTER", None)
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        ray.init(
            address="local",
            num_cpus=workers,
            resources={NEURON_CORES: cores},
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            object_store_memory=store_bytes,
            _temp_dir=folder,
            job_config=_job(ray),
        )
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise BackendUnavailable(f"Ray does not start on this machine: {reason}") from None
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before
    node = ray.util.get_node_ip_address()
    if not ipaddress.ip_address(node).is_loopback:
        ray.shutdown()
        raise BackendUnavailable(f"Ray would listen at {node} instead of the loopback address, and was stopped")
    _check_search_path(ray)


def _job(ray: Any) -> Any:
    """The settings of a job whose workers import nothing from the folders of this process."""
    job = ray.job_config.JobConfig()
    job._py_driver_sys_path = _NoFolders()
    return job


def _check_search_path(ray: Any) -> None:
    """Disconnect, with BackendUnavailable, where workers would import from this process's folders all the same."""
    job = ray._private.worker.global_worker.core_worker.get_job_config()
    if folders := list(job.py_driver_sys_path):
        ray.shutdown()
        raise BackendUnavailable(
            f"Ray {ray.__version__} makes workers import from {folders[0]}, which may hold anything; it was stopped"
        )


@contextlib.contextmanager
def _variables(values: dict[str, str]) -> Iterator[None]:
    """Environment variables for the processes that are started within."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
