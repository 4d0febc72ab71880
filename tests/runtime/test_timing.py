"""Sums of times over batches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trninfer.runtime.backend import LaunchTime
from trninfer.runtime.timing import BATCH, Row, Totals, named_timelines, with_batch

ROWS = (Row("a.matmul", "matmul", (20, BATCH), (BATCH, 30)), Row("argmax", "argmax", (BATCH, 30), (BATCH,)))
TIME = LaunchTime(10.0, 12.0, 4.0, 5.0, 100, 1000, "dma", 0.5)


def test_shapes_have_all_inputs_on_the_batch_axis_wherever_it_is() -> None:
    totals = Totals(ROWS)
    totals.add(4, [TIME, TIME])
    totals.add(3, [TIME, TIME])
    assert [(row.input_shape, row.output_shape) for row in totals.layers()] == [((20, 7), (7, 30)), ((7, 30), (7,))]
    assert with_batch((BATCH, 3, 5), 2) == (2, 3, 5)


def test_sum_is_unknown_if_the_value_of_one_batch_is() -> None:
    totals = Totals(ROWS[:1])
    totals.add(1, [TIME])
    totals.add(1, [LaunchTime(30.0, None, None, None, 1, 1, "tensor", None)])
    row = totals.layers()[0]
    assert (row.latency_us, row.latency_us_p99, row.device_us, row.mfu) == (40.0, None, None, None)
    assert (row.flops, row.hbm_bytes, row.bound_by, row.share) == (101, 1001, "tensor", 1.0)


def test_bound_and_form_of_a_row_are_those_of_the_longest_batch() -> None:
    totals = Totals(ROWS[:1])
    for latency, bound, form in ((10.0, "dma", "direct"), (30.0, None, "pairs"), (20.0, "tensor", "squares")):
        totals.add(1, [LaunchTime(latency, bound_by=bound, form=form)])
    assert totals.layers()[0].bound_by is None and totals.layers()[0].form == "pairs"


def test_workers_are_distinguished() -> None:
    totals = Totals(ROWS)
    for worker in (1, 0, 1):
        totals.add(2, [TIME, TIME], worker)
    assert totals.worker_us == {0: 20.0, 1: 40.0} and list(totals.worker_us) == [0, 1]
    assert totals.total_us == 60.0 and totals.count == 6


def test_totals_without_batches_are_empty() -> None:
    assert Totals(ROWS).layers() == () and Totals(ROWS).total_us == 0 and Totals(ROWS).worker_us == {}


def test_a_time_for_each_row_is_needed() -> None:
    with pytest.raises(ValueError, match="1 times for 2 rows"):
        Totals(ROWS).add(1, [TIME])


@given(st.lists(st.tuples(st.floats(0.1, 1e6), st.floats(0, 1), st.integers(1, 9)), min_size=1, max_size=20))
def test_sums_over_any_batches(batches: list[tuple[float, float, int]]) -> None:
    totals = Totals(ROWS[:1])
    for latency, mfu, size in batches:
        totals.add(size, [LaunchTime(latency, mfu=mfu, flops=3)])
    row = totals.layers()[0]
    whole = sum(latency for latency, _, _ in batches)
    assert row.latency_us == pytest.approx(whole) and row.flops == 3 * len(batches)
    assert row.mfu == pytest.approx(sum(latency * mfu for latency, mfu, _ in batches) / whole)
    assert row.input_shape == (20, sum(size for _, _, size in batches))


def test_timelines_are_named_after_their_rows() -> None:
    timeline = object()
    assert named_timelines(ROWS, (None, timeline)) == (("argmax", timeline),)
