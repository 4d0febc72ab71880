"""scalar_tensor_tensor with a reduction (NKI 0.7), compared with NumPy."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nki_tensors import like, on, tile, uniform
from trninfer.simulator import NkiValidationError

REDUCERS = {nl.add: np.sum, nl.multiply: np.prod, nl.maximum: np.max, nl.minimum: np.min}


@given(free=st.sampled_from([1, 3, 64, 129]), reducer=st.sampled_from(list(REDUCERS)))
def test_reduces_what_it_writes(free, reducer):
    with on():
        a, b = tile(uniform(9, free)), tile(uniform(9, free, seed=2))
        dst, total = like(a), nl.ndarray((9, 1), nl.float32)
        nisa.scalar_tensor_tensor(dst, a, nl.multiply, 0.5, nl.add, b, reduce_op=reducer, reduce_res=total)
        expected = a.values * np.float32(0.5) + b.values
        np.testing.assert_allclose(dst.values, expected, rtol=1e-6)
        np.testing.assert_allclose(total.values[:, 0], REDUCERS[reducer](expected, axis=1), rtol=1e-5, atol=1e-6)


def test_the_accumulators_go_on(core):
    a, b = tile(np.ones((4, 8))), tile(np.ones((4, 8)))
    dst, total = like(a), nl.ndarray((4, 1), nl.float32)
    terms = dst, a, nl.multiply, 2.0, nl.add, b
    nisa.scalar_tensor_tensor(*terms, reduce_op=nl.add)
    nisa.scalar_tensor_tensor(*terms, reduce_cmd=nisa.reduce_cmd.reduce, reduce_op=nl.add, reduce_res=total)
    assert (total.values == 48).all()
    nisa.scalar_tensor_tensor(*terms)  # without a reduce_op they stay unchanged
    nisa.scalar_tensor_tensor(*terms, reduce_cmd=nisa.reduce_cmd.reduce, reduce_op=nl.add, reduce_res=total)
    assert (total.values == 72).all()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"reduce_res": True}, "reduce_res needs reduce_op; allowed: nl.add, nl.multiply"),
        ({"reduce_op": nl.subtract}, "reduce_op=nl.subtract is not allowed"),
        ({"reduce_op": nl.add, "reduce_res": True, "reduce_cmd": nisa.reduce_cmd.idle}, "reduce_cmd other than idle"),
        (
            {"reduce_op": nl.add, "reduce_cmd": nisa.reduce_cmd.load_reduce},
            "reduce_cmd must be one of .*, got load_reduce",
        ),
    ],
)
def test_reductions_that_are_refused(core, more, message):
    a = tile(np.ones((4, 8)))
    if "reduce_res" in more:
        more = {**more, "reduce_res": nl.ndarray((4, 1), nl.float32)}
    with pytest.raises(NkiValidationError, match=message):
        nisa.scalar_tensor_tensor(like(a), a, nl.multiply, 2.0, nl.add, a, **more)


def test_a_reduction_takes_longer(core):
    a, total = tile(np.ones((4, 8))), nl.ndarray((4, 1), nl.float32)
    plain = nisa.scalar_tensor_tensor(like(a), a, nl.multiply, 2.0, nl.add, a)
    reduced = nisa.scalar_tensor_tensor(like(a), a, nl.multiply, 2.0, nl.add, a, reduce_op=nl.add, reduce_res=total)
    assert reduced.cost.interval > plain.cost.interval
