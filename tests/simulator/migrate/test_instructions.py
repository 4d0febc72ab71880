"""The table of the first NKI's instructions, and the masked operands of a call."""

import ast

import numpy as np
import pytest
from migrated_kernels import migrate_kernel, migrated, migrated_each, refused_each, run_migrated

pytest.importorskip("libcst")
from trninfer.simulator.migrate.context import Tensor
from trninfer.simulator.migrate.instructions import (
    GONE,
    IN_PLACE,
    INSTRUCTIONS,
    dtype_of,
    keywords_of,
    shape_of,
    shape_text,
)
from trninfer.simulator.migrate.notes import CannotError
from trninfer.simulator.migrate.views import View
from trninfer.simulator.nki.api import table

TODAY = {f["name"]: [p["name"] for p in f["params"]] for f in table()["functions"] if f["module"] == "nki.isa"}
GRID = "i = nl.arange(4)[:, None]\nj = nl.arange(6)[None, :]\n"


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_an_instruction_has_its_parameters_today_and_a_destination(name):
    entry = INSTRUCTIONS[name]
    assert set(entry.parameters) <= set(TODAY[name]) and TODAY[name][0] == "dst"
    assert {entry.like, *entry.tiles, *entry.operators} <= set(entry.parameters)


def test_other_instructions():
    assert all("dst" in TODAY[name] for name in IN_PLACE) and not set(GONE) & set(TODAY)
    assert not set(INSTRUCTIONS) & (set(IN_PLACE) | set(GONE))


def call(text):
    return ast.parse(text, mode="eval").body


def test_arguments_by_name():
    found = keywords_of(call("f(1, 2, c=3)"), ("a", "b", "c"))
    assert {name: node.value for name, node in found.items()} == {"a": 1, "b": 2, "c": 3}
    assert keywords_of(call("f()"), ()) == {}
    for text in ("f(*x)", "f(1, **x)"):
        with pytest.raises(CannotError, match=r"expanded arguments \(\*args, \*\*kwargs\) are not supported"):
            keywords_of(call(text), ("a", "b"))
    with pytest.raises(CannotError, match=r"more positional arguments than a, b$"):
        keywords_of(call("f(1, 2, 3)"), ("a", "b"))


def test_shapes_and_dtypes_as_text():
    assert shape_text(("4", "n")) == "(4, n)" and shape_text(("4",)) == "(4,)"
    known = View("t[0:2]", Tensor("sbuf", "nl.int8"), ("2", "6"), ("4", "6"))
    unknown = View("t[0:2]", Tensor("sbuf"), None, None)
    assert (shape_of(known), dtype_of(known)) == ("(4, 6)", "nl.int8")
    assert (shape_of(unknown), dtype_of(unknown)) == ("t[0:2].shape", "t.dtype")
    assert dtype_of(View("t.ap([[1, 2]])", Tensor(), None, None)) == "t.dtype"
    assert dtype_of(View("stretched(t[0:2, 1], s)", Tensor(), None, None)) == "t.dtype"
    assert dtype_of(View("as_rows(tiles[0][:, 0:2])", Tensor(), None, None)) == "tiles[0].dtype"  # of a list


def test_operands_under_masks():
    copy = "nisa.tensor_copy(dst=y, src=x)"
    made = "y = nl.ndarray(x.shape, dtype=a.dtype, buffer=nl.sbuf)\n"
    cases = {
        "y = nisa.tensor_copy(x)": made + copy,
        "y = nisa.tensor_copy(x, mask=None)": made + copy,
        "y = nisa.tensor_copy(x, mask=n > 1)": made + f"if n > 1:\n    {copy}",
        "y = nisa.tensor_copy(x, mask=n)": made + f"if (n is None or n):\n    {copy}",
        "y = nisa.tensor_copy(x, mask=i < n)": made + copy,  # masked-out elements of a new tile were undefined
        "x[i, j] = nisa.tensor_copy(x[i, j + 1], mask=(i < n) & (j >= 2))": (
            "nisa.tensor_copy(dst=x[0 : min(4, n), 2:6], src=x[0 : min(4, n), 3:7])"
        ),
        "x[i, j] = nisa.tensor_copy(x[i, j], mask=(i < 4) & (0 * i + n < 2))": (
            "if n - 1 <= 0:\n    nisa.tensor_copy(dst=x[0:4, 0:6], src=x[0:4, 0:6])"
        ),
        "x[i, j] = nisa.tensor_copy(x[i, j], mask=0 * i < 1)": "nisa.tensor_copy(dst=x[0:4, 0:6], src=x[0:4, 0:6])",
        "y = nisa.tensor_copy(nl.exp(x))": (
            "tile_1 = nl.exp(x)\ny = nl.ndarray(tile_1.shape, dtype=a.dtype, buffer=nl.sbuf)\n"
            "nisa.tensor_copy(dst=y, src=tile_1)"
        ),
    }
    assert migrated_each(list(cases), GRID + "x = nl.load(a[0:9])\n", "a, n") == list(cases.values())


