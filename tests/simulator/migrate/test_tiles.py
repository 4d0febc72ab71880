"""Functions of tiles, Python operators on tiles, and methods, migrated and compared with NumPy."""

import numpy as np
import pytest
from migrated_kernels import computed_each, migrated, migrated_each, refused_each
from nki_tensors import normal

pytest.importorskip("libcst")
from trninfer.simulator.migrate.tiles import BINARY, OPERATORS, UNARY
from trninfer.simulator.nki.api import table

A, CUBE = normal(4, 6), normal(4, 2, 3)
POSITIVE = np.abs(A) + 0.5
INTEGERS = np.arange(24, dtype=np.int32).reshape(4, 6)


def compare(cases, before, *arguments):
    found = computed_each([(lines, expected.shape) for lines, expected in cases], before, *arguments)
    for got, (lines, expected) in zip(found, cases, strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-5, err_msg=lines)


def test_operators_of_python():
    c = A[:, :1]
    cases = [
        ("x + 1.5", A + 1.5),
        ("2 - x * c", 2 - A * c),
        ("c / p", c / POSITIVE),
        ("x / 4", A / 4),
        ("1 / (p + 1)", 1 / (POSITIVE + 1)),
        ("p ** 2", POSITIVE**2),
        ("-x", -A),
        ("+x", A),
        ("x > c", c < A),
        ("x <= c", c >= A),
        ("0 != (x == c)", c == A),
        ("x / (c.shape[1] + 1)", A / 2),
    ]
    compare(cases, "x = nl.load(a)\np = nl.abs(x) + 0.5\nc = nl.copy(x[:, 0:1])", A)


def test_only_one_operand_is_in_psum():
    cases = [
        ("t + t", 2 * A.T),
        ("nl.multiply(t, u)", A.T * A.T),
        ("nl.maximum(t, u[:, 0:1])", np.maximum(A.T, A.T[:, :1])),
        ("nisa.tensor_tensor(t, u, op=np.add)", 2 * A.T),
        ("nisa.scalar_tensor_tensor(data=t, op0=np.multiply, operand0=2.0, op1=np.add, operand1=u)", 3 * A.T),
        ("nl.where(t > u, t, u)", A.T),
        ("y = nl.copy(x)\ny = nisa.nc_transpose(x)\ny += t", 2 * A.T),
    ]
    compare(cases, "x = nl.load(a)\nt = nisa.nc_transpose(x)\nu = nisa.nc_transpose(x)", A)
    (line,) = migrated_each(["y = x + t"], "x = nl.load(a[0:4, 0:4])\nt = nisa.nc_transpose(x)\n")
    assert line == "y = nl.add(x, t)"


def test_operators_on_integers():
    cases = [
        ("x & 5", INTEGERS & 5),
        ("x | 5", INTEGERS | 5),
        ("x ^ x[:, 0:1]", INTEGERS ^ INTEGERS[:, :1]),
        ("(x << 1) >> 2", (INTEGERS << 1) >> 2),
        ("~x", ~INTEGERS),
    ]
    compare(cases, "x = nl.load(a)", INTEGERS)


def test_functions_of_tiles():
    c = A[:, :1]
    cases = [
        ("nl.add(x, c)", A + c),
        ("nl.subtract(1.0, x)", 1 - A),
        ("nl.divide(x, p)", A / POSITIVE),
        ("nl.maximum(x, 0.0)", np.maximum(A, 0)),
        ("nl.exp(x, dtype=np.float32)", np.exp(A)),
        ("nl.rsqrt(nisa.nc_transpose(p))", 1 / np.sqrt(POSITIVE.T)),
        ("nl.where(x > c, x, -1.0)", np.where(c < A, A, -1)),
        ("nl.where(x > 0, c, x)", np.where(A > 0, c, A)),
        ("nl.softmax(x, axis=1)", np.exp(A) / np.exp(A).sum(1, keepdims=True)),
        ("nl.matmul(x, x, transpose_x=True)", A.T @ A),
        ("nl.matmul(nl.transpose(x), x[:, 0:2])", A.T @ A[:, :2]),
        ("nl.transpose(x)", A.T),
        ("nl.expand_dims(c, 2)[:, :, 0]", c),
    ]
    compare(cases, "x = nl.load(a)\np = nl.abs(x) + 0.5\nc = nl.copy(x[:, 0:1])", A)


@pytest.mark.parametrize("shape", ["a.shape", "(4, 2, 3)"], ids=["a shape that is not written", "a shape that is"])
def test_reductions(shape):
    cases = [
        ("nl.sum(x, axis=2)", CUBE.sum(2)),
        ("nl.max(x, axis=[1, 2])", CUBE.max((1, 2))[:, None]),
        ("nl.sum(x, axis=(-2, -1), keepdims=True)[:, :, 0]", CUBE.sum((1, 2))[:, None]),
        ("nl.mean(x, axis=[-1])", CUBE.mean(-1)),
    ]
    if shape != "a.shape":
        cases.append(("nl.sum(x, axis=1)", CUBE.sum(1)))
    compare(cases, f"x = nl.ndarray({shape}, dtype=a.dtype)\nx[...] = nl.load(a)", CUBE)


