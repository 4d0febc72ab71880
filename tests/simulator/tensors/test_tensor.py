"""Views at addresses known only at run time, and reinterpreted views."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nki_tensors import counted, in_hbm, indices, on, tile
from small_kernels import pick
from trninfer import simulator
from trninfer.simulator import NkiValidationError, OutOfBoundsError


def test_an_inherited_offset_counts_in_the_new_dtype():
    words = np.arange(64, dtype=np.int32).reshape(2, 32)
    with on():
        view = tile(words, nl.int32)[:, 8:16].ap([[64, 2], [1, 4]], dtype=nl.uint16)
        np.testing.assert_array_equal(view.values, words.view(np.uint16)[:, 16:20])


@given(batch=st.integers(0, 3))
def test_select_takes_the_batch_that_memory_names(batch):
    a = counted(4, 16, 8)
    (out,) = simulator.run(pick, a, np.array([[batch]], np.int32)).outputs
    assert np.array_equal(out, a[batch])


def test_scalar_offset_counts_in_steps_of_the_tensors_dimension(core):
    a = in_hbm(counted(64, 32))
    out = nl.ndarray((16, 8), nl.float32)
    nisa.dma_copy(out, a.ap([[32, 16], [1, 8]], 4, scalar_offset=indices([[48]]), indirect_dim=0))
    assert np.array_equal(out.values, counted(64, 32)[48:64, 4:12])
    nisa.dma_copy(out, a.ap([[32, 16], [1, 8]], 0, scalar_offset=nisa.register_alloc(24), indirect_dim=1))
    assert np.array_equal(out.values, counted(64, 32)[:16, 24:32])
    with pytest.raises(OutOfBoundsError, match="must be 0 to 48"):
        nisa.dma_copy(out, a.ap([[32, 16], [1, 8]], 0, scalar_offset=indices([[49]]), indirect_dim=0))


def test_the_index_is_read_when_an_instruction_runs(core):
    a, index = in_hbm(counted(4, 8)), indices([[1]])
    view, out = a.select(0, index), nl.ndarray((1, 8), nl.float32)
    nisa.memset(index, 3)
    nisa.dma_copy(out, view)
    assert np.array_equal(out.values[0], counted(4, 8)[3])


def test_engines_take_a_column_chosen_at_run_time(core):
    a, out = indices(counted(8, 5, 4), nl.float32), nl.zeros((8, 5, 4), nl.float32)
    register = nisa.register_alloc(2)
    nisa.tensor_copy(out.select(1, register), a.select(1, indices([[4]])))
    assert np.array_equal(out.values[:, 2], counted(8, 5, 4)[:, 4])
    assert np.count_nonzero(out.values) == np.count_nonzero(counted(8, 5, 4)[:, 4])
    column = nl.ndarray((8, 1), nl.float32)
    nisa.tensor_copy(column, a[:, 0, register])
    assert np.array_equal(column.values[:, 0], counted(8, 5, 4)[:, 0, 2])
    window = nl.ndarray((8, 2, 4), nl.float32)
    nisa.tensor_copy(window, a[:, nl.ds(register, 2)])
    assert np.array_equal(window.values, counted(8, 5, 4)[:, 2:4])


def test_results_go_to_the_window_chosen_at_run_time(core):
    out, ones = nl.zeros((4, 8), nl.float32), tile(np.ones((4, 2)))
    window = out[:, nl.ds(indices([[3]]), 2)]
    nisa.tensor_tensor(window, ones, ones, nl.add)
    nisa.tensor_scalar(window, window, nl.multiply, 3.0)
    nisa.scalar_tensor_tensor(window, window, nl.add, 1.0, nl.subtract, ones)
    assert np.array_equal(out.values, np.pad(np.full((4, 2), 6), ((0, 0), (3, 3))))


def test_matmuls_overwrite_what_is_new_at_an_address_of_run_time(core):
    ones, register = tile(np.ones((4, 4)), nl.bfloat16), nisa.register_alloc(0)
    out = nl.ndarray((4, 8), nl.float32, nl.psum)
    for start in (0, 4, 4):
        nisa.register_move(register, nisa.register_alloc(start))
        nisa.nc_matmul(out[:, nl.ds(register, 4)], ones, ones)
    assert np.array_equal(out.values, np.repeat([[4.0, 8.0]], 4, axis=1).repeat(4, axis=0))


def test_indirect_views_can_be_cut_but_not_indexed_again(core):
    a = in_hbm(counted(4, 6, 8))
    view = a.select(0, indices([[2]]))
    assert view.is_indirect() and not a.is_indirect()
    assert np.array_equal(view[1:3, ::2].values, counted(4, 6, 8)[2, 1:3, ::2])
    assert np.array_equal(view.permute((1, 0)).values, counted(4, 6, 8)[2].T)
    for again in (lambda: view.select(0, indices([[1]])), lambda: view.view(nl.int32), lambda: view[indices([[1]])]):
        with pytest.raises(NkiValidationError, match="indirect"):
            again()
    rows = a.vector_select(0, indices([[3], [0]]))
    assert np.array_equal(rows[:, 2].values, counted(4, 6, 8)[[3, 0], 2])
    with pytest.raises(NkiValidationError, match="dimension 0"):
        rows[0:1]
    with pytest.raises(NkiValidationError, match="dimension 0"):
        rows.permute((1, 0, 2))


def test_limits_of_dynamic_views(core):
    a, chip = in_hbm(counted(4, 8)), indices(counted(4, 8), nl.float32)
    with pytest.raises(NkiValidationError, match="partition"):
        chip.select(0, indices([[1]]))
    with pytest.raises(NkiValidationError, match="partitions cannot be chosen"):
        chip[nl.ds(nisa.register_alloc(0), 2)]
    with pytest.raises(NkiValidationError, match="only tensors in HBM"):
        chip.vector_select(0, indices([[1]]))
    with pytest.raises(NkiValidationError, match="int32 or uint32"):
        a.select(0, indices([[1.0]], nl.float32))
    with pytest.raises(NkiValidationError, match="int32 or uint32"):
        a.vector_select(0, indices([[1]], nl.int16))
    with pytest.raises(NkiValidationError, match="cannot be used together"):
        a.ap([[8, 1], [1, 8]], scalar_offset=indices([[1]]), vector_offset=indices([[1]]))
    with pytest.raises(NkiValidationError, match="must be an integer, a slice"):
        a["row"]
    with pytest.raises(NkiValidationError, match="swdge or unknown, got hwdge"):
        nisa.dma_copy(nl.ndarray((1, 8), nl.float32), a.vector_select(0, indices([[1]])), dge_mode=nisa.dge_mode.hwdge)


def test_the_schedule_waits_for_the_index():
    run = simulator.run(pick, counted(4, 16, 8), np.array([[1]], np.int32))
    index, descriptors, copy = run.timeline
    assert (descriptors.engine, descriptors.op) == ("gpsimd", "descriptors")
    assert copy.issued_ns >= index.done_ns
