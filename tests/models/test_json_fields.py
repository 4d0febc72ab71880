"""JSON objects as dataclasses: round trips, optional fields, and messages that name the field."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import pytest
from trninfer.models.errors import ModelError
from trninfer.models.json_fields import build, described, fields_of, fill, typed


@dataclass(frozen=True)
class Plate:
    """A record with fields of all types."""

    kind: ClassVar[str] = "plate"
    count: int
    name: str
    weight: float
    clean: bool
    sides: tuple[int, ...] = ()
    labels: tuple[str, ...] = ("a",)
    rim: str = field(default="round", metadata={"late": True})


GIVEN = {"count": 3, "name": "n", "weight": 0.5, "clean": True}


def test_missing_fields_have_their_defaults_and_lists_become_tuples() -> None:
    assert fill(Plate, "plate 1", GIVEN) == Plate(3, "n", 0.5, True)
    plate = fill(Plate, "plate 1", {**GIVEN, "sides": [1, 2], "labels": []})
    assert plate == Plate(3, "n", 0.5, True, (1, 2), ())


def test_an_integer_is_accepted_as_a_float() -> None:
    weight = fill(Plate, "p", {**GIVEN, "weight": 2}).weight
    assert weight == 2.0 and isinstance(weight, float)


@pytest.mark.parametrize("plate", [Plate(3, "n", 0.5, True), Plate(0, "", -1.0, False, (5,), ("x", "y"), "square")])
def test_described_layers_are_rebuilt(plate: Plate) -> None:
    data = described(plate)
    # earlier releases do not have the field `rim`
    assert data["kind"] == "plate" and ("rim" in data) == (plate.rim == "square")
    assert (
        build({"plate": Plate}, "plate 1", {**data, "sides": list(plate.sides), "labels": list(plate.labels)}) == plate
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"count": True}, "p: count must be a whole number, not true"),
        ({"count": 3.0}, "p: count must be a whole number, not 3.0"),
        ({"count": "3"}, 'p: count must be a whole number, not "3"'),
        ({"name": None}, "p: name must be a string, not null"),
        ({"weight": False}, "p: weight must be a number, not false"),
        ({"weight": 10**400}, "p: weight must be a number, not 1" + "0" * 39),
        ({"clean": 1}, "p: clean must be true or false, not 1"),
        ({"sides": 4}, "p: sides must be a list of numbers, not 4"),
        ({"sides": [1, "2"]}, 'p: sides must be a list of numbers, not [1, "2"]'),
        ({"sides": [[1]]}, "p: sides must be a list of numbers, not [[1]]"),
        ({"labels": "ab"}, 'p: labels must be a list of strings, not "ab"'),
        ({"labels": ["x" * 99]  * 2 + [1]}, 'p: labels must be a list of strings, not ["' + "x" * 38),
        ({"size": 1}, "p: unknown field 'size'; allowed: count, name, weight, clean, sides, labels, rim"),
    ],
)  # fmt: skip
def test_fields_of_another_type_or_name(change: dict, says: str) -> None:
    with pytest.raises(ModelError) as error:
        fill(Plate, "p", {**GIVEN, **change})
    assert str(error.value) == says


def test_fields_that_are_missing() -> None:
    with pytest.raises(ModelError, match=r"^p: the field 'weight' is missing$"):
        fill(Plate, "p", {"count": 1, "name": "n"})
    assert fields_of("p", {"a": 1}, ("a", "b"), optional=("b",)) == {"a": 1}
    with pytest.raises(ModelError, match=r"^p must be a JSON object, not list$"):
        fields_of("p", [1], ("a",))


@pytest.mark.parametrize("data", [{"kind": "cup"}, {"kind": ["plate"]}, {}, 7, None])
def test_objects_of_no_known_kind(data: object) -> None:
    with pytest.raises(ModelError, match=r"^plate 2: unknown kind .*; known: plate, bowl$"):
        build({"plate": Plate, "bowl": Plate}, "plate 2", data)


def test_one_value() -> None:
    assert typed("p", "sides", [1, 2], tuple[int, ...]) == (1, 2)
    assert typed("p", "weights", [1, 0.5], tuple[float, ...]) == (1.0, 0.5)
    assert typed("p", "name", "x", str) == "x"
