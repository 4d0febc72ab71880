"""`--trace`: write the timelines of kernel launches to a file for Perfetto."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import UsageError, reason


def write_trace(path: Path | None, timelines: Sequence[tuple[str, Any]], backend: str) -> None:
    """Write (step, `Launch.timeline`) pairs of consecutive launches; do nothing if there is no path.

    Raises UsageError if the backend records no timelines, or if the file is not writable.
    """
    if path is None:
        return
    if not timelines:
        raise UsageError(f"--trace {path}: not written, because the {backend} backend has no timeline")
    from ... import simulator

    runs = []
    for step, run in timelines:
        renamed = copy.copy(run)  # copied, since steps with equal shapes share a run
        renamed.name = step
        runs.append(renamed)
    try:
        simulator.write_trace(os.path.realpath(path), runs)
    except OSError as error:
        raise UsageError(f"--trace {path}: cannot be written: {reason(error)}") from None
