"""The Vector Engine's accumulators, compared with NumPy."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from nki_tensors import like, on, tile, uniform

FREE = st.sampled_from([1, 2, 7, 64, 129])


@given(free=FREE, op=st.sampled_from([nl.add, nl.multiply, nl.maximum, nl.minimum]), negate=st.booleans())
def test_tensor_scalar_reduce(free, op, negate):
    reduce = getattr(np, op.__name__).reduce
    with on():
        data = tile(uniform(4, free))
        dst, total, start = like(data), nl.ndarray((4, 1), nl.float32), tile(uniform(4, 1, seed=5))
        nisa.tensor_scalar_reduce(dst, data, nl.multiply, 0.5, op, total, reduce_res_negate=negate)
        halves = data.values * np.float32(0.5)
        once = reduce(halves, axis=1)
        np.testing.assert_allclose(dst.values, halves)
        np.testing.assert_allclose(total.values[:, 0], -once if negate else once, rtol=1e-5)
        nisa.tensor_scalar_reduce(dst, data, nl.multiply, 0.5, op, total, reduce_cmd=nisa.reduce_cmd.reduce)
        np.testing.assert_allclose(total.values[:, 0], reduce(np.stack([once, once]), axis=0), rtol=1e-5)
        load = nisa.reduce_cmd.load_reduce
        nisa.tensor_scalar_reduce(dst, data, nl.multiply, 0.5, op, total, reduce_cmd=load, reduce_init=start)
        np.testing.assert_allclose(total.values[:, 0], reduce(np.stack([start.values[:, 0], once]), axis=0), rtol=1e-5)


@given(free=FREE, vector=st.booleans())
def test_exponential(free, vector):
    with on("trn3"):
        data = tile(uniform(4, free))
        top = tile(data.values.max(axis=1, keepdims=True)) if vector else 1.5
        dst, total = like(data), nl.ndarray((4, 1), nl.float32)
        nisa.exponential(dst, data, top, total, nisa.reduce_cmd.load_reduce, 2.0)
        expected = np.exp(data.values - (top.values if vector else np.float32(1.5)))
        np.testing.assert_allclose(dst.values, expected, rtol=1e-6)
        np.testing.assert_allclose(total.values[:, 0], 2 + expected.sum(axis=1), rtol=1e-6)
