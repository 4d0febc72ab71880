"""Statements: assignments to names and parts of tiles, in-place sums, and statements that are removed."""

import numpy as np
import pytest
from migrated_kernels import computed_each, migrated, migrated_each, refused_each
from nki_tensors import normal

pytest.importorskip("libcst")
from trninfer.simulator.migrate.layout import enclosed

A = normal(4, 6)
GRID = "i = nl.arange(4)[:, None]\nj = nl.arange(3)[None, :]\nx = nl.load(a)\n"


def test_values_of_parts_that_are_written():
    p = A @ A.T
    begin = "y = nl.ndarray((4, 6), dtype=nl.float32)\ny[...] = x\n"
    square = "y = nl.zeros((4, 4), dtype=nl.float32, buffer=nl.psum)\n"
    turned = "t = nl.copy(nl.transpose(x))\n"
    cases = [
        (begin + "y[i, j] = 5", np.hstack([np.full((4, 3), 5), A[:, 3:]])),
        (begin + "y[i, j + 3] = x[i, j] * 2", np.hstack([A[:, :3], 2 * A[:, :3]])),
        (begin + "y[:, 0:3] = nisa.tensor_scalar(x[:, 3:6], np.add, 1.0)", np.hstack([A[:, 3:] + 1, A[:, 3:]])),
        (begin + "y[i, j] = nl.load(a[i, j + 3])", np.hstack([A[:, 3:], A[:, 3:]])),
        (begin + "y[i, j] = nl.exp(x[i, j], mask=j < 2)", np.hstack([np.exp(A[:, :2]), A[:, 2:]])),
        (begin + "y[i, j] = nl.multiply(x[i, j], 2.0, mask=n > 3)", A),
        (begin + "y[i, j] = nisa.nc_transpose(t[0:3, :])", A),
        (begin + "y += x", 2 * A),
        (begin + "y -= 1.0", A - 1),
        (begin + "y[i, j] *= x[i, j]", np.hstack([A[:, :3] ** 2, A[:, 3:]])),
        (begin + "y /= nl.abs(x) + 1.0", A / (abs(A) + 1)),
        (begin + "y *= nl.copy(x[:, 0:1])", A * A[:, :1]),
        (square + "for k in nl.affine_range(2):\n    y += nisa.nc_matmul(t, t)", 2 * p),
        (square + "y[...] += nl.matmul(t, t, transpose_x=True)\ny += nl.matmul(x, t)", 2 * p),
        (square + "y[...] = nisa.nc_matmul(t, t)\ny[...] = nisa.nc_matmul(t, t)\ny += nl.copy(y)", 2 * p),
        ("y = x\ny = nisa.tensor_scalar(y, np.add, 1.0)", A + 1),
        ("y: nl.tensor = x + 1.0", A + 1),
        ("y = z = x * 2.0", 2 * A),
        ("u, y = n, x * 2.0", 2 * A),
        ("y = [x, x * 2.0][1]", 2 * A),
        ("y = x\nif n > 3:\n    y = y + 1.0\nelif n == 3: y = y * 3.0\nelse:\n    y = y * 2.0", 3 * A),
        ("y = nl.zeros((4, 6), nl.float32)\nwhile n < 5:\n    n += 1\n    y = y + x", 2 * A),
    ]
    found = computed_each([(lines, expected.shape) for lines, expected in cases], GRID + turned + "n = 3", A)
    for got, (lines, expected) in zip(found, cases, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5, err_msg=lines)


def test_a_loop_that_reduces_copies_in_its_first_turn():
    lines = """\
y = nl.ones((4, 6), dtype=nl.float32)
for k in nl.affine_range(1, 4):
    for m in nl.affine_range(2):
        y[...] = nl.loop_reduce(nl.multiply(x, k + m), op=np.add, loop_indices=[k, m])"""
    (got,) = computed_each([(lines, (4, 6))], "x = nl.load(a)", A)
    np.testing.assert_allclose(got, A * sum(k + m for k in range(1, 4) for m in range(2)), rtol=1e-5)


def test_texts():
    cases = {
        "k = i + 1": "",
        "k, m = i, n": "m = n",
        "k, (m, q) = n, n": "k, (m, q) = n, n",
        "m = n; q = nisa.tensor_copy(x)": (
            "m = n\nq = nl.ndarray(x.shape, dtype=a.dtype, buffer=nl.sbuf)\nnisa.tensor_copy(dst=q, src=x)"
        ),
        "m: int = n + 1": "m: int = n + 1",
        "m: nl.tensor[4, 6] = nl.copy(x)": "m: nl.tensor[4, 6] = nl.copy(x)",
        "x[0:4] = n": "assign(x[0:4], n)",
        "x[0:4] = -2": "nisa.memset(dst=x[0:4], value=-2)",
        "n[0] = x": "n[0] = x",
        "a[0:4] = x": "nisa.dma_copy(dst=a[0:4], src=x)",
        "p[r, f] = nisa.nc_transpose(x[i, j], mask=j < 2)": "nisa.nc_transpose(dst=p[0:2, 0:4], data=x[0:4, 0:2])",
        "n += 2": "n += 2",
        "n[0] += nl.tile_size.pmax": "n[0] += nl.tile_size.pmax",
        "m = [x]\nm[0] = 3": "m = [x]\nm[0] = 3",
        "assert n > 1, (n,\n    2)": "assert n > 1, (n,\n    2)",
        "x": "x",
        "n(x)": "n(x)",
        "nl.load(a) ": "nl.load(as_rows(a))",
    }
    before = GRID + "p = nl.zeros((3, 4), a.dtype, buffer=nl.psum)\nr, f = nl.mgrid[0:3, 0:4]\n"
    assert migrated_each(list(cases), before, "a, n") == list(cases.values())
    assert migrated("x = nl.load(a[0:4, 0:4])\ny = (x +\n        x)").endswith("y = nl.add(x, x)")


def test_comments_of_what_nothing_is_left_of_go_to_the_next_statement():
    assert migrated("# rows\ni = nl.arange(4)[:, None]\n# one\nx = nl.load(a[i, 3])") == (
        "# rows\n# one\nx = nl.load(a[0:4, 3:4])"
    )


def test_statements_without_an_automatic_migration():
    cases = {
        "x //= 2": "x //= 2: tiles do not support this operator",
        "i += 1": "an index array cannot be changed in place",
        "n.k, m = i, 1": "index arrays may be unpacked only into names",
        "x[...] = nl.loop_reduce(x, op=np.add, loop_indices=[n])": (
            "nl.loop_reduce may reduce only over the variables of enclosing loops"
        ),
        "p += nl.matmul(x, x, mask=i < n)": "nl.matmul does not accept a mask: slice its operands instead",
        "p += nl.matmul(x, x, transpose_x=n)": "transpose_x of nl.matmul must be a constant",
    }
    before = GRID + "p = nl.zeros((4, 4), nl.float32, buffer=nl.psum)\n"
    assert refused_each(list(cases), before, "a, n") == list(cases.values())


def test_brackets_for_several_lines():
    assert enclosed("a + b") == "a + b" and enclosed("f(a,\n  b)") == "f(a,\n  b)"
    assert enclosed("a +\n  b") == "(a +\n  b)" and enclosed("a\n  + b") == "(a\n  + b)"
    assert enclosed("'''x\ny'''") == "'''x\ny'''"
