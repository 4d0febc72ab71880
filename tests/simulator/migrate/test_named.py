"""Products and ranges that are named before they are used."""

import ast

import numpy as np
import pytest

pytest.importorskip("libcst")
from migrated_kernels import LATER, migrate_kernel, migrated, run_migrated
from trninfer import simulator
from trninfer.simulator.migrate import migrate_source
from trninfer.simulator.migrate.named import named_products, whole_axes
from trninfer.simulator.migrate.names import Names

ACC = "acc = nl.zeros((128, 512), nl.float32, buffer=nl.psum)\nx, y = nl.load(a), nl.load(b)\n"
LOOP = ACC + "for k in nl.affine_range(4):\n    part = {}\n    {} += part\nreturn nl.copy(acc)"


@pytest.mark.parametrize("product", ["nisa.nc_matmul(x, y)", "nl.matmul(x, y, transpose_x=True)"])
@pytest.mark.parametrize("target", ["acc", "acc[...]", "acc[0:128, 0:512]"])
def test_a_named_product_accumulates_in_psum(product, target):
    text = migrated(LOOP.format(product, target), "a, b")
    assert "nisa.nc_matmul(dst=acc" in text and "part" not in text and "tensor_copy" not in text


KEPT = {
    "another reads it": "part = nisa.nc_matmul(x, y)\nacc += part\nz = nl.copy(part)",
    "an operand changes": "part = nisa.nc_matmul(x, y)\nx = nl.load(b)\nacc += part",
    "a tile is written between": "part = nisa.nc_matmul(x, y)\nx[0:4, 0:4] = 0.0\nacc += part",
    "it is subtracted": "part = nisa.nc_matmul(x, y)\nacc -= part",
    "it is assigned twice": "part = nisa.nc_matmul(x, y)\npart = nisa.nc_matmul(y, x)\nacc += part",
}


@pytest.mark.parametrize("lines", KEPT.values(), ids=KEPT)
def test_other_products_keep_their_names(lines):
    assert "part" in migrate_kernel(f"{ACC}{lines}\nreturn acc", "a, b").text.split("def kernel")[1]


def test_a_product_in_sbuf_keeps_its_name():
    lines = ACC.replace("psum", "sbuf") + "part = nisa.nc_matmul(x, y)\nacc += part\nreturn acc"
    assert "part" in migrate_kernel(lines, "a, b").text.split("def kernel")[1]


def test_named_products_are_found_with_statements_between():
    tree = ast.parse(
        "import nki.isa as nisa, nki.language as nl\ndef f(x, y):\n"
        "    acc = nl.zeros((1, 1), buffer=nl.psum)\n    p = nisa.nc_matmul(x, y)\n    n = 1\n    acc[n] += p\n"
    )
    found = named_products(tree.body[1], Names(tree))
    assert [node.lineno for node in found] == [4, 6] and len(set(map(id, found.values()))) == 1


def test_named_products_compute_the_sum():
    lines = LOOP.format("nisa.nc_matmul(x, y)", "acc").replace("return nl.copy(acc)", "nl.store(out, nl.copy(acc))")
    body = f"out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)\n{lines}\nreturn out"
    a, b = np.random.default_rng(0).random((128, 128)), np.random.default_rng(1).random((128, 512))
    a, b = a.astype(np.float32), b.astype(np.float32)
    np.testing.assert_allclose(run_migrated(body, a, b, parameters="a, b"), 4 * a.T @ b, rtol=1e-4)


AXES = (
    "rows, columns = nl.affine_range(a.shape[0]), nl.affine_range(a.shape[1])\n"
    "out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)\n"
    "nl.store(out[rows, columns], value=nl.multiply(nl.load(a[rows, columns]), 2.0))\nreturn out"
)


@pytest.mark.parametrize("head", [LATER, LATER.replace("import nki.isa as nisa\n", "")], ids=["isa", "no isa"])
def test_ranges_are_indices_of_whole_axes(head):
    text = migrate_kernel(AXES, head=head).text
    assert "a[0 : a.shape[0], 0 : a.shape[1]]" in text and "affine_range" not in text
    space = {"__name__": "axes"}
    exec(compile(text, "<axes>", "exec"), space)
    a = np.arange(32, dtype=np.float32).reshape(4, 8)
    np.testing.assert_array_equal(simulator.run(space["kernel"], a).outputs[0], 2 * a)


def test_ranges_that_are_loops_or_numbers_stay():
    text = "import nki.language as nl\ndef f(a):\n    i = nl.affine_range(4)\n    for k in i:\n        a[i]\n"
    text += "    r, s = nl.affine_range(2, 6), nl.sequential_range(4)\n    return a[r, 0], s\n"
    tree = ast.parse(text)
    assert whole_axes(tree.body[1], Names(tree)) == {"r"}
    assert "a[2:6, 0:1], s" in migrate_source(text).text
