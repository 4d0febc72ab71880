"""The table of timing numbers: complete, sourced, and the only place that has any."""

import ast
from pathlib import Path

import pytest
from trninfer.simulator.timing import constants as package
from trninfer.simulator.timing.constants import MARKS, TABLE, TARGETS, constants, machine, override, overrides

SIMULATOR = Path(package.__file__).parents[2]
HOLDERS = {"m", "machine", "constants"}  # what a Machine is called where one is read
ELSEWHERE = {"hbm_stack_rate"}  # read by reports, not by the schedule


def names_read():
    """The attributes read off anything that is called like a machine, in all of the simulator."""
    found = set()
    for path in SIMULATOR.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and (
                ast.unparse(node.value).removeprefix("self.") in HOLDERS or _makes_a_machine(node.value)
            ):
                found.add(node.attr)
    return found


def _makes_a_machine(value):
    return isinstance(value, ast.Call) and ast.unparse(value.func) == "machine"


def test_every_number_is_used_and_every_number_used_is_in_the_table():
    used = names_read()
    assert set(TABLE) - used <= ELSEWHERE
    modules = {"cache_clear", "override", "overrides"}
    assert {name for name in used if name not in TABLE} <= modules


@pytest.mark.parametrize("target", TARGETS)
def test_every_number_has_a_source_a_mark_and_rows_where_it_is_fitted(target):
    for name, constant in constants(target).items():
        assert constant.mark in MARKS and constant.source, name
        assert constant.rows or constant.mark != "fitted", name


def test_a_machine_has_the_names_of_the_table_and_no_other():
    assert set(vars(machine("trn2"))) == set(TABLE)
    with pytest.raises(AttributeError):
        machine("trn2").no_such_constant  # noqa: B018


def test_an_override_makes_another_machine_and_goes_again():
    before = machine("trn2")
    override("trn2", "trigger_ns", 99.0)
    try:
        assert machine("trn2").trigger_ns == 99.0 and overrides() == (("trn2", "trigger_ns", 99.0),)
    finally:
        override("trn2", "trigger_ns", None)
    assert machine("trn2").trigger_ns == before.trigger_ns and overrides() == ()
    with pytest.raises(KeyError):
        override("trn2", "no_such_constant", 1.0)
