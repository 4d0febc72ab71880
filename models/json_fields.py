"""Conversion of JSON objects to dataclasses; a ModelError reports unknown, missing or mistyped fields."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from .errors import ModelError

_Kind = TypeVar("_Kind")


def fields_of(where: str, data: Any, allowed: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the fields of a JSON object; raise ModelError for unknown or missing ones.

    Only the fields in `allowed` are accepted; those in `optional` may be missing.
    """
    if not isinstance(data, dict):
        raise ModelError(f"{where} must be a JSON object, not {type(data).__name__}")
    unknown = [key for key in data if key not in allowed]
    if unknown:
        raise ModelError(f"{where}: unknown field {unknown[0]!r}; allowed: {', '.join(allowed)}")
    missing = [key for key in allowed if key not in data and key not in optional]
    if missing:
        raise ModelError(f"{where}: the field {missing[0]!r} is missing")
    return data


def build(kinds: Mapping[str, type[_Kind]], where: str, data: Any) -> _Kind:
    """Build an input or a layer from its JSON object, whose `kind` selects the class."""
    kind = data.get("kind") if isinstance(data, dict) else None
    if not isinstance(kind, str) or kind not in kinds:
        raise ModelError(f"{where}: unknown kind {kind!r}; known: {', '.join(kinds)}")
    return fill(kinds[kind], where, {key: value for key, value in data.items() if key != "kind"})


def fill(cls: type[_Kind], where: str, data: Any) -> _Kind:
    """Build a dataclass from a JSON object; raise ModelError if a field is unknown, missing or of the wrong type."""
    declared = dataclasses.fields(cls)  # type: ignore[arg-type]
    hints = typing.get_type_hints(cls)
    optional = tuple(field.name for field in declared if field.default is not dataclasses.MISSING)
    fields = fields_of(where, data, tuple(field.name for field in declared), optional)
    return cls(**{key: typed(where, key, value, hints[key]) for key, value in fields.items()})


def described(record: Any) -> dict[str, Any]:
    """Return the JSON object of a layer or an input: its kind and fields, in the form that `build` accepts.

    Fields marked as `late`, which were added later, are omitted if they have their defaults, so that earlier releases
    can read the object.
    """
    fields = dataclasses.asdict(record)
    for field in dataclasses.fields(record):
        if field.metadata.get("late") and fields[field.name] == field.default:
            del fields[field.name]
    return {"kind": record.kind, **fields}


_WORDS = {int: "a whole number", str: "a string", float: "a number", bool: "true or false"}


def typed(where: str, key: str, value: Any, hint: Any) -> Any:
    """Convert `value` to the field's type; raise ModelError if it does not match.

    Types are int, float, str, bool, a tuple of one of these, or a dataclass, for which null is accepted if the field
    may be None. A bool is not accepted as a number.
    """
    kinds: tuple[Any, ...] = (hint, *typing.get_args(hint))
    record: Any = next((kind for kind in kinds if dataclasses.is_dataclass(kind)), None)
    if record is not None:
        may_be_none = type(None) in typing.get_args(hint)
        return None if value is None and may_be_none else fill(record, f"{where}: {key}", value)
    item = typing.get_args(hint)[0] if typing.get_origin(hint) is tuple else hint
    values = value if item is not hint else [value]
    if isinstance(values, list):
        with contextlib.suppress(TypeError, OverflowError):  # raised for an integer that is too large for a float
            converted = tuple(_scalar(entry, item) for entry in values)
            return converted if item is not hint else converted[0]
    expected = _WORDS[item] if item is hint else f"a list of {_WORDS[item].removeprefix('a ').replace('whole ', '')}s"
    raise ModelError(f"{where}: {key} must be {expected}, not {json.dumps(value)[:40]}")


def _scalar(value: Any, kind: type) -> Any:
    """Return `value` if its type is `kind` (an int is converted to float if needed); raise TypeError otherwise."""
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise TypeError
    return value
