"""`bench --set`: the constants it accepts, and the targets it applies to."""

import json
from pathlib import Path

import pytest
from trninfer.app.bench.what_if import another_machine, parse_constants
from trninfer.app.errors import UsageError
from trninfer.simulator.timing.constants import TABLE, TARGETS, machine


def test_predictions_change_with_the_constants(cli) -> None:
    shape = ("bench", "--kernel", "vector_add", "--shape", "n=1280000")
    plain = cli(*shape, "--format", "json").json()
    faster = cli(*shape, "--format", "json", "--set", "dma_sustained=500", "--set", "launch_ns=0").json()
    assert faster["total_us"] < plain["total_us"]
    told = cli(*shape, "--set", "dma_sustained=500")
    assert "a machine that differs from trn2: dma_sustained = 500 (not 368)" in told.out + told.err
    assert cli(*shape, "--format", "json").json()["total_us"] == plain["total_us"]
    wrong = {
        "dma_sustained": "name=value",
        "no_such=1": "not a constant",
        **dict.fromkeys(("launch_ns=x", "launch_ns=1_0", "launch_ns=\u0661\u0662"), "a number"),
    }
    for given, message in wrong.items():
        refused = cli(*shape, "--set", given)
        assert refused.status == 2 and message in refused.err


def test_constants_are_read_from_a_file(cli, tmp_path) -> None:
    shape = ("bench", "--kernel", "vector_add", "--shape", "n=1280000", "--format", "json")
    file = tmp_path / "machine.json"

    def total(content: object, *more: str) -> float:
        file.write_text(json.dumps(content), encoding="utf-8")
        return cli(*shape, "--set", f"@{file}", *more).json()["total_us"]

    faster = cli(*shape, "--set", "dma_sustained=500").json()["total_us"]
    assert total({"dma_sustained": 500}) == total({"trn2": {"dma_sustained": 500}, "trn1": {}}) == faster
    assert total({"dma_sustained": 100}, "--set", "dma_sustained=500") == faster
    assert total({"trn1": {"dma_sustained": 500}}) == cli(*shape).json()["total_us"]
    for content, message in (
        ("{", "is not valid JSON"),
        ("[1]", "must be an object of constants"),
        ('{"launch_ns": "1"}', "launch_ns must be a number, not '1'"),
        ('{"trn2": {"launch_ns": true}}', "trn2: launch_ns must be a number, not True"),
        ('{"no_such": 1}', "not a constant"),
    ):
        file.write_text(content, encoding="utf-8")
        refused = cli(*shape, "--set", f"@{file}")
        assert refused.status == 2 and message in refused.err, refused
        assert len(refused.err.splitlines()) == 1 and refused.out == ""
    assert "none.json: no such file" in cli(*shape, "--set", f"@{tmp_path / 'none.json'}").err


def test_the_earlier_constants_name_every_constant() -> None:
    file = Path(__file__).parents[3] / "benchmarks" / "data" / "earlier-constants.json"
    earlier = parse_constants([f"@{file}"])
    assert {target: set(values) for target, values in earlier.items()} == {key: set(TABLE) for key in TARGETS}


def test_values_by_target_and_name(tmp_path) -> None:
    file = tmp_path / "machine.json"
    file.write_text('{"trn1": {"launch_ns": 7}, "trn3": {"dma_sustained": 2.5}}')
    assert parse_constants([]) == {}
    assert parse_constants([f"@{file}"]) == {"trn1": {"launch_ns": 7.0}, "trn2": {}, "trn3": {"dma_sustained": 2.5}}
    found = parse_constants([f"@{file}", " launch_ns = 1e3 "])
    assert found == {
        "trn1": {"launch_ns": 1000.0}, "trn2": {"launch_ns": 1000.0},
        "trn3": {"dma_sustained": 2.5, "launch_ns": 1000.0},
    }  # fmt: skip
    file.write_text("{}")
    assert parse_constants([f"@{file}"]) == {}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("a=",), "'a=' must be name=value"),
        (("=1",), "'=1' must be name=value"),
        (("a=1", "b=2", "a=1"), "a is given twice"),
        (("a=x",), "a must be a number, not 'x'"),
    ],
)
def test_unknown_or_invalid_constant_is_refused(given, message) -> None:
    with pytest.raises(UsageError, match=f"^--set: {message}"):
        parse_constants(given)


def test_another_machine_is_there_only_meanwhile() -> None:
    before = {target: machine(target).dma_sustained for target in TARGETS}
    values = {target: {"dma_sustained": 500.0} for target in TARGETS}
    with another_machine("sim", "trn2", values):
        assert [machine(target).dma_sustained == 500 for target in ("trn1", "trn2")] == [False, True]
    with another_machine("sim", None, values):
        assert all(machine(target).dma_sustained == 500 for target in TARGETS)
    with pytest.raises(ZeroDivisionError), another_machine("sim", None, values):
        raise ZeroDivisionError
    with another_machine("neuron", "trn2", {}):  # nothing was requested
        pass
    assert {target: machine(target).dma_sustained for target in TARGETS} == before


@pytest.mark.parametrize(
    ("backend", "value", "message"),
    [
        ("neuron", {"dma_sustained": 1.0}, "--set changes predictions, so it requires --backend sim"),
        ("sim", {"no_such": 1.0}, "--set: 'no_such' is not a constant of the timing model"),
        ("sim", {"dma_sustained": -1.0}, "--set: .*dma_sustained"),
    ],
)
def test_a_machine_that_cannot_be(backend, value, message) -> None:
    before = machine("trn2").dma_sustained
    with pytest.raises(UsageError, match=f"^{message}"), another_machine(backend, "trn2", {"trn2": value}):
        pass
    assert machine("trn2").dma_sustained == before
