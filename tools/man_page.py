"""Generate the manual page docs/trninfer.1 from the help of the commands.

In a clone, `python -m trninfer.tools.update_docs man` writes the page.
"""

from __future__ import annotations

from ..app.main import open_app
from ..version import __version__
from .command_help import CommandHelp, OptionHelp, read_commands, split_example, unwrap


def man_page() -> str:
    """Return the manual page, formatted with the macros of man(7)."""
    head = [
        f'.TH TRNINFER 1 "" "trninfer {__version__}" "User Commands"',
        ".SH NAME",
        "trninfer \\- run networks on an AWS Trainium NeuronCore or on its simulator",
        ".SH SYNOPSIS",
        ".B trninfer",
        ".I COMMAND",
        "[OPTIONS] [ARGUMENTS]",
        ".SH DESCRIPTION",
        roff(str(open_app().info.help)),
        ".SH COMMANDS",
    ]
    commands = read_commands()
    for command in commands:
        head += [".TP", f".B {roff(command.name)}", roff(command.summary)]
    bodies = [line for command in commands for line in _command(command)]
    status = [".SH EXIT STATUS", roff(str(open_app().info.epilog).removeprefix("Exit status: "))]
    return "\n".join([*head, *bodies, *status]) + "\n"


def roff(text: str) -> str:
    """Escape text for man(7), using hyphens that can be copied."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").splitlines()
    return "\n".join(f"\\&{line}" if line[:1] in (".", "'") else line for line in lines)


def _command(command: CommandHelp) -> list[str]:
    lines = [f'.SH "TRNINFER {roff(command.name).upper()}"', roff(command.summary)]
    for paragraph in command.paragraphs:
        lines.append(".PP")
        if paragraph.startswith("\b"):
            first, body = split_example(paragraph)
            lines += [roff(first), ".PP", ".nf", roff(body), ".fi"]
        else:
            lines.append(roff(unwrap(paragraph)))
    return [*lines, *(line for option in command.options for line in _option(option))]


def _option(option: OptionHelp) -> list[str]:
    return [".TP", f'.B "{roff(option.usage)}"', roff(unwrap(option.text))]
