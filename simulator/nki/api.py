"""The API of NKI 0.7 as data: every function with its parameters (api.json).

The sources are the documentation pages of SDK 2.33 and, for functions without an accessible page, the stubs of
aws-neuron-sdk.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from ..machine.errors import NotSimulatedError, UnknownNameError
from .dialect import old_name

VERSION = "0.7"
PARTS = ("functions", "classes", "constants")


@cache
def table() -> dict[str, Any]:
    """Return the API as a dict.

    `functions`, `classes` and `constants` are listed with module and name. `earlier` contains the functions of NKI 0.6
    that the simulator still supports, each with its replacement. `deprecated` contains deprecated functions and their
    replacements. `pages` contains the version of the documentation page with which each function was compared.
    """
    loaded: dict[str, Any] = json.loads(Path(__file__).with_name("api.json").read_text(encoding="utf-8"))
    return loaded


def missing(module: str, name: str) -> Any:
    """Return a placeholder for an NKI function that is not simulated yet, which raises an error when called.

    Raises UnknownNameError if NKI has no such name. For a name of an earlier version, the message contains the
    replacement.
    """
    known = {e["name"] for part in PARTS for e in table()[part] if e["module"] == module and "class" not in e}
    if any(entry["module"] == module and entry["name"] == name for entry in table()["functions"]):
        return _not_simulated(module, name)
    old = old_name(f"{module}.{name}")
    raise UnknownNameError(old or f"module {module!r} of NKI {VERSION} has no {name!r}{suggestion(name, known)}")


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean ...?" if there is a similar known name, and otherwise ""."""
    close = get_close_matches(name, sorted(known), n=1, cutoff=0.75)
    return f"; did you mean {close[0]!r}?" if close else ""


def _not_simulated(module: str, name: str) -> Callable[..., NoReturn]:
    def function(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotSimulatedError(f"{module}.{name} is in the NKI {VERSION} API but is not simulated yet")

    function.__name__ = function.__qualname__ = name
    return function
