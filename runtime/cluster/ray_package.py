"""Import Ray on demand, suppress its messages, and keep its workers from importing from the folders of this process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from ..backend import BackendUnavailable

INSTALL_HINT = "pip install 'trninfer[cluster]'"


class _NoFolders(list[str]):
    """A list that stays empty.

    Ray puts the current folder, and the folder of the script, at the front of the workers' search path
    (ray/_private/worker.py, `connect`). A `numpy.py` in a folder of pictures would then run in every worker.
    """

    def extend(self, folders: Iterable[str]) -> None:
        """Ignore Ray's additions."""


def import_ray() -> Any:
    """Return the module `ray`. Raises BackendUnavailable, with the package to install, if it is missing."""
    try:
        import ray
    except ImportError as error:
        raise BackendUnavailable(f"--cluster requires Ray, which is not installed ({INSTALL_HINT})") from error
    return ray


def job_of(ray: Any) -> Any:
    """Return the configuration of a job whose workers import nothing from the folders of this process."""
    job = ray.job_config.JobConfig()
    job._py_driver_sys_path = _NoFolders()
    return job


def check_search_path(ray: Any) -> None:
    """Raise BackendUnavailable if workers would still import from this process's folders."""
    job = ray._private.worker.global_worker.core_worker.get_job_config()
    if folders := list(job.py_driver_sys_path):
        raise BackendUnavailable(
            f"Ray {ray.__version__} would make workers import from the untrusted folder {folders[0]}, so it is not used"
        )


@contextlib.contextmanager
def silent(ray: Any) -> Iterator[None]:
    """Suppress the messages that Ray prints on standard output when a worker dies.

    `log_to_driver=False` does not suppress them (ray/_private/worker.py, `listen_error_messages`). Standard output is
    reserved for reports, and trninfer itself reports the end of a worker.
    """
    module = ray._private.worker
    before = getattr(module, "print_to_stdstream", None)
    if before is not None:
        module.print_to_stdstream = lambda *arguments, **options: None
    try:
        yield
    finally:
        if before is not None:
            module.print_to_stdstream = before


def first_line(error: Exception) -> str:
    """Return the first line of an error's text."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
