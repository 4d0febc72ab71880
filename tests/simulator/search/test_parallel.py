"""Work in forked processes: order, access to the parent's objects, and killed processes."""

import os
import signal

import pytest
from trninfer.simulator.search.parallel import cores, each


@pytest.mark.parametrize("count, processes", [(0, 2), (1, 2), (5, 1), (5, 2), (5, 9), (3, None)])
def test_results_are_in_order(count, processes):
    captured = object()  # not picklable
    found = each(count, lambda index: (index, captured is not None), lambda index: (-1, False), processes)
    assert found == [(index, True) for index in range(count)]
    assert cores() >= 1


def test_errors_are_raised_and_ended_processes_are_reported():
    def work(index):
        if index == 1:
            raise ValueError("no luck")
        return index

    with pytest.raises(ValueError, match="no luck"):
        each(3, work, lambda index: -1, 2)
    found = each(4, lambda index: os.kill(os.getpid(), signal.SIGKILL) or index, lambda index: -index, 2)
    assert found == [0, -1, -2, -3]
