"""The values of local names in a function: tensors with their memory and dtype, and device scalars."""

import ast

import pytest
from linted_functions import HEAD, scope_of
from trninfer.simulator.checking.lint import check_source
from trninfer.simulator.checking.lint.tensors import DeviceNumber, LocalTensors, Tensor


def locals_of(*lines):
    scope, _ = scope_of(HEAD + "def kernel(a, n):\n" + "".join(f"    {line}\n" for line in lines))
    return LocalTensors(scope.function, scope.resolve, scope.api)


def held(expression, *lines):
    tensors = locals_of(*lines)
    node = ast.parse(expression, mode="eval").body
    return tensors.of(node) or tensors.device_number(node)


TILE = "t = nl.ndarray((128, 4), nl.float32)"
REGISTER, SCALAR = DeviceNumber("a register"), DeviceNumber("a scalar of the device")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("nl.ndarray((128, 4), nl.float32)", Tensor("sbuf", "float32", (128, 4))),
        ("nl.zeros(shape=(128, n), dtype=nl.int8, buffer=nl.psum)", Tensor("psum", "int8")),
        ("nl.full([2, 3], 1.0, nl.int8, nl.MemoryRegion.shared_hbm)", Tensor("shared_hbm", "int8", (2, 3))),
        ("nl.ndarray(a.shape, a.dtype, buffer=n)", Tensor(None, None)),
        ("nl.load(a)", Tensor("sbuf", None)),
        ("nl.load(a, dtype=nl.bfloat16)", Tensor("sbuf", "bfloat16")),
        ("nl.zeros_like(t)", Tensor("sbuf", "float32", (128, 4))),
        ("nl.zeros_like(t, dtype=nl.int8, buffer=nl.psum)", Tensor("psum", "int8", (128, 4))),
        ("nl.empty_like(a)", Tensor(None, None)),
        ("nl.exp(t)", Tensor("sbuf", "float32")),
        ("nl.add(a, t)", Tensor("sbuf", None)),
        ("nl.matmul(t, t)", Tensor("psum", "float32")),
        ("nl.transpose(t)", Tensor("psum", "float32")),
        ("nl.where(a, t, 1.0)", Tensor("sbuf", "float32")),
        ("nl.sum(t, axis=1, dtype=nl.float16)", Tensor("sbuf", "float16")),
        ("t[0:4]", Tensor("sbuf", "float32", (4, 4))),
        ("t[0 : 2 * 2, 1:]", Tensor("sbuf", "float32", (4, 3))),
        ("t[0:4, 9:12]", Tensor("sbuf", "float32")),
        ("t[n]", Tensor("sbuf", "float32")),
        ("t.reshape((128, 2, 2))[0]", Tensor("sbuf", "float32")),
        ("t.view(nl.int8)", Tensor("sbuf", None)),
        ("t if n else nl.exp(t)", Tensor("sbuf", "float32")),
        ("t if n else nl.transpose(t)", Tensor(None, "float32")),
        ("t if n else a", None),
        ("t.shape[0]", None),
        ("a", None),
        ("nl.rand", None),
        ("nisa.register_alloc(4)", REGISTER),
        ("nisa.scalar_load(a) + 1", SCALAR),
        ("2 * (n - nisa.register_alloc())", REGISTER),
        ("n + 1", None),
        ("other(t)", None),
    ],
)
def test_expressions(expression, expected):
    assert held(expression, TILE) == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([TILE], Tensor("sbuf", "float32", (128, 4))),
        ([TILE, "t = nl.load(a)"], Tensor("sbuf", None)),
        ([TILE, "t = nl.matmul(a, a)"], Tensor(None, None)),
        ([TILE, "t = n"], None),
        ([TILE, "for t in n:", "    pass"], None),
        ([TILE, "with n as t:", "    pass"], None),
        ([TILE, "n = [t for t in n]"], None),
        ([TILE, "n = lambda t: 1"], None),
        ([TILE, "t, n = n, 1"], None),
        (["t, n = nl.load(a)"], None),
        ([TILE, "t += 1"], Tensor("sbuf", "float32", (128, 4))),
        (["n, t = 1, nl.load(a)"], Tensor("sbuf", None)),
        (["n, *t = 1, nl.load(a)"], None),
        (["(t, n), m = (nl.load(a), 1), 2"], Tensor("sbuf", None)),
        (["t: nl.tensor = nl.load(a)"], Tensor("sbuf", None)),
        (["print(t := nl.load(a))"], Tensor("sbuf", None)),
        (["u = nl.load(a)", "t = u[0:4]"], Tensor("sbuf", None)),
        (["t = t", "t = nl.load(a)"], None),
        (["t = nisa.register_alloc()", "t = nisa.register_alloc() + 1"], REGISTER),
        (["t = nisa.register_alloc()", "t = 1"], None),
        (["def body(t):", "    pass", "nl.fori_loop(0, n, body)"], DeviceNumber("the index of nl.fori_loop")),
        (["nl.fori_loop(0, n, lambda t: 1)"], DeviceNumber("the index of nl.fori_loop")),
        (["def go(t):", "    return t", "nl.while_loop(n, body=go)"], DeviceNumber("the condition of nl.while_loop")),
        (["def body(i, t):", "    pass", "nl.fori_loop(0, n, body)"], None),
        (["def body(t):", "    pass", "body(0)"], None),
    ],
)
def test_names(lines, expected):
    assert held("t", *lines) == expected


def test_names_that_refer_to_each_other_are_evaluated_once():
    """If every path to a name were followed separately, the first case would take 2 to the power of 300 steps, the
    second 12 factorial."""
    chain = "a0 = nl.zeros((1,), nl.float32)\n" + "".join(f" a{i} = a{i - 1}; a{i} = a{i - 1}\n" for i in range(1, 300))
    mutual = "".join(f" a{i} = nl.zeros_like(a{j})\n" for i in range(12) for j in range(12))
    begin = "import nki\nimport nki.language as nl\n@nki.jit\ndef k(a):\n"
    assert [finding.rule for finding in check_source(f"{begin} {chain} return a299\n")] == ["tile-output"]
    assert list(check_source(f"{begin}{mutual} return a0\n")) == []
