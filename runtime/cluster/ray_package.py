"""Ray, the package: imported when it is needed, kept quiet, and kept from the folders of this process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..backend import BackendUnavailable

INSTALL_HINT = "pip install 'trninfer[cluster]'"


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


def job_of(ray: Any) -> Any:
    """The settings of a job whose workers import nothing from the folders of this process."""
    job = ray.job_config.JobConfig()
    job._py_driver_sys_path = _NoFolders()
    return job


def check_search_path(ray: Any) -> None:
    """BackendUnavailable where workers would import from the folders of this process all the same."""
    job = ray._private.worker.global_worker.core_worker.get_job_config()
    if folders := list(job.py_driver_sys_path):
        raise BackendUnavailable(
            f"Ray {ray.__version__} makes workers import from {folders[0]}, which may hold anything; it is not used"
        )


@contextlib.contextmanager
def silent(ray: Any) -> Iterator[None]:
    """Without what Ray says on standard output when a worker dies, also with `log_to_driver=False`: that is for
    reports, and a worker's end is reported in our own words (ray/_private/worker.py, `listen_error_messages`)."""
    module = ray._private.worker
    before = getattr(module, "print_to_stdstream", None)
    if before is not None:
        module.print_to_stdstream = lambda *arguments, **options: None
    try:
        yield
    finally:
        if before is not None:
            module.print_to_stdstream = before


@contextlib.contextmanager
def variables(values: Mapping[str, str | None]) -> Iterator[None]:
    """Environment variables for the processes that are started within; None for one that they are not to have."""
    before = {name: os.environ.get(name) for name in values}
    _set_variables(values)
    try:
        yield
    finally:
        _set_variables(before)


def _set_variables(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def first_line(error: Exception) -> str:
    """Return the first line of an error's text."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
