"""Facts about a function's names, collected from its source before it is migrated."""

import ast

import pytest

pytest.importorskip("libcst")
from trninfer.simulator.migrate.names import Names
from trninfer.simulator.migrate.uses import accumulators_of, ranks_of, registers_of, tensor_uses

HEAD = "import nki.isa as nisa\nimport nki.language as nl\n\ndef f(a, b, c, n):\n"


def function(*lines):
    tree = ast.parse(HEAD + "".join(f"    {line}\n" for line in lines))
    return tree.body[-1], Names(tree)


@pytest.mark.parametrize(
    ("line", "used", "in_hbm"),
    [
        ("rows, _ = a.shape", {"a"}, set()),
        ("t = a[0:4] + b[i, j] + c[0]", {"a", "b"}, set()),
        ("t = nl.load(a[0:4])", {"a"}, {"a"}),
        ("nl.store(b, c)", {"b"}, {"b"}),
        ("nl.load_transpose2d(src=a)", set(), set()),
        ("t = nisa.tensor_copy(b.reshape((4, 4)))", {"b"}, set()),
        ("t = n.bit_length() + c.count", set(), set()),
        ("nl.store(f(a), 0)", set(), set()),
    ],
)
def test_tensors_and_those_of_hbm(line, used, in_hbm):
    found = tensor_uses(*function(line))
    assert found.pop("hbm of") == in_hbm
    assert set(found) & {"a", "b", "c", "n"} == used


def test_ranks_are_those_of_unpacked_shapes_else_of_the_longest_index():
    tree, _ = function(
        "p, q, r = a.shape", "x = a[0, 1]", "y = b[0], b[0, 1], b[0, 1, 2], b[..., 0]", "m, k = n.pair", "z = c[0]"
    )
    assert ranks_of(tree) == {"a": 3, "b": 3}


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["t += nisa.nc_matmul(a, b)"], {"t"}),
        (["t[0:4][:] += nl.matmul(a, b)", "t = nl.zeros((4, 4))"], {"t"}),
        (["t += nisa.nc_matmul(a, b)", "t += a"], set()),
        (["t += nisa.nc_matmul(a, b)", "t[0:4] = a"], set()),
        (["t -= nisa.nc_matmul(a, b)"], set()),
        (["t += nisa.nc_transpose(a)"], set()),
        (["f()[0] += nisa.nc_matmul(a, b)"], set()),
    ],
)
def test_accumulators_get_nothing_but_products(lines, found):
    assert accumulators_of(*function(*lines)) == found


def test_registers():
    lines = ["r = s = nisa.register_alloc(4)", "t = nisa.tensor_copy(a)", "u[0] = nisa.register_alloc()"]
    assert registers_of(*function(*lines)) == {"r", "s"}
