"""BLAS uses one thread while a kernel runs, and the caller's number of threads afterwards."""

import gc
import threading

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits
from trninfer import simulator
from trninfer.simulator.machine.host import one_thread, uncollected

A = np.ones((8, 8), np.float32)


def threads():
    found = {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
    assert len(found) == 1, "NumPy has a BLAS that threadpoolctl knows"
    return found.pop()


@pytest.fixture
def several():
    """Start with more than one thread, as NumPy does if no variable specifies the number."""
    with threadpool_limits(limits=2, user_api="blas"):
        yield


def kernel_noting(seen, error=None):
    @nki.jit
    def kernel(a):
        seen.append(threads())
        if error is not None:
            raise error
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=a)
        return out

    return kernel


@pytest.mark.parametrize("launch", [simulator.run, lambda kernel, a: kernel(a), lambda k, a: nki.simulate(k)(a)])
def test_a_kernel_is_computed_with_one_thread(several, launch):
    seen = []
    launch(kernel_noting(seen), A)
    assert (seen, threads()) == ([1], 2)


def test_a_kernel_that_fails_gives_them_back(several):
    with pytest.raises(ValueError, match="no luck"):
        simulator.run(kernel_noting([], ValueError("no luck")), A)
    assert threads() == 2


def test_launches_at_once_and_within_another_change_nothing_for_the_first(several):
    seen = []
    with one_thread():
        other = threading.Thread(target=simulator.run, args=(kernel_noting(seen), A))
        other.start()
        other.join()
        simulator.run(kernel_noting(seen), A)
        assert (seen, threads()) == ([1, 1], 1)
    assert threads() == 2


@pytest.fixture(autouse=True)
def _as_before():
    enabled = gc.isenabled()
    yield
    (gc.enable if enabled else gc.disable)()


def test_host_access_is_off_only_inside_the_block():
    gc.enable()
    with uncollected():
        assert not gc.isenabled()
        with uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled()  # the inner run did not enable it again
    assert gc.isenabled()


def test_host_access_is_restored_after_an_error():
    gc.enable()
    with pytest.raises(ValueError, match="no luck"), uncollected():
        raise ValueError("no luck")
    assert gc.isenabled()


def test_a_collector_that_the_user_has_turned_off_stays_off():
    gc.disable()
    with uncollected():
        pass
    assert not gc.isenabled()
