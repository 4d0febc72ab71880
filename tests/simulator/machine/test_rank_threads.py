"""Threads for ranks, one each."""

import threading

from trninfer.simulator.machine.rank_threads import StopRank, run_in_threads


def test_each_rank_runs_once_and_all_at_the_same_time():
    """They meet at a barrier, which none could pass alone, and have ended afterwards."""
    together, seen = threading.Barrier(5, timeout=300), []

    def on(rank):
        together.wait()
        seen.append((rank, threading.current_thread()))

    run_in_threads(5, on)
    assert sorted(rank for rank, _ in seen) == list(range(5))
    assert len({thread for _, thread in seen}) == 5 and not any(thread.is_alive() for _, thread in seen)


def test_a_stop_is_no_error_that_a_kernel_catches():
    """`except Exception` in a kernel must not keep a core running."""
    assert not issubclass(StopRank, Exception)
