"""The selection of the checks that are run on a launch."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from trninfer import simulator
from trninfer.simulator import NkiValidationError
from trninfer.simulator.checking.sanitizing import choice, chosen, sanitized
from trninfer.simulator.running import kernel

BOTH = frozenset({"memory", "numeric"})


@pytest.mark.parametrize(
    "wanted, found",
    [(False, set()), (True, {"memory"}), ("memory", {"memory"}), ("numeric", {"numeric"}), ("all", BOTH)],
)
def test_choices(wanted, found):
    assert choice(wanted) == found


@pytest.mark.parametrize("wanted", ["race", "", "Memory", 1])
def test_a_check_that_there_is_not(wanted):
    with pytest.raises(
        NkiValidationError, match="sanitize must be one of True, False, 'memory', 'numeric', 'all', got"
    ):
        choice(wanted)


def test_the_innermost_choice_holds():
    with sanitized("all"):
        with pytest.raises(ValueError, match="no luck"), sanitized(False):
            assert chosen() == frozenset()
            raise ValueError("no luck")
        assert chosen() == BOTH
    assert chosen() == frozenset()


@nki.jit
def faulty(a):
    """Read uninitialised memory, and divide by zero."""
    tile, other = nl.load(a), nl.ndarray(a.shape, a.dtype)
    nisa.reciprocal(tile, tile)
    out = nl.ndarray((2, *a.shape), a.dtype, nl.shared_hbm)
    nisa.dma_copy(out[0], tile)
    nisa.dma_copy(out[1], other)
    return out


def checks_that_found(launches):
    """Return the checks of each launch that the observers see."""
    seen = []

    def observe(run, shapes):
        seen.append({finding.kind for finding in run.findings})

    kernel.observers.append(observe)
    try:
        launches()
    finally:
        kernel.observers.remove(observe)
    return seen


def test_launches_inside_are_looked_through():
    a = np.zeros((2, 3), np.float32)
    with np.errstate(all="ignore"):
        for wanted in (False, "memory", "numeric", "all"):
            with sanitized(wanted):
                (own,) = checks_that_found(lambda: nki.simulate(faulty)(a))
            asked = {finding.kind for finding in simulator.run(faulty, a, sanitize=wanted).findings}
            assert own == asked and len(own) == {"all": 2, False: 0}.get(wanted, 1)
