"""Code in functions that is never traced is not checked."""

import ast

import pytest
from trninfer.simulator.checking.lint import check_source
from trninfer.simulator.checking.lint.dead_code import drop_dead_code

TOO_LARGE = "t = nl.ndarray((256, 512), dtype=nl.float32, buffer=nl.sbuf)"
KERNEL = """\
import nki
import nki.isa as nisa
import nki.language as nl

DEBUG = False
{constant}

@nki.jit
def kernel(a, flag=False):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    {lines}
    nisa.dma_copy(dst=out, src=a)
    return out
    {after}
"""
DEAD = [
    f"if False: {TOO_LARGE}",
    f"if 0: {TOO_LARGE}",
    f"if DEBUG: {TOO_LARGE}",
    f"if not True: {TOO_LARGE}",
    f"if True: pass\n    else: {TOO_LARGE}",
    f"if True: pass\n    elif flag: {TOO_LARGE}",
    f"while False: {TOO_LARGE}",
    f"for i in range(0): {TOO_LARGE}",
    f"for i in range(4, 2): {TOO_LARGE}",
    f"for i in range(3):\n        continue\n        {TOO_LARGE}",
    f"try:\n        if DEBUG: {TOO_LARGE}\n    finally: pass",
    "t = nl.ndarray((256 if DEBUG else 128, 512), dtype=nl.float32, buffer=nl.sbuf)",
]
ALIVE = [
    f"if True: {TOO_LARGE}",
    f"if flag: {TOO_LARGE}",
    f"if DEBUG: pass\n    else: {TOO_LARGE}",
    f"if a.shape[0]: {TOO_LARGE}",
    f"for i in range(4): {TOO_LARGE}",
    f"for i in range(2, 4): {TOO_LARGE}",
    f"while flag: {TOO_LARGE}",
]


def rules(lines="pass", after="", constant=""):
    return [found.rule for found in check_source(KERNEL.format(lines=lines, after=after, constant=constant))]


@pytest.mark.parametrize("lines", DEAD)
def test_dead_code_is_not_checked(lines):
    assert rules(lines) == []


def test_code_after_a_return_is_not_checked():
    assert rules(after=TOO_LARGE) == [] and rules(TOO_LARGE) == ["tile-size"]


@pytest.mark.parametrize("lines", ALIVE)
def test_living_code_is_checked(lines):
    assert rules(lines) == ["tile-size"]


@pytest.mark.parametrize(
    "binding", ["DEBUG = True", "from flags import DEBUG", "from flags import ON as DEBUG", "from flags import *"]
)
def test_a_name_that_changes_is_no_constant(binding):
    assert "tile-size" in rules(f"if DEBUG: {TOO_LARGE}", constant=binding)


def test_a_long_chain_is_left_as_it_is():
    chain = "\n".join(f"    elif n == {i}: pass" for i in range(400))
    tree = ast.parse(f"def f(n):\n    if n: pass\n{chain}\n")
    drop_dead_code(tree)
    assert ast.unparse(tree).count("elif") == 400
