"""nl.load and nl.store of the first NKI: with masks, for vectors, and for tiles in PSUM."""

import numpy as np
import pytest
from migrated_kernels import migrated_each, refused_each, run_migrated
from nki_tensors import normal

pytest.importorskip("libcst")

A = normal(5, 7)
GRID = "i = nl.arange(128)[:, None]\nj = nl.arange(9)[None, :]\nn, m = a.shape\n"


@pytest.mark.parametrize("rows", [1, 3, 128])
def test_masks_leave_rows_and_columns_out(rows):
    body = f"""
        {GRID.replace(chr(10), "; ")}
        out = nl.zeros((n, m), dtype=a.dtype, buffer=nl.shared_hbm)
        x = nl.load(a[i, j], mask=(i < n) & (j < m))
        nl.store(out[i, j], 2 * x[i, j], mask=(i < n) & (j < m))
        return out
    """
    a = normal(rows, 7)
    np.testing.assert_array_equal(run_migrated(body, a), 2 * a)


@pytest.mark.parametrize("first", [0, 4])
def test_masks_shorten_slices(first):
    body = f"""
        n, m = a.shape
        rows = {first} + nl.arange(4)[:, None]
        out = nl.zeros((4, 7), dtype=a.dtype, buffer=nl.shared_hbm)
        x = nl.zeros((4, 7), dtype=a.dtype)
        x[:, :] = nl.load(a[{first} : {first} + 4, :], mask=rows < n)
        nl.store(out[:, :], 2 * x)
        nl.store(out[0:4, 0:3], x[0:4, 0:3], mask=(rows < n) & (nl.arange(3)[None, :] < 2))
        return out
    """
    expected = np.zeros((4, 7), np.float32)
    kept = A[first : first + 4]
    expected[: len(kept)] = np.concatenate([kept[:, :2], 2 * kept[:, 2:]], 1)
    np.testing.assert_array_equal(run_migrated(body, A), expected)


@pytest.mark.parametrize("odd", [False, True])
def test_masks_of_tiles_of_unknown_shape_keep_their_axes(odd):
    body = f"""
        out = nl.zeros((4, 3, 5), dtype=a.dtype, buffer=nl.shared_hbm)
        x = nl.load(a)
        if {odd}:
            y = x[:, :, :5]
        else:
            y = nl.exp(x)
        nl.store(out[:, :, :], y, mask=nl.arange(3)[None, :, None] < 2)
        return out
    """
    a = normal(4, 3, 5)
    expected = np.array(a if odd else np.exp(a))
    expected[:, 2] = 0
    np.testing.assert_allclose(run_migrated(body, a), expected, rtol=1e-5)


def test_vectors_are_columns_and_transposes_turned():
    body = """
        out = nl.ndarray((5, 1), dtype=v.dtype, buffer=nl.shared_hbm)
        turned = nl.ndarray((7, 5), dtype=a.dtype, buffer=nl.shared_hbm)
        product = nl.ndarray((7, 7), dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.load(v) * 2)
        nl.store(turned, nl.load_transpose2d(a))
        x = nl.load(a)
        nl.store(product, nisa.nc_matmul(x, x))
        return out, turned, product
    """
    out, turned, product = run_migrated(body, A, A[:, 0].copy(), parameters="a, v")
    np.testing.assert_array_equal(out, 2 * A[:, :1])
    np.testing.assert_array_equal(turned, A.T)
    np.testing.assert_allclose(product, A.T @ A, rtol=1e-4, atol=1e-5)


def test_loads():
    cases = {
        "x = nl.load(a)": "x = nl.load(a)",
        "x = nl.load(a, dtype=np.float16)": "x = nl.load(a, dtype=nl.float16)",
        "x = nl.load(a, dtype=None)": "x = nl.load(a)",
        "x = nl.load(a[i, j], mask=i < n, dtype=nl.bfloat16)": (
            "x = nl.ndarray((128, 9), dtype=nl.bfloat16, buffer=nl.sbuf)\n"
            "nisa.dma_copy(dst=x[0 : min(128, n)], src=a[0 : min(128, n), 0:9])"
        ),
        "x = nl.load(a, mask=k > 0)": (
            "x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)\nif k > 0:\n    nisa.dma_copy(dst=x, src=a)"
        ),
        "x = nl.load(b)": "x = nl.load(as_rows(b))",
        "x = nl.load(c[0:4])": "x = nl.load(as_rows(c[0:4]))",
    }
    assert migrated_each(list(cases), GRID, "a, b, c, k") == list(cases.values())


def test_stores():
    before = GRID + "x = nl.load(a[i, j])\np = nl.zeros((128, 9), nl.float32, buffer=nl.psum)\n"
    cases = {
        "nl.store(a, x)": "nl.store(a, x)",
        "nl.store(dst=a, value=p)": "nl.store(a, nl.copy(p))",
        "nl.store(a[i, j], value=x, mask=i < n)": "nl.store(a[0 : min(128, n), 0:9], x[0 : min(128, n)])",
        "nl.store(a[i, j], x[i, j], mask=i < n)": "nl.store(a[0 : min(128, n), 0:9], x[0 : min(128, n), 0:9])",
        "nl.store(a[i, j], nl.exp(x), mask=i < n)": (
            "tile_1 = nl.exp(x)\nnl.store(a[0 : min(128, n), 0:9], tile_1[0 : min(128, n)])"
        ),
        "nl.store(a, x, mask=k > 0)": "if k > 0:\n    nl.store(a, x)",
    }
    assert migrated_each(list(cases), before, "a, k") == list(cases.values())


def test_a_transposed_load_takes_no_mask():
    assert refused_each(["x = nl.load_transpose2d(a[i, j], mask=i < n)"], GRID) == [
        "nl.load_transpose2d does not accept a mask: shorten the slices with min(...)"
    ]
