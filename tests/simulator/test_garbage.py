"""Python's cycle collector is off inside, and as it was before afterwards."""

import gc

import pytest
from trninfer.simulator.garbage import uncollected


@pytest.fixture(autouse=True)
def _as_before():
    enabled = gc.isenabled()
    yield
    (gc.enable if enabled else gc.disable)()


def test_it_is_off_inside_alone():
    gc.enable()
    with uncollected():
        assert not gc.isenabled()
        with uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled()  # the inner one did not turn it on again
    assert gc.isenabled()


def test_it_is_on_again_after_an_error():
    gc.enable()
    with pytest.raises(ValueError, match="no luck"), uncollected():
        raise ValueError("no luck")
    assert gc.isenabled()


def test_a_collector_that_the_user_has_turned_off_stays_off():
    gc.disable()
    with uncollected():
        pass
    assert not gc.isenabled()
