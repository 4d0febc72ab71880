"""Trip counts and conditions that are known only at run time."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nki_tensors import counted, indices
from small_kernels import pick
from trninfer import simulator
from trninfer.simulator import NkiValidationError
from trninfer.simulator.instructions.core import NeuronCore, running
from trninfer.simulator.machine.chip import find_target
from trninfer.simulator.machine.errors import EarlierNkiWarning, UndefinedOnChipWarning
from trninfer.simulator.nki import loops


@nki.jit
def squares(a, count):
    """Square the first `count` rows of a; the others are 0."""
    out = nl.zeros(a.shape, a.dtype, nl.shared_hbm)
    stop = nisa.register_alloc()
    nisa.register_load(stop, nl.load(count))
    for i in nl.dynamic_range(stop):
        row = nl.ndarray((1, a.shape[1]), a.dtype)
        nisa.dma_copy(row, a[i])
        nisa.dma_copy(out.select(0, i), nl.square(row))
    return out


@given(count=st.integers(-2, 6))
def test_dynamic_range_takes_its_bound_from_memory(count):
    a = counted(6, 4)
    with pytest.warns(EarlierNkiWarning, match=r"nl\.dynamic_range is from NKI 0\.6; it runs.*nl\.fori_loop"):
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


OF_0_6 = pytest.mark.filterwarnings("ignore:nl.dynamic_range is of NKI 0.6")


@OF_0_6
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


@OF_0_6
def test_a_shape_only_run_knows_what_it_can():
    @nki.jit
    def constant_bounds(a):
        out = nl.ndarray(a.shape, a.dtype, nl.shared_hbm)
        nl.fori_loop(0, nisa.register_alloc(4), lambda i: nisa.dma_copy(out[i], a[i]))
        return out

    a, index = counted(4, 16), np.array([[1]], np.int32)
    computed, walked = simulator.run(constant_bounds, a), simulator.run(constant_bounds, a, functional=False)
    assert walked.latency_us == computed.latency_us and len(walked.program) == len(computed.program)
    a = counted(4, 16, 8)
    assert simulator.run(pick, a, index, functional=False).latency_us == simulator.run(pick, a, index).latency_us
    with pytest.raises(NkiValidationError, match="shape-only run"):
        simulator.run(squares, counted(6, 4), np.array([[1]], np.int32), functional=False)


def test_the_index_of_a_loop_is_a_scalar_unless_a_bound_is_a_register(core):
    seen = []
    for bound in (2, nisa.scalar_load(indices([[1]])) + 1, nisa.register_alloc(2)):
        nl.fori_loop(0, bound, seen.append)
    assert [type(i).__name__ for i in seen] == ["NkiScalar"] * 4 + ["VirtualRegister"] * 2
    nl.fori_loop(0, nisa.register_alloc(2), lambda i: nisa.register_move(i, 9))  # passed by value
    out = nl.zeros((1, 8), nl.int32, nl.shared_hbm)
    nl.fori_loop(0, 4, lambda i: nisa.scalar_store(out[:, nl.ds(i * 2 + 1, 1)], i * i))
    assert out.values[0].tolist() == [0, 0, 0, 1, 0, 4, 0, 9]


def test_while_loop_takes_scalars_too(core):
    left, one = indices([[3]]), indices([[1]])

    def body(r):
        nisa.tensor_tensor(left, left, one, nl.subtract)
        return nisa.scalar_load(left)

    nl.while_loop(nisa.scalar_load(left), body)
    assert left.values == 0


def test_a_loop_that_does_not_end_is_stopped(core, monkeypatch):
    monkeypatch.setattr(loops, "MAX_ITERATIONS", 50)
    with pytest.raises(NkiValidationError, match="condition is still 1 after 50 iterations; does"):
        nl.while_loop(nisa.register_alloc(1), lambda r: r)
    with pytest.raises(NkiValidationError, match="51 iterations, from 0 to 51; the simulator supports up to 50"):
        nl.fori_loop(0, 51, lambda i: None)


def test_a_kernel_that_does_not_end_is_stopped(core, monkeypatch):
    monkeypatch.setattr(core, "max_instructions", 100)
    dst = nl.ndarray((1, 1), nl.float32)
    with pytest.raises(NkiValidationError, match=r"issued 100 instructions.* may not end"):
        while True:
            nisa.memset(dst, 0.0)


def test_a_body_that_changes_from_one_iteration_to_the_next_is_refused(core):
    dst, first = nl.ndarray((4, 8), nl.float32), [True]

    def once(i):
        if first.pop() if first else False:
            nisa.memset(dst, 0.0)
        nisa.tensor_scalar(dst, dst, nl.add, 1.0)

    def wider(i):
        first.append(i)
        nisa.memset(dst[:, : len(first)], 0.0)

    with pytest.raises(
        NkiValidationError, match=r"iteration 2 issues tensor_scalar .* but the first iteration issued memset"
    ):
        nl.fori_loop(0, 3, once)
    with pytest.raises(NkiValidationError, match="iteration 2 issues memset"):
        nl.fori_loop(0, 3, wider)
    first.clear()
    with pytest.warns(EarlierNkiWarning), pytest.raises(NkiValidationError, match="iteration 2 issues memset"):
        for i in nl.dynamic_range(3):
            wider(i)


def test_a_tile_of_a_body_ends_with_the_iteration(core):
    kept = []

    def body(i):
        tile = nl.ndarray((2, 3), nl.float32, nl.sbuf)
        nisa.memset(tile, 0.0)
        kept.append(tile)
        nl.fori_loop(0, 2, lambda j: nisa.memset(nl.ndarray((2, 3), nl.float32, nl.sbuf), 0.0))
        nisa.tensor_copy(tile, kept[0])

    with pytest.raises(NkiValidationError, match=r"tensor_copy: .* was allocated in the body of a device loop"):
        nl.fori_loop(0, 2, body)
    with pytest.raises(NkiValidationError, match="allocate it before the loop"):
        nisa.memset(kept[0], 0.0)


def test_engines_are_idle_at_the_ends_of_a_loop():
    """Public kernels state that entering a loop quiesces all engines, so many entries take longer than one."""

    @nki.jit
    def kernel(a, entries):
        tiles = [nl.load(a) for _ in range(4)]
        for entry in range(entries):
            part = tiles[entry * (4 // entries) : (entry + 1) * (4 // entries)]
            nl.fori_loop(0, 2, lambda i, part=part: [nisa.tensor_scalar(t, t, nl.add, 1.0) for t in part])
        out = nl.ndarray((4, *a.shape), a.dtype, nl.shared_hbm)
        for position, tile in enumerate(tiles):
            nl.store(out[position], tile)
        return out

    runs = [simulator.run(kernel, counted(4, 64), entries=entries) for entries in (1, 4)]
    assert all((run.outputs[0] == counted(4, 64) + 2).all() for run in runs)
    assert runs[0].latency_us < runs[1].latency_us
    program = runs[0].program
    begin, end = (i for i in program if i.op == "fori_loop")
    times = {e.position: e for e in runs[0].timeline}
    assert max(times[i].done_ns for i in range(begin.index)) <= times[begin.index].start_ns
    assert times[end.index].end_ns <= min(times[i].issued_ns for i in range(end.index + 1, len(program)))


def test_cores_that_loop_differently_are_warned_of():
    @nki.jit
    def kernel(a):
        nl.fori_loop(0, nl.program_id() + 1, lambda i: nl.load(a))
        return nl.zeros(a.shape, a.dtype, nl.shared_hbm)

    with pytest.warns(UndefinedOnChipWarning, match="1 times on core 0 and 2 times on core 1"):
        simulator.run(kernel[2], counted(4, 4))
