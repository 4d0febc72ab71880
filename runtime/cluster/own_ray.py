"""A small Ray of our own on this machine, from its start to its end.

It is quiet, reports nothing to anyone, has no dashboard, and listens on the loopback address alone. By default Ray
listens on all addresses of a Linux machine; the variable that makes it take the loopback address is the one with which
Ray itself does so on macOS and Windows (ray/_private/ray_constants.py). Whether it did is checked. Other users of the
machine reach the loopback address too, so each process has a token that nobody else knows (Ray 2.52 and later).
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import secrets
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..backend import BackendUnavailable
from ..neuron.system import VISIBLE_CORES
from .janitor import MARK, own_folder
from .ray_package import check_search_path, first_line, import_ray, job_of, silent, variables
from .ray_thread import RayThread

NEURON_CORES = "neuron_cores"  # what Ray calls NeuronCores, which it gives to actors by NEURON_RT_VISIBLE_CORES
STOPPED_WITHIN = 3.0  # seconds, after which Ray's processes are killed
_STARTED_WITHIN = 120.0  # seconds; a busy machine takes 20
_SERVERS = ("gcs_server", "raylet")  # what Ray cannot be without; it does not notice itself that one has ended
_SHARED_MEMORY = "/dev/shm"

_TOKEN = secrets.token_hex(32)

# Read by Ray when it is imported, and by its processes when they start.
_QUIET_AND_PRIVATE = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_worker_niceness": "0",  # not 15: workers stand in for the command, beside whatever else the machine does
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": _TOKEN,
    "RAY_ADDRESS": None,  # what follows is for a cluster of the user's
    "RAY_AUTH_TOKEN_PATH": None,
    "RAY_GCS_SERVER_PORT": None,
    "RAY_gcs_server_port_wait_time_s": "8",  # which it waits without letting other threads run; 0.5 is usual
}


@contextlib.contextmanager
def own_ray(workers: int, cores: Sequence[int], store_bytes: int) -> Iterator[Any]:
    """Ray, started for `workers` workers, one for each of the NeuronCores `cores` if any, with `store_bytes` of shared
    memory; it ends with the block. BackendUnavailable where it is not installed or does not start."""
    visible = {VISIBLE_CORES: ",".join(map(str, cores))} if cores else {}  # Ray reads a list, not a range
    imported = "ray" in sys.modules
    with variables({**_QUIET_AND_PRIVATE, **visible}):
        ray = import_ray()
        if imported:
            _read_settings(ray)
    try:
        with silent(ray), own_folder() as folder:
            set_for_start = variables({**_QUIET_AND_PRIVATE, **visible, MARK: folder})
            thread = None
            try:
                with set_for_start, _loopback_alone():
                    thread = RayThread(ray, **_options(ray, workers, len(cores), store_bytes, folder))
                    _wait(thread, folder)
                _check_address(ray)
                check_search_path(ray)
                yield ray
            finally:
                if thread is not None:
                    thread.close(STOPPED_WITHIN)
    finally:
        _read_settings(ray)


def _options(ray: Any, workers: int, cores: int, store_bytes: int, folder: str) -> dict[str, Any]:
    options = {
        "address": "local",
        "num_cpus": workers,
        "resources": {NEURON_CORES: cores},
        "include_dashboard": False,
        "log_to_driver": False,
        "logging_level": "ERROR",
        "object_store_memory": store_bytes,
        "_temp_dir": folder,
        "job_config": job_of(ray),
    }
    if os.path.isdir(_SHARED_MEMORY) and not os.access(_SHARED_MEMORY, os.W_OK):
        options["_plasma_directory"] = folder  # slower: through the disk
    return options


def _wait(thread: RayThread, folder: str) -> None:
    """Wait until Ray has started; BackendUnavailable with the reason where it does not."""
    seen: dict[int, str] = {}

    def failure() -> str | None:
        alive, ended = _servers()
        ended += [name for process, name in seen.items() if process not in alive]
        seen.update(alive)
        return f"its {ended[0]} ended{_last_words(folder, ended[0])}" if ended else None

    try:
        thread.wait(_STARTED_WITHIN, failure)
    except Exception as error:  # whatever Ray raises
        raise BackendUnavailable(f"Ray does not start on this machine: {first_line(error)}") from None


def _servers() -> tuple[dict[int, str], list[str]]:
    """Ray's servers, which are children of this process, and their agents: the names of those that are at work, by
    process, and of those that have ended."""
    alive, ended, agents = {}, [], {}
    for entry in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError):
            line = Path("/proc", entry, "stat").read_text(errors="replace")
            name, _, rest = line.partition("(")[2].rpartition(")")
            state, parent = rest.split()[:2]
            if name in _SERVERS and int(parent) == os.getpid():
                if state in "ZX":
                    ended.append(name)
                else:
                    alive[int(entry)] = name
            elif b"gent" in Path("/proc", entry, "cmdline").read_bytes():
                agents[int(entry)] = int(parent)
    return alive | {process: "agent" for process, parent in agents.items() if parent in alive}, ended


def _last_words(folder: str, name: str) -> str:
    """Return the error a server logged before it ended, as a clause; "" if there is none."""
    with contextlib.suppress(OSError):
        log = Path(folder, "session_latest", "logs", f"{name}.out").read_text(errors="replace")
        told = re.findall(r"^\[[^]]* [EFC] \d+ \d+\].*?:\d+:\s*(.+)$", log, re.M)
        return f": {told[-1][:150]}" if told else ""
    return ""


@contextlib.contextmanager
def _loopback_alone() -> Iterator[None]:
    """Keep Ray on the loopback: set the constant that it read from the variable, perhaps before the variable
    was set."""
    from ray._private import ray_constants

    before = getattr(ray_constants, "ENABLE_RAY_CLUSTER", None)
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


def _check_address(ray: Any) -> None:
    """BackendUnavailable where Ray listens on another address than the loopback's."""
    node = ray.util.get_node_ip_address()
    if not ipaddress.ip_address(node).is_loopback:
        raise BackendUnavailable(f"Ray would listen at {node} instead of the loopback address, and was stopped")


def _read_settings(ray: Any) -> None:
    """Make Ray read its variables again, and forget a token that it has read; earlier releases know neither."""
    loader = getattr(ray._raylet, "AuthenticationTokenLoader", None)
    settings = getattr(ray._raylet, "Config", None)
    if loader is not None and settings is not None:
        settings.initialize("")
        loader.instance().reset_cache()
