"""Transposes, compared with NumPy."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki_tensors import tile, uniform
from trninfer.simulator.instructions.core import NeuronCore, running
from trninfer.simulator.machine.chip import find_target


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 127), (128, 128), (128, 2, 64)])
def test_transpose_on_the_tensor_engine(core, dtype, shape):
    data = tile(uniform(*shape), dtype)
    free = int(np.prod(shape[1:]))
    psum = nl.ndarray((free, shape[0]), dtype, nl.psum)
    nisa.nc_transpose(psum, data)
    np.testing.assert_array_equal(psum.values, data.values.reshape(shape[0], free).T)


def test_transpose_on_the_vector_engine(core):
    data, out = tile(uniform(32, 7)), nl.ndarray((7, 32), nl.float32)
    nisa.nc_transpose(out, data, engine=nisa.engine.vector)
    np.testing.assert_array_equal(out.values, data.values.T)


def test_transpose_of_nan_spreads_on_trn1_only():
    values = uniform(4, 5)
    values[1, 2] = np.nan
    for target, spread in (("trn1", 4), ("trn2", 1)):
        with running(NeuronCore(find_target(target))):
            psum = nl.ndarray((5, 4), nl.float32, nl.psum)
            nisa.nc_transpose(psum, tile(values))
            assert np.isnan(psum.values).sum() == spread
