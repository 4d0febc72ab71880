"""Imports, decorators and annotations of earlier NKI versions."""

import ast

import pytest

pytest.importorskip("libcst")
import libcst as cst
from trninfer.simulator.migrate import migrate_source
from trninfer.simulator.migrate.imports import Decorators, dotted_of, imported, is_old, without_old_annotations
from trninfer.simulator.migrate.names import Names
from trninfer.simulator.migrate.notes import CHECK, Note, Notes


def small(line):
    return cst.parse_statement(line).body[0]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("import neuronxcc.nki as nki", ["import nki"]),
        ("import neuronxcc.nki", ["import nki"]),
        ("import neuronxcc.nki.language as nl, os", ["import nki.language as nl", "import os"]),
        ("from neuronxcc import nki", ["import nki"]),
        ("from neuronxcc.nki import isa, language as nl", ["import nki.isa as isa", "import nki.language as nl"]),
        ("from neuronxcc.nki.language import par_dim, load as l", ["from nki.language import load as l"]),
        ("from neuronxcc.nki import benchmark, jit", ["from nki import jit"]),
        ("import neuronxcc", []),
        ("from nki.language import arange, mgrid", []),
        ("from neuronxcc.nki.typing import tensor", ["from nki.typing import tensor"]),
        ("import neuronxcc.nki.compiler as ncc", []),
        ("from neuronxcc.nki.isa import *", ["from nki.isa import *"]),
        ("from neuronxcc.nki._private_kernels.cumsum import cumsum, f as g", []),
        ("import neuronxcc.nki.kernels, neuronxcc.xla", []),
        ("from neuronxcc.nki.language import load, nothing", ["from nki.language import load"]),
    ],
)
def test_old_imports_are_replaced(old, new):
    assert is_old(small(old)) and [each.line for each in imported(small(old)) if each.line] == new


@pytest.mark.parametrize(
    "line",
    [
        "import nki, numpy as np",
        "from nki.language import load",
        "from . import a",
        "x = 1",
    ],
)
def test_other_lines_are_not_old(line):
    assert not is_old(small(line))


def test_dotted_texts():
    assert dotted_of(cst.parse_expression("a.b.c")) == "a.b.c" and dotted_of(None) == ""
    assert dotted_of(cst.parse_expression("a().b")) == dotted_of(cst.parse_expression("a[0]")) == ""


def decorated(*lines):
    text = "import nki, torch_neuronx, functools\nimport nki.language as nl\n" + "".join(f"{line}\n" for line in lines)
    text += "def kernel(a):\n    return a\n"
    notes = Notes()
    decorators = Decorators(Names(ast.parse(text)), notes)
    function = cst.parse_module(text).body[-1]
    changed = decorators.migrate(function, 3)
    shown = [cst.Module([]).code_for_node(each.decorator) for each in changed.decorators]
    return decorators.is_kernel(function), shown, notes.notes


@pytest.mark.parametrize(
    ("lines", "new"),
    [
        (["@nki.jit"], ["nki.jit"]),
        (["@nki.jit(debug=True)"], ["nki.jit(debug=True)"]),
        (['@nki.jit(mode="trace")'], ["nki.jit"]),
        (['@nki.jit(platform_target="trn2")'], ["nki.jit"]),
        (["@nki.trace"], ["nki.jit"]),
        (["@torch_neuronx.nki_jit"], ["nki.jit"]),
        (
            ["@nki.compiler.skip_middle_end_transformations", "@nki.jit", "@functools.cache"],
            ["nki.jit", "functools.cache"],
        ),
        (["@nki.baremetal(debug_kernel=True)", "@nki.jit"], ["nki.jit"]),
        (["@nl.force_auto_alloc", "@nki.trace"], ["nki.jit"]),
    ],
)
def test_decorators_become_one_of_today(lines, new):
    assert decorated(*lines) == (True, new, [])


@pytest.mark.parametrize("name", ["nki.benchmark", "nki.profile"])
def test_decorators_that_timed_kernels_are_noted(name):
    message = f"@{name} was removed: the kernel is jitted; trninfer simulate predicts its time"
    assert decorated(f"@{name}(warmup=5)") == (True, ["nki.jit"], [Note(3, CHECK, message)])


def test_other_functions_are_no_kernels():
    assert decorated("@functools.cache") == (False, ["functools.cache"], [])
    assert decorated() == (False, [], [])


def test_annotations_of_tensors():
    text = "import nki, nki.typing as nt\nimport nki.language as nl\n"
    names = Names(ast.parse(text))
    function = cst.parse_statement(
        "def f(a: nki.tensor, b: nt.mutable_tensor[4, 4], c: int, *, d: nl.tensor = None): ..."
    )
    new = cst.Module([]).code_for_node(without_old_annotations(function.params, names))
    assert new == "a: nl.NkiTensor, b: nl.NkiTensor, c: int, *, d: nl.NkiTensor = None"
    returned = cst.parse_statement("def f() -> nt.tensor[4]: ...").returns
    assert cst.Module([]).code_for_node(without_old_annotations(returned, names).annotation) == "nl.NkiTensor"


def test_enums_that_moved_into_nki_isa():
    text = "from neuronxcc.nki.isa.constants import oob_mode as mode, dge_mode\n\n\nSKIP = mode.skip, dge_mode.none\n"
    found = migrate_source(text)
    assert found.is_whole and found.text.startswith(
        "from nki.isa import oob_mode as mode\nfrom nki.isa import dge_mode\n"
    )
