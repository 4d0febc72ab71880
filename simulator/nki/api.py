"""The NKI 0.6 API as data: every function with its parameters, from the stubs of aws-neuron-sdk (api.json)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

from ..errors import NotSimulatedError, UnknownNameError
from .dialect import old_name


@lru_cache(maxsize=1)
def table() -> dict[str, Any]:
    """api.json: `functions`, `classes` and `constants`, each with its module and name."""
    loaded: dict[str, Any] = json.loads(Path(__file__).with_name("api.json").read_text(encoding="utf-8"))
    return loaded


def missing(module: str, name: str) -> Any:
    """What stands for a name that a module of the simulator lacks: a function of NKI that is not simulated yet, which
    says so when it is called; UnknownNameError where NKI 0.6 has no such name, with what replaces an old one."""
    entries = [entry for part in ("functions", "classes", "constants") for entry in table()[part]]
    known = {entry["name"] for entry in entries if entry["module"] == module and "class" not in entry}
    if any(entry["module"] == module and entry["name"] == name for entry in table()["functions"]):
        return _not_simulated(module, name)
    old = old_name(f"{module}.{name}")
    raise UnknownNameError(old or f"module {module!r} of NKI 0.6 has no {name!r}{suggestion(name, known)}")


def suggestion(name: str, known: Iterable[str]) -> str:
    """ "; did you mean ...?" where one of the known names is close to a name, else nothing."""
    close = get_close_matches(name, sorted(known), n=1, cutoff=0.75)
    return f"; did you mean {close[0]!r}?" if close else ""


def _not_simulated(module: str, name: str) -> Callable[..., NoReturn]:
    def function(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotSimulatedError(f"{module}.{name} is in the NKI 0.6 API but is not simulated yet")

    function.__name__ = function.__qualname__ = name
    return function
