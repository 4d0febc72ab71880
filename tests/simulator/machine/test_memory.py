"""Memory: capacity, explicit addresses, and uninitialised contents."""

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki_tensors import new
from trninfer import simulator
from trninfer.simulator import CapacityError, NkiValidationError
from trninfer.simulator.instructions.core import NeuronCore, running
from trninfer.simulator.machine.chip import find_target


@nki.jit
def unfinished(a):
    tile = nl.ndarray(a.shape, a.dtype, nl.sbuf)
    nisa.dma_copy(tile[:, 0:1], a[:, 0:1])
    out = nl.ndarray(a.shape, a.dtype, nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


@pytest.mark.parametrize("target,bytes_", [("trn1", 192 * 1024), ("trn2", 224 * 1024), ("trn3", 256 * 1024)])
def test_sbuf_capacity_of_each_target(target, bytes_):
    with running(NeuronCore(find_target(target))):
        usable = bytes_ - 16 * 1024 - 8  # nki-library, mlp_cte_constants.py
        assert (
            nl.tile_size.sbuf_fmax_bytes
            == nl.tile_size.total_available_sbuf_size
            == 4 * nl.tile_size.sbuf_fmax
            == usable
        )
        assert nl.tile_size.sbuf_size_bytes == 128 * bytes_
        new((128, usable // 4))
        new((128, 4), address=(0, usable - 16))
        for too_much in ({"shape": (128, usable // 4 + 1)}, {"shape": (128, 4), "address": (0, usable - 12)}):
            with pytest.raises(CapacityError, match=str(usable)):
                new(**too_much)


def test_overlapping_addresses_share_memory():
    @nki.jit
    def kernel():
        first = nl.ndarray((4, 8), nl.int32, nl.sbuf, address=(0, 64))
        second = nl.ndarray((4, 8), nl.int32, nl.sbuf, address=(0, 80))
        nisa.memset(first, 1)
        nisa.memset(second, 2)
        out = nl.ndarray((4, 8), nl.int32, nl.shared_hbm)
        nisa.dma_copy(out, first)
        return out

    (out,) = simulator.run(kernel).outputs
    np.testing.assert_array_equal(out, [[1, 1, 1, 1, 2, 2, 2, 2]] * 4)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3])
def test_memory_that_was_never_written_reads_as_nan(dtype):
    result = nki.simulate(unfinished)(np.ones((4, 3), dtype)).astype(np.float32)
    np.testing.assert_array_equal(result[:, 0], np.ones(4))
    assert np.isnan(result[:, 1:]).all()


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int16])
def test_integer_memory_that_was_never_written_reads_as_four(dtype):
    result = nki.simulate(unfinished)(np.ones((4, 3), dtype))
    np.testing.assert_array_equal(result, [[1, 4, 4]] * 4)


def test_addresses_are_bytes_in_sbuf_and_banks_in_psum():
    """nki/migration/index.rst: an allocation in PSUM starts at the beginning of a bank."""
    with running(NeuronCore(find_target("trn2"))):
        odd = new((4, 4), address=(0, 3))
        nisa.memset(odd, 1.5)
        np.testing.assert_array_equal(odd.values, np.full((4, 4), 1.5))
        assert nl.tile_size.sbuf_min_align == 1
        for byte in (2, 4, 1024, 2047, 4098):
            with pytest.raises(NkiValidationError, match=f"at byte {byte} of PSUM; allowed: multiples of 2048, where"):
                nl.ndarray((4, 4), nl.bfloat16, nl.psum, address=(0, byte))
        bank = nl.ndarray((128, 1024), nl.bfloat16, nl.psum, address=(0, 3 * 2048))  # the example from the guide
        assert bank.storage.base == 3 * nl.tile_size.psum_bank_fmax_bytes
