"""Read the help of every command from the functions of the commands.

The output of `--help` is not used, because its layout depends on the version of typer.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import typer.models

from ..app.main import open_app


@dataclass(frozen=True)
class OptionHelp:
    """The syntax and the help of an option or argument."""

    usage: str
    text: str
    is_argument: bool


@dataclass(frozen=True)
class CommandHelp:
    r"""A command: its name, a one-line summary, further paragraphs, and its options.

    A paragraph that starts with `\b` preserves its line breaks.
    """

    name: str
    summary: str
    paragraphs: tuple[str, ...]
    options: tuple[OptionHelp, ...]


def read_commands() -> list[CommandHelp]:
    """Return the help text of every command, in the order in which `trninfer --help` lists them."""
    commands = [(command.name, command.callback) for command in open_app().registered_commands]
    return [_read(name or call.__name__, call) for name, call in commands if call is not None]


def unwrap(text: str) -> str:
    """Return a paragraph as a single line."""
    return " ".join(text.split())


def split_example(text: str) -> tuple[str, str]:
    """Return the first line of a paragraph whose line breaks are preserved, and the lines below it without
    indentation."""
    first, *lines = text.splitlines()[1:]
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return first.strip(), "\n".join(line[indent:] for line in lines)


def _read(name: str, call: Callable[..., Any]) -> CommandHelp:
    first, *rest = re.split(r"\n\s*\n", inspect.cleandoc(call.__doc__ or ""))
    hints = typing.get_type_hints(call, include_extras=True)
    types = {key: _annotated(hint) for key, hint in hints.items()}
    defaults = {key: parameter.default for key, parameter in inspect.signature(call).parameters.items()}
    options = tuple(
        _option(key, types[key], defaults[key])
        for key in defaults
        if not getattr(types[key].__metadata__[0], "hidden", False)
    )
    return CommandHelp(name, unwrap(first), tuple(rest), options)


def _annotated(hint: Any) -> Any:
    """Return the Annotated type of a parameter. Python 3.10 wraps it in Optional if the default is None."""
    if hasattr(hint, "__metadata__"):
        return hint
    return next((part for part in typing.get_args(hint) if hasattr(part, "__metadata__")), hint)


def _option(key: str, annotated: Any, default: object) -> OptionHelp:
    info = annotated.__metadata__[0]
    text: str = info.help
    is_counted = getattr(info, "count", False)
    is_stated = default in (None, False, inspect.Parameter.empty) or is_counted or "[default:" in text
    words = ",".join(map(str, default)) if isinstance(default, tuple) else default
    text = text if is_stated else f"{text} [default: {words}]"
    return OptionHelp(_usage(key, annotated), text, isinstance(info, typer.models.ArgumentInfo))


def _usage(key: str, annotated: Any) -> str:
    """Return the syntax of an option, such as `--dtype float32|bfloat16|float16`, or the name of an argument."""
    info = annotated.__metadata__[0]
    if isinstance(info, typer.models.ArgumentInfo):
        return info.metavar or key.upper()
    kind = annotated.__origin__
    choices = (kind, *typing.get_args(kind))  # includes Literal[...] | None
    values = [value for choice in choices if typing.get_origin(choice) is Literal for value in typing.get_args(choice)]
    names = ", ".join([info.default, *info.param_decls])
    return (
        names
        if kind is bool or getattr(info, "count", False)
        else f"{names} {'|'.join(values) or info.metavar or 'NAME'}"
    )
