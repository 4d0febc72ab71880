"""Limits of a migration: depth, time, and a stack that is deep enough for the allowed depth."""

import ast
import time

import pytest

pytest.importorskip("libcst")
from migrated_kernels import FIRST
from trninfer.simulator.migrate import LimitError, MigrationError, limits, migrate_source, module
from trninfer.simulator.migrate.limits import Deadline, refuse_deep, with_deep_stack


def kernel(expression):
    return f"{FIRST}@nki.jit\ndef kernel(a):\n    n = {expression}\n    return nl.load(a[0:n, 0:8])\n"


def test_a_long_sum_is_migrated():
    terms = " + ".join(["a.shape[0]"] * 400)
    assert f"n = {terms}\n" in migrate_source(kernel(terms)).text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (kernel("+".join("1" * 1_200)), "line 8 is nested deeper than 1,000 levels"),
        (kernel("-" * 90_000 + "1"), "it is nested too deeply to be parsed"),
        (kernel("(" * 5_000 + "1" + ")" * 5_000), "nested"),
    ],
    ids=["sum", "signs", "brackets"],
)
def test_deeply_nested_code_is_refused_in_one_line(text, why):
    with pytest.raises((LimitError, SyntaxError), match=why):
        migrate_source(text)


def test_depth():
    refuse_deep(ast.parse("x = 1"))
    with pytest.raises(LimitError, match="line 2 is"):
        refuse_deep(ast.parse("y = 0\nx = " + "+".join("1" * 1_200)))


def test_time(monkeypatch):
    Deadline().check()
    with pytest.raises(LimitError, match="more than 0 s"):
        late = Deadline(0.001)
        while time.thread_time() < late._end + 0.001:
            pass
        late.check()
    monkeypatch.setattr(limits.Deadline.__init__, "__defaults__", (-1.0,))
    with pytest.raises(LimitError, match="its migration takes more than"):
        migrate_source(kernel("1"))


def test_errors_of_the_thread_are_raised_here():
    assert with_deep_stack(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        with_deep_stack(lambda: 1 / 0)


def test_an_internal_error_is_a_fault_of_the_migration(monkeypatch):
    monkeypatch.setattr(module.Migrator, "migrate", lambda self: {}["why"])
    with pytest.raises(MigrationError, match="KeyError: 'why'"):
        migrate_source(kernel("1"))


def test_an_internal_error_in_a_statement_is_noted_as_ours(monkeypatch):
    def fail(self, node):
        raise KeyError("why")

    monkeypatch.setattr(module.Statements, "migrate", fail)
    notes = migrate_source(kernel("1")).notes
    assert {note.message for note in notes} == {"an internal error of trninfer; please report it: KeyError: 'why'"}


@pytest.mark.parametrize(
    ("call", "missing"),
    [
        ("nl.matmul(x)", "y"),
        ("nl.transpose()", "x"),
        ("nl.broadcast_to(x)", "shape"),
        ("nl.where(x)", "x"),
        ("nl.load()", "src"),
        ("nl.zeros()", "shape"),
        ("nisa.nc_matmul(x)", "moving"),
        ("nisa.iota(dtype=nl.int32)", "expr"),
        ("nl.store()", "dst"),
    ],
)
def test_a_call_without_a_required_argument_is_the_authors_mistake(call, missing):
    text = f"{FIRST}@nki.jit\ndef kernel(a):\n    x = nl.load(a[0:128, 0:8])\n    y = {call}\n    return x\n"
    messages = {note.message for note in migrate_source(text).notes if note.line == 9}
    assert messages == {f"the call lacks the argument {missing}"}
