"""Expressions: those with the same meaning stay identical, and index arrays and masks become parts of subscripts."""

import numpy as np
import pytest
from migrated_kernels import LATER, computed_each, migrated, migrated_each, refused_each
from nki_tensors import counted

pytest.importorskip("libcst")

A = counted(6, 8)
GRID = "i = nl.arange(4)[:, None]\nj = nl.arange(6)[None, :]\nx = nl.load(a)\n"


def test_unchanged_code_is_kept_verbatim():
    cases = [
        "y = [ k*2 for k in range( 4 ) if n ]",
        "y = lambda x, i: (x+i)[ i ]",
        "y = {'a': n, **n}",
        "y = f'{n:>4}' if n else b'e'",
        "y = table[1:, ::2] , table [ 3 ]",
        "y = (n and not n) or n",
        "y = n < 3 <= n",
        "y = -n + n @ n // ~n",
        "y = sum(n, start=1)",
        "n.append(n)",
    ]
    assert migrated_each(cases, "", "n") == cases
    assert migrated_each(cases, "", "n", LATER) == cases


def test_index_arrays():
    i, j = np.arange(4)[:, None], np.arange(6)[None, :]
    cases = [
        ("nl.load(a[i, j])", A[i, j]),
        ("nl.load(a[i + 1, 2 + j])", A[i + 1, 2 + j]),
        ("nl.load(a[2 + i, (7 - 1) - 5 + j])", A[2 + i, 1 + j]),
        ("g = nl.mgrid[0:4, 0:6]\ny = nl.load(a[g.p, g.x + 1])", A[i, j + 1]),
        ("g = nl.mgrid[1:5, 0:6]\ny = nl.load(a[g])", A[i + 1, j]),
        ("p, f = nl.mgrid[2:6, 1:7]\ny = nl.load(a[p, f])", A[i + 2, j + 1]),
        ("k = i + n\ny = nl.load(a[k - 1, j * 1])", A[i, j]),
        ("k = i if n < 0 else i + 2\ny = nl.load(a[k, j])", A[i + 2, j]),
        ("k = j if n < 0 else j + n\ny = nl.load(a[i, k])", A[i, j + 1]),
        ("k = nl.arange(6)\ny = nl.load(a[i, k[None, :]])", A[i, j]),
        ("nl.load(a[i, -(-j)])", A[i, j]),
    ]
    found = computed_each([(lines, expected.shape) for lines, expected in cases], GRID + "n = 1", A)
    for got, (lines, expected) in zip(found, cases, strict=True):
        np.testing.assert_array_equal(got, expected, err_msg=lines)


ROWS_OF_MASKS = {
    "i < n": "0 : min(4, n)",
    "i <= n": "0 : min(4, n + 1)",
    "n > i": "0 : min(4, n)",
    "n >= i": "0 : min(4, n + 1)",
    "i > 1": "2:4",
    "2 <= i": "2:4",
    "i == 2": "2:3",
    "1 <= i < 3": "1:3",
    "(i < 3) & (i >= 1) & (i < 2)": "1:2",
    "2 * i + 1 < 6": "0:3",
    "i + j * 0 < 3": "0:3",
    "-i >= -2": "0:3",
}


def test_masks():
    cases = [f"x[i, j] = nisa.tensor_copy(x[i, j], mask={condition})" for condition in ROWS_OF_MASKS]
    assert migrated_each(cases, GRID, "a, n") == [
        f"nisa.tensor_copy(dst=x[{rows}, 0:6], src=x[{rows}, 0:6])" for rows in ROWS_OF_MASKS.values()
    ]


def test_names_inside_comprehensions_are_their_own():
    text = migrated(GRID + "y = [i + 1 for i in range(3)]\nz = (lambda x: x * 2)(3)\nw = x[i, j]")
    assert text.splitlines()[-3:] == ["y = [i + 1 for i in range(3)]", "z = (lambda x: x * 2)(3)", "w = x[0:4, 0:6]"]


