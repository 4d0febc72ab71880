"""The cache folders of trninfer, one for plans and one for kernels compiled by AWS's compiler."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

CACHE_VARIABLE = "TRNINFER_CACHE"


def user_cache(default: str, chosen: str = "") -> Path | None:
    """Return `chosen` within the folder TRNINFER_CACHE if that variable is set, else `default` within the user's cache
    folder for trninfer.

    Returns None if the user has no home folder, for example in a container that runs under a numeric user id without a
    name.
    """
    override = os.environ.get(CACHE_VARIABLE)
    with contextlib.suppress(RuntimeError):
        if override:
            return Path(override).expanduser() / chosen
        import platformdirs

        return Path(platformdirs.user_cache_dir("trninfer")) / default
    return None
