"""The uncertainty of predictions: computed from rows that are left out, and stored as computed."""

import pytest
from trninfer import kernels, simulator
from trninfer.benchmarks import expected_errors
from trninfer.benchmarks.expected_errors import Record, coverage, load
from trninfer.benchmarks.measurements import load_all_kernel_rows
from trninfer.runtime.measure.published import find_row
from trninfer.simulator.timing.expected_error import DIFFERENCES, ERRORS, KINDS, NOT_VALIDATED, REST, expected_error

ROWS = load_all_kernel_rows()
OURS = ("k03", "k04", "k06", "k19", "k22", "k25")


def made_up(*errors: float, kind: str = "dma", device: str = "trn2") -> list[Record]:
    return [Record(f"k{number:02}", device, kind, 100.0, error) for number, error in enumerate(errors, 1)]


def test_the_simulator_holds_what_the_rows_give() -> None:
    assert expected_errors.expected_errors(load()) == ERRORS
    assert expected_errors.differences(load()) == DIFFERENCES


def test_two_rows_of_three_lie_within() -> None:
    records = load()
    assert [record.id for record in records] == [row.id for row in ROWS if find_row(row.id).is_comparable]
    known, unseen = coverage(records)
    assert 2 / 3 <= known / len(records) <= 0.99
    assert unseen / len(records) >= 2 / 3


def test_the_rows_were_kept_with_the_model_of_today() -> None:
    """Restricted to kernels that trninfer also has: they issue the instructions of the published ones."""
    for row in OURS:
        published, record = find_row(row), next(record for record in load() if record.id == row)
        (free,) = published.constants.values()
        run = simulator.run(
            kernels.vector_add_stream,
            *published.arguments,
            target=published.target,
            dge=published.dge,
            profiled=published.profiled,
            functional=False,
            free=free,
        )
        assert run.latency_us == pytest.approx(record.predicted_us, rel=1e-3), row
        assert run.kind == record.kind and run.latency_error >= expected_error(record.device, record.kind)


def test_a_share_is_the_least_that_two_thirds_lie_within() -> None:
    # k01 to k06 come from one repository: without it no row is left, so the worst row of its two families is used.
    found = expected_errors.expected_errors(made_up(1.2, -3.4, 5.0, -7.1, 20.0, 90.0))
    assert found == {"trn2": {"dma": 0.9, REST: 0.9}}
    spread = [Record(i, "trn2", "dma", 100.0, e) for i, e in zip(SPREAD, (1.2, -3.4, 5.0, -7.1, 6.0, 2.0, 9.0))]
    assert (
        expected_errors.expected_errors(spread)["trn2"]["dma"] == 0.09
    )  # the last of three rows from one repository; a fourth would be similar


# Rows from five repositories.
SPREAD = ("k02", "k03", "k22", "k24", "k34", "o01", "o43")


def test_one_repositorys_many_rows_do_not_make_a_kind_look_sure() -> None:
    many = [Record(f"o{row:02}", "trn2", "dma", 100.0, 0.5) for row in range(2, 18)]
    others = [Record(i, "trn2", "dma", 100.0, 1.5 + n) for n, i in enumerate(("k02", "k03", "k22", "k24", "k34"))]
    assert expected_errors.expected_errors(many + others)["trn2"]["dma"] == 0.06
    alone = [*many, *(record._replace(kind="tensor") for record in others)]
    found = expected_errors.expected_errors(alone)["trn2"]
    assert found["dma"] == found[REST] > 0.01  # of a kind that nobody else has measured


def test_a_kernel_unlike_all_families_is_less_sure_than_one_like_them() -> None:
    for kind in ("tensor", "dma"):
        assert ERRORS["trn2"][REST] >= ERRORS["trn2"][kind]


def test_a_target_with_few_families_is_no_surer_than_the_least_sure() -> None:
    known = [Record(i, "trn2", "dma", 100.0, 20.0) for i in SPREAD]
    few = [Record(f"o{row}", "trn3", "gpsimd", 100.0, 1.0) for row in (38, 39, 40)]
    assert expected_errors.expected_errors(known + few)["trn3"] == {"gpsimd": 0.2, REST: 0.2}


def test_a_row_is_inside_by_its_kind_or_else_the_rest() -> None:
    record = Record("k01", "trn2", "dma", 100.0, 6.0)
    assert expected_errors.inside(record, {"trn2": {"dma": 0.06, REST: 0.01}})
    assert not expected_errors.inside(record, {"trn2": {REST: 0.04}})


def test_a_repository_left_out_is_judged_by_the_others() -> None:
    records = [Record(i, "trn2", "dma", 100.0, 2.0) for i in SPREAD]
    records += [Record("o38", "trn3", "gpsimd", 100.0, 30.0)]
    assert coverage(records) == (8, 7)  # trn2's error of 2 % alone would not predict an error of 30 %


def test_kinds_and_targets_are_known() -> None:
    assert set(ERRORS) == {"trn1", "trn2", "trn3"} and expected_error("trn9", "dma") is None
    for errors in ERRORS.values():
        assert set(errors) <= {*KINDS, REST} and all(0 < share < 1 for share in errors.values())
    assert expected_error("trn2", "no such kind") == NOT_VALIDATED
