"""Trip counts and conditions that are known only when a kernel runs."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nki_tensors import counted, indices
from trninfer import simulator
from trninfer.simulator import NkiValidationError
from trninfer.simulator.chip import find_target
from trninfer.simulator.core import NeuronCore, running


@nki.jit
def squares(a, count):
    """Rows of a up to `count`, squared; the others are 0."""
    out = nl.zeros(a.shape, a.dtype, nl.shared_hbm)
    stop = nisa.register_alloc()
    nisa.register_load(stop, nl.load(count))
    for i in nl.dynamic_range(stop):
        row = nl.ndarray((1, a.shape[1]), a.dtype)
        nisa.dma_copy(row, a[i])
        nisa.dma_copy(out.select(0, i), nl.square(row))
    return out


@nki.jit
def pick(a, at):
    index = nl.load(at)
    out = nl.ndarray(a.shape[1:], a.dtype, nl.shared_hbm)
    nisa.dma_copy(out, a.select(0, index))
    return out


@given(count=st.integers(-2, 6))
def test_dynamic_range_takes_its_bound_from_memory(count):
    a = counted(6, 4)
    (out,) = simulator.run(squares, a, np.array([[count]], np.int32)).outputs
    expected = a**2
    expected[max(count, 0) :] = 0
    assert np.array_equal(out, expected)


@given(lower=st.integers(0, 5), upper=st.integers(0, 12), step=st.integers(1, 4))
def test_fori_loop_counts_like_range(lower, upper, step):
    with running(NeuronCore(find_target("trn2"))):
        out, seen = nl.zeros((1, 12), nl.int32), []

        def body(i):
            nisa.register_store(out[:, nl.ds(i, 1)], i)
            seen.append(i)

        nl.fori_loop(nisa.register_alloc(lower), upper, body, step)
        expected = np.zeros(12)
        expected[lower:upper:step] = np.arange(lower, upper, step)
        assert np.array_equal(out.values[0], expected) and len(seen) == len(range(lower, upper, step))


def test_while_loop_runs_until_its_condition_is_zero(core):
    count, one, total = indices([[5]]), indices([[1]]), indices([[0]])
    start = nisa.register_alloc()
    nisa.register_load(start, count)

    def body(r):
        nisa.tensor_tensor(total, total, count, nl.add)
        nisa.tensor_tensor(count, count, one, nl.subtract)
        nisa.register_load(r, count)
        return r

    nl.while_loop(start, body)
    assert total.values == 15
    nl.while_loop(start, lambda r: nisa.register_alloc(0))  # `start` was passed by value and still holds 5
    nisa.memset(count, 3)
    nisa.register_load(start, count)
    turns = 0
    while start:
        turns += 1
        nisa.tensor_tensor(count, count, one, nl.subtract)
        nisa.register_load(start, count)
    assert turns == 3


def test_limits_of_dynamic_loops(core):
    (i,) = nl.dynamic_range(1)
    with pytest.raises(NkiValidationError, match="cannot be written"):
        nisa.register_move(i, 3)
    with pytest.raises(NkiValidationError, match="step must be"):
        nl.dynamic_range(0, 4, nisa.register_alloc(1))
    with pytest.raises(NkiValidationError, match="no_reorder"), nl.no_reorder():
        nl.dynamic_range(4)
    with pytest.raises(NkiValidationError, match="must be a register"):
        nl.while_loop(nisa.register_alloc(1), lambda r: None)


def test_a_shape_only_run_knows_what_it_can():
    @nki.jit
    def constant_bounds(a):
        out = nl.ndarray(a.shape, a.dtype, nl.shared_hbm)
        for i in nl.dynamic_range(nisa.register_alloc(4)):
            nisa.dma_copy(out[i], a[i])
        return out

    a, index = counted(4, 16), np.array([[1]], np.int32)
    computed, walked = simulator.run(constant_bounds, a), simulator.run(constant_bounds, a, functional=False)
    assert walked.latency_us == computed.latency_us and len(walked.program) == len(computed.program)
    a = counted(4, 16, 8)
    assert simulator.run(pick, a, index, functional=False).latency_us == simulator.run(pick, a, index).latency_us
    with pytest.raises(NkiValidationError, match="shape-only run"):
        simulator.run(squares, counted(6, 4), np.array([[1]], np.int32), functional=False)
