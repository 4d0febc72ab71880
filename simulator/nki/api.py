"""The NKI API as data: every function with its parameters, of 0.6 (api.json) and of 0.7 (api_0_7.json, what changed).

Sources: the stubs of aws-neuron-sdk for 0.6, the documentation pages of SDK 2.33 for 0.7.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NoReturn

from ..machine.errors import NotSimulatedError, UnknownNameError
from ..machine.nki_version import current
from .dialect import old_name

PARTS = ("functions", "classes", "constants")


def table(version: str | None = None) -> dict[str, Any]:
    """`functions`, `classes` and `constants` of a version of NKI (the one that holds now), each with module and name;
    `deprecated`: what its functions say to use instead."""
    return _table(version or current())


@cache
def _table(version: str) -> dict[str, Any]:
    found = _load("api.json")
    return {**found, "deprecated": {}} if version == "0.6" else _changed(found, _load("api_0_7.json"))


def _load(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    return loaded


def _changed(earlier: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The API of 0.6 with the changes of 0.7."""
    entries: dict[str, Any] = {part: [*earlier[part], *changes["added"].get(part, ())] for part in PARTS}
    entries["functions"] = [_with_new(f, changes) for f in entries["functions"] if f["qualname"] not in removed()]
    for entry in entries["classes"]:
        added = changes["attributes"].get(f"{entry['module']}.{entry['name']}", ())
        entry["attributes"] = [*entry["attributes"], *({"name": name} for name in added)]
    return {**entries, "source": changes["source"], "deprecated": changes["deprecated"]}


def _with_new(function: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A function with the parameters that 0.7 gave it."""
    parameters = list(function["params"])
    for new in changes["parameters"].get(function["qualname"], ()):
        at = [parameter["name"] for parameter in parameters].index(new["before"])
        parameters.insert(at, {key: value for key, value in new.items() if key != "before"})
    return {**function, "params": parameters}


@lru_cache(maxsize=1)
def removed() -> dict[str, str]:
    """Return the names that 0.7 removed, dotted, each with its replacement."""
    found: dict[str, str] = _load("api_0_7.json")["removed"]
    return found


@lru_cache(maxsize=1)
def pages() -> dict[str, str]:
    """Return the version of the documentation page that each function was compared with, where one could be read."""
    found: dict[str, str] = _load("api_0_7.json")["pages"]
    return found


@lru_cache(maxsize=1)
def added() -> frozenset[str]:
    """Dotted names that 0.7 brought."""
    new = _load("api_0_7.json")["added"]
    return frozenset(f"{entry['module']}.{entry['name']}" for part in PARTS for entry in new.get(part, ()))


def other_version(dotted: str, version: str | None = None) -> str | None:
    """The message for a name that another version of NKI has, or None."""
    version = version or current()
    if version == "0.6":
        return f"{dotted} is new in NKI 0.7" if dotted in added() else None
    instead = removed().get(dotted)
    return f"{dotted} is gone since NKI 0.7: {instead}" if instead is not None else None


def missing(module: str, name: str) -> Any:
    """Return a stand-in for a function of NKI that is not simulated yet, which raises when called. UnknownNameError if
    NKI has no such name; the message names the replacement of an old one."""
    known = {e["name"] for part in PARTS for e in table()[part] if e["module"] == module and "class" not in e}
    if any(entry["module"] == module and entry["name"] == name for entry in table()["functions"]):
        return _not_simulated(module, name)
    dotted = f"{module}.{name}"
    old = old_name(dotted) or other_version(dotted)
    raise UnknownNameError(old or f"module {module!r} of NKI {current()} has no {name!r}{suggestion(name, known)}")


def suggestion(name: str, known: Iterable[str]) -> str:
    """ "; did you mean ...?" where one of the known names is close to a name, else nothing."""
    close = get_close_matches(name, sorted(known), n=1, cutoff=0.75)
    return f"; did you mean {close[0]!r}?" if close else ""


def _not_simulated(module: str, name: str) -> Callable[..., NoReturn]:
    def function(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotSimulatedError(f"{module}.{name} is in the NKI {current()} API but is not simulated yet")

    function.__name__ = function.__qualname__ = name
    return function
