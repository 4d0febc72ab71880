"""Helpers and imports added to a migrated file: only the missing ones, in the right place."""

import ast

import pytest

pytest.importorskip("libcst")
import libcst as cst
from trninfer.simulator.migrate.additions import with_support
from trninfer.simulator.migrate.names import Names


def added(text, *helpers):
    return with_support(cst.parse_module(text), Names(ast.parse(text)), set(helpers)).code


@pytest.mark.parametrize(
    "text",
    [
        "import os\nprint(os.path)\n",
        "import nki.language as nl\nx = nl.float32\n",
        "from nki import jit, language as nl\n\n\n@jit\ndef kernel(a):\n    return nl.load(a)  # not nisa.x\n",
        "",
    ],
)
def test_a_file_that_lacks_nothing_stays(text):
    assert added(text) == text


def test_missing_imports_follow_existing_imports():
    text = '"""Doc."""\nimport os\n\nX = 1\nimport sys\n\n\ndef f(a):\n    nisa.iota(a, nl.float32)\n\n\nimport re\n'
    assert added(text) == text.replace(
        "import sys\n", "import sys\nimport nki.isa as nisa\nimport nki.language as nl\n"
    )


@pytest.mark.parametrize(
    ("text", "new"),
    [
        ('"""Doc."""\nx = nki.jit\n', '"""Doc."""\nimport nki\nx = nki.jit\n'),
        ("x = nki.jit\n", "import nki\nx = nki.jit\n"),
        (
            "def f():\n    import nki\n    return nki.jit\n",
            "import nki\ndef f():\n    import nki\n    return nki.jit\n",
        ),
    ],
)
def test_a_file_without_imports_gets_them_at_the_top(text, new):
    assert added(text) == new


def test_helpers_and_their_imports_precede_the_code():
    text = (
        "import nki\nimport nki.language as own\n\n\n@nki.jit\ndef kernel(a):\n"
        "    assign(a, 0)\n    elementwise(own.add, a, a)\n"
    )
    new = added(text, "assign", "elementwise")
    before, comment, after = new.partition("\n\n# Helpers that trninfer migrate added\n")
    assert before == "import nki\nimport nki.language as own\nimport math\nimport nki.isa as nisa\n" and comment
    assert after.endswith(text.partition("own\n")[2])
    defined = [node.name for node in ast.parse(new).body if isinstance(node, ast.FunctionDef)]
    assert defined[-1] == "kernel" and set(defined) == {
        "kernel", "assign", "elementwise", "wider_dtype", "stretched", "common_shape",
    }  # fmt: skip
    assert "own.NkiTensor" in after and "nl.NkiTensor" not in after
