"""Parse option values without pydantic, which typer uses for every value and which takes as long to import as NumPy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from typer.core import TyperCommand, TyperGroup

_UNREAD = object()
Convert = Callable[[Any, Any], Any]  # (context, value), like Click's Parameter.process_value


class _PlainHelp:
    """Provides the --help flag of typer, parsed without pydantic."""

    def get_help_option(self, ctx: Any) -> Any:
        """Return the flag, or None."""
        option = super().get_help_option(ctx)  # type: ignore[misc]
        if option is not None:
            _read_plainly(option, Annotated[bool, None])
        return option


class PlainGroup(_PlainHelp, TyperGroup):
    """A command group whose --help flag is parsed without pydantic."""


class PlainValues(_PlainHelp, TyperCommand):
    """A command whose strings, choices, flags and options with parsers are parsed without pydantic; typer reports
    errors."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        kinds = {} if self.callback is None else get_type_hints(self.callback, include_extras=True)
        for parameter in self.params:
            kind = kinds.get(parameter.name)
            if get_origin(kind) is Annotated:
                _read_plainly(parameter, kind)


def _read_plainly(parameter: Any, kind: Any) -> None:
    parameter.process_value = partial(_process, type(parameter).process_value.__get__(parameter), parameter, kind)


def _process(convert: Convert, parameter: Any, kind: Any, context: Any, value: Any) -> Any:
    """Return the value of a parameter after its callback, as `convert` would return it."""
    read = _read(parameter, kind, value)
    if read is _UNREAD:
        return convert(context, value)
    return read if parameter.callback is None else parameter.callback(context, parameter, read)


def _read(parameter: Any, kind: Any, value: Any) -> Any:
    """Return the value of a parameter, or _UNREAD if typer has to convert or reject it."""
    base, *settings = get_args(kind)
    parser = next(
        (candidate for candidate in (getattr(setting, "parser", None) for setting in settings) if candidate), None
    )
    several = parameter.multiple or parameter.nargs != 1
    if value is None and not parameter.required:
        return () if several else None
    if parser is not None and isinstance(value, str) and not several:
        try:
            return parser(value)
        except Exception:
            return _UNREAD
    if isinstance(value, str) and Path in (base, *get_args(base)):
        return Path(value)
    return value if _is_plain(value, base) else _UNREAD


def _is_plain(value: Any, kind: Any) -> bool:
    """Return True if a value already has this type, and False for types that typer may convert further."""
    if get_origin(kind) is list:
        return isinstance(value, (list, tuple)) and all(_is_plain(item, get_args(kind)[0]) for item in value)
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if kind in (str, int, float, bool):
        return type(value) is kind
    return any(_is_plain(value, member) for member in get_args(kind) if member is not type(None))
