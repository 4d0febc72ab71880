"""Help of commands, derived from their functions: usages, defaults, hidden options and examples."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pytest
import typer
from trninfer.app.main import open_app
from trninfer.tools.command_help import CommandHelp, OptionHelp, _read, read_commands, split_example, unwrap


def cook(
    dishes: Annotated[list[Path], typer.Argument(metavar="DISH...", help="What to cook.")],
    heat: Annotated[Literal["low", "high"], typer.Option("--heat", "-h", help="The flame.")] = "low",
    minutes: Annotated[int, typer.Option("--minutes", metavar="N", help="How long.")] = 5,
    name: Annotated[str | None, typer.Option("--name", help="A name.")] = None,
    where: Annotated[Literal["pot", "pan"] | None, typer.Option("--where", help="In what.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fast.")] = False,
    guests: Annotated[int, typer.Option("--guests", help="Eaters [default: all].")] = 4,
    secret: Annotated[str, typer.Option("--secret", hidden=True, help="Not shown.")] = "",
) -> None:
    """Cook dishes,
    one after another.

    The first one may
    take longer.

    \\b
    Example:
        trninfer cook soup
          --quick
    """


def test_a_command_is_read_off_its_function() -> None:
    first, *options = _read("cook", cook).options
    assert first == OptionHelp("DISH...", "What to cook.", True)
    assert [(option.usage, option.text) for option in options] == [
        ("--heat, -h low|high", "The flame. [default: low]"),
        ("--minutes N", "How long. [default: 5]"),
        ("--name NAME", "A name."),
        ("--where pot|pan", "In what."),
        ("--quick", "Fast."),
        ("--guests NAME", "Eaters [default: all]."),
    ]
    assert not any(option.is_argument for option in options)


def test_lists_and_counts_are_shown_as_they_are_typed() -> None:
    options = {option.usage.split()[0]: option for command in read_commands() for option in command.options}
    assert options["--batch-size"].text.endswith("[default: 1]") and options["--verbose,"].usage == "--verbose, -v"
    assert not any("('" in option.text or "(1," in option.text for option in options.values())


def test_docstring_is_split_into_a_summary_and_paragraphs() -> None:
    command = _read("cook", cook)
    assert isinstance(command, CommandHelp) and command.name == "cook"
    assert command.summary == "Cook dishes, one after another."
    prose, example = command.paragraphs
    assert unwrap(prose) == "The first one may take longer."
    assert split_example(example) == ("Example:", "trninfer cook soup\n  --quick")


def test_every_command_in_the_order_of_the_program() -> None:
    commands = read_commands()
    assert [command.name for command in commands] == [
        command.name or command.callback.__name__ for command in open_app().registered_commands
    ]
    assert all(command.summary.endswith(".") and command.options for command in commands)


@pytest.mark.parametrize(
    ("text", "parts"),
    [("\b\nTitle:\n  a\n\n    b", ("Title:", "a\n\n  b")), ("\b\nTitle:", ("Title:", "")), ("\b\n T\na", ("T", "a"))],
)
def test_the_lines_of_an_example_lose_their_indent(text: str, parts: tuple[str, str]) -> None:
    assert split_example(text) == parts
