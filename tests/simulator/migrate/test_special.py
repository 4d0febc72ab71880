"""memset, iota and affine_select, whose operands were index expressions."""

import numpy as np
import pytest
from migrated_kernels import computed_each, migrated_each, refused_each
from nki_tensors import normal

pytest.importorskip("libcst")

A = normal(4, 6)
ROW, COLUMN = np.arange(4)[:, None], np.arange(6)[None, :]
GRID = "i = nl.arange(4)[:, None]\nj = nl.arange(6)[None, :]\nx = nl.load(a)\n"


def test_special_instructions_agree_with_numpy():
    cases = [
        ("nisa.memset((4, 3), 2.5, dtype=nl.float32)", np.full((4, 3), 2.5)),
        ("nisa.iota(10 * i + j, dtype=nl.float32)", 10 * ROW + COLUMN),
        ("nisa.iota(expr=3 - 2 * j + 0 * i, dtype=nl.float32)", 3 - 2 * COLUMN + 0 * ROW),
        ("nisa.iota(nl.arange(6)[None, :] + 1, dtype=nl.float32)", COLUMN + 1),
        ("nisa.affine_select(pred=(i >= j), on_true_tile=x, on_false_value=-9.0)", np.where(ROW >= COLUMN, A, -9)),
        ("nisa.affine_select(i + 2 < 2 * j, x[i, j], 0.0, dtype=nl.float32)", np.where(ROW + 2 < 2 * COLUMN, A, 0)),
        (
            "nisa.affine_select(pred=(i <= j), on_true_tile=nisa.nc_matmul(x[:, 0:4], x), on_false_value=0.5)",
            np.where(ROW <= COLUMN, A[:, :4].T @ A, 0.5),
        ),
        ("nl.where(i + 1 >= j, x, -7.5)", np.where(ROW + 1 >= COLUMN, A, -7.5)),
        ("nl.where(i < 2, x[i, j], nl.full((4, 6), 0.25, dtype=nl.float32))", np.where(ROW < 2, A, 0.25)),
        ("nl.where(2 * j > i, x, 0)", np.where(2 * COLUMN > ROW, A, 0)),
        ("y = nl.ndarray((4, 6), dtype=nl.float32)\ny[i, j] = nisa.memset((4, 6), 3, dtype=nl.float32)", 3 + 0 * A),
    ]
    found = computed_each([(lines, expected.shape) for lines, expected in cases], GRID, A)
    for got, (lines, expected) in zip(found, cases, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5, err_msg=lines)


def test_engines_and_masks():
    cases = {
        "x[...] = nisa.memset((4, 6), 0, dtype=nl.int8, engine=nisa.unknown_engine)": "nisa.memset(dst=x, value=0)",
        "x[...] = nisa.memset((4, 6), 0, dtype=nl.int8, engine=nisa.vector_engine)": (
            "nisa.memset(dst=x, value=0, engine=nisa.engine.vector)"
        ),
        "x[i, j] = nisa.memset((4, 6), value=0, dtype=nl.int8, mask=i < n)": (
            "nisa.memset(dst=x[0 : min(4, n), 0:6], value=0)"
        ),
    }
    assert migrated_each(list(cases), GRID, "a, n") == list(cases.values())


def test_instructions_without_an_automatic_migration():
    cases = {
        "y = nisa.iota(4, dtype=nl.int32)": "nisa.iota supports only index arrays",
        "y = nisa.iota(x, dtype=nl.int32)": "nisa.iota supports only index arrays",
        "x[i, j] = nisa.iota(i + j, dtype=nl.int32, mask=i < n)": "nisa.iota with a mask",
        "y = nisa.affine_select(i < j, x, 0.0, mask=i < n)": "nisa.affine_select with a mask",
        "y = nisa.affine_select((i < j) & (i < 2), x, 0.0)": (
            "nisa.affine_select: pred is not a single comparison of index arrays"
        ),
        "y = nisa.affine_select(n > 0, x, 0.0)": "nisa.affine_select: pred is not a single comparison of index arrays",
        "y = nisa.affine_select(i < n, x, 0.0)": ("nisa.affine_select: pred does not cover all dimensions of the tile"),
    }
    assert refused_each(list(cases), GRID, "a, n") == list(cases.values())
