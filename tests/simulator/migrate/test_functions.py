"""Functions of a file that use NKI, directly or through others."""

import ast

import pytest

pytest.importorskip("libcst")
from trninfer.simulator.migrate import migrate_source
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


def test_index_arrays_around_a_kernel_are_those_of_the_kernel():
    """A function defines a kernel and runs it; its index arrays are rewritten together with the kernel."""
    text = (
        "import neuronxcc.nki as nki\nimport neuronxcc.nki.language as nl\n\n\n"
        "def bench(a):\n    i = nl.arange(8)[:, None]\n    j = nl.arange(4)[None, :]\n\n    @nki.benchmark(warmup=1)\n"
        "    def kernel(a):\n        out = nl.ndarray((8, 4), dtype=a.dtype, buffer=nl.shared_hbm)\n"
        "        nl.store(out[i, j], nl.load(a[i, j]))\n        return out\n\n    return kernel(a)\n"
    )
    migration = migrate_source(text)
    assert "nl.store(out[0:8, 0:4], nl.load(a[0:8, 0:4]))" in migration.text and "arange" not in migration.text
