"""DMA: copies, casts, transposes, gathers."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki_tensors import counted, in_hbm, indices, tile, uniform
from small_kernels import gather
from trninfer import simulator
from trninfer.simulator import NkiValidationError

TARGETS = ["trn1", "trn2", "trn3"]


def nl_bfloat16():
    import ml_dtypes

    return ml_dtypes.bfloat16


@pytest.mark.parametrize("target", TARGETS)
def test_dma_moves_casts_and_reshapes(target):
    @nki.jit
    def kernel(a):
        sb = nl.ndarray((4, 6), nl.bfloat16)
        nisa.dma_copy(dst=sb, src=a.reshape((4, 6)))
        out = nl.ndarray((24,), nl.int32, nl.shared_hbm)
        nisa.dma_copy(dst=out.reshape((4, 6)), src=sb)
        return out

    a = (np.arange(24, dtype=np.float32) * 100.5).reshape(2, 12)
    (out,) = simulator.run(kernel, a, target=target).outputs
    reference = a.astype(nl_bfloat16()).astype(np.float64).reshape(-1)
    np.testing.assert_array_equal(out, np.rint(reference))


@pytest.mark.parametrize("shape,axes", [((5, 7), (1, 0)), ((2, 3, 4), (2, 1, 0)), ((2, 3, 4, 5), (3, 1, 2, 0))])
def test_dma_transpose(core, shape, axes):
    src = tile(uniform(*shape), buffer=nl.shared_hbm)
    dst = nl.ndarray(tuple(shape[a] for a in axes), nl.float32)
    nisa.dma_transpose(dst, src)
    np.testing.assert_array_equal(dst.values, src.values.transpose(axes))


def test_broadcast_source_of_a_dma(core):
    row = tile(uniform(1, 6), buffer=nl.shared_hbm)
    dst = nl.ndarray((128, 6), nl.float32)
    nisa.dma_copy(dst, row.broadcast(0, 128))
    np.testing.assert_array_equal(dst.values, np.broadcast_to(row.values, (128, 6)))


def test_gather_needs_trn2():
    with pytest.raises(NkiValidationError, match="NeuronCore-v3"):
        simulator.run(gather, counted(4, 8), np.zeros((2, 1), np.int32), target="trn1")


def test_gather_takes_a_descriptor_for_each_row():
    run = simulator.run(gather, counted(64, 8), np.zeros((32, 1), np.int32))
    (copy,) = [i for i in run.program if i.op == "dma_copy" and i.dma.load and i.dma.bytes == 32 * 8 * 4]
    assert copy.dma.descriptors == 32 and copy.dma.dge and copy.dma.software


def test_gather_transposed(core):
    a = in_hbm(counted(40, 16), nl.bfloat16)
    index = np.random.default_rng(0).permutation(40)[:32]
    dst = nl.ndarray((16, 32), nl.bfloat16)
    nisa.dma_transpose(dst, a.ap([[16, 32], [1, 16]], vector_offset=indices(index[:, None], nl.uint32)))
    assert np.array_equal(dst.values, a.values[index].T)
    with pytest.raises(NkiValidationError, match="multiple of 16 rows"):
        nisa.dma_transpose(dst, a.vector_select(0, indices(index[:, None], nl.int32)))
    with pytest.raises(NkiValidationError, match="must be a column"):
        nisa.dma_copy(nl.ndarray((32, 16), nl.bfloat16), a.vector_select(0, indices(index.reshape(16, 2))))


def test_gather_transposed_by_several_columns_of_indices(core):
    a = in_hbm(counted(600, 8) % 250, nl.bfloat16)
    index = np.random.default_rng(1).permutation(600)[:256].reshape(128, 2)
    dst = nl.ndarray((8, 256), nl.bfloat16)
    nisa.dma_transpose(dst, a.vector_select(0, indices(index, nl.uint32)))
    assert np.array_equal(dst.values, a.values[index.T.flatten()].T)


def test_a_transpose_with_no_descriptor_generation_is_one_and_reported(core):
    """nki-library's norm_tkg_utils requests it, although the documentation allows only dge_mode unknown and hwdge."""
    a, dst = uniform(8, 4), tile(np.zeros((4, 8)))
    with pytest.warns(
        UserWarning,
        match="dma_transpose: dge_mode none is not documented; the documentation lists only unknown and hwdge",
    ):
        nisa.dma_transpose(dst, in_hbm(a), dge_mode=nisa.dge_mode.none)
    np.testing.assert_array_equal(dst.values, a.T)
