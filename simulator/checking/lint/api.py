"""The NKI API, as the checker sees it: the names that exist, and the signatures of functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from ...instructions.old_calls import SINCE
from ...nki.api import suggestion, table

MODULES = ("nki.language", "nki.isa", "nki.collectives", "nki.compiler")
OPAQUE = ("nki.typing", "nki.meta", "nki.dtype", "nki.simulator")
"""Modules whose names are not in the table. Their uses are not checked."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of an API function. `kind` has the same values as in api.json."""

    name: str
    kind: str
    required: bool


@dataclass(frozen=True)
class Api:
    """The NKI API.

    `names` contains the names of each module, and `members` the members of enums and `nl.tile_size`. The keys of
    `signatures` are dotted names ("NkiTensor.<name>" for tensor methods). `views` contains the methods that return a
    view of the tensor, and `deprecated` maps functions that still work to their replacements.
    """

    names: dict[str, frozenset[str]]
    members: dict[str, frozenset[str]]
    signatures: dict[str, tuple[Parameter, ...]]
    views: frozenset[str]
    deprecated: dict[str, str]


@cache
def api() -> Api:
    """Return the NKI API. It is read from the table against which the simulator's own modules are checked."""
    data = table()
    names: dict[str, set[str]] = {module: set() for module in (*MODULES, "nki")}
    names["nki"].update(module.split(".")[1] for module in (*MODULES, *OPAQUE))
    members: dict[str, set[str]] = {}
    signatures: dict[str, tuple[Parameter, ...]] = {}
    for entry in data["classes"]:
        names[entry["module"]].add(entry["name"])
        if entry["members"] or entry["attributes"]:
            documented = {part["name"] for part in (*entry["members"], *entry["attributes"])}
            members[f"{entry['module']}.{entry['name']}"] = documented
    for entry in data["constants"]:
        names[entry["module"]].add(entry["name"])
    for entry in data["functions"]:
        parameters = tuple(map(_parameter, entry["params"]))
        if entry["kind"] == "method":
            owner = f"{entry['module']}.{entry['class']}"
            if owner in members:
                members[owner].add(entry["name"])
            signatures[f"{entry['class']}.{entry['name']}"] = parameters[1:]
        else:
            names[entry["module"]].add(entry["name"])
            signatures[entry["qualname"]] = parameters
    members["nki.language.NkiTensor"].add("address")  # nki/library/kernel-utils/allocator.rst; missing in the stubs
    members["nki.language.tile_size"] = members["nki.language._TileSize"]
    views = [entry for entry in data["functions"] if entry.get("class") == entry.get("returns") == "NkiTensor"]
    return Api(
        {module: frozenset(documented) for module, documented in names.items()},
        {name: frozenset(documented) for name, documented in members.items()},
        signatures,
        frozenset(entry["name"] for entry in views),
        data["deprecated"],
    )


def _parameter(part: dict[str, Any]) -> Parameter:
    is_required = "default" not in part and not part["kind"].startswith("var_")
    return Parameter(part["name"], part["kind"], is_required)


def modern(dotted: str) -> str:
    """Return the API name for an alias, such as `neuronxcc.nki` of the first NKI or `nki.isa.constants`."""
    dotted = dotted.removeprefix("neuronxcc.") if dotted.startswith("neuronxcc.nki") else dotted
    return dotted.replace("nki.isa.constants.", "nki.isa.", 1)


def unknown_name(dotted: str, known_api: Api) -> str | None:
    """Describe the problem with a dotted name that begins with "nki". Return None if the name exists in the API."""
    if dotted == "nki" or dotted.startswith(OPAQUE):
        return None
    module, name, rest = _split(dotted)
    if not name:
        return None
    known = known_api.names[module]
    if name not in known:
        return f"{module} has no {name!r}{suggestion(name, known)}"
    members = known_api.members.get(f"{module}.{name}")
    if members is not None and rest and rest[0] not in members:
        return f"{module}.{name} has no {rest[0]!r}{suggestion(rest[0], members)}"
    return None


def _split(dotted: str) -> tuple[str, str, list[str]]:
    """Split "nki.language.tile_size.pmax" into ("nki.language", "tile_size", ["pmax"])."""
    parts = dotted.split(".")
    size = 2 if ".".join(parts[:2]) in MODULES else 1
    return ".".join(parts[:size]), parts[size] if len(parts) > size else "", parts[size + 1 :]


def tensor_member(name: str, known_api: Api) -> str | None:
    """Describe the problem with an attribute of a tensor. Return None if tensors have this attribute."""
    known = known_api.members["nki.language.NkiTensor"]
    return None if name in known else f"a tensor has no {name!r}{suggestion(name, known)}"


def arguments_of(call: ast.Call, parameters: tuple[Parameter, ...]) -> dict[str, ast.expr]:
    """Map each parameter to the argument that a call passes for it, if the source of the call shows it."""
    bound: dict[str, ast.expr] = {}
    for parameter, argument in zip(parameters, call.args, strict=False):
        if isinstance(argument, ast.Starred):
            break
        if parameter.kind == "positional":
            bound[parameter.name] = argument
    bound.update({keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None})
    return bound


def _is_expanded(call: ast.Call) -> bool:
    """True if the arguments of a call contain *sequence or **mapping."""
    starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    return starred or any(keyword.arg is None for keyword in call.keywords)


def _missing_arguments(
    shown: str, parameters: tuple[Parameter, ...], named: set[str | None], given: set[str]
) -> Iterator[tuple[str, str]]:
    """Yield a mismatch if a required parameter is passed neither by name (`named`) nor by position (`given`)."""
    bound = named | given
    missing = [parameter.name for parameter in parameters if parameter.required and parameter.name not in bound]
    if missing:
        needed, allowed = ", ".join(map(repr, missing)), ", ".join(parameter.name for parameter in parameters)
        # A call in the style of the first NKI release, which returns its result instead of taking `dst`, appears to
        # lack its last argument.
        old = f"; {SINCE}" if parameters[0].name == "dst" and "dst" not in named else ""
        yield "missing-argument", f"{shown} requires {needed}; its parameters are ({allowed}){old}"


def misfits(shown: str, call: ast.Call, parameters: tuple[Parameter, ...]) -> Iterator[tuple[str, str]]:
    """Yield (rule, message) for each mismatch between a call and a signature. `shown` is the name of the function."""
    expanded = _is_expanded(call)
    keywords = {keyword.arg for keyword in call.keywords}
    positional = [parameter for parameter in parameters if parameter.kind == "positional"]
    takes_any = {parameter.kind for parameter in parameters}
    allowed = ", ".join(parameter.name for parameter in parameters)
    if not expanded and len(call.args) > len(positional) and "var_positional" not in takes_any:
        yield (
            "too-many-arguments",
            f"{shown} takes at most {len(positional)} positional arguments, got {len(call.args)}; its parameters are "
            f"({allowed})",
        )
    positional_names = {parameter.name for parameter in positional[: len(call.args)]} if not expanded else set()
    for name in sorted(positional_names.intersection(keywords)):
        yield "duplicate-argument", f"{shown} gets {name!r} both by position and by keyword"
    known = frozenset(parameter.name for parameter in parameters)
    unknown = [keyword.arg for keyword in call.keywords if keyword.arg is not None and keyword.arg not in known]
    for name in unknown if "var_keyword" not in takes_any else ():
        unknown_name = f"{name!r}{suggestion(name, known)}"
        yield "unknown-argument", f"{shown} has no parameter {unknown_name}; its parameters are ({allowed})"
    if not expanded:
        yield from _missing_arguments(shown, parameters, keywords, positional_names)