def test_a_mask_leaves_columns_out_of_a_reduction():
    before = "i, j = nl.mgrid[0:4, 0:6]\nx = nl.load(a[i, j])\nn = 4"
    compare([("nl.sum(x[i, j], axis=1, mask=j < n)", A[:, :4].sum(1, keepdims=True))], before, A)
    text = migrated_each(["y = nl.max(x[i, j], axis=1, mask=(i < n) & (j < 3))"], before + "\n")
    assert text == ["y = nl.max(x[0:4, 0:3], axis=1)"]  # masked-out rows were undefined


def test_methods_of_tiles():
    cases = [
        ("c.broadcast_to((4, 6))", np.broadcast_to(A[:, :1], (4, 6))),
        ("c.broadcast_to(shape=x.shape)", np.broadcast_to(A[:, :1], (4, 6))),
        ("x.reshape((4, 6 / 2, 2))[:, 1, :]", A[:, 2:4]),
        ("x.reshape(4, 2, 3)[:, 1, :]", A[:, 3:]),
        ("nl.copy(x.reshape((4, 2, 3)).permute((0, 2, 1)))[:, 1, :]", A[:, [1, 4]]),
        ("nl.broadcast_to(c, shape=(4, 6))", np.broadcast_to(A[:, :1], (4, 6))),
        ("nl.broadcast_to(src=c, shape=(4, 6))", np.broadcast_to(A[:, :1], (4, 6))),
    ]
    compare(cases, "x = nl.load(a)\nc = nl.copy(x[:, 0:1])", A)


def test_texts():
    before = "x = nl.load(a[0:4, 0:6])\nf = nl.ndarray((4, 6), dtype=nl.float32)\n"
    before += "p = nl.zeros((4, 4), nl.float32, buffer=nl.psum)\n"
    cases = {
        "y = nl.add(2, n, dtype=np.int8)": "y = nl.add(2, n, dtype=nl.int8)",
        "y = x * x": "y = nl.multiply(x, x)",
        "y = x * f": "y = elementwise(nl.multiply, x, f)",
        "y = nl.add(x, f, dtype=nl.int8)": "y = elementwise(nl.add, x, f, dtype=nl.int8)",
        "y = x / n": "y = nl.multiply(x, 1.0 / n)",
        "y = x / (n + 1)": "y = nl.multiply(x, 1.0 / (n + 1))",
        "y = nl.sum(x, axis=1, dtype=None)": "y = nl.sum(x, axis=1)",
        "y = nl.exp(x, mask=n > 0)": "y = nl.exp(x)",
        "y = nl.ds(n, 4 - 2)": "y = nl.ds(n, 4 - 2)",
        "y = n * 2 + 1": "y = n * 2 + 1",
        "y = x.shape[0] * 2": "y = x.shape[0] * 2",
        "y = nl.where(x, f, x)": "y = nl.where(x, f, x)",
        "y = nl.rsqrt(p)": "y = nl.rsqrt(nl.copy(p))",  # GpSimd, which computes it, cannot read PSUM
        "y = nl.matmul(x, f[:, 0:5], transpose_x=True).reshape((6, 5))": (
            "y = nl.matmul(x, f[:, 0:5], transpose_x=True).reshape((6, 5))"
        ),
        "y = nisa.bn_stats(nl.copy(nl.matmul(x, f, transpose_x=True)))": (
            "tile_1 = nl.copy(nl.matmul(x, f, transpose_x=True))\n"
            "y = nl.ndarray((6, 6), dtype=nl.float32, buffer=nl.sbuf)\nnisa.bn_stats(dst=y, data=tile_1)"
        ),
    }
    assert migrated_each(list(cases), before, "a, n") == list(cases.values())


def test_calls_without_an_automatic_migration():
    before = "x = nl.load(a)\ni = nl.arange(4)[:, None]\n"
    cases = {
        "y = x // 2": "x // 2: tiles do not support this operator",
        "y = nl.loop_reduce(x, np.add, [n])": (
            "nl.loop_reduce: assign its result to a tile in a statement of its own, t[...] = nl.loop_reduce(...)"
        ),
        "y = nl.all_reduce(x)": "nl.all_reduce: use nki.collectives.all_reduce",
        "nl.atomic_rmw(x, x)": "nl.atomic_rmw: use nisa.dma_compute",
        "y = nl.matmul(x, x, mask=i < n)": "nl.matmul does not accept a mask: slice its operands instead",
        "y = nl.where(i < n, x, 0)": "nisa.affine_select: pred does not cover all dimensions of the tile",
        "y = nl.where(i < n, 0, x)": "nl.where of a condition on index arrays, unless x is a tile and y a number",
        "y = nl.arange(0, n, 2)": "nl.arange with a step",
    }
    assert refused_each(list(cases), before, "a, n") == list(cases.values())


def test_every_function_is_one_of_today():
    today = {f["name"] for f in table()["functions"] if f["module"] == "nki.language"}
    assert set(OPERATORS.values()) <= today and set(OPERATORS.values()) <= BINARY | UNARY
    assert (BINARY | UNARY) - today <= {"fmod", "mod", "cos", "tan", "floor", "ceil", "trunc", "negative", "bypass"}


def test_a_product_by_an_operator():
    assert "y = nl.matmul(x, x)" in migrated("x = nl.load(a[0:4, 0:4])\ny = x @ x")
