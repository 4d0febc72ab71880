"""Calls in expressions, by callee: NKI's modules, methods, and functions of the file."""

import numpy as np
import pytest
from migrated_kernels import FIRST, LATER, migrated, migrated_each, refused_each
from nki_tensors import normal
from trninfer import simulator

pytest.importorskip("libcst")
from trninfer.simulator.migrate import migrate_source


def test_programs():
    assert migrated("p = nl.program_id(1)").splitlines()[-1].strip() == "p = program_1"
    assert migrated("p = nl.program_id(0)", head=LATER) == "p = nl.program_id(0)"  # a core, since 0.2
    cases = ["p = nl.program_id(n)", "p = nl.program_id(axis=True)"]
    assert refused_each(cases, "", "n") == ["the axis of nl.program_id must be a number"] * 2


def test_calls_by_what_is_called():
    cases = {
        "y = nisa.reciprocal(x)": (
            "y = nl.ndarray((4, 4), dtype=a.dtype, buffer=nl.sbuf)\nnisa.reciprocal(dst=y, data=x)"
        ),
        "y = nl.static_cast(x, nl.int8)": "y = nl.copy(x, dtype=nl.int8)",
        "y = x.astype(np.int8)": "y = nl.copy(x, dtype=nl.int8)",
        "y = n.astype(np.int8)": "y = n.astype(nl.int8)",
        "y = np.zeros((4, 4), np.int8)": "y = np.zeros((4, 4), np.int8)",
        "y = nisa.get_nc_version()": "y = nisa.get_nc_version()",
        "y = nl.tile_size.pmax": "y = nl.tile_size.pmax",
        "y = n(x)": "y = n(x)",
    }
    assert migrated_each(list(cases), "x = nl.load(a[0:4, 0:4])\n", "a, n") == list(cases.values())


FILE = (
    FIRST
    + """\
def doubled(tile, other=None):
    return nisa.tensor_tensor(tile, tile, np.add)


def scaled(first, /, factor, *, like):
    product = nisa.nc_matmul(first, like)
    return nisa.tensor_scalar(product, np.multiply, factor)


@nki.jit
def kernel(a):
    out = nl.ndarray((6, 6), dtype=nl.float32, buffer=nl.shared_hbm)
    x = nl.load(a[0:4, 0:6])
    y = doubled(x)
    nl.store(out, scaled(x, 3.0, like=y) - 1.0)
    return out
"""
)


def test_functions_of_the_file_are_given_and_return_tiles():
    """The subtraction is one of tiles only if the function is known to return a tile."""
    migration = migrate_source(FILE)
    assert migration.is_whole and "nl.subtract(scaled(x, 3.0, like=y), 1.0)" in migration.text
    space = {"__name__": "migrated"}
    exec(compile(migration.text, "<migrated>", "exec"), space)
    a = normal(4, 6)
    got = simulator.run(space["kernel"], a).outputs[0]
    np.testing.assert_allclose(got, 6 * a.T @ a - 1, rtol=1e-4, atol=1e-4)


def test_arguments_of_a_function_are_known_in_it():
    """A store is a DMA, which cannot read PSUM."""
    for call in ("keep(out, p)", "keep(out, product=p)"):
        text = FIRST + "def keep(out, product):\n    nl.store(out, product)\n\n\n@nki.jit\ndef kernel(a, out):\n"
        text += f"    x = nl.load(a)\n    p = nisa.nc_matmul(x, x)\n    {call}\n"
        assert "nl.store(out, nl.copy(product))" in migrate_source(text).text


RETURNED = (
    FIRST
    + """\
@nki.jit
def halved(A):
    rows, columns = A.shape
    made = nl.ndarray((rows, columns), dtype=A.dtype, buffer=nl.shared_hbm)
    nl.store(made, nisa.tensor_scalar(nl.load(A), np.multiply, 0.5))
    return made


@nki.jit
def kernel(a):
    half = halved(a)
    out = nl.ndarray((4, 1), dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(half[0:4, 0:6])
    nl.store(out, nisa.tensor_reduce(np.max, tile, axis=(1,)))
    return out
"""
)


def test_results_of_functions_are_described_without_names_of_theirs():
    """The dtype of `half` is that of `A`, which is unknown in `kernel`."""
    migration = migrate_source(RETURNED)
    assert "dtype=half.dtype" in migration.text
    space: dict = {}
    exec(compile(migration.text, "kernel.py", "exec"), space)
    a = normal(4, 6)
    (out,) = simulator.run(space["kernel"], a).outputs
    np.testing.assert_array_equal(out, 0.5 * a.max(axis=1, keepdims=True))


def test_comparisons_with_none_and_masks_that_nothing_replaces():
    cases = ["if nl.not_equal(b, None):\n    pass", "if nl.equal(b, None) and n > 1:\n    pass"]
    first, second = migrated_each(cases, parameters="b, n")
    assert migrated(cases[0], "b", head=LATER).startswith("if b is not None:")
    assert first.startswith("if b is not None:") and second.startswith("if b is None and n > 1:")
    assert refused_each(["y = nl.dropout(nl.load(a), 0.5, mask=n == 0)"], parameters="a, n") == [
        "nl.dropout does not accept a mask: slice its operands instead"
    ]


def test_several_tiles_that_a_function_returns_are_tiles():
    source = FIRST + (
        "def both(x, y):\n    return x + y, nl.subtract(x, y)\n\n\n"
        "@nki.jit\ndef kernel(a):\n    out = nl.ndarray((4, 6), dtype=nl.float32, buffer=nl.shared_hbm)\n"
        "    x = nl.load(a[0:4, 0:6])\n    total, rest = both(x, x)\n"
        "    nl.store(out, total * 2.0 - rest)\n    return out\n"
    )
    migration = migrate_source(source)
    assert migration.is_whole and "total * 2.0" not in migration.text
    space = {"__name__": "migrated"}
    exec(compile(migration.text, "<migrated>", "exec"), space)
    a = np.arange(24, dtype=np.float32).reshape(4, 6)
    np.testing.assert_array_equal(simulator.run(space["kernel"], a).outputs[0], 4 * a)
