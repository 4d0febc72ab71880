"""Calls that create tensors: their memories, shapes, block dimensions and values."""

import numpy as np
import pytest
from migrated_kernels import computed_each, migrate_kernel, migrated, migrated_each, refused_each
from nki_tensors import normal

pytest.importorskip("libcst")
from trninfer.simulator.migrate import CHECK

MADE = {
    "nl.ndarray((nl.par_dim(128), 4), dtype=np.float32)": "nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf)",
    "nl.ndarray((n, 4), dtype=a.dtype, buffer=None)": "nl.ndarray((n, 4), dtype=a.dtype, buffer=nl.sbuf)",
    "nl.ndarray((n, 4), a.dtype, buffer='psum')": "nl.ndarray((n, 4), dtype=a.dtype, buffer=nl.psum)",
    "nl.ndarray((n,), a.dtype)": "nl.ndarray((n, 1), dtype=a.dtype, buffer=nl.sbuf)",
    "nl.ndarray((n,), a.dtype, buffer=nl.hbm)": "nl.ndarray((n,), dtype=a.dtype, buffer=nl.shared_hbm)",
    "nl.ndarray((n, 2, 3), a.dtype, buffer=nl.private_hbm)": (
        "nl.ndarray((n, 2, 3), dtype=a.dtype, buffer=nl.private_hbm)"
    ),
    "nl.ndarray(a.shape, dtype=a.dtype)": "nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)",
    "nl.ndarray((n, *a.shape[1:]), dtype=a.dtype)": "nl.ndarray((n, *a.shape[1:]), dtype=a.dtype, buffer=nl.sbuf)",
    "nl.empty((n, 4), np.int32)": "nl.ndarray((n, 4), dtype=nl.int32, buffer=nl.sbuf)",
    "nl.ones((n, 4), np.int32)": "nl.ones((n, 4), dtype=nl.int32, buffer=nl.sbuf)",
    "nl.full((n, 4), 2 * n, np.int32)": "nl.full((n, 4), 2 * n, dtype=nl.int32, buffer=nl.sbuf)",
    "nl.zeros((n, 4), nl.int32, name='z')": "nl.zeros((n, 4), dtype=nl.int32, buffer=nl.sbuf, name='z')",
    "nl.zeros((n, 4), nl.int32, name='')": "nl.zeros((n, 4), dtype=nl.int32, buffer=nl.sbuf)",
    "nl.zeros_like(a, dtype=np.int8)": "nl.zeros_like(a, dtype=nl.int8)",
    "nl.empty_like(a, buffer=nl.hbm)": "nl.empty_like(a, buffer=nl.shared_hbm)",
    "nl.rand((n, 4))": "nl.rand((n, 4), nl.float32)",
    "nl.shared_constant(np.eye(4, dtype=np.float32))": "nl.shared_constant(np.eye(4, dtype=np.float32))",
    "nl.ndarray((2, nl.par_dim(n), 4), nl.int8)": "TileBlocks(1, (n, 4), nl.int8, nl.sbuf)",
    "nl.zeros((2, 3, nl.par_dim(n)), nl.int8)": "TileBlocks(2, (n, 1), nl.int8, nl.sbuf, value=0)",
    "nl.full((2, nl.par_dim(n), 4), 7, nl.int8)": "TileBlocks(1, (n, 4), nl.int8, nl.sbuf, value=7)",
    "nl.ones((2, nl.par_dim(n), 4), nl.int8, buffer=nl.hbm)": "nl.ones((2, n, 4), dtype=nl.int8, buffer=nl.shared_hbm)",
}


def test_tensors():
    assert migrated_each([f"x = {call}" for call in MADE], "", "a, n") == [f"x = {new}" for new in MADE.values()]


def test_a_name_in_a_loop_is_left_out():
    """Each iteration would use the same name again."""
    text = migrated("for i in range(4):\n    x = nl.zeros((n, 4), nl.int8, name='x')", "n")
    assert text == "for i in range(4):\n    x = nl.zeros((n, 4), dtype=nl.int8, buffer=nl.sbuf)"


def test_an_accumulator_is_not_cleared():
    """The first product in a region of PSUM overwrites it."""
    for made, new in (
        ("nl.zeros((128, 4), nl.float32, buffer=nl.psum)", "nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.psum)"),
        (
            "nl.zeros((2, nl.par_dim(128), 4), nl.float32, buffer=nl.psum)",
            "TileBlocks(1, (128, 4), nl.float32, nl.psum)",
        ),
    ):
        part = "t[0]" if "TileBlocks" in new else "t"
        assert migrated(f"t = {made}\n{part} += nisa.nc_matmul(a, a)").startswith(
            f"t = {new}\nnisa.nc_matmul(dst={part},"
        )
    kept = "t = nl.zeros((128, 4), nl.float32, buffer=nl.psum)"
    assert migrated(kept + "\nx = nl.copy(t)").startswith("t = nl.zeros(")


def test_values_of_blocks():
    cases = [
        ("t = nl.full((2, nl.par_dim(4), 3), 7, nl.float32)\ny = t[1]", (4, 3)),
        ("t = nl.ndarray((2, nl.par_dim(4), 3), nl.float32)\nt[1] = nl.load(a)\nt[0] = 5\ny = t[1]", (4, 3)),
        ("i, j = nl.mgrid[0:4, 0:2]\ny = t[1, i, j + 1]", (4, 2)),
    ]
    a = normal(4, 3)
    for got, expected in zip(computed_each(cases, "", a), (np.full((4, 3), 7), a, a[:, 1:]), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_a_place_is_left_to_the_compiler():
    body = "def alloc(n):\n    return nki.compiler.psum.alloc(n)\nx = nl.ndarray((n, 4), nl.int8, buffer={})"
    for buffer, region in (
        ("nki.compiler.sbuf.alloc(base_addr=0)", "sbuf"),
        ("alloc(3)", "psum"),
    ):
        migration = migrate_kernel(body.format(buffer), "a, n")
        assert f"x = nl.ndarray((n, 4), dtype=nl.int8, buffer=nl.{region})" in migration.text
        notes = [(note.kind, note.message) for note in migration.notes]
        assert (CHECK, f"the compiler chooses the place of the tensor instead of buffer={buffer}") in notes


def test_calls_without_an_automatic_migration():
    cases = {
        "x = nl.ndarray((n, 4), nl.int8, buffer=n)": "buffer=n is not a known memory",
        "x = nl.ndarray((nl.par_dim(), 4), nl.int8)": "nl.par_dim without an extent",
        "x = nl.zeros((n, 4), nl.int8, 1, 2)": "more positional arguments than shape, dtype",
        "x = nl.zeros(*n)": "expanded arguments (*args, **kwargs) are not supported",
    }
    assert refused_each(list(cases), "", "n") == list(cases.values())
