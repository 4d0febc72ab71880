"""Checks of fields: values at the limits pass, and messages state what is wrong, where, and what is allowed."""

from __future__ import annotations

import math

import pytest
from trninfer.models import checks
from trninfer.models.errors import ModelError

MISFIT = ", neither a number of features nor the shape of an image within the limits"


def test_limits_themselves_are_allowed() -> None:
    checks.check_range("a", "stride", 1, 1, 3)
    checks.check_range("a", "stride", 3, 1, 3)
    checks.check_each("a", "padding", (0, 2), 2, 0, 2)
    checks.check_choice("a", "mode", "y", ("x", "y"))
    checks.check_numbers("a", "mean", (0.0, -1.5), 2)
    checks.check_shape("a", "shape", (1 << 27,))
    checks.check_shape("a", "shape", (1 << 7, 1 << 10, 1 << 10))
    checks.check_count("a", (2, 3, 4), (24,))
    checks.check_epsilon("a", 1e-30)
    checks.check_name("größe 1")
    checks.check_printable("class", "input")  # a name that is forbidden only for layers


@pytest.mark.parametrize(
    ("check", "says"),
    [
        (lambda: checks.check_range("a", "stride", 0, 1, 3), "layer 'a': stride is 0; 1 to 3 are allowed"),
        (lambda: checks.check_range("input", "width", 4, 1, 3), "input: width is 4; 1 to 3 are allowed"),
        (
            lambda: checks.check_each("a", "pad", (1, 3), 2, 0, 2),
            "layer 'a': pad is 1, 3; expected 2 values from 0 to 2",
        ),
        (
            lambda: checks.check_each("a", "pad", (1, -1), 2, 0, 2),
            "layer 'a': pad is 1, -1; expected 2 values from 0 to 2",
        ),
        (lambda: checks.check_each("a", "pad", (1,), 2, 0, 2), "layer 'a': pad is 1; expected 2 values from 0 to 2"),
        (
            lambda: checks.check_each("a", "pad", (), 2, 0, 2),
            "layer 'a': pad is empty; expected 2 values from 0 to 2",
        ),
        (
            lambda: checks.check_each("a", "pad", range(99), 2, 0, 2),
            "layer 'a': pad is 0, 1, 2, 3, 4, 5, 6, 7; expected 2 values from 0 to 2",
        ),
        (lambda: checks.check_choice("a", "mode", "z", ("x", "y")), "layer 'a': mode is 'z'; allowed: x, y"),
        (
            lambda: checks.check_numbers("input", "std", (1.0, math.nan), 2),
            "input: std is (1.0, nan); expected 2 finite numbers",
        ),
        (
            lambda: checks.check_numbers("a", "b", (math.inf,), 1),
            "layer 'a': b is (inf,); expected 1 finite numbers",
        ),
        (lambda: checks.check_numbers("a", "b", (1.0,), 2), "layer 'a': b is (1.0,); expected 2 finite numbers"),
        (lambda: checks.check_shape("a", "s", (2, 3)), "layer 'a': s is [2, 3]" + MISFIT),
        (lambda: checks.check_shape("a", "s", (2, 0, 3)), "layer 'a': s is [2, 0, 3]" + MISFIT),
        (lambda: checks.check_shape("a", "s", (1 << 27 | 1,)), "layer 'a': s is [134217729]" + MISFIT),
        (lambda: checks.check_shape("a", "s", ()), "layer 'a': s is []" + MISFIT),
        (lambda: checks.check_count("a", (2, 3), (5,)), "layer 'a': [2, 3] and [5] have different numbers of elements"),
        (lambda: checks.check_epsilon("a", 0.0), "layer 'a': epsilon is 0.0; it must be above 0"),
        (lambda: checks.check_epsilon("a", math.nan), "layer 'a': epsilon is nan; it must be above 0"),
        (lambda: checks.check_epsilon("a", math.inf), "layer 'a': epsilon is inf; it must be above 0"),
        (lambda: checks.check_name("input"), "layer name 'input': this name is reserved for the network's input"),
        *(
            (
                lambda name=name: checks.check_name(name),
                f"layer name {name!r} must be printable, not empty, and without leading or trailing spaces",
            )
            for name in ("", " a", "a ", "a\nb", "\x1b[31m")
        ),
    ],
)  # fmt: skip
def test_invalid_field_is_named(check, says: str) -> None:
    with pytest.raises(ModelError) as error:
        check()
    assert str(error.value) == says


def test_shapes_in_words() -> None:
    assert checks.describe_shape((64,)) == "64 features"
    assert checks.describe_shape((1, 32, 30)) == "an image of 1x32x30"
