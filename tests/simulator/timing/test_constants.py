"""The table of timing numbers: complete, sourced, and the only place that has any."""

import ast
from pathlib import Path

import pytest
from trninfer import simulator
from trninfer.kernels import vector_add_stream
from trninfer.simulator.timing import constants as package
from trninfer.simulator.timing.constants import MARKS, TABLE, TARGETS, constants, machine, override, overrides

SIMULATOR = Path(package.__file__).parents[2]
HOLDERS = {"m", "machine", "constants"}  # what a Machine is called where one is read
ELSEWHERE = {"hbm_stack_rate"}  # read by reports, not by the schedule


def names_read():
    """The attributes read off anything that is called like a machine, in all of the simulator."""
    found = set()
    for path in SIMULATOR.rglob("*.py"):
        if "migrate" in path.parts:  # rewrites sources and has no times; its `m` are libcst's matchers
            continue
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


def test_a_run_on_another_machine_says_so_and_leaves_no_trace():
    vector = simulator.TensorSpec((128 * 20_000,), "float32")

    def run(**more):
        return simulator.run(vector_add_stream, vector, vector, functional=False, free=2000, **more)

    plain, faster = run(), run(constants={"dma_sustained": 500})
    assert faster.latency_us < plain.latency_us
    assert plain.note is None and "dma_sustained = 500 (not 368) B/ns" in faster.note
    assert overrides() == () and run().latency_us == plain.latency_us


@pytest.mark.parametrize(
    ("constants", "told"),
    [
        ({"dma_sustaned": 1}, "near: dma_sustained"),
        ({"dma_peak": 0}, "allowed from 1 on"),
        ({"hop_tensor_ns": -1}, "0 or more"),
        ({"hop_tensor_ns": float("nan")}, "0 or more"),
        ({"hop_tensor_ns": 60, "no_such": 2}, "no_such"),
    ],
)
def test_impossible_constants_are_refused_whole(constants, told):
    vector = simulator.TensorSpec((256,), "float32")
    with pytest.raises(simulator.NkiValidationError, match=told):
        simulator.run(vector_add_stream, vector, vector, functional=False, free=2, constants=constants)
    assert overrides() == ()
