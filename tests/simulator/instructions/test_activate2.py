"""activate2, compared with NumPy."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki_tensors import like, on, tile, uniform
from trninfer.simulator import NkiValidationError


@pytest.mark.parametrize(
    ("op0", "op1", "before"),
    [
        (nl.multiply, nl.add, lambda x: x * 2 + 0.5),
        (nl.multiply, nl.subtract, lambda x: x * 2 - 0.5),
        (nl.multiply, nl.bypass, lambda x: x * 2),
        (nl.add, nl.bypass, lambda x: x + 2),
        (nl.subtract, nl.bypass, lambda x: x - 2),
        (nl.bypass, nl.bypass, lambda x: x),
    ],
)
def test_activate2(trn3_core, op0, op1, before):
    data = tile(uniform(4, 8))
    dst, total = like(data), nl.ndarray((4, 1), nl.float32)
    nisa.activate2(
        dst,
        nl.tanh,
        data,
        2.0,
        0.5,
        op0,
        op1,
        reduce_op=nl.maximum,
        reduce_res=total,
        reduce_cmd=nisa.reduce_cmd.reset_reduce,
    )
    expected = np.tanh(before(data.values))
    np.testing.assert_allclose(dst.values, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(total.values[:, 0], expected.max(axis=1), rtol=1e-5)


def test_activate2_reverses_and_takes_columns_and_a_slope(trn3_core):
    data, column, slope = tile(uniform(4, 8)), tile(uniform(4, 1, seed=1)), tile(uniform(4, 1, seed=2))
    dst = like(data)
    nisa.activate2(dst, nl.prelu, data, column, 1.0, nl.subtract, nl.bypass, slope, reverse0=True)
    expected = column.values - data.values
    np.testing.assert_allclose(dst.values, np.where(expected > 0, expected, slope.values * expected), rtol=1e-6)


def test_limits_of_activate2(trn3_core):
    data = tile(uniform(4, 8))
    with pytest.raises(NkiValidationError, match=r"of op0 and op1: \(add, multiply\); supported: "):
        nisa.activate2(like(data), nl.exp, data, 1.0, 1.0, nl.add, nl.multiply)
    with pytest.raises(NkiValidationError, match="reverse0 requires"):
        nisa.activate2(like(data), nl.exp, data, 1.0, 1.0, nl.bypass, nl.bypass, reverse0=True)
    with pytest.raises(NkiValidationError, match="the same dtype"):
        pair = tile(uniform(4, 1)), tile(uniform(4, 1), nl.bfloat16)
        nisa.activate2(like(data), nl.exp, data, *pair, nl.multiply, nl.add)
    with pytest.raises(NkiValidationError, match="reduce_op"):
        nisa.activate2(like(data), nl.exp, data, 1.0, 1.0, nl.multiply, nl.add, reduce_cmd=nisa.reduce_cmd.reset_reduce)
    with on("trn2"), pytest.raises(NkiValidationError, match="NeuronCore-v4"):
        nisa.activate2(like(data), nl.exp, data, 1.0, 1.0, nl.multiply, nl.add)
