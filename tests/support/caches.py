"""Caches for a single test."""

from __future__ import annotations

import os
from pathlib import Path


def empty_cache(folder: Path) -> Path:
    """Use a cache without compiled kernels. All tests share the plans of launches, which take seconds to compute."""
    plans = folder / "plans"
    if not plans.exists():
        shared = Path(os.environ["TRNINFER_CACHE"], "plans")
        shared.mkdir(parents=True, exist_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        plans.symlink_to(shared, target_is_directory=True)
    return folder
