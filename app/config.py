"""`--config FILE`: defaults of options from a TOML file.

    dtype = "bfloat16"        # for every command that has the option
    [classify]                # for one command only
    batch-size = 32

In a pyproject.toml, the same settings are in the table [tool.trninfer]. No file is read implicitly, because a file that
happens to be in the folder of pictures must not determine where predictions are written.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import typer

from .errors import UsageError
from .small_files import read_small_file

MAX_BYTES = 1 << 20
VARIABLE = "TRNINFER_CONFIG"


Options = dict[str, str]  # option name to parameter


def read_config(path: Path, command: str, commands: dict[str, Options]) -> dict[str, Any]:
    """Return the values that a file sets for the options of a command, by parameter. `commands` maps each command to
    its options.

    Values are strings, booleans, or lists of strings, as on the command line. Raises UsageError for an unreadable file,
    an unknown command or option, or a value of the wrong type.
    """
    values: dict[str, Any] = {}
    everything = {name for options in commands.values() for name in options}
    document = _read(path)
    for key, value in document.items():
        if isinstance(value, dict):
            _check_known(path, key, commands, "command")
            for option, nested in value.items():
                name = _check_known(path, option, commands[key], f"option of {key}")
                if key == command:
                    values[commands[key][name]] = _value(path, f"[{key}] {option}", nested)
            continue
        name = _check_known(path, key, everything, "option")
        if name in commands[command]:
            values.setdefault(commands[command][name], _value(path, key, value))
    return values


def _check_known(path: Path, key: str, known: Collection[str], what: str) -> str:
    """Return the name in its command-line spelling. Raises UsageError if it is unknown."""
    name = key.replace("_", "-")
    if name in known:
        return name
    import difflib

    near = difflib.get_close_matches(name, known, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise UsageError(f"--config {path}: {key[:40]!r} is not a known {what}{hint}")


def _read(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):  # imported only if --config is used
        import tomllib
    else:
        import tomli as tomllib

    content = read_small_file(path, f"--config {path}", MAX_BYTES)
    try:
        document = tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # ValueError includes TOML and Unicode errors
        raise UsageError(f"--config {path}: not TOML: {str(error)[:100]}") from None
    if path.name == "pyproject.toml":
        tool = document.get("tool", {})
        table = tool.get("trninfer") if isinstance(tool, dict) else None
        if not isinstance(table, dict):
            raise UsageError(f"--config {path}: has no table [tool.trninfer]")
        return table
    return document


def _value(path: Path, where: str, value: Any) -> Any:
    """Convert a TOML value to its form on the command line."""
    if isinstance(value, list) and all(isinstance(item, (str, int, float)) for item in value):
        return [str(item) for item in value]
    if isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, float)):
        return str(value)
    raise UsageError(f"--config {path}: {where} must be text, a number, true, false, or a list of these")


def _apply(context: typer.Context, parameter: typer.CallbackParam, path: Path | None) -> Path | None:
    """Use the values of the file as the defaults of the current command."""
    if path is not None and not context.resilient_parsing:
        root: Any = context.find_root().command
        commands = {name: _options_of(command) for name, command in root.commands.items()}
        context.default_map = read_config(path, context.info_name or "", commands)
    return path


def _options_of(command: Any) -> Options:
    names = [(option, parameter.name) for parameter in command.params for option in parameter.opts]
    return {option[2:]: name for option, name in names if option.startswith("--") and option != "--config"}


ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        envvar=VARIABLE,
        callback=_apply,
        is_eager=True,
        help="Read defaults for options from this TOML file, or from [tool.trninfer] in a pyproject.toml.",
    ),
]