@pytest.mark.parametrize("n", [1, 3, 4, 7, 12])
def test_a_mask_may_leave_nothing_in_a_turn_of_a_loop(n):
    """A slice with a negative end would count from the tile's end."""
    body = f"""
        out = nl.ndarray((4, 6), dtype=a.dtype, buffer=nl.shared_hbm)
        rows = nl.ndarray((12, 6), dtype=a.dtype, buffer=nl.shared_hbm)
        {GRID.replace(chr(10), "; ")}
        x = nl.load(a[i, j])
        for k in nl.affine_range(3):
            x[i, j] = nisa.tensor_scalar(x[i, j], np.add, 1.0, mask=3 * k + i < {n})
            x[i, j] = nl.add(x[i, j], 8.0, mask=3 * k + i < {n})
            nl.store(rows[4 * k + i, j], x[i, j], mask=4 * k + i < {n})
        nl.store(out, x)
        return out, rows
    """
    a, i = np.zeros((4, 6), np.float32), np.arange(4)[:, None]
    out, rows = run_migrated(body, a)
    np.testing.assert_array_equal(out, a + sum(9.0 * (3 * k + i < n) for k in range(3)))
    expected = np.concatenate([sum(9.0 * (3 * m + i < n) for m in range(k + 1)) for k in range(3)])
    np.testing.assert_array_equal(rows[:n, 0], expected[:n, 0])
    assert "x[i, j]" not in migrated(body) and "if min(" in migrated(body)


@pytest.mark.parametrize("step", [1, 2, 3, 7])
def test_a_mask_with_a_positive_step_of_the_kernel(step):
    body = """\
    out = nl.zeros((4, 6), dtype=nl.float32, buffer=nl.shared_hbm)
    i, j = nl.mgrid[0:4, 0:6]
    x = nl.load(a[i, j])
    nl.store(out[i, j], x, mask=(1 + j * step < 9) & (i * step >= 0) & (3 * step - i * step > 0))
    return out
    """
    migration = migrate_kernel(body, "a, step")
    assert {note.message for note in migration.notes} == {"the mask is rewritten for a positive step"}
    a, (i, j) = np.arange(1, 25, dtype=np.float32).reshape(4, 6), np.mgrid[0:4, 0:6]
    out = run_migrated(body, a, step, parameters="a, step")
    np.testing.assert_array_equal(out, a * ((1 + j * step < 9) & (3 * step - i * step > 0)))


def test_a_masked_load_into_a_whole_block():
    body = """\
    out = nl.zeros((8, 6), dtype=nl.float32, buffer=nl.shared_hbm)
    i, j = nl.mgrid[0:4, 0:6]
    x = nl.zeros((2, nl.par_dim(4), 6), dtype=nl.float32)
    for k in nl.affine_range(2):
        x[k] = nl.load(a[4 * k + i, j], mask=(4 * k + i < 7))
        x[k,] = nisa.tensor_scalar(x[k], np.multiply, 2.0, mask=(j < 5))
        nl.store(out[4 * k + i, j], x[k])
    return out
    """
    a = np.arange(1, 43, dtype=np.float32).reshape(7, 6)
    expected = np.zeros((8, 6), np.float32)
    expected[:7] = a
    expected[:, :5] *= 2
    np.testing.assert_array_equal(run_migrated(body, a), expected)


def test_instructions_without_an_automatic_migration():
    cases = {
        "x[i, j] = nisa.tensor_copy(x[i, j], mask=i + j < 4)": (
            "the mask does not select a rectangle: use nisa.affine_select, or loop over the rows"
        ),
        "y = nisa.tensor_copy(x[i, j], mask=(i < 2) & (i > 5))": (
            "mask=(i < 2) & (i > 5) is never true: remove the call, or correct the mask"
        ),
        "y = nisa.tensor_copy(x, mask=x)": "mask=x is not a condition on known index arrays",
        "y = [nisa.tensor_copy(x) for k in range(4)]": (
            "no dst can be allocated before an instruction inside of a comprehension or lambda"
        ),
        "y = x if n else nisa.tensor_copy(x)": (
            "no dst can be allocated before an instruction inside of a conditional expression"
        ),
        **{f"nisa.{name}(x)": f"nisa.{name} was removed: {why}" for name, why in GONE.items()},
    }
    assert refused_each(list(cases), GRID + "x = nl.load(a[0:9])\n", "a, n") == list(cases.values())
