"""Functions of a file that use NKI, directly or through others."""

import ast

import pytest

pytest.importorskip("libcst")
from trninfer.simulator.migrate.functions import called, functions_with_nki, is_jit
from trninfer.simulator.migrate.names import Names

TEXT = """\
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
@nki.benchmark(warmup=1)
def kernel(a): return helper(a)
def helper(a): return nl.load(a)
def caller(a): return helper(a)
def passed(a): return nl.load(a)
def host(a): return kernel(a), run(passed, a)
"""


def test_functions_with_nki():
    tree = ast.parse(TEXT)
    names = Names(tree)
    assert functions_with_nki(tree, names) == {"kernel", "helper", "caller", "passed"}
    assert names.undecorated == {"passed"}
    assert [is_jit(each, names) for each in tree.body[2].decorator_list] == [True]
    assert called(tree.body[-1]) == {"kernel", "run"}
