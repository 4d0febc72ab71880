"""Pairing the libcst and ast trees of a file, statement by statement."""

import ast

import pytest

pytest.importorskip("libcst")
import libcst as cst
from trninfer.simulator.migrate.pairing import paired

TEXT = """\
import a; b = 1
@a
class C:
    def f(self, x): return x; pass
async def g():
    async with a as b: await b
    async for c in b: pass
for i in (
    1, 2
):
    if (
        i
        and b
    ): pass
    elif not i:
        continue
    else: break
else:
    del b
try:
    while b: b -= 1
    else: pass
except (ValueError, KeyError) as e: raise
else:
    assert b, 'é'
finally:
    with a: (é).x()
match b:
    case 1: pass
    case {"x": y}:
        global z
"""


def test_each_statement_has_its_own():
    tree = ast.parse(TEXT)
    found = paired(cst.parse_module(TEXT), tree)
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    assert len(found) == len(statements) and set(map(id, found.values())) == set(map(id, statements))
    kinds = {"Del": "Delete"}  # libcst's name -> the different name in ast
    for node, statement in found.items():
        name = type(node).__name__
        assert kinds.get(name, name) == type(statement).__name__.removeprefix("Async")


def test_trees_of_different_files_are_refused():
    with pytest.raises(ValueError, match="differ"):
        paired(cst.parse_module("x = 1\n"), ast.parse("x = 1\ny = 2"))
