"""Migration of a file: rewritten, unchanged, and unsupported statements."""

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("libcst")
from migrated_kernels import FIRST, migrate_kernel, migrated
from trninfer.simulator.checking.lint import check_source
from trninfer.simulator.migrate import CANNOT, migrate_source
from trninfer.simulator.migrate.notes import MARK


def test_comments_and_layout_stay():
    text = f'''{FIRST}
@nki.jit
def kernel(a):
    """Documented."""
    out = nl.ndarray(a.shape, dtype=a.dtype,
                     buffer=nl.shared_hbm)  # the result

    # a comment of its own
    x = nl.load(a)   # and another
    nl.store(out, x)
    return out  # done


def host( x ):
    return  x+1
'''
    new = migrate_source(text).text
    for kept in ('"""Documented."""', "# the result", "    # a comment of its own\n", "# and another", "# done"):
        assert kept in new
    assert "def host( x ):\n    return  x+1\n" in new


@pytest.mark.parametrize(
    "text",
    [
        "import os\nprint( os )\n",
        "from nki import jit\nimport nki.language as nl\n\n\n@jit\ndef k(a, b):\n    x = nl.load(a)\n"
        "    y = nl.add(x, x)\n    for i in range(3):\n        y = nl.add(y, b[i])\n    return y\n",
    ],
    ids=["without kernels", "in today's dialect"],
)
def test_a_file_that_needs_nothing_is_unchanged(text):
    migration = migrate_source(text)
    assert (migration.text, migration.notes) == (text, ())


@pytest.mark.parametrize(
    ("before", "line", "why"),
    [
        ("i, j = nl.mgrid[0:4, 0:4]\n", "x = nl.load(a[i, j], mask=i + j < 4)", "the mask does not select a rectangle"),
        ("if n:\n    ", "nl.atomic_rmw(a, a, op=np.add)", "nl.atomic_rmw: use nisa.dma_compute"),
        ("try: ", "x = nisa.builtin_custom_op('f', [], [])\nfinally: pass", "there is no replacement"),
    ],
)
def test_code_without_a_counterpart_is_kept_with_a_comment_and_a_note(before, line, why):
    migration = migrate_kernel(before + line, "a, n")
    (note,) = migration.notes
    assert (note.kind, note.line) == (CANNOT, FIRST.count("\n") + 3 + before.count("\n")) and why in note.message
    lines = [line.strip() for line in migration.text.splitlines()]
    assert lines[lines.index(MARK + note.message) + 1] == line.splitlines()[0]
    assert not migration.is_whole


def test_an_index_array_that_something_left_over_needs_stays_too():
    text = migrate_kernel("i = nl.arange(4)[:, None]\nnl.atomic_rmw(a[i, 0], i, op=np.add)").text
    assert "i = nl.arange(4)[:, None]" in text


def test_blocks_of_all_kinds():
    old = (
        "with nl.no_reorder():\n    x = nl.load(a)\ntry:\n    x = nl.load(a)\nexcept ValueError:\n    x = nl.load(a)\n"
    )
    old += "else:\n    x = nl.load(a)\nfinally:\n    x = nl.load(a)\nif n: x = nl.load(a); x += 1\nelse: pass\n"
    old += "for k in nl.affine_range(2): x = nl.load(a)\nwhile n: i = nl.arange(4)\n"
    text = migrated(old, "a, n")
    assert text.count("x = nl.load(as_rows(a))") == 7
    assert text.endswith("else: pass\nfor k in range(2):\n    x = nl.load(as_rows(a))\nwhile n:\n    pass")


def test_functions_know_each_other_in_any_order():
    """Functions may call ones that are defined later, and one of them does not mention NKI."""
    text = FIRST + (
        "@nki.jit(mode='trace')\ndef none(a):\n    return a\n\n\n"
        "@nki.jit(mode='trace')\ndef kernel(a):\n    return first(a) + 1.0\n\n\n"
        "def first(a):\n    return second(a)\n\n\n"
        "def second(a):\n    return nl.load(a)\n\n\ndef host(a):\n    return kernel(a) + 1.0\n"
    )
    new = migrate_source(text).text
    assert "@nki.jit\ndef kernel(a):\n    tile_1 = nl.add(first(a), 1.0)\n    output_2 = nl.ndarray(" in new
    assert "@nki.jit\ndef none(a):\n" in new and "return kernel(a) + 1.0" in new  # on the host it is an array


def test_a_file_that_is_no_python_is_refused():
    with pytest.raises(SyntaxError):
        migrate_source("def (\n")


def test_helpers_are_added_once_and_lint_clean():
    migration = migrate_kernel("x = nl.load(a)\ny = nl.load(a[0:1])\nz = x * y\nw = x - y\nreturn w")
    assert migration.text.count("def elementwise(") == 1
    assert "z = elementwise(nl.multiply, x, y)" in migration.text
    assert not check_source(migration.text)


LINES = st.sampled_from(
    [
        "i = nl.arange(4)[:, None]",
        "j, k = nl.mgrid[0:4, 0:n]",
        "x = nl.load(a[i, j], mask=i < n)",
        "x[i, k] = nl.exp(x) / n",
        "t = nl.zeros((2, nl.par_dim(4), 8), nl.float32, buffer=nl.psum)",
        "t[0] += nisa.nc_matmul(x, x)",
        "for i in nl.affine_range(4): t[i] = x; n += i",
        "y = [nisa.tensor_copy(x) for x in t]",
        "p = nl.program_id(1)",
        "nl.store(a[p, k], value=x @ x[...])",
        "x = nisa.tensor_reduce(np.add, [x], axis=n)",
        "(a.b, *c), d = x[::-1], lambda i: i @ x",
        "while i: i = -i",
        "del x",
        "return x",
    ]
)


@settings(max_examples=12)
@given(st.lists(LINES, max_size=8))
def test_any_mixture_is_migrated_without_an_error(lines):
    migration = migrate_kernel("\n".join([*lines, "pass"]), "a, n")
    ast.parse(migration.text)
    assert migration.is_whole == (MARK not in migration.text)
