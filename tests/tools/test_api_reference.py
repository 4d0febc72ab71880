"""The reference of the Python interface: every name, and signatures as written."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Any

import pytest
import trninfer
from trninfer.tools import api_reference
from trninfer.tools.api_reference import _entry, _kind, _signature, api_block


def test_every_public_name_is_in_it_once() -> None:
    block = api_block()
    found = re.findall(r"^(?:#### |- )`trninfer\.(\w+)`", block, re.M)
    assert sorted(found) == sorted(trninfer.__all__)


def test_a_name_that_has_no_group_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trninfer, "__all__", [*trninfer.__all__, "novelty"])
    with pytest.raises(RuntimeError, match=r"api_reference.py and trninfer.__all__ differ in \{'novelty'\}"):
        api_block()


def test_methods_and_properties_of_a_class_are_shown_and_nothing_private() -> None:
    block = "\n".join(_entry("Classifier", trninfer.Classifier))
    for name, member in vars(trninfer.Classifier).items():
        if inspect.isfunction(member) and not name.startswith("_"):
            assert f"\n.{name}(" in block
    assert "._" not in re.sub(r"`[^`]*`", "", block) and "(self" not in block


def f(a: int, *rest: str, b: float = 0.5, c: str | None = None, **more: Any) -> None: ...


def long(first_of_all: dict[str, int], second_of_all: dict[str, int] = {}, third: str = "x" * 30) -> None: ...  # noqa: B006


class Shop:
    def sell(self, what: str, count=1) -> None: ...


def test_signatures() -> None:
    assert _signature("f", f) == "f(a: int, *rest, *, b: float = 0.5, c: str | None = None, **more)"
    assert _signature("sell", Shop.sell) == "sell(what: str, count = 1)"
    assert _signature("long", long) == (
        "long(\n    first_of_all: dict[str, int],\n    second_of_all: dict[str, int] = {},\n"
        "    third: str = 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx',\n)"
    )


@dataclass(frozen=True)
class Record:
    """A record."""

    name: str
    sizes: tuple[int, ...] | None = None
    run: int = 0
    _hidden: int = 0

    @property
    def total(self) -> int:
        """All sizes."""
        return sum(self.sizes or ())


def test_a_record_is_a_table_of_its_fields() -> None:
    Record.__annotations__ = {"name": str, "sizes": tuple[int, ...] | None, "run": int, "_hidden": int}
    assert "\n".join(_entry("Record", Record)) == (
        "#### `trninfer.Record`\nA record.\n| field | |\n|---|---|\n| `name` | `str` |\n"
        "| `sizes` | `tuple[int, ...] \\| None` |\n`.total`: All sizes."
    )


def test_an_error_is_a_line_with_its_bases() -> None:
    class OddError(ValueError, KeyError):
        """An odd one."""

    assert list(_entry("OddError", OddError)) == ["- `trninfer.OddError` (`ValueError`, `KeyError`): An odd one."]


def test_types_have_no_modules() -> None:
    assert _kind(dict[str, trninfer.Prediction] | None) == "dict[str, Prediction] \\| None"
    assert _kind(int) == "int"
    assert api_reference._docstring(Shop) == ""
