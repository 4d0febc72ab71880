"""The clock of the Tensor Engine runs at full speed in a window after a busy one, and at half speed otherwise."""

import pytest
from trninfer.simulator.timing.clock import PeClock


def clock() -> PeClock:
    return PeClock(window=100.0, threshold=0.5)


def test_the_clock_is_full_in_the_window_after_a_busy_one_and_no_longer() -> None:
    pe = clock()
    assert not pe.warm(0)
    pe.work(0, 60, 1.0)
    assert not pe.warm(99.9) and pe.warm(100) and pe.warm(199.9) and not pe.warm(200)


@pytest.mark.parametrize(("busy", "warms"), [(49, False), (50, False), (51, True)])
def test_a_window_must_be_busier_than_the_threshold(busy: float, warms: bool) -> None:
    pe = clock()
    pe.work(0, busy, 1.0)
    assert pe.warm(100) is warms


def test_rounding_of_many_short_intervals_does_not_warm() -> None:
    pe = clock()
    assert sum([0.1] * 500) > 50
    for _ in range(500):
        pe.work(0, 0.1, 1.0)
    assert not pe.warm(100)


def test_rows_that_are_left_empty_count_as_idle() -> None:
    pe = clock()
    pe.work(0, 100, 0.5)
    assert not pe.warm(100)
    pe.work(100, 100, 0.51)
    assert pe.warm(200)


def test_an_instruction_counts_in_each_window_that_it_reaches_into() -> None:
    """It takes 20 of the first window, all of the next two, and 60 of the fourth."""
    pe = clock()
    pe.work(80, 280, 1.0)
    assert [pe.warm(time) for time in (100, 200, 300, 400, 500)] == [False, True, True, True, False]


def test_utilization_is_the_share_of_rows() -> None:
    pe = clock()
    pe.work(50, 250, 0.4)  # 20, 40 and 40
    assert [pe.warm(time) for time in (100, 200, 300)] == [False] * 3
    pe.work(400, 200, 0.6)
    assert [pe.warm(time) for time in (500, 600, 700)] == [True, True, False]


def test_a_window_adds_up_what_began_in_it_and_what_was_carried() -> None:
    pe = clock()
    pe.work(70, 60, 1.0)  # 30 and 30
    assert not pe.warm(130)
    pe.work(130, 25, 1.0)
    assert pe.warm(200)


def test_a_long_idle_time_leaves_the_clock_cold_and_later_work_warms_it_again() -> None:
    pe = clock()
    pe.work(0, 90, 1.0)
    assert not pe.warm(1e9)
    pe.work(1e9, 51, 1.0)
    assert pe.warm(1e9 + 100) and not pe.warm(1e9 + 200)
