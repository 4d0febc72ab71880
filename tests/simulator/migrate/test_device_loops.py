"""Loops of the device, which become calls of nl.fori_loop and nl.while_loop."""

import numpy as np
import pytest
from migrated_kernels import LATER, migrate_kernel, migrated, refusal, run_migrated

pytest.importorskip("libcst")
from trninfer.simulator.migrate import CHECK


@pytest.mark.parametrize(
    ("bounds", "call"),
    [
        ("4", "nl.fori_loop(0, 4, loop_body_1)"),
        ("1, n", "nl.fori_loop(1, n, loop_body_1)"),
        ("1, n, 2", "nl.fori_loop(1, n, loop_body_1, step=2)"),
        ("start=1, stop=n", "nl.fori_loop(1, n, loop_body_1)"),
        ("1, stop=n, step=2", "nl.fori_loop(1, n, loop_body_1, step=2)"),
    ],
)
def test_a_counted_loop(bounds, call):
    body = f"# each\nfor i in nl.dynamic_range({bounds}):\n    nisa.memset(a[i], 0.0)  # row\n"
    text = f"# each\ndef loop_body_1(i):\n    nisa.memset(a[i], 0.0)  # row\n{call}"
    assert migrated(body, "a, n", LATER) == text


def test_a_loop_while_a_register_is_not_zero():
    body = "r = nisa.register_alloc(4)\nwhile r:\n    nisa.register_load(r, a)\nwhile n:\n    n -= 1\n"
    assert migrated(body, "a, n", LATER) == (
        "r = nisa.register_alloc(4)\ndef loop_body_1(r):\n    nisa.register_load(r, a)\n    return r\n"
        "nl.while_loop(r, loop_body_1)\nwhile n:\n    n -= 1"
    )


def test_loops_in_loops_have_functions_of_their_own():
    body = """
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        t = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=a)
        for i in nl.dynamic_range(3):
            loop_body_1 = 2.0
            for j in nl.dynamic_range(1, 4, 2):
                nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=loop_body_1)
        nisa.dma_copy(dst=out, src=t)
        return out
    """
    text = migrated(body, head=LATER)
    assert "def loop_body_1(" not in text and text.count("def loop_body_") == 2
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(run_migrated(body, a, head=LATER), a * 2**6)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("for i in nl.dynamic_range(4):\n    pass\nelse:\n    pass", "an else branch of a loop of the device"),
        ("for i in nl.dynamic_range(4):\n    continue", "`continue` in a loop of the device"),
        ("for i in nl.dynamic_range(4):\n    return i", "`return` in a loop of the device"),
        ("for i in nl.dynamic_range(4):\n    n = n + i", "hands on n; its body is traced once: keep it in SBUF or HBM"),
        ("p = q = 0\nfor i in nl.dynamic_range(4):\n    p, q = q, i", "hands on q;"),
        ("for i in nl.dynamic_range(4):\n    if n:\n        m = i\n    else:\n        m = m", "hands on m;"),
        ("m = 1\nfor i in nl.dynamic_range(4):\n    if m:\n        m = 0", "hands on m;"),
        ("m = 1\nfor i in nl.dynamic_range(4):\n    if n:\n        m = i\n    print(m)", "hands on m;"),
        ("m = 1\nfor i in nl.dynamic_range(4):\n    with nl.no_reorder(m):\n        m = i", "hands on m;"),
        ("for i in nl.dynamic_range(4):\n    m = i\nfor j in range(m):\n    pass", "hands on m;"),
        ("for i in nl.dynamic_range(4):\n    x[n] = n = i", "hands on n;"),
    ],
)
def test_what_no_function_can_do(body, why):
    assert why in refusal(body, "a, n", LATER)
    assert "for i in nl.dynamic_range(4):" in migrate_kernel(body, "a, n", LATER).text


@pytest.mark.parametrize(
    "body",
    [
        "for i in nl.dynamic_range(4):\n    m = i + n\n    k = m\nm = 3\nprint(m)",
        "for i in nl.dynamic_range(4):\n    for j in range(2):\n        m = j\n    print(m)",
        "for i in nl.dynamic_range(4):\n    if n:\n        m = i\n    else:\n        m, k = n, i\n    print(m)",
        "for i in nl.dynamic_range(4):\n    with nl.no_reorder():\n        m = i\n    print(m)",
        "for i in nl.dynamic_range(4):\n    i = i + 1",
    ],
)
def test_names_that_each_turn_assigns_first_are_its_own(body):
    assert "def loop_body_1(i):" in migrated(body, "a, n", LATER)


def test_an_index_that_instructions_on_registers_may_take_is_noted():
    body = "for i in nl.dynamic_range(n):\n    nisa.register_store(a, i)\n"
    (note,) = migrate_kernel(body, "a, n", LATER).notes
    assert note.kind == CHECK and note.message.startswith("i is an NkiScalar since NKI 0.7")
    assert not migrate_kernel("n = nisa.register_alloc(2)\n" + body, head=LATER).notes
