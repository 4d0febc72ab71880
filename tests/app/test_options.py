"""Groups of options as parameters of a command."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated, Optional

import typer
from trninfer.app.options import takes_options

Name = Annotated[Optional[str], typer.Option("--name")]  # noqa: UP045 (typer evaluates annotations on Python 3.10 too)


@dataclass(frozen=True)
class Group:
    """A group of one option."""

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
    """As Python 3.10 does where the default is None; written out here, it is tried on every version."""

    @takes_options("the help")
    def command(name: Optional[Name] = None, *, group: Group) -> None:  # noqa: UP045
        pass

    assert command.__annotations__["name"] == Name
