"""Migration of a file: what is rewritten, what stays as it was, what is left to the author."""

import textwrap

import pytest

pytest.importorskip("libcst")
from trninfer.simulator.lint import check_source
from trninfer.simulator.migrate import CANNOT, CHECK, migrate_source

HEAD = """\
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np

"""


def migrated(body, parameters="a"):
    """The lines of a kernel's body once it is migrated, and its notes."""
    text = f"{HEAD}@nki.jit\ndef kernel({parameters}):\n{textwrap.indent(textwrap.dedent(body), '    ')}"
    migration = migrate_source(text)
    lines = migration.text.split(f"def kernel({parameters}):\n")[1]
    return textwrap.dedent(lines).strip("\n"), migration


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("t = nl.ndarray((nl.par_dim(128), 4), dtype=np.float32)", "dtype=nl.float32, buffer=nl.sbuf)"),
        ("for i in nl.affine_range(4):\n    pass", "for i in range(4):"),
        ("for i in nl.static_range(1, 4, 2):\n    pass", "for i in range(1, 4, 2):"),
        ("x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.hbm)", "buffer=nl.shared_hbm"),
        ("x = nl.load(a[nl.arange(64)[:, None], nl.arange(8)[None, :]])", "nl.load(a[0:64, 0:8])"),
        ("x = nl.load(a[nl.arange(64)[:, None], 2 * nl.arange(8)[None, :] + 1])", "a[0:64, 1:16:2]"),
        ("x = nl.load(a[3, nl.arange(8)[None, :]])", "a[3:4, 0:8]"),
        ("i, j = nl.mgrid[0:4, 0:8]\nx = nl.load(a[j, i])", "a.ap([[a.strides[1], 4], [a.strides[0], 8]]"),
    ],
)
def test_expressions(old, new):
    body, migration = migrated(old)
    assert new in body
    assert migration.is_whole


def test_a_mask_shortens_loads_stores_and_what_is_reduced():
    body, migration = migrated("""
        n, m = a.shape
        i = nl.arange(128)[:, None]
        j = nl.arange(m)[None, :]
        t = nl.load(a[i, j], mask=i < n)
        s = nisa.tensor_reduce(np.add, t[i, j], axis=[1], mask=j < m - 1)
    """)
    assert "nisa.dma_copy(dst=t[0 : min(128, n)], src=a[0 : min(128, n), 0:m])" in body
    assert "data=t[0:128, 0 : min(m, m - 1)]" in body
    assert migration.is_whole


def test_comments_and_layout_stay():
    text = f'''{HEAD}
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


def test_a_file_without_kernels_or_in_today_s_dialect_is_unchanged():
    for text in (
        "import os\nprint( os )\n",
        "import nki\nimport nki.language as nl\n\n\n@nki.jit\ndef k(a, b):\n    x = nl.load(a)\n"
        "    y = nl.add(x, x)\n    for i in range(3):\n        y = nl.add(y, b[i])\n    return y\n",
    ):
        migration = migrate_source(text)
        assert migration.text == text
        assert migration.notes == ()


@pytest.mark.parametrize(
    ("old", "why"),
    [
        ("i = nl.arange(4)[:, None]\nj = nl.arange(4)[None, :]\nx = nl.load(a[i, j], mask=i + j < 4)", "no rectangle"),
        ("x = nl.load(a[nl.arange(4)[:, None] * nl.arange(4)[None, :], 0])", "not an affine index"),
        ("nl.atomic_rmw(a, a, op=np.add)", "use nisa.dma_compute"),
        ("x = nisa.builtin_custom_op('f', [], [])", "there is no replacement"),
        ("nisa.dma_copy(dst=a, src=a, dst_rmw_op=np.add)", "nisa.dma_compute"),
        ("x = [nisa.tensor_copy(t) for t in [nl.load(a)]]", "inside of a comprehension"),
    ],
)
def test_what_has_no_counterpart_stays_with_a_comment_and_a_note(old, why):
    body, migration = migrated(old)
    last = old.splitlines()[-1]
    assert "# migrate: " in body
    assert last in body
    assert why in " ".join(note.message for note in migration.notes if note.kind == CANNOT)
    assert not migration.is_whole
    line = HEAD.count("\n") + 2 + len(old.splitlines())
    assert line in [note.line for note in migration.notes]


def test_an_index_array_that_something_left_over_needs_stays_too():
    body, _ = migrated("i = nl.arange(4)[:, None]\nnl.atomic_rmw(a[i, 0], i, op=np.add)")
    assert "i = nl.arange(4)[:, None]" in body


@pytest.mark.parametrize(
    ("loop", "why"),
    [
        ("for i in nl.dynamic_range(4):\n    if i:\n        break", "`break`"),
        ("total = 0\nfor i in nl.dynamic_range(4):\n    total += 1", "hands on total"),
        ("for i in nl.dynamic_range(4):\n    last = i\nprint(last)", "hands on last"),
    ],
)
def test_loops_of_the_device_that_no_function_can_stand_for(loop, why):
    text = f"import nki\nimport nki.language as nl\n\n@nki.jit\ndef kernel(a):\n{textwrap.indent(loop, '    ')}\n"
    migration = migrate_source(text)
    assert why in migration.notes[0].message
    assert "for i in nl.dynamic_range(4):" in migration.text


def test_what_only_the_first_compiler_took_is_left_out_and_told():
    text = HEAD + (
        "@nki.compiler.skip_middle_end_transformations\n@nki.benchmark(warmup=5)\ndef kernel(a):\n"
        "    t = nl.ndarray((nl.par_dim(128), 4), dtype=a.dtype, buffer=nki.compiler.sbuf.alloc(base_addr=0))\n"
        "    return t\n"
    )
    migration = migrate_source(text)
    assert "@nki.jit\ndef kernel(a):\n    t = nl.ndarray((128, 4), dtype=a.dtype, buffer=nl.sbuf)\n" in migration.text
    told = [note.message for note in migration.notes if note.kind == CHECK]
    assert any("is left to the compiler" in message for message in told)
    assert any("nki.benchmark is gone" in message for message in told)


def test_a_file_that_is_no_python_is_refused():
    with pytest.raises(SyntaxError):
        migrate_source("def (\n")


def test_helpers_are_added_once_and_lint_clean():
    body, migration = migrated("x = nl.load(a)\ny = nl.load(a[0:1])\nz = x * y\nw = x - y\nreturn w")
    assert migration.text.count("def elementwise(") == 1
    assert "z = elementwise(nl.multiply, x, y)" in body
    assert not check_source(migration.text)
