"""Activations, their bias and scale, and the accumulators of the Scalar Engine."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki_tensors import like, new, normal, on, tile, uniform
from trninfer.simulator import NkiValidationError


def erf(x):
    import math

    return np.vectorize(math.erf)(x)


SIGMOID = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "relu": lambda x: np.maximum(x, 0),
    "copy": lambda x: x,
    "exp": np.exp,
    "tanh": np.tanh,
    "square": np.square,
    "abs": np.abs,
    "erf": erf,
    "gelu": lambda x: 0.5 * x * (1 + erf(x / 2**0.5)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "softplus": lambda x: np.log1p(np.exp(x)),
}


@pytest.mark.parametrize("name", SIGMOID)
def test_activation_with_scale_and_bias(core, name):
    data, bias = uniform(7, 33), uniform(7, 1, seed=1)
    out = nl.ndarray((7, 33), nl.float32)
    nisa.activation(out, getattr(nl, name), tile(data), bias=tile(bias), scale=0.5)
    np.testing.assert_allclose(out.values, SIGMOID[name](data.astype(np.float64) * 0.5 + bias), rtol=2e-6, atol=1e-6)


def test_activation_sums_into_its_accumulators(core):
    data = uniform(7, 10)
    out, total = nl.ndarray((7, 10), nl.float32), nl.ndarray((7, 1), nl.float32)
    nisa.activation(out, nl.exp, tile(data), reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reset_reduce)
    nisa.activation(out, nl.exp, tile(data), reduce_op=nl.add, reduce_res=total, reduce_cmd=nisa.reduce_cmd.reduce)
    np.testing.assert_allclose(total.values[:, 0], 2 * np.exp(data).sum(axis=1), rtol=1e-5)
    nisa.activation_reduce(out, nl.exp, tile(data), nl.add, total)
    np.testing.assert_allclose(total.values[:, 0], np.exp(data).sum(axis=1), rtol=1e-5)


def test_bias_may_have_any_dtype_but_tfloat32():
    x = normal(4, 6)
    with on():
        for dtype in (nl.bfloat16, nl.int32, nl.uint8, nl.float8_e5m2):
            out, bias = new((4, 6)), tile(np.arange(4).reshape(4, 1), dtype)
            nisa.activation(out, nl.copy, tile(x), bias=bias)
            np.testing.assert_allclose(out.values, x + np.arange(4).reshape(4, 1), rtol=1e-6)
        with pytest.raises(NkiValidationError, match="cannot be tfloat32"):
            nisa.activation(new((4, 6)), nl.copy, tile(x), bias=new((4, 1), nl.tfloat32))
    with on("trn1"), pytest.raises(NkiValidationError, match=r"bias cannot be given with op=nl\.reciprocal on trn1"):
        nisa.activation(new((4, 6)), nl.reciprocal, tile(x), bias=new((4, 1)))


def test_accumulators_belong_to_partitions():
    upper, lower = normal(64, 5), normal(64, 5, seed=1)
    both, sums = np.concatenate([upper, lower]), None
    with on():
        data, out, sums = tile(both), new((128, 5)), new((128, 1))
        for start in (0, 64):
            part = slice(start, start + 64)
            command = nisa.reduce_cmd.reset_reduce
            nisa.activation(out[part], nl.copy, data[part], reduce_op=nl.add, reduce_cmd=command)
        nisa.activation(out, nl.copy, data, reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reduce, reduce_res=sums)
        np.testing.assert_allclose(sums.values, 2 * both.sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-5)


def test_a_reset_alone_sets_the_accumulators_to_zero():
    with on():
        sums = new((4, 1))
        command = nisa.reduce_cmd.reset
        nisa.activation(new((4, 5)), nl.copy, tile(normal(4, 5)), reduce_cmd=command, reduce_res=sums)
        np.testing.assert_array_equal(sums.values, np.zeros((4, 1)))


def test_activations_on_the_gpsimd_engine(trn3_core):
    data = tile(uniform(4, 8))
    for call in (
        lambda dst, **more: nisa.activation(dst, nl.exp, data, bias=0.5, engine=nisa.engine.gpsimd, **more),
        lambda dst, **more: nisa.activate2(
            dst, nl.exp, data, 0.5, 0.0, nl.add, nl.bypass, engine=nisa.engine.gpsimd, **more
        ),
    ):
        dst = like(data)
        assert call(dst).engine is nisa.engine.gpsimd
        np.testing.assert_allclose(dst.values, np.exp(data.values + np.float32(0.5)), rtol=1e-5)
        with pytest.raises(NkiValidationError, match="engine gpsimd has no accumulators"):
            call(dst, reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reset_reduce)
        with pytest.raises(NkiValidationError, match="cannot access PSUM"):
            call(nl.ndarray((4, 8), nl.float32, nl.psum))


def test_activations_stay_on_the_scalar_engine_before_trn3(core):
    data = tile(uniform(4, 8))
    assert nisa.activation(data, nl.exp, data, engine=nisa.engine.scalar).engine is nisa.engine.scalar
    with pytest.raises(NkiValidationError, match="does not run on engine gpsimd; allowed: scalar"):
        nisa.activation(data, nl.exp, data, engine=nisa.engine.gpsimd)
