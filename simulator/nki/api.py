"""The NKI 0.6 API as data: every function with its parameters, from the stubs of aws-neuron-sdk (api.json)."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import NotSimulatedError


@lru_cache(maxsize=1)
def table() -> dict[str, Any]:
    """api.json: `functions`, `classes` and `constants`, each with its module and name."""
    loaded: dict[str, Any] = json.loads(Path(__file__).with_name("api.json").read_text(encoding="utf-8"))
    return loaded


def missing(module: str, name: str) -> NotSimulatedError | AttributeError:
    """The error for a name that a module of the simulator lacks: not simulated yet, or not in NKI at all."""
    api = table()
    for kind in ("functions", "classes", "constants"):
        if any(entry["module"] == module and entry["name"] == name for entry in api[kind]):
            return NotSimulatedError(f"{module}.{name} is in the NKI 0.6 API but is not simulated yet")
    return AttributeError(f"module {module!r} of NKI 0.6 has no {name!r}")
