"""Addresses, trip counts and conditions that are known only when a kernel runs."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trninfer import simulator
from trninfer.simulator import NkiValidationError, OutOfBoundsError
from trninfer.simulator.core import NeuronCore, running
from trninfer.simulator.targets import find_target


@pytest.fixture
def core():
    core = NeuronCore(find_target("trn2"))
    with running(core):
        yield core


def sbuf(values, dtype=nl.int32):
    tensor = nl.ndarray(np.shape(values), dtype, nl.sbuf)
    tensor.write(np.asarray(values))
    return tensor


def hbm(values, dtype=nl.float32):
    tensor = nl.ndarray(np.shape(values), dtype, nl.shared_hbm)
    tensor.write(np.asarray(values))
    return tensor


def numbers(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@nki.jit
def pick(a, at):
    index = nl.load(at)
    out = nl.ndarray(a.shape[1:], a.dtype, nl.shared_hbm)
    nisa.dma_copy(out, a.select(0, index))
    return out


@nki.jit
def gather(a, rows, skip=False):
    index = nl.load(rows)
    tile = nl.zeros((rows.shape[0], a.shape[1]), a.dtype)
    mode = nisa.oob_mode.skip if skip else nisa.oob_mode.error
    nisa.dma_copy(tile, a.ap([[a.shape[1], rows.shape[0]], [1, a.shape[1]]], vector_offset=index), oob_mode=mode)
    out = nl.ndarray(tile.shape, a.dtype, nl.shared_hbm)
    nl.store(out, tile)
    return out


@nki.jit
def scatter(a, rows, out, skip=False):
    index, tile = nl.load(rows), nl.load(a)
    mode = nisa.oob_mode.skip if skip else nisa.oob_mode.error
    nisa.dma_copy(out.vector_select(0, index), tile, oob_mode=mode)
    return out


@given(batch=st.integers(0, 3))
def test_select_takes_the_batch_that_memory_names(batch):
    a = numbers(4, 16, 8)
    (out,) = simulator.run(pick, a, np.array([[batch]], np.int32)).outputs
    assert np.array_equal(out, a[batch])


@given(rows=st.lists(st.integers(0, 9), min_size=1, max_size=40), dtype=st.sampled_from([np.int32, np.uint32]))
def test_gather_and_scatter_of_rows(rows, dtype):
    a = numbers(10, 6)
    index = np.array(rows, dtype)[:, None]
    (out,) = simulator.run(gather, a, index).outputs
    assert np.array_equal(out, a[rows])
    unique = list(dict.fromkeys(rows))
    new = -numbers(len(unique), 6) - 1
    (out,) = simulator.run(scatter, new, np.array(unique, dtype)[:, None], a).outputs
    expected = a.copy()
    expected[unique] = new
    assert np.array_equal(out, expected)


def test_out_of_bounds_rows_are_an_error_or_skipped():
    a, index = numbers(10, 6), np.array([[3], [10], [-1], [0]], np.int32)
    with pytest.raises(OutOfBoundsError, match=r"index 10 .* allowed 0 to 9"):
        simulator.run(gather, a, index)
    (out,) = simulator.run(gather, a, index, skip=True).outputs
    assert np.array_equal(out, np.stack([a[3], np.zeros(6), np.zeros(6), a[0]]))
    (out,) = simulator.run(scatter, numbers(4, 6) + 100, index, a, skip=True).outputs
    expected = a.copy()
    expected[[3, 0]] = (numbers(4, 6) + 100)[[0, 3]]
    assert np.array_equal(out, expected)


def test_out_of_bounds_scalar_is_an_error_or_skipped(core):
    a, out = hbm(numbers(4, 8)), hbm(np.zeros(8))
    view = a.select(0, sbuf([[4]]))
    with pytest.raises(OutOfBoundsError, match="allowed 0 to 3"):
        nisa.dma_copy(out, view)
    nisa.dma_copy(out, view, oob_mode=nisa.oob_mode.skip)
    assert not out.values.any()


def test_scalar_offset_counts_in_steps_of_the_tensors_dimension(core):
    a = hbm(numbers(64, 32))
    out = nl.ndarray((16, 8), nl.float32)
    nisa.dma_copy(out, a.ap([[32, 16], [1, 8]], 4, scalar_offset=sbuf([[48]]), indirect_dim=0))
    assert np.array_equal(out.values, numbers(64, 32)[48:64, 4:12])
    nisa.dma_copy(out, a.ap([[32, 16], [1, 8]], 0, scalar_offset=nisa.register_alloc(24), indirect_dim=1))
    assert np.array_equal(out.values, numbers(64, 32)[:16, 24:32])
    with pytest.raises(OutOfBoundsError, match="allowed 0 to 48"):
        nisa.dma_copy(out, a.ap([[32, 16], [1, 8]], 0, scalar_offset=sbuf([[49]]), indirect_dim=0))


def test_the_index_is_read_when_an_instruction_runs(core):
    a, index = hbm(numbers(4, 8)), sbuf([[1]])
    view, out = a.select(0, index), nl.ndarray((1, 8), nl.float32)
    nisa.memset(index, 3)
    nisa.dma_copy(out, view)
    assert np.array_equal(out.values[0], numbers(4, 8)[3])


def test_engines_take_a_column_chosen_at_run_time(core):
    a, out = sbuf(numbers(8, 5, 4), nl.float32), nl.zeros((8, 5, 4), nl.float32)
    register = nisa.register_alloc(2)
    nisa.tensor_copy(out.select(1, register), a.select(1, sbuf([[4]])))
    assert np.array_equal(out.values[:, 2], numbers(8, 5, 4)[:, 4])
    assert np.count_nonzero(out.values) == np.count_nonzero(numbers(8, 5, 4)[:, 4])
    column = nl.ndarray((8, 1), nl.float32)
    nisa.tensor_copy(column, a[:, 0, register])
    assert np.array_equal(column.values[:, 0], numbers(8, 5, 4)[:, 0, 2])
    window = nl.ndarray((8, 2, 4), nl.float32)
    nisa.tensor_copy(window, a[:, nl.ds(register, 2)])
    assert np.array_equal(window.values, numbers(8, 5, 4)[:, 2:4])


def test_indirect_views_can_be_cut_but_not_indexed_again(core):
    a = hbm(numbers(4, 6, 8))
    view = a.select(0, sbuf([[2]]))
    assert view.is_indirect() and not a.is_indirect()
    assert np.array_equal(view[1:3, ::2].values, numbers(4, 6, 8)[2, 1:3, ::2])
    assert np.array_equal(view.permute((1, 0)).values, numbers(4, 6, 8)[2].T)
    for again in (lambda: view.select(0, sbuf([[1]])), lambda: view.view(nl.int32), lambda: view[sbuf([[1]])]):
        with pytest.raises(NkiValidationError, match="indirect"):
            again()
    rows = a.vector_select(0, sbuf([[3], [0]]))
    assert np.array_equal(rows[:, 2].values, numbers(4, 6, 8)[[3, 0], 2])
    with pytest.raises(NkiValidationError, match="dimension 0"):
        rows[0:1]
    with pytest.raises(NkiValidationError, match="dimension 0"):
        rows.permute((1, 0, 2))


def test_limits_of_dynamic_views(core):
    a, chip = hbm(numbers(4, 8)), sbuf(numbers(4, 8), nl.float32)
    with pytest.raises(NkiValidationError, match="partition"):
        chip.select(0, sbuf([[1]]))
    with pytest.raises(NkiValidationError, match="partitions cannot be chosen"):
        chip[nl.ds(nisa.register_alloc(0), 2)]
    with pytest.raises(NkiValidationError, match="only a tensor in HBM"):
        chip.vector_select(0, sbuf([[1]]))
    with pytest.raises(NkiValidationError, match="int32 or uint32"):
        a.select(0, sbuf([[1.0]], nl.float32))
    with pytest.raises(NkiValidationError, match="int32 or uint32"):
        a.vector_select(0, sbuf([[1]], nl.int16))
    with pytest.raises(NkiValidationError, match="exclude each other"):
        a.ap([[8, 1], [1, 8]], scalar_offset=sbuf([[1]]), vector_offset=sbuf([[1]]))
    with pytest.raises(NkiValidationError, match="must be an integer, a slice"):
        a["row"]
    with pytest.raises(NkiValidationError, match="swdge or unknown, came hwdge"):
        nisa.dma_copy(nl.ndarray((1, 8), nl.float32), a.vector_select(0, sbuf([[1]])), dge_mode=nisa.dge_mode.hwdge)


def test_gather_needs_trn2():
    with pytest.raises(NkiValidationError, match="NeuronCore-v3"):
        simulator.run(gather, numbers(4, 8), np.zeros((2, 1), np.int32), target="trn1")


def test_gather_takes_a_descriptor_for_each_row():
    run = simulator.run(gather, numbers(64, 8), np.zeros((32, 1), np.int32))
    (copy,) = [i for i in run.program if i.op == "dma_copy" and i.dma.software]
    assert copy.dma.descriptors == 32 and copy.dma.dge


def test_the_schedule_waits_for_the_index():
    run = simulator.run(pick, numbers(4, 16, 8), np.array([[1]], np.int32))
    index, copy = run.timeline
    assert copy.issued_ns >= index.done_ns


def test_gather_transposed(core):
    a = hbm(numbers(40, 16), nl.bfloat16)
    index = np.random.default_rng(0).permutation(40)[:32]
    dst = nl.ndarray((16, 32), nl.bfloat16)
    nisa.dma_transpose(dst, a.ap([[16, 32], [1, 16]], vector_offset=sbuf(index[:, None], nl.uint32)))
    assert np.array_equal(dst.values, a.values[index].T)
    with pytest.raises(NkiValidationError, match="multiple of 16 rows"):
        nisa.dma_transpose(dst, a.vector_select(0, sbuf(index[:, None], nl.int32)))
    with pytest.raises(NkiValidationError, match="must be a column"):
        nisa.dma_copy(nl.ndarray((32, 16), nl.bfloat16), a.vector_select(0, sbuf(index.reshape(16, 2))))


def test_gather_transposed_by_several_columns_of_indices(core):
    a = hbm(numbers(600, 8) % 250, nl.bfloat16)
    index = np.random.default_rng(1).permutation(600)[:256].reshape(128, 2)
    dst = nl.ndarray((8, 256), nl.bfloat16)
    nisa.dma_transpose(dst, a.vector_select(0, sbuf(index, nl.uint32)))
    assert np.array_equal(dst.values, a.values[index.T.flatten()].T)


# Registers and loops


def test_registers_move_load_and_store(core):
    a, b = nisa.register_alloc(-5), nisa.register_alloc()
    nisa.register_move(b, a)
    nisa.register_move(a, 7)
    out = nl.ndarray((1, 1), nl.int32)
    nisa.register_store(out, b)
    assert out.values == -5
    nisa.register_load(b, sbuf([[200]], nl.uint8))
    nisa.register_store(out, b)
    assert out.values == 200
    number = nl.ndarray((1,), nl.float32, nl.shared_hbm)
    nisa.register_load(b, sbuf([[1.5]], nl.float32))
    nisa.register_store(number, b)
    assert number.values == 1.5
    nisa.register_move(b, 0x1FF)
    byte = nl.ndarray((1, 1), nl.uint8)
    nisa.register_store(byte, b)
    assert byte.values == 0xFF


def test_limits_of_registers(core):
    register = nisa.register_alloc()
    with pytest.raises(NkiValidationError, match="never written"):
        nisa.register_store(nl.ndarray((1, 1), nl.int32), register)
    with pytest.raises(NkiValidationError, match="32 bits"):
        nisa.register_move(register, 1 << 32)
    with pytest.raises(NkiValidationError, match="must be one element"):
        nisa.register_load(register, sbuf([[1, 2]]))
    with pytest.raises(NkiValidationError, match="must be one element"):
        nisa.register_load(register, nl.ndarray((1, 1), nl.int32, nl.psum))
    with pytest.raises(NkiValidationError, match="integer or a register"):
        nisa.register_move(register, 1.5)
    with pytest.raises(NkiValidationError, match=r"register of nisa.register_alloc"):
        nisa.register_move(3, 4)
    for compute in (lambda: register + 1, lambda: register == 0, lambda: int(register), lambda: range(register)):
        with pytest.raises(TypeError):
            compute()


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


@given(count=st.integers(-2, 6))
def test_dynamic_range_takes_its_bound_from_memory(count):
    a = numbers(6, 4)
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
    count, one, total = sbuf([[5]]), sbuf([[1]]), sbuf([[0]])
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

    a, index = numbers(4, 16), np.array([[1]], np.int32)
    computed, walked = simulator.run(constant_bounds, a), simulator.run(constant_bounds, a, functional=False)
    assert walked.latency_us == computed.latency_us and len(walked.program) == len(computed.program)
    a = numbers(4, 16, 8)
    assert simulator.run(pick, a, index, functional=False).latency_us == simulator.run(pick, a, index).latency_us
    with pytest.raises(NkiValidationError, match="shape-only run"):
        simulator.run(squares, numbers(6, 4), np.array([[1]], np.int32), functional=False)
