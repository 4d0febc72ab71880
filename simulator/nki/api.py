"""The NKI 0.6 API as data: every function with its parameters, from the stubs of aws-neuron-sdk (api.json)."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

from ..errors import NotSimulatedError
from .dialect import old_name


@lru_cache(maxsize=1)
def table() -> dict[str, Any]:
    """api.json: `functions`, `classes` and `constants`, each with its module and name."""
    loaded: dict[str, Any] = json.loads(Path(__file__).with_name("api.json").read_text(encoding="utf-8"))
    return loaded


def missing(module: str, name: str) -> Any:
    """What stands for a name that a module of the simulator lacks: a function of NKI that is not simulated yet, which
    says so when it is called; AttributeError where NKI 0.6 has no such name, with what replaces an old one."""
    for entry in table()["functions"]:
        if entry["module"] == module and entry["name"] == name:
            return _not_simulated(module, name)
    old = old_name(f"{module}.{name}")
    raise AttributeError(old or f"module {module!r} of NKI 0.6 has no {name!r}")


def _not_simulated(module: str, name: str) -> Callable[..., NoReturn]:
    def function(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotSimulatedError(f"{module}.{name} is in the NKI 0.6 API but is not simulated yet")

    function.__name__ = function.__qualname__ = name
    return function
