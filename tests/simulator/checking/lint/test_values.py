"""Python's functions, containers and arithmetic, as far as the compiler up to 0.6 has them."""

import ast

import pytest
from linted_functions import HEAD, reported, scope_of
from trninfer.simulator.checking.lint.values import Containers, check_values

LIST = "append, clear, copy, count, extend, index, pop, remove, reverse"


@pytest.mark.parametrize(
    ("line", "rule", "message"),
    [
        ("min(n, 2, 3)", "min-max", "takes min of one list or tuple, or of two numbers, got 3 arguments"),
        ("max()", "min-max", "takes max of one list or tuple, or of two numbers, got 0 arguments"),
        ("max(a, key=n)", "min-max", "takes max of one list or tuple, or of two numbers, got key="),
        ("[1].insert(0, n)", "container-method", f"has no list.insert: a list has {LIST}"),
        ("list().sort()", "container-method", f"has no list.sort: a list has {LIST}"),
        (
            "{}.update(a)",
            "container-method",
            "has no dict.update: a dict has clear, copy, get, items, keys, pop, setdefault, values",
        ),
        ("f'{n}'.upper()", "container-method", "has no str.upper: a str has no methods"),
        ("[1].pop(0)", "container-method", "the NKI compiler's list.pop takes the last element only, no index"),
        ("a[::-1]", "reversed-slice", "the NKI compiler does not take a[::-1]: slices run forward"),
        ("a[0:4, 4::-n]", "reversed-slice", "does not take a[0:4, 4::-n]: slices run forward"),
        ("dict()[1]", "dict-key", "the NKI compiler takes strings as keys, got 1"),
        ("n // -2", "integer-arithmetic", "n // -2: the NKI compiler rounds so that the remainder is never negative"),
        ("n % -a", "integer-arithmetic", "n % -a: the NKI compiler rounds so that the remainder is never negative"),
        ("-2 ** -1", "integer-arithmetic", "is 1 for the NKI compiler: take a float as the base"),
    ],
)
def test_what_the_compiler_does_not_have(line, rule, message):
    ((at, found, text),) = reported(check_values, f"n = 1\nx = {line}", "0.6")
    assert (at, found) == (2, rule) and message in text
    assert reported(check_values, f"x = {line}", "0.7") == []  # where it is Python


@pytest.mark.parametrize(
    "line",
    [
        "min(a)", "max(n, 2)", "min(*a)", "a.min(1, 2, 3)", "[1].append(n)", "[1].pop()", "{}.pop('a')",
        "a.insert(0, n)", "a[0:4:2]", "a[-1]", "{}['a']", "{}[n]", "[0][1]", "n // 2", "7 % n", "'%d' % -n",
        "2.0 ** -1", "n ** -1", "2 ** n",
    ],
)  # fmt: skip
def test_what_it_has(line):
    assert reported(check_values, f"x = {line}", "0.6") == []


def test_kinds_of_containers():
    body = "x = [1]\nx = list(a)\ny = {}\ny = [1]\nz: dict = {'a': 1}\ns = 'a'\nfor t in s:\n    pass\n"
    body += "u, v = [1], {}\nw = []\nw += [2]\n"
    scope, _ = scope_of(HEAD + "def kernel(a, n):\n" + "".join(f"    {line}\n" for line in body.splitlines()), "0.6")
    containers = Containers(scope)
    kinds = {name: containers.of(ast.Name(name)) for name in ("x", "y", "z", "s", "t", "u", "w", "a", "other")}
    assert kinds == {"x": "list", "y": "", "z": "dict", "s": "str", "t": "", "u": "", "w": "", "a": "", "other": ""}
    for text, kind in (("[n]", "list"), ("dict(a=1)", "dict"), ("f'{n}'", "str"), ("3", ""), ("n", ""), ("set()", "")):
        assert containers.of(ast.parse(text, mode="eval").body) == kind
