"""The meaning of a file's names, for any import aliases."""

import ast

import pytest

pytest.importorskip("libcst")
from trninfer.simulator.migrate.names import NUMPY_OPERATORS, Names, modern, stored
from trninfer.simulator.nki.api import table

FILE = """\
import neuronxcc.nki as nki
import numpy as np
import nki.language as own, os.path
from neuronxcc.nki.isa import tensor_copy as copied, nc_matmul
from . import helpers
simulate = nki.simulate_kernel
first, second = nki.jit, 2
"""


def expression(text):
    return ast.parse(text, mode="eval").body


@pytest.mark.parametrize(
    ("text", "dotted"),
    [
        ("nki.language.load", "nki.language.load"),
        ("own.load", "nki.language.load"),
        ("np.float32", "numpy.float32"),
        ("copied", "nki.isa.tensor_copy"),
        ("nc_matmul", "nki.isa.nc_matmul"),
        ("os.path.join", "os.path.join"),
        ("simulate", "nki.simulate_kernel"),
        ("tensor_copy", ""),
        ("helpers.load", ""),
        ("second.load", ""),
        ("own[0].load", ""),
    ],
)
def test_dotted_names_follow_the_aliases(text, dotted):
    assert Names(ast.parse(FILE)).dotted(expression(text)) == dotted


def test_the_package_of_the_first_nki_is_left_out():
    for old, new in (
        ("neuronxcc", ""),
        ("neuronxcc.nki.isa", "nki.isa"),
        ("neuronxcc.driver", "neuronxcc.driver"),
        ("nki.isa", "nki.isa"),
    ):
        assert modern(old) == new
    assert Names(ast.parse("import neuronxcc")).dotted(expression("neuronxcc.nki.isa.iota")) == "nki.isa.iota"


def test_the_usual_alias_wins():
    assert Names(ast.parse("import nki")).nl == "nl" and Names(ast.parse("import nki")).nisa == "nisa"
    assert Names(ast.parse("import nki.language as b\nimport nki.language as nl")).nl == "nl"
    assert Names(ast.parse(FILE)).nl == "own"


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("import neuronxcc.nki.language as nl", True),
        ("import nki.language as nl\nx = nl.arange(4)", True),
        ("import nki.language as nl\nx = nl.zeros((4, 4), nl.float32)", False),
        ("import nki.isa as nisa\nx = nisa.reciprocal(a)", True),
        ("import nki.isa as nisa\nnisa.reciprocal(a, a)", False),
        ("import nki.isa as nisa\nx = nisa.reciprocal(dst=a, data=a)", False),
        ("import nki.isa as nisa\nx = nisa.reciprocal(**options)", False),
        ("import nki.isa as nisa\nx = nisa.tensor_copy(dst=a)", False),
        ("import nki.isa as nisa\nx = nisa.get_nc_version()", False),
    ],
)
def test_the_first_dialect_is_reported_by_its_package_its_names_or_tiles_that_instructions_return(text, first):
    assert Names(ast.parse(text)).is_first_dialect is first


@pytest.mark.parametrize(
    ("call", "current"),
    [
        ("nisa.tensor_scalar(t, t, nl.add, 1.0)", True),
        ("nisa.tensor_scalar(t, nl.add, 1.0)", False),
        ("nisa.tensor_tensor(a, b, nl.add)", False),
        ("nisa.activation(nl.exp, t)", False),
        ("nisa.activation(np.exp, t, t)", False),
        ("nisa.reciprocal(t)", False),
        ("nl.load(a)", False),
        ("nisa.iota(t, pattern=[[1, 8]], offset=0)", True),
        ("nisa.iota(i, dtype=nl.int32)", False),
    ],
)
def test_an_instruction_that_is_called_as_today(call, current):
    names = Names(ast.parse("import nki.isa as nisa, nki.language as nl, numpy as np"))
    assert names.is_current(expression(call)) is current


def test_operators_of_numpy_and_functions_of_tiles_become_those_of_nki():
    names = Names(ast.parse("import nki.language as nl, numpy as np"))
    for old, new in (
        ("np.add", "nl.add"),
        ("np.max", "nl.maximum"),
        ("np.min", "nl.minimum"),
        ("np.amax", "nl.maximum"),
        ("nl.sum", "nl.add"),
        ("nl.exp", "nl.exp"),
        ("np.cumsum", None),
        ("add", None),
    ):
        assert names.operator(expression(old)) == new
    known = {entry["name"] for part in ("functions", "constants") for entry in table()[part]}
    assert set(NUMPY_OPERATORS.values()) <= known


def test_dtypes_of_numpy():
    names = Names(ast.parse("import nki.language as own, numpy as np"))
    assert names.dtype(expression("np.float16")) == "own.float16"
    assert names.dtype(expression("np.float64")) is None and names.dtype(expression("own.float32")) is None


def test_names_that_functions_mention():
    text = FILE + "def f():\n    return own.sbuf\nclass A:\n    def f(self):\n        copied(np.pi)\n"
    assert {"nki.language.sbuf", "nki.isa.tensor_copy", "numpy.pi"} <= Names(ast.parse(text)).mentioned_by("f")
    assert Names(ast.parse(text)).mentioned_by("g") == set()


def test_stored_names():
    tree = ast.parse("a = b\nfor c in d:\n    e[f], (g, *h) = i\n")
    assert stored(tree.body) == {"a", "c", "g", "h"}