def test_index_arrays_that_branches_and_turns_assign():
    i, j = np.arange(4)[:, None], np.arange(6)[None, :]
    branch = "if n > 0:\n    k = j + 1\nelse:\n    k = {}\ny = nl.load(a[i, k])"
    loop = "for m in range(2):\n    k = j + m\n    y = nl.load(a[i, k])"
    found = computed_each([(branch.format("1 + j"), (4, 6)), (loop, (4, 6))], GRID + "n = 1", A)
    np.testing.assert_array_equal(found, [A[i, j + 1], A[i, j + 1]])
    why = "k: an index array must not differ between branches or iterations"
    cases = [
        branch.format("j + 2"),
        "k = j\nif n > 0:\n    k = j + 1\ny = x[i, k]",
        "k = j\nfor m in range(2):\n    y = x[i, k]\n    k = j + 1",
        "k = j\nwhile n:\n    k = k + 1",
        "k = i < 2\nfor m in range(2):\n    nl.store(a[i, j], x, mask=k)\n    k = i < n",
    ]
    assert refused_each(cases, GRID, "a, n") == [why] * len(cases)


def test_numpy_dtypes_are_kept_in_numpy_calls():
    cases = {
        "y = nl.load(a, dtype=np.float16)": "y = nl.load(as_rows(a), dtype=nl.float16)",
        "y = np.zeros(4, dtype=np.float16)": "y = np.zeros(4, dtype=np.float16)",
        "y = nl.shared_constant(np.ones((4, 4), np.int8))": "y = nl.shared_constant(np.ones((4, 4), np.int8))",
        "y = nl.fp32.min": "y = -3.4028235e38",
        "y = nisa.vector_engine": "y = nisa.engine.vector",
    }
    assert migrated_each(list(cases)) == list(cases.values())


def test_gathers_by_a_tile():
    table, rows = counted(9, 4), np.array([[5], [0], [8]], np.int32)
    before = "which = nl.load(rows)\nj = nl.arange(3)[None, :]"
    (got,) = computed_each([("nl.load(a[which, j + 1])", (3, 3))], before, table, rows, parameters="a, rows")
    np.testing.assert_array_equal(got, table[rows, np.arange(3)[None, :] + 1])


def test_expressions_without_an_automatic_migration():
    cases = {
        "y = n(i)": "i: index arrays are supported only in subscripts",
        "y = [i]": "i: index arrays are supported only in subscripts",
        "y = x[(i < 2) | (i > 3), j]": "(i < 2) | (i > 3): masks may be combined only with &",
        "y = x[i * j, j]": "i * j: not an affine index",
        "y = x[i + nl.arange(3)[:, None], j]": "i + nl.arange(3)[:, None]: not an affine index",
        "y = x[i + x, j]": "i + x: an index array cannot be combined with a tensor",
        "y = x[i < x, j]": "i < x: an index array cannot be compared with a tensor",
        "y = x[i < nl.arange(3)[:, None], j]": "i < nl.arange(3)[:, None]: index arrays of different sizes",
        "y = x[i != 2, j]": "i != 2: masks in this form are not supported",
        "y = x[i if n else nl.arange(3)[:, None], j]": (
            "i if n else nl.arange(3)[:, None]: index arrays of different sizes"
        ),
        "y = x[3 - i if n else i, j]": "3 - i if n else i: an index cannot count down in only one of two cases",
        "y = x[i < 2, j]": "i < 2 cannot be one of several indices, and a mask cannot be an index",
        "y = x[i[:, 0], j]": "i[:, 0]: index arrays in this form are not supported",
        "y = x[j, x]": "a tile can be an index only of the first dimension: use t.ap(..., scalar_offset=...)",
        "y = x.T": "tensors have no attribute T: use nl.transpose",
        "y = nl.mgrid[0:4:2]": "nl.mgrid supports only slices a:b",
        "y = nl.arange(x)": "x must be a number",
    }
    assert refused_each(list(cases), GRID, "a, n") == list(cases.values())


def test_shapes_of_index_arrays_and_bytes_of_dtypes_are_numbers():
    before = (
        "n = a.shape[1]\ni = nl.arange(4)[:, None]\nj = nl.arange(n)[None, :]\nx = nl.load(a[i, j])\nkind = a.dtype\n"
    )
    cases = [
        ("nl.multiply(x, i.shape[0] * j.shape[1])", 24.0),
        ("nl.multiply(x, len((i + j).shape) + nl.arange(n).shape[0])", 8.0),
        ("nl.multiply(x, kind.itemsize * nl.bfloat16.itemsize)", 8.0),
        ("nl.multiply(x, x.dtype.itemsize + x.itemsize + nl.int8.itemsize)", 9.0),
    ]
    a = np.arange(24, dtype=np.float32).reshape(4, 6)
    for got, (_, factor) in zip(computed_each([(each, (4, 6)) for each, _ in cases], before, a), cases, strict=True):
        np.testing.assert_array_equal(got, factor * a)
