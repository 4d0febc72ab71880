"""Device loops, which become calls of nl.fori_loop and nl.while_loop."""

import ast

import numpy as np
import pytest
from migrated_kernels import LATER, migrate_kernel, migrated, migrated_each, refused_each, run_migrated

pytest.importorskip("libcst")
from trninfer.simulator.migrate import CHECK
from trninfer.simulator.migrate.context import Context
from trninfer.simulator.migrate.device_loops import refuse_carried
from trninfer.simulator.migrate.names import Names
from trninfer.simulator.migrate.notes import CannotError, Notes


def test_counted_loops():
    cases = {
        "4": "nl.fori_loop(0, 4, loop_body_1)",
        "1, n": "nl.fori_loop(1, n, loop_body_2)",
        "1, n, 2": "nl.fori_loop(1, n, loop_body_3, step=2)",
        "start=1, stop=n": "nl.fori_loop(1, n, loop_body_4)",
        "1, stop=n, step=2": "nl.fori_loop(1, n, loop_body_5, step=2)",
    }
    loop = "# each\nfor i in nl.dynamic_range({}):\n    nisa.memset(a[i], 0.0)  # row"
    assert migrated_each([loop.format(bounds) for bounds in cases], "", "a, n", LATER) == [
        f"# each\ndef loop_body_{number}(i):\n    nisa.memset(a[i], 0.0)  # row\n{call}"
        for number, call in enumerate(cases.values(), 1)
    ]


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


def test_statements_that_a_device_loop_does_not_allow():
    why = "`{}` in a device loop, whose body is a function that is traced once"
    cases = {
        "for i in nl.dynamic_range(4):\n    pass\nelse:\n    pass": "a device loop cannot have an else branch",
        "for i in nl.dynamic_range(4):\n    continue": why.format("continue"),
        "for i in nl.dynamic_range(4):\n    return": why.format("return"),
        "for i in nl.dynamic_range(4):\n    if a:\n        break": why.format("break"),
    }
    assert refused_each(list(cases), head=LATER) == list(cases.values())
    text = migrate_kernel("\n".join(cases), head=LATER).text
    assert text.count("for i in nl.dynamic_range(4):") == len(cases) == text.count("# migrate: ")


def carried(*lines):
    """Return the names because of which the loop in the first line is rejected."""
    tree = ast.parse("def f(a, n):\n" + "".join(f"    {line}\n" for line in lines))
    ctx = Context(Names(tree), Notes(), {}, registers={"r"})
    try:
        refuse_carried(tree.body[0], tree.body[0].body[0], ctx)
    except CannotError as error:
        before, _, after = str(error).partition(" to its next iteration, ")
        assert after == "but its body is traced only once: keep the value in SBUF or HBM"
        return before.removeprefix("a device loop passes ")
    return ""


LOOP = "for i in nl.dynamic_range(4):"


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        ([LOOP, "    n = n + i"], "n"),
        ([LOOP, "    n += i"], "n"),
        ([LOOP, "    p, q = q, i"], "q"),
        ([LOOP, "    x[n] = n = m = m + i"], "m, n"),
        ([LOOP, "    if a:", "        m = i", "    else:", "        m = m"], "m"),
        ([LOOP, "    if m:", "        m = 0"], "m"),
        ([LOOP, "    while m:", "        m = 0"], "m"),
        ([LOOP, "    if a:", "        m = i", "    print(m)"], "m"),
        ([LOOP, "    with nl.no_reorder(m):", "        m = i"], "m"),
        ([LOOP, "    for j in m:", "        m = i"], "m"),
        ([LOOP, "    m = i", "for j in range(m):", "    pass"], "m"),
        ([LOOP, "    def g():", "        return m", "    m = 1"], "m"),
        ([LOOP, "    m = i + n", "    k = m", "m = 3", "print(m)"], ""),
        ([LOOP, "    for j in range(2):", "        m = j", "    print(m)"], ""),
        ([LOOP, "    if n:", "        m = i", "    else:", "        m, k = n, i", "    print(m)"], ""),
        ([LOOP, "    with nl.no_reorder():", "        m = i", "    print(m)"], ""),
        ([LOOP, "    i = i + 1", "    r = r"], ""),
        (["while r:", "    m = m + 1"], "m"),
    ],
)
def test_names_that_a_turn_hands_on(lines, names):
    assert carried(*lines) == names


def test_a_loop_that_hands_something_on_stays():
    body = f"{LOOP}\n    n = n + i"
    assert refused_each([body], "", "a, n", LATER)[0].startswith("a device loop passes n ")
    assert LOOP in migrate_kernel(body, "a, n", LATER).text


def test_an_index_that_instructions_on_registers_may_take_is_noted():
    body = "for i in nl.dynamic_range(n):\n    nisa.register_store(a, i)\n"
    (note,) = migrate_kernel(body, "a, n", LATER).notes
    assert note.kind == CHECK and note.message.startswith("i is an NkiScalar since NKI 0.7")
    assert not migrate_kernel("n = nisa.register_alloc(2)\n" + body, head=LATER).notes
