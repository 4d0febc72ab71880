"""What each instruction computes, against NumPy."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trninfer import simulator
from trninfer.simulator.core import NeuronCore, running
from trninfer.simulator.targets import find_target

SIZES = st.sampled_from([1, 2, 3, 31, 64, 127, 128])
TARGETS = ["trn1", "trn2", "trn3"]


@pytest.fixture
def core():
    core = NeuronCore(find_target("trn2"))
    with running(core):
        yield core


def tile(values, dtype=nl.float32, buffer=nl.sbuf):
    tensor = nl.ndarray(values.shape, dtype, buffer)
    tensor.write(np.asarray(values))
    return tensor


def uniform(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32)


@given(
    k=SIZES,
    m=SIZES,
    n=st.sampled_from([1, 3, 128, 511, 512]),
    dtype=st.sampled_from(["float32", "bfloat16", "float16"]),
)
def test_matmul_contracts_over_partitions(k, m, n, dtype):
    with running(NeuronCore(find_target("trn2"))):
        a, b = tile(uniform(k, m), dtype), tile(uniform(k, n, seed=1), dtype)
        psum = nl.ndarray((m, n), nl.float32, nl.psum)
        nisa.nc_matmul(psum, a, b)
        np.testing.assert_allclose(psum.values, a.values.T @ b.values, rtol=1e-4, atol=1e-4)
        nisa.nc_matmul(psum, a, b)  # accumulate=None: the second adds
        np.testing.assert_allclose(psum.values, 2 * (a.values.T @ b.values), rtol=1e-4, atol=1e-4)
        nisa.nc_matmul(psum, a, b, accumulate=False)
        np.testing.assert_allclose(psum.values, a.values.T @ b.values, rtol=1e-4, atol=1e-4)


def test_matmul_reads_strided_rows(core):
    rows = uniform(16, 4, 10)
    moving, weights, psum = tile(rows), tile(uniform(16, 8)), nl.ndarray((8, 2, 7), nl.float32, nl.psum)
    nisa.nc_matmul(psum, weights, moving[:, 1:3, 2:9])
    expected = np.einsum("km,krc->mrc", weights.values, rows[:, 1:3, 2:9])
    np.testing.assert_allclose(psum.values, expected, rtol=1e-5)


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


BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}


@pytest.mark.parametrize("name", BINARY)
def test_tensor_tensor(core, name):
    a, b = uniform(5, 9).round(), uniform(5, 9, seed=1).round()
    out = nl.ndarray((5, 9), nl.float32)
    nisa.tensor_tensor(out, tile(a), tile(b), getattr(nl, name))
    np.testing.assert_array_equal(out.values, BINARY[name](a, b).astype(np.float32))


def test_int32_adds_exactly_on_gpsimd_and_through_float32_on_vector(core):
    a, b = np.array([[2**24]], np.int32), np.array([[1]], np.int32)
    out = nl.ndarray((1, 1), nl.int32)
    nisa.tensor_tensor(out, tile(a, nl.int32), tile(b, nl.int32), nl.add)
    assert out.values[0, 0] == 2**24 + 1 and core.program[-1].engine is nisa.engine.gpsimd
    nisa.tensor_tensor(out, tile(a, nl.int32), tile(b, nl.int32), nl.add, engine=nisa.engine.vector)
    assert out.values[0, 0] == 2**24


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"])
def test_bit_operators(core, name):
    a, b = np.array([[0x0F0F, 1, -8]], np.int32), np.array([[3, 2, 1]], np.int32)
    out = nl.ndarray((1, 3), nl.int32)
    nisa.tensor_tensor(out, tile(a, nl.int32), tile(b, nl.int32), getattr(nl, name))
    unsigned = a.view(np.uint32)
    expected = (
        np.right_shift(unsigned, b.view(np.uint32)).view(np.int32) if name == "right_shift" else getattr(np, name)(a, b)
    )
    np.testing.assert_array_equal(out.values, expected)


@pytest.mark.parametrize("reverse0", [False, True])
@pytest.mark.parametrize("reverse1", [False, True])
def test_tensor_scalar_with_two_operators(core, reverse0, reverse1):
    data, vector = uniform(6, 5), uniform(6, 1, seed=1)
    out = nl.ndarray((6, 5), nl.float32)
    nisa.tensor_scalar(out, tile(data), nl.subtract, tile(vector), reverse0, nl.multiply, 3.0, reverse1)
    expected = ((vector - data) if reverse0 else (data - vector)) * np.float32(3)
    np.testing.assert_array_equal(out.values, expected)


def test_scalar_tensor_tensor(core):
    a, b = uniform(6, 5), uniform(6, 5, seed=1)
    out = nl.ndarray((6, 5), nl.bfloat16)
    nisa.scalar_tensor_tensor(out, tile(a), nl.multiply, 0.5, nl.subtract, tile(b), reverse1=True)
    reference = nl.ndarray((6, 5), nl.bfloat16)
    reference.write(b - a * np.float32(0.5))
    np.testing.assert_array_equal(out.values, reference.values)


@pytest.mark.parametrize("axis", [2, (1, 2), -1, [1, 2]])
@pytest.mark.parametrize(
    "name,function", [("add", np.sum), ("maximum", np.max), ("minimum", np.min), ("multiply", np.prod)]
)
def test_tensor_reduce(core, axis, name, function):
    data = uniform(4, 3, 5)
    axes = tuple(a % 3 for a in (axis if isinstance(axis, (tuple, list)) else (axis,)))
    out = nl.ndarray((4, 1 if len(axes) == 2 else 3), nl.float32)
    nisa.tensor_reduce(out, getattr(nl, name), tile(data), axis, negate=True)
    np.testing.assert_allclose(out.values, -function(data, axis=axes).reshape(out.shape), rtol=1e-6)


def test_two_by_two_pooling_is_a_reduce_over_a_permuted_view(core):
    data = uniform(4, 6, 8)
    out = nl.ndarray((4, 3, 4), nl.float32)
    windows = tile(data).reshape((4, 3, 2, 4, 2)).permute((0, 1, 3, 2, 4))
    nisa.tensor_reduce(out, nl.maximum, windows, (3, 4))
    np.testing.assert_array_equal(out.values, data.reshape(4, 3, 2, 4, 2).max(axis=(2, 4)))


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


def test_reciprocal_and_iota(core):
    data = uniform(3, 4) + 3
    out = nl.ndarray((3, 4), nl.float32)
    nisa.reciprocal(out, tile(data))
    np.testing.assert_array_equal(out.values, np.float32(1) / data)
    numbers = nl.ndarray((3, 6), nl.int32)
    nisa.iota(numbers, [[10, 2], [1, 3]], offset=5, channel_multiplier=100)
    expected = 5 + 100 * np.arange(3)[:, None] + np.array([0, 1, 2, 10, 11, 12])
    np.testing.assert_array_equal(numbers.values, expected)


@given(st.integers(8, 300), st.integers(1, 20), st.integers(0, 10**6))
def test_max8_and_find_index8(columns, partitions, seed):
    with running(NeuronCore(find_target("trn2"))):
        data = np.random.default_rng(seed).integers(-5, 5, (partitions, columns)).astype(np.float32)
        best, where = nl.ndarray((partitions, 8), nl.float32), nl.ndarray((partitions, 8), nl.uint32)
        nisa.max8(best, tile(data))
        np.testing.assert_array_equal(best.values, -np.sort(-data, axis=1)[:, :8])
        nisa.nc_find_index8(where, tile(data), best)
        np.testing.assert_array_equal(where.values[:, 0], data.argmax(axis=1))
        nisa.memset(best, 99.0)
        nisa.nc_find_index8(where, tile(data), best)
        assert (where.values == 0xFFFFFFFF).all()


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


def nl_bfloat16():
    import ml_dtypes

    return ml_dtypes.bfloat16


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


def test_identity_constant_and_full(core):
    np.testing.assert_array_equal(nl.shared_identity_matrix(5, nl.float32).values, np.eye(5))
    np.testing.assert_array_equal(nl.shared_constant(np.arange(6, dtype=np.int32)).values, np.arange(6))
    for buffer in (nl.sbuf, nl.psum, nl.shared_hbm):
        assert (nl.full((2, 3), 7, nl.float32, buffer).values == 7).all()
    assert nl.ones((2, 2), nl.int8).values.sum() == 4 and not nl.zeros_like(nl.ones((2, 2), nl.int8)).values.any()


def test_functions_of_tiles(core):
    a, b = uniform(4, 5), uniform(4, 5, seed=1)
    ta, tb = tile(a), tile(b)
    np.testing.assert_array_equal(nl.add(ta, tb).values, a + b)
    np.testing.assert_array_equal(nl.subtract(1.0, ta).values, np.float32(1) - a)
    np.testing.assert_array_equal(nl.copy(ta, dtype=nl.bfloat16).values, tile(a, nl.bfloat16).values)
    np.testing.assert_allclose(nl.sum(ta, 1, keepdims=True).values, a.sum(1, keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(nl.matmul(ta, tile(uniform(5, 6))).values, a @ uniform(5, 6), rtol=1e-5)
    np.testing.assert_array_equal(nl.transpose(ta).values, a.T)
