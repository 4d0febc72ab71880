"""Folders of what trninfer caches: plans, and kernels compiled by AWS's compiler."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

CACHE_VARIABLE = "TRNINFER_CACHE"


def user_cache(default: str, chosen: str = "") -> Path | None:
    """Return `chosen` in TRNINFER_CACHE's folder, else `default` in the user's cache folder for trninfer.

    None where the user has no home folder, as in a container that runs under a number without a name.
    """
    named = os.environ.get(CACHE_VARIABLE)
    with contextlib.suppress(RuntimeError):
        if named:
            return Path(named).expanduser() / chosen
        import platformdirs

        return Path(platformdirs.user_cache_dir("trninfer")) / default
    return None
