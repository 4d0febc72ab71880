"""The table of published kernels."""

from trninfer.benchmarks.measurements import load_all_kernel_rows
from trninfer.benchmarks.published_rows import key_of, saved, table
from trninfer.runtime.measure.published import published_kernels


def test_every_row_is_saved_and_is_the_measurement_that_it_names():
    predicted, rows = saved(), {row.id: row for row in load_all_kernel_rows()}
    assert set(predicted) == {key_of(each) for each in published_kernels() if each.is_predicted}
    assert set(rows) == {each.row for each in published_kernels() if each.row}
    for each in published_kernels():
        if each.row:
            row = rows[each.row]
            assert each.repository == row.source.split()[0] and each.target == row.device
            assert each.row[0] == "k" or f"{each.file} @{each.commit}" in row.source
            assert abs(each.published_us - row.latency_us) < 0.05


def test_rows_that_cannot_be_compared_are_shown_and_not_counted():
    counted = [each for each in published_kernels() if each.is_comparable]
    predicted = {key_of(each): 2 * each.published_us for each in counted}
    others = [each for each in published_kernels() if not each.is_comparable]
    lines = table({**predicted, **{key_of(each): 1.0 for each in others if each.is_predicted}})
    assert lines[-1] == f"Mean absolute error over {len(counted)} published kernels: 100.0 %."
    assert sum("not counted" in line for line in lines) == len(others)
