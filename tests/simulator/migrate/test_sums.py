"""Sums as source text have the same values as the Python expressions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("libcst")
from trninfer.simulator.migrate.sums import Sum

NAMES = {"a": 7, "b": -3, "c": 5}
ATOMS = st.sampled_from(["a", "b", "c", "0", "1", "2", "7", "-2", "max(a, b)"])


def compound(parts):
    operators = st.sampled_from(["+", "-", "*", "//", "%", "<<", "&", "|", "^"])
    joined = st.tuples(parts, operators, parts).map(lambda each: f"({each[0]}) {each[1]} ({each[2]})")
    return (
        joined
        | parts.map("-({})".format)
        | st.tuples(parts, parts).map(lambda each: "({}) if a < b else ({})".format(*each))
    )


EXPRESSIONS = st.recursive(ATOMS, compound, max_leaves=6)


def value(text):
    """Return the value of an expression, or None if it is invalid, such as a shift by -2."""
    try:
        return eval(text, {"max": max}, dict(NAMES))
    except (ValueError, ZeroDivisionError):
        return None


def worth(of, text):
    found = value(text)
    assert found is None or value(of.text) == found, (text, of.text)
    return found is not None


@given(EXPRESSIONS, EXPRESSIONS, st.integers(-3, 3))
def test_sums_are_worth_what_they_are_of(first, second, factor):
    one, other = Sum.of(first), Sum.of(second)
    worth(one, first)
    worth(one + other, f"({first}) + ({second})")
    worth(one - other, f"({first}) - ({second})")
    worth(one * other, f"({first}) * ({second})")
    worth(one * factor + factor, f"({first}) * {factor} + {factor}")
    worth(Sum(2, {f"{(-one).atom} // 2": 3}), f"2 + 3 * (-({first}) // 2)")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a + 3 - a", "3"),
        ("2 - b + a", "a - b + 2"),
        ("a * 4 + 0 * b", "a * 4 + 0 * b"),
        ("(a + 1) * 4", "(a + 1) * 4"),
        ("(a + b) * 4", "4 * a + 4 * b"),
        ("6 * 7", "42"),
        ("-(a // 2)", "-(a // 2)"),
        ("b - a // 2", "b - a // 2"),
        ("(a << 1) + b", "(a << 1) + b"),
        ("a % 4 + 1", "a % 4 + 1"),
    ],
)
def test_sums_are_shown_short(text, shown):
    assert Sum.of(text).text == shown


def test_numbers_and_equality():
    assert Sum.of("a + 2") - Sum.of("a") == Sum(2) and (Sum.of("a") * 0).is_number
    assert Sum.of("2 + 1").is_number and not Sum.of("2 + a").is_number
    assert Sum.of("a").atom == "a" and Sum.of("a + 1").atom == "(a + 1)" and Sum(-3).atom == "(-3)"
