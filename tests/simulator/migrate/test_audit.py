"""A migrated file lacks nothing of its source: losses injected into the migration are rejected."""

import ast

import pytest

pytest.importorskip("libcst")
import libcst as cst
from migrated_kernels import FIRST
from trninfer.simulator.migrate import LossError, host, migrate_source, module
from trninfer.simulator.migrate.audit import refuse_losses, unbound

KERNEL = FIRST + (
    "@nki.jit\ndef kernel(a, n):\n    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)\n"
    "    i = nl.arange(128)[:, None]\n    j = nl.arange(8)[None, :]\n"
    "    for k in nl.affine_range(2):\n        if n:\n            nl.store(out[i + k, j], nl.load(a[i + k, j]))\n"
    "    return out\n\n\n"
)
HOST = KERNEL + "def run(kernel, *args):\n    y = nki.baremetal(kernel)(*args)\n    print(y)\n    return y\n"


def missing(old, new):
    """Return the audit's message about two texts, or "" if nothing is missing."""
    try:
        refuse_losses(ast.parse(old), ast.parse(new))
    except LossError as error:
        return f"{error.line}: {error}"
    return ""


LOSSES = {
    "kernel(*args)": ("args", "a call of kernel is missing"),
    "    print(y)\n": ("", "a call of print is missing"),
    "    return y\n": ("", "a use of y in run is missing"),
    "    return out\n": ("", "a statement `return` of kernel is missing"),
    "        if n:\n            nl.": ("        nl.", "a statement `if` of kernel is missing"),
    "    for k in range(2):\n    ": ("    k = 0\n", "a loop of kernel is missing"),
    "nl.store(out[k:k + 128, 0:8], nl.load(a[k:k + 128, 0:8]))": ("pass", "a call of NKI in kernel is missing"),
    "nl.store(out[k:k + 128, 0:8], ": ("nl.copy(a, ", "a store in kernel is missing"),
    "def run(": ("def ran(", "the function run is missing"),
}


@pytest.mark.parametrize(("part", "loss"), LOSSES.items(), ids=lambda value: str(value)[:12])
def test_missing_calls_and_statements_are_found(part, loss):
    text = migrate_source(HOST).text
    shown = text.replace("k : k + 128", "k:k + 128")
    assert part in shown and not missing(HOST, shown)
    assert missing(HOST, shown.replace(part, loss[0])).partition(": ")[2] == loss[1]


def test_a_loss_of_a_rewriter_refuses_the_file(monkeypatch):
    """Injects a bug of an earlier version: nki.baremetal(kernel)(*args) became args."""
    right = host.Host.leave_Call

    def wrong(self, old, new):
        return new.args[0].value if isinstance(old.func, cst.Call) and len(new.args) == 1 else right(self, old, new)

    monkeypatch.setattr(host.Host, "leave_Call", wrong)
    with pytest.raises(LossError) as caught:
        migrate_source(HOST)
    assert caught.value.line == HOST[: HOST.index("nki.baremetal")].count("\n") + 1


def test_a_statement_of_which_nothing_is_left_refuses_the_file(monkeypatch):
    monkeypatch.setattr(module.Statements, "migrate", lambda self, node: [])
    with pytest.raises(LossError, match=r"nothing remains of `out = nl\.ndarray"):
        migrate_source(HOST)


def test_a_kernel_that_is_called_less_often_in_another_kernel():
    old = KERNEL + "@nki.jit\ndef outer(a):\n    b = kernel(a, 1)\n    return kernel(b, 2)\n"
    assert not missing(old, migrate_source(old).text)
    new = migrate_source(old).text.replace("return kernel(b, 2)", "return nl.copy(b)")
    assert missing(old, new) == "19: a call of the kernel kernel is missing"


def test_kernels_under_a_condition_are_kernels():
    inner = "".join(f"    {line}\n" if line else "\n" for line in KERNEL.removeprefix(FIRST).splitlines())
    old = f"{FIRST}try:\n    READY = True\nexcept ImportError:\n    READY = False\nif READY:\n{inner}"
    text = migrate_source(old).text
    assert not missing(old, text) and missing(old, text.replace("READY = False", "pass")).endswith("is missing")


def test_unbound_names():
    text = "import a\nfrom b import c as d\n\ndef f(x, *y):\n    global g\n    z = [u for u in x]\n"
    text += "    try:\n        pass\n"
    text += "    except ValueError as e:\n        print(e, z, a, d, g, f, q)\n    return w\n\nprint(__file__, z)\n"
    assert unbound(ast.parse(text)) == {"q": [10], "w": [11], "z": [13]}
    assert unbound(ast.parse("from x import *\nprint(y)")) == {}


def test_removed_options_of_jit_are_no_loss():
    text = migrate_source(KERNEL + "def run(chip):\n    return nki.jit(kernel, platform_target=chip())\n").text
    assert "return nki.jit(kernel)" in text
    assert missing("import nki\nnki.jit(kernel, other=chip())\n", "import nki\nnki.jit(kernel)\n")
