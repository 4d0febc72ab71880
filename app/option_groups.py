"""Option groups: dataclasses whose fields become parameters of a command."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import re
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from .errors import UsageError
from .text import parse_number

FORM = "form"  # field of --format, whose default depends on --output
_SUFFIXES = {
    ".csv": "csv", ".json": "json", ".ndjson": "ndjson", ".jsonl": "ndjson", ".parquet": "parquet", ".md": "markdown",
    ".markdown": "markdown",
}  # fmt: skip
_FOREIGN = (
    *(".html", ".htm", ".pdf", ".png", ".jpg", ".jpeg", ".svg", ".xml", ".yaml", ".yml", ".toml", ".tsv"),
    *(".xls", ".xlsx", ".ods", ".feather", ".arrow", ".npy", ".npz", ".db", ".sqlite", ".gz", ".bz2", ".xz", ".zst"),
    *(".zip", ".tar", ".tgz"),
)  # suffixes of formats that no report has


def format_of(output: Path | None, kind: Any) -> Any:
    """Return the format of a report for which no --format was given: the one of the file's suffix, or a table for a
    suffix that is not that of a format, such as .txt. `kind` is the annotation of the option.

    Raises UsageError if the option does not have the format of the suffix.
    """
    while get_origin(kind) is not Literal:
        kind = get_args(kind)[0]
    suffix = output.suffix.lower() if output is not None else ""
    form = _SUFFIXES.get(suffix, "table")
    if form not in get_args(kind) or suffix in _FOREIGN:
        allowed = [name for name, value in _SUFFIXES.items() if value in get_args(kind)]
        raise UsageError(
            f"--output {output}: this command does not write {suffix} files; use {', '.join(allowed)} or .txt, or "
            f"specify --format {'|'.join(get_args(kind))}"
        )
    return form


def whole(least: int, most: float = math.inf) -> Callable[[str | int], int]:
    """Return a parser for integers within bounds. Only ASCII digits are accepted: int() also accepts `1_0` and digits
    of other scripts."""

    def read(text: str | int) -> int:
        if isinstance(text, int):  # a default value
            return text
        if re.fullmatch(r"[+-]?[0-9]{1,18}", text) and least <= int(text) <= most:
            return int(text)
        bounds = f"from {least} up" if most == math.inf else f"from {least} to {most}"
        raise typer.BadParameter(f"{text!r} is not an integer {bounds}.")

    return read


def fraction(text: str | float) -> float:
    """Parse a fraction from 0 to 1. Only ASCII digits are accepted."""
    if isinstance(text, float):  # a default
        return text
    if re.fullmatch(r"[0-9]{0,3}(\.[0-9]{0,12})?", text) and any(map(str.isdecimal, text)) and float(text) <= 1:
        return float(text)
    raise typer.BadParameter(f"{text!r} is not a fraction from 0 to 1, such as 0.97.")


def takes_options(help_text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Convert a function with dataclass parameters to a typer command with one parameter per field.

    If several groups share a field, the first group receives the option; the others receive their defaults. Without
    --format, the suffix of --output determines the format (see `format_of`). The help text is passed separately because
    it would be much longer than the function.
    """

    def wrap(command: Callable[..., None]) -> Callable[..., None]:
        groups = _parameters(command)
        parameters = [parameter for _, options in groups.values() for parameter in options]

        @functools.wraps(command)
        def call(**values: Any) -> None:
            if FORM in values and values[FORM] is None:
                values[FORM] = format_of(values["output"], call.__annotations__[FORM])
            for name, (kind, options) in groups.items():
                if kind is not None:
                    values[name] = kind(**{option.name: values.pop(option.name) for option in options})
            command(**values)

        call.__doc__ = help_text
        call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return call

    return wrap


def _parameters(command: Callable[..., None]) -> dict[str, tuple[Any, list[inspect.Parameter]]]:
    """Return (dataclass, parameters of its fields) for each parameter of a function, or (None, the parameter itself) if
    the parameter is not a group."""
    hints = {name: _annotation(kind) for name, kind in get_type_hints(command, include_extras=True).items()}
    groups: dict[str, tuple[Any, list[inspect.Parameter]]] = {}
    names: set[str] = set()
    for name, parameter in inspect.signature(command).parameters.items():
        group: Any = hints[name] if is_dataclass(hints[name]) else None
        kinds = {name: hints[name]} if group is None else get_type_hints(group, include_extras=True)
        defaults = {name: parameter.default} if group is None else _defaults(group)
        options = [
            inspect.Parameter(key, parameter.KEYWORD_ONLY, default=default, annotation=kinds[key])
            for key, default in defaults.items()
            if key not in names
        ]
        names.update(defaults)
        groups[name] = group, options
    return groups


def _annotation(hint: Any) -> Any:
    """Return the annotation of a parameter as written: Python 3.10 wraps it in Optional if the default is None, and
    typer does not inspect the wrapped type."""
    return next((part for part in get_args(hint) if get_origin(part) is Annotated), hint)


def _defaults(kind: Any) -> dict[str, Any]:
    """Return the fields of a dataclass of options with their defaults on the command line."""
    empty = inspect.Parameter.empty  # the field is required
    defaults = {field.name: empty if field.default is MISSING else field.default for field in fields(kind)}
    return {**defaults, FORM: None} if FORM in defaults else defaults


def seconds(least: float, most: float) -> Any:
    """Return a parser for a number of seconds within bounds."""

    def read(text: str | float) -> float:
        if isinstance(text, float):  # a default
            return text
        with contextlib.suppress(ValueError):
            if least <= (value := parse_number(text)) <= most:
                return value
        raise typer.BadParameter(f"{text!r} is not a number of seconds from {least:g} to {most:g}.")

    return read
