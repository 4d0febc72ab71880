"""Groups of options as parameters of a command."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated, get_args

import pytest
import typer
from trninfer.app.main import open_app
from trninfer.app.option_groups import takes_options, whole

Name = Annotated[str | None, typer.Option("--name")]


@dataclass(frozen=True)
class Group:
    """A group with one option."""

    size: Annotated[int, typer.Option("--size")] = 3


def test_a_group_becomes_one_parameter_a_field() -> None:
    given = []

    @takes_options("the help")
    def command(name: Name = None, *, group: Group) -> None:
        given.append((name, group))

    assert list(inspect.signature(command).parameters) == ["name", "size"]
    assert command.__doc__ == "the help"
    command(name="a", size=5)
    assert given == [("a", Group(5))]


def test_options_are_found_where_python_puts_an_optional_around_them() -> None:
    """Python 3.10 does this if the default is None; it is spelled out here so that every version tests it."""

    @takes_options("the help")
    def command(name: Name | None = None, *, group: Group) -> None:
        pass

    assert command.__annotations__["name"] == Name


def test_whole_numbers_are_plain_digits(cli) -> None:
    for text in ("1_0", "\u0661", "\uff11", " 1", "1.0", "1e1", "", "-1", "9" * 30, "9" * 5000):
        with pytest.raises(typer.BadParameter, match="is not an integer from"):
            whole(0)(text)
    outcome = cli("classify", "--batch-size", "1_0")
    assert outcome.status == 2 and outcome.out == "" and len(outcome.err.splitlines()) == 1
    assert "Invalid value for '--batch-size'" in outcome.err and "is not an integer from" in outcome.err


@pytest.mark.parametrize("text, expected", [("1", 1), ("+4", 4), ("007", 7), ("65536", 65536)])
def test_a_whole_number(text: str, expected: int) -> None:
    assert whole(1, 65536)(text) == expected


def test_no_number_of_an_option_is_left_to_typer() -> None:
    """Typer would accept `1_0` and digits of other scripts."""
    for command in open_app().registered_commands:
        assert command.callback is not None
        for parameter in inspect.signature(command.callback, eval_str=True).parameters.values():
            kind, *settings = get_args(parameter.annotation) or (parameter.annotation,)
            if {int, float} & {kind, *get_args(kind)} and not settings[0].count:  # -v counts its occurrences
                assert settings[0].parser is not None, parameter


@pytest.mark.parametrize("option", ["--dtype", "--target", "--form", "--launches"])
def test_a_word_that_is_none_of_the_words(cli, option) -> None:
    outcome = cli("bench", option, "sideways")
    assert outcome.status == 2 and len(outcome.err.splitlines()) == 1
    assert outcome.err.startswith(f"trninfer: Invalid value for '{option}': 'sideways' is not one of")
