"""Attributes of nodes are read with their type, length and default."""

from __future__ import annotations

import math

import pytest
from trninfer.models.errors import ModelError
from trninfer.models.importing.onnx_attributes import integer, integers, listed, number, numbers, text
from trninfer.models.importing.onnx_file import Node

NODE = Node("Conv", "n", ("x",), ("y",), {
    "two": (3, 4), "one": 5, "half": 0.5, "halves": (0.5, 2), "word": "SAME", "nan": math.nan, "inf": math.inf,
    "mixed": (1, 2.0), "endless": (1.0, -math.inf),
})  # fmt: skip


def test_attributes_that_are_there() -> None:
    assert integers(NODE, "two", 2, (1, 1)) == (3, 4)
    assert listed(NODE, "two") == (3, 4)
    assert integer(NODE, "one", 0) == 5
    assert (number(NODE, "half", 1), number(NODE, "one", 1)) == (0.5, 5.0)
    assert numbers(NODE, "halves") == (0.5, 2.0)
    assert text(NODE, "word", "") == "SAME"


def test_attributes_that_are_left_out() -> None:
    assert integers(NODE, "no", 2, (1, 7)) == (1, 7)
    assert listed(NODE, "no") == () and listed(NODE, "no", (2, 3)) == (2, 3)
    assert integer(NODE, "no", -1) == -1
    assert number(NODE, "no", -math.inf) == -math.inf  # a Clip without a lower limit
    assert numbers(NODE, "no", (1.5,)) == (1.5,)
    assert text(NODE, "no", "NOTSET") == "NOTSET"


@pytest.mark.parametrize(
    ("read", "says"),
    [
        (lambda: integers(NODE, "two", 3, (1,) * 3), "its two is not 3 integers"),
        (lambda: integers(NODE, "two", 1, (1,)), "its two is not 1 integers"),
        (lambda: integers(NODE, "one", 1, (1,)), "its one is not 1 integers"),
        (lambda: integers(NODE, "mixed", 2, (1, 1)), "its mixed is not 2 integers"),
        (lambda: integers(NODE, "no", 2, ()), "its no is not 2 integers"),  # the attribute is required
        (lambda: listed(NODE, "one"), "its one is not 1 integers"),
        (lambda: listed(NODE, "mixed"), "its mixed is not 2 integers"),
        (lambda: integer(NODE, "half", 1), "its half is not an integer"),
        (lambda: integer(NODE, "two", 1), "its two is not an integer"),
        (lambda: number(NODE, "nan", 0.0), "its nan is not a finite number"),
        (lambda: number(NODE, "inf", 0.0), "its inf is not a finite number"),
        (lambda: number(NODE, "word", 0.0), "its word is not a finite number"),
        (lambda: numbers(NODE, "endless"), "its endless are not finite numbers"),
        (lambda: numbers(NODE, "half"), "its half are not finite numbers"),
        (lambda: text(NODE, "one", ""), "its one is not a string"),
    ],
)
def test_attributes_of_another_type_or_length(read, says: str) -> None:
    with pytest.raises(ModelError, match=f"^{says}$"):
        read()
