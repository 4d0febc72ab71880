"""The statistics of the accuracy benchmark, compared with hand-computed values and scipy."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trninfer.benchmarks.error_statistics import percentage_error, rank_correlation, summarize


def test_errors_are_signed_and_in_percent_of_the_measurement() -> None:
    assert percentage_error(110, 100) == pytest.approx(10)
    assert percentage_error(50, 200) == pytest.approx(-75)


def test_a_summary_takes_magnitudes() -> None:
    found = summarize([110, 90, 200], [100, 100, 100])
    assert (found.rows, found.mean, found.largest) == (3, pytest.approx(40), pytest.approx(100))


@pytest.mark.parametrize(("predicted", "measured"), [([], []), ([1.0], [1.0, 2.0])])
def test_unsuitable_rows_are_refused(predicted: list[float], measured: list[float]) -> None:
    with pytest.raises(ValueError, match="the numbers must be equal"):
        summarize(predicted, measured)


def test_rank_correlation_of_the_same_and_the_opposite_order() -> None:
    assert rank_correlation([1, 5, 7], [10, 11, 300]) == pytest.approx(1)
    assert rank_correlation([1, 5, 7], [30, 11, 3]) == pytest.approx(-1)
    assert math.isnan(rank_correlation([1], [2]))


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=30))
def test_rank_correlation_with_ties_is_scipys(pairs: list[tuple[int, int]]) -> None:
    stats = pytest.importorskip("scipy.stats")
    a, b = [float(x) for x, _ in pairs], [float(y) for _, y in pairs]
    if len(set(a)) == 1 or len(set(b)) == 1:
        assert math.isnan(rank_correlation(a, b))
    else:
        np.testing.assert_allclose(rank_correlation(a, b), stats.spearmanr(a, b).statistic, atol=1e-12)
