"""Long lines of generated code are broken at the arguments, without changing their meaning."""

import ast

import pytest

pytest.importorskip("libcst")
from trninfer.simulator.migrate.layout import WIDTH, wrapped

LONG = (
    "nisa.tensor_tensor(dst=a[0 : min(128, n - i * 128)], data1=größe(b, c), data2=f'{d}, {e}', op=nl.add, **options)"
)


@pytest.mark.parametrize("before", ["", "x = ", "x, y = ", "x: int = ", "return "])
def test_a_call_gets_an_argument_to_a_line(before):
    text = wrapped(before + LONG)
    assert text == (
        f"{before}nisa.tensor_tensor(\n    dst=a[0 : min(128, n - i * 128)],\n    data1=größe(b, c),\n"
        "    data2=f'{d}, {e}',\n    op=nl.add,\n    **options,\n)"
    )
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(before + LONG))


def test_positional_arguments_precede_keywords():
    line = f"load(a_name_of_some_length, *rest, dtype=float32, {'o' * WIDTH}=1)"
    assert wrapped(line).splitlines()[:4] == ["load(", "    a_name_of_some_length,", "    *rest,", "    dtype=float32,"]


@pytest.mark.parametrize(
    "line",
    [
        "f(" + "a" * (WIDTH - 3) + ")",
        f"x = f({'a' * WIDTH}) + 1",
        f"x = {'f' * WIDTH}()",
        f"x = {'a' * WIDTH}",
        f"# f({'a' * WIDTH})",
        f"f({'a' * WIDTH},\n  b)",
        f"if f({'a' * WIDTH}):",
    ],
)
def test_short_lines_and_other_statements_are_not_wrapped(line):
    assert wrapped(line) == line


def test_the_widest_line_that_stays():
    assert "\n" not in wrapped("f(" + "a" * (WIDTH - 3) + ")") and "\n" in wrapped("f(" + "a" * (WIDTH - 2) + ")")
