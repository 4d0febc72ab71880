"""How sure predictions are: computed from the rows left out, and kept as computed."""

import pytest
from trninfer.benchmarks import expected_errors
from trninfer.benchmarks.expected_errors import Record, coverage, load
from trninfer.benchmarks.measurements import load_all_kernel_rows
from trninfer.benchmarks.predictions import run_of
from trninfer.simulator.timing.expected_error import DIFFERENCES, ERRORS, KINDS, REST, expected_error

ROWS = {row.id: row for row in load_all_kernel_rows()}
QUICK = ("k03", "k04", "k06", "k13", "k19", "k24", "k25", "k28", "o01", "o09")


def made_up(*errors: float, kind: str = "dma", device: str = "trn2") -> list[Record]:
    return [Record(f"k{number:02}", device, kind, 100.0, error) for number, error in enumerate(errors, 1)]


def test_the_simulator_holds_what_the_rows_give() -> None:
    assert expected_errors.expected_errors(load()) == ERRORS
    assert expected_errors.differences(load()) == DIFFERENCES


def test_two_rows_of_three_lie_within() -> None:
    records = load()
    assert [record.id for record in records] == list(ROWS)
    known, unseen = coverage(records)
    assert 2 / 3 <= known / len(records) <= 0.85
    assert unseen / len(records) >= 0.5


@pytest.mark.parametrize("row", QUICK)
def test_the_rows_were_kept_with_the_model_of_today(row: str) -> None:
    run = run_of(ROWS[row])
    record = next(record for record in load() if record.id == row)
    assert run.latency_us == pytest.approx(record.predicted_us, rel=1e-4)
    assert run.kind == record.kind and run.latency_error == expected_error(record.device, record.kind)


def test_a_share_is_the_least_that_two_thirds_lie_within() -> None:
    found = expected_errors.expected_errors(made_up(1.2, -3.4, 5.0, -7.1, 20.0, 90.0))
    assert found == {"trn2": {"dma": 0.08, REST: 0.9}}  # k03 to k06 are of one family


def test_one_familys_many_rows_do_not_make_a_kind_look_sure() -> None:
    tutorial, others = ("k34", "k35", "k36", "k37"), ("k02", "k03", "k08", "k09", "o01")
    records = [Record(i, "trn2", "dma", 100.0, 0.5) for i in tutorial]
    records += [Record(i, "trn2", "dma", 100.0, 1.5 + n) for n, i in enumerate(others)]
    assert expected_errors.expected_errors(records)["trn2"] == {"dma": 0.05, REST: 0.05}


def test_a_kernel_unlike_all_families_is_less_sure_than_one_like_them() -> None:
    tutorial, others = ("k34", "k35", "k36", "k37"), {"k02": 9.0, "k03": 3.0, "k08": -20.0, "o01": 14.0}
    records = [Record(i, "trn2", "tensor", 100.0, 0.5) for i in (*tutorial, "k35")]
    records += [Record(i, "trn2", "dma", 100.0, error) for i, error in others.items()]
    found = expected_errors.expected_errors(records)["trn2"]
    assert found == {"tensor": 0.01, "dma": 0.14, REST: 0.14}
    for kind in ("tensor", "gpsimd", "dma", "launch"):
        assert ERRORS["trn2"][REST] > ERRORS["trn2"][kind]


def test_a_kind_of_few_rows_is_no_surer_than_all_rows_of_its_target() -> None:
    records = made_up(*[4.0] * 8) + made_up(50.0, 60.0, kind="latency") + made_up(0.5, kind="short")
    found = expected_errors.expected_errors(records)
    assert found == {"trn2": {"dma": 0.04, "latency": 0.6, "short": 0.04, REST: 0.04}}
    assert all(expected_errors.inside(record, found) for record in records)
    assert not expected_errors.inside(records[-2], {"trn2": {REST: 0.04}})


def test_kinds_and_targets_are_known() -> None:
    assert set(ERRORS) == {"trn1", "trn2"} and expected_error("trn3", "dma") is None
    for errors in ERRORS.values():
        assert set(errors) <= {*KINDS, REST} and all(0 < share < 1 for share in errors.values())
    assert expected_error("trn2", "no such kind") == ERRORS["trn2"][REST]
