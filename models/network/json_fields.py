"""JSON objects as dataclasses: every field named, present and of its type, or a ModelError that says which is not."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from .checks import ModelError

_Kind = TypeVar("_Kind")


def fields_of(where: str, data: Any, allowed: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields of a JSON object, which must be exactly the allowed ones (but for optional ones left out)."""
    if not isinstance(data, dict):
        raise ModelError(f"{where} must be a JSON object, not {type(data).__name__}")
    unknown = [key for key in data if key not in allowed]
    if unknown:
        raise ModelError(f"{where}: unknown field {unknown[0]!r}; allowed are {', '.join(allowed)}")
    missing = [key for key in allowed if key not in data and key not in optional]
    if missing:
        raise ModelError(f"{where}: the field {missing[0]!r} is missing")
    return data


def build(kinds: Mapping[str, type[_Kind]], where: str, data: Any) -> _Kind:
    """An input or a layer from its JSON object, by its `kind`."""
    kind = data.get("kind") if isinstance(data, dict) else None
    if not isinstance(kind, str) or kind not in kinds:
        raise ModelError(f"{where}: unknown kind {kind!r}; known are {', '.join(kinds)}")
    return fill(kinds[kind], where, {key: value for key, value in data.items() if key != "kind"})


def fill(cls: type[_Kind], where: str, data: Any) -> _Kind:
    """A dataclass from a JSON object, with every field's type checked."""
    declared = dataclasses.fields(cls)  # type: ignore[arg-type]
    hints = typing.get_type_hints(cls)
    optional = tuple(field.name for field in declared if field.default is not dataclasses.MISSING)
    fields = fields_of(where, data, tuple(field.name for field in declared), optional)
    return cls(**{key: typed(where, key, value, hints[key]) for key, value in fields.items()})


_WORDS = {int: "a whole number", str: "a string", float: "a number", bool: "true or false"}


def typed(where: str, key: str, value: Any, hint: Any) -> Any:
    """`value` as the field's type: int, float, str, bool, or a tuple of one of them. A bool is no number."""
    item = typing.get_args(hint)[0] if typing.get_origin(hint) is tuple else hint
    values = value if item is not hint else [value]
    if isinstance(values, list):
        with contextlib.suppress(TypeError, OverflowError):  # of a whole number beyond any float
            found = tuple(_scalar(entry, item) for entry in values)
            return found if item is not hint else found[0]
    wanted = _WORDS[item] if item is hint else f"a list of {_WORDS[item].removeprefix('a ').replace('whole ', '')}s"
    raise ModelError(f"{where}: {key} must be {wanted}, not {json.dumps(value)[:40]}")


def _scalar(value: Any, kind: type) -> Any:
    """`value` where it is of the kind, whole numbers as floats too; TypeError where it is not."""
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise TypeError
    return value
