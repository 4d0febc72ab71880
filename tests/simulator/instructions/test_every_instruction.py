"""Every instruction at odd sizes and in every documented dtype, compared with a NumPy implementation of the
documentation.

According to nki/api/nki/isa/__init__.py and nki/api/nki.api.shared.rst (aws-neuron-sdk), an engine casts its inputs to
float32, computes in float32, and casts to the dtype of dst; bit operators, and copies within one dtype, move bits.
Casts round to nearest even, and casts to integers saturate (release notes of NKI 0.6); narrow floats are those of
ml_dtypes (nki/guides/nki_simulator.rst). Undocumented cases are not tested: NaN as an integer, float8 in uint8.
"""

import itertools
import math

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from golden_dtypes import DTYPES, FLOATS, INTEGERS, numbers, refuses, stored
from nki_tensors import hbm, in_hbm, new, psum, tile

SIZES = list(itertools.product((1, 3, 127, 128), (1, 511, 513)))
EDGES = [0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-11, 1 + 3 * 2**-11, 1 / 3, -7.0]
EDGES += [127.5, 128.5, 240.0, 247.0, 248.0, 255.5, 448.0, 464.0, 465.0, 32767.5, 57344.0, 61440.0, 65504.0, 65520.0]
EDGES += [65535.5, 2.0**24 + 2, 2.0**31, -(2.0**31), 2.0**32, 3e9, -3e9, 3.3e38, -3.4e38, 2.0**-14, 2.0**-17, 1e-40]
EDGES += [np.inf, -np.inf]


def same(got, expected, what=""):
    """Check equality, including the sign of zero and the positions of NaN."""
    np.testing.assert_array_equal(got, expected, err_msg=str(what))
    if expected.dtype.kind == "f":
        where = expected == 0
        np.testing.assert_array_equal(np.signbit(got)[where], np.signbit(expected)[where], err_msg=str(what))


COPIES = {
    "vector": lambda d, s: nisa.tensor_copy(d, s, engine=nisa.engine.vector),
    "gpsimd": lambda d, s: nisa.tensor_copy(d, s, engine=nisa.engine.gpsimd),
    "dma": nisa.dma_copy,
    "activation": lambda d, s: nisa.activation(d, nl.copy, s),  # "always performs the math in float32"
    "tensor_scalar": lambda d, s: nisa.tensor_scalar(d, s, nl.multiply, 1.0),
    "tensor_tensor": lambda d, s: nisa.tensor_tensor(d, s, tile(np.ones(s.shape)), nl.multiply),
}


@pytest.mark.parametrize("by", COPIES)
def test_casts(core, by):
    for source, dtype in itertools.product(DTYPES, DTYPES):
        values = np.concatenate([stored([EDGES], source), numbers(source, (1, 32), big=True)], axis=1)
        src, dst = tile(values, source), new(values.shape, dtype)
        same(src.values, values, source)
        COPIES[by](dst, src)
        moved = source == dtype and by in ("vector", "gpsimd", "dma")
        expected = values if moved else stored(values.astype(np.float32), dtype)
        known = ~np.isnan(values) if dtype in INTEGERS and values.dtype.kind == "f" else np.ones(values.shape, bool)
        same(dst.values[known], expected[known], (source, dtype))


def test_memset_takes_what_the_dtype_holds(core):
    for dtype in DTYPES:
        for value in (0, 3, 100):
            dst = new((3, 5), dtype)
            nisa.memset(dst, value)
            same(dst.values, stored(np.full((3, 5), value), dtype), dtype)


# Operators (tbl-aluop)

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
UNARY = {"abs": np.abs, "square": np.square, "relu": lambda a: np.maximum(a, np.float32(0))}


def arithmetic(name, *operands):
    """Compute in float32 and return float32."""
    function = BINARY.get(name) or UNARY[name]
    return np.asarray(function(*[np.asarray(x).astype(np.float32) for x in operands]), np.float32)


@pytest.mark.parametrize("name", BINARY)
def test_arithmetic_is_in_float32_in_any_dtype(core, name):
    op, shape = getattr(nl, name), (3, 40)
    for dtype, other, out in itertools.product(DTYPES, ("float32", "bfloat16", "int16"), ("float32", "int8", "uint32")):
        a, b = numbers(dtype, shape, 1), numbers(other, shape, 2)
        if {dtype, other, out} <= {"int32", "uint32"}:
            continue
        scalars = numbers("float32", (3, 1), 3)
        first, second, dst = tile(a, dtype), tile(b, other), new(shape, out)
        nisa.tensor_tensor(dst, first, second, op)
        same(dst.values, stored(arithmetic(name, a, b), out), (dtype, other, out))
        nisa.tensor_scalar(dst, first, op, tile(scalars), True, nl.subtract, 0.5)
        step = arithmetic(name, scalars, a) - np.float32(0.5)
        same(dst.values, stored(step, out), (dtype, out))
        nisa.scalar_tensor_tensor(dst, first, nl.add, 1.25, op, second, reverse1=True)
        same(dst.values, stored(arithmetic(name, b, a.astype(np.float32) + np.float32(1.25)), out), (dtype, other, out))
        total = new((3, 1))
        nisa.tensor_scalar_reduce(dst, first, op, 2.0, nl.maximum, total)
        step = arithmetic(name, a, 2.0)
        same(dst.values, stored(step, out), (dtype, out))
        same(total.values, step.max(axis=1, keepdims=True), dtype)


@pytest.mark.parametrize("name", UNARY)
def test_operators_of_one_operand(core, name):
    for dtype, out in itertools.product(DTYPES, ("float32", "bfloat16", "int8")):
        a, dst = numbers(dtype, (3, 40)), new((3, 40), out)
        nisa.tensor_scalar(dst, tile(a, dtype), getattr(nl, name), None)
        np.testing.assert_array_equal(dst.values, stored(arithmetic(name, a), out))


def test_int32_is_exact_only_on_gpsimd(core):
    """All other engines convert integers beyond 2**24 through float32."""
    a = np.array([[2**24 + 1, -(2**24) - 3, 2**31 - 1, -(2**31), 123456789, 7]], np.int32)
    b = np.array([[2, 5, -1, 1, -987654321, 3]], np.int32)
    wide = {"add": a.astype(np.int64) + b, "subtract": a.astype(np.int64) - b, "multiply": a.astype(np.int64) * b}
    dst = new(a.shape, nl.int32)
    for name, exact in wide.items():
        nisa.tensor_tensor(dst, tile(a, nl.int32), tile(b, nl.int32), getattr(nl, name))
        fits = np.abs(exact) < 2**31
        np.testing.assert_array_equal(dst.values[fits], exact[fits])
        nisa.tensor_tensor(dst, tile(a, nl.int32), tile(b, nl.int32), getattr(nl, name), engine=nisa.engine.vector)
        np.testing.assert_array_equal(dst.values, stored(arithmetic(name, a, b), "int32"))
        nisa.tensor_scalar(dst, tile(a, nl.int32), getattr(nl, name), 3.0)
        np.testing.assert_array_equal(dst.values, stored(arithmetic(name, a, 3), "int32"))
    for name in ("equal", "less", "maximum"):
        nisa.tensor_tensor(dst, tile(a, nl.int32), tile(a + 1, nl.int32), getattr(nl, name))
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(dst.values, BINARY[name](a, a + 1).astype(np.int32))


def bits(name, a, b, dtype):
    """Apply a bit operator to Python integers; shifts are logical."""
    width, mask = np.iinfo(dtype).bits, (1 << np.iinfo(dtype).bits) - 1
    functions = {
        "bitwise_and": lambda x, y: x & y,
        "bitwise_or": lambda x, y: x | y,
        "bitwise_xor": lambda x, y: x ^ y,
        "left_shift": lambda x, y: x << (y % width),
        "right_shift": lambda x, y: x >> (y % width),
        "invert": lambda x, y: ~x,
    }
    pairs = zip(a.reshape(-1).tolist(), np.broadcast_to(b, a.shape).reshape(-1).tolist())
    found = [functions[name](x & mask, y & mask) & mask for x, y in pairs]
    return np.array(found, f"uint{width}").view(dtype).reshape(a.shape)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_bit_operators_treat_elements_as_bits(core, dtype):
    a, b = numbers(dtype, (3, 33), 1, big=True), numbers(dtype, (3, 33), 2, big=True)
    shifts = np.random.default_rng(3).integers(0, np.iinfo(dtype).bits, (3, 33)).astype(dtype)
    dst, column = new(a.shape, dtype), new((3, 1), dtype)
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"):
        other = shifts if name.endswith("shift") else b
        nisa.tensor_tensor(dst, tile(a, dtype), tile(other, dtype), getattr(nl, name))
        same(dst.values, bits(name, a, other, dtype), name)
        nisa.tensor_scalar(dst, tile(a, dtype), getattr(nl, name), 5, op1=nl.bitwise_xor, operand1=3)
        five = bits(name, a, np.full(a.shape, 5, dtype), dtype)
        same(dst.values, bits("bitwise_xor", five, np.full(a.shape, 3, dtype), dtype), name)
        if name.startswith("bitwise"):
            nisa.tensor_reduce(column, getattr(nl, name), tile(a, dtype), 1)
            same(column.values[:, 0], getattr(np, name).reduce(a, axis=1), name)
    nisa.tensor_scalar(dst, tile(a, dtype), nl.invert, None)
    same(dst.values, bits("invert", a, a, dtype))
    for refused in (*FLOATS, "tfloat32"):
        for run in (
            lambda t: nisa.tensor_tensor(new((3, 33), dtype), tile(a, dtype), t, nl.bitwise_and),
            lambda t: nisa.tensor_scalar(new((3, 33), dtype), t, nl.left_shift, 1),
            lambda t: nisa.tensor_reduce(new((3, 1), dtype), nl.bitwise_or, t, 1),
        ):
            refuses(lambda: run(new((3, 33), refused)))  # noqa: B023


# Sizes

ERF = np.vectorize(math.erf, otypes=[np.float64])
FUNCTIONS = {
    "copy": lambda x: x,
    "square": np.square,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * (1 + ERF(x / math.sqrt(2))) / 2,
    "silu": lambda x: x / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "softplus": lambda x: np.log1p(np.exp(x)),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "erf": ERF,
    "exp": np.exp,
    "sin": np.sin,
    "arctan": np.arctan,
    "sign": np.sign,
    "abs": np.abs,
    "gelu_apprx_tanh": lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "gelu_apprx_sigmoid": lambda x: x / (1 + np.exp(-1.702 * x)),
    "erf_dx": lambda x: 2 / math.sqrt(math.pi) * np.exp(-(x**2)),
}
POSITIVE = {"log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: x**-0.5, "reciprocal": lambda x: 1 / x}


@pytest.mark.parametrize("name", [*FUNCTIONS, *POSITIVE])
def test_activation_functions(core, name):
    function = FUNCTIONS.get(name) or POSITIVE[name]
    for number, (dtype, out) in enumerate(itertools.product(DTYPES, ("float32", "float16"))):
        shape = SIZES[number % len(SIZES)]
        low, high = (1, 6) if name in POSITIVE else (-1, 1) if name in ("sin", "arctan") else (-3, 3)
        a = np.clip(numbers(dtype, shape, number), max(low, 0) if dtype.startswith("u") else low, high)
        scale, bias = (1.0, 0.0) if name in ("sin", "arctan", *POSITIVE) else (0.5, 0.25)
        dst, total = new(shape, out), new((shape[0], 1))
        nisa.activation_reduce(dst, getattr(nl, name), tile(a, dtype), nl.add, total, bias, scale)
        expected = function(a.astype(np.float64) * scale + bias)
        tolerance = {"rtol": 4e-6, "atol": 2e-6} if out == "float32" else {"rtol": 1e-3, "atol": 1e-6}
        np.testing.assert_allclose(dst.values, expected, **tolerance, err_msg=f"{dtype} {out}")
        np.testing.assert_allclose(total.values[:, 0], expected.sum(axis=1), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_odd_sizes(core, size):
    partitions, free = size
    a, b = numbers("float32", size, 1), numbers("float32", size, 2)
    x, y, dst, column = tile(a), tile(b), new(size), new((partitions, 1))
    for _, run, expected in (
        ("tensor_tensor", lambda: nisa.tensor_tensor(dst, x, y, nl.multiply), a * b),
        ("tensor_copy", lambda: nisa.tensor_copy(dst, y), b),
        ("reciprocal", lambda: nisa.reciprocal(dst, tile(np.abs(a) + 1)), np.float32(1) / (np.abs(a) + np.float32(1))),
        ("select", lambda: nisa.select_reduce(dst, tile(a > 0, nl.uint8), y, -2.0), np.where(a > 0, b, -2)),
        ("iota", lambda: nisa.iota(dst, [[3, free]], 5, 2), 5 + 2 * np.indices(size)[0] + 3 * np.indices(size)[1]),
        (
            "affine_select",
            lambda: nisa.affine_select(dst, [[-1, free]], 1, x, 9.0, nl.greater_equal),
            np.where(np.indices(size)[0] >= np.indices(size)[1], a, 9),
        ),
        ("gather", lambda: nisa.nc_n_gather(dst, x, tile(np.indices(size)[1][:, ::-1], nl.uint32)), a[:, ::-1]),
        (
            "scan",
            lambda: nisa.tensor_tensor_scan(dst, tile(np.ones(size)), x, 2.0, nl.multiply, nl.add),
            2 + np.cumsum(a, 1),
        ),
        (
            "cumulative",
            lambda: nisa.tensor_scalar_cumulative(dst, x, nl.add, nl.maximum, 1.0),
            np.maximum.accumulate(a + 1, 1),
        ),
        (
            "range_select",
            lambda: nisa.range_select(dst, x, nl.greater_equal, nl.less, tile(np.full((partitions, 1), 2.0)),
                                      tile(np.full((partitions, 1), 400.0)), reduce_res=column),
            np.where((np.indices(size)[1] >= 2) & (np.indices(size)[1] < 400), a, np.finfo(np.float32).min),
        ),
        (
            "predicated",
            lambda: [nisa.tensor_copy(dst, x), nisa.tensor_copy_predicated(dst, y, tile(b > 1, nl.uint16))],
            np.where(b > 1, b, a),
        ),
    ):  # fmt: skip
        run()
        np.testing.assert_array_equal(dst.values, np.asarray(expected, np.float32))
    for name, whole in (("add", a.sum(1)), ("maximum", a.max(1)), ("minimum", a.min(1))):
        nisa.tensor_reduce(column, getattr(nl, name), x, 1, negate=True)
        np.testing.assert_array_equal(column.values[:, 0], -whole)
    row = new((1, free))
    for name, whole in (("add", a.sum(0)), ("maximum", a.max(0))):
        nisa.tensor_partition_reduce(row, getattr(nl, name), x)
        np.testing.assert_array_equal(row.values[0], whole)
    moments, stats = new((partitions, 2)), new((partitions, 6 * -(-free // 512)))
    for part in range(0, free, 512):
        nisa.bn_stats(stats[:, part // 512 * 6 : part // 512 * 6 + 6], x[:, part : min(part + 512, free)])
    nisa.bn_aggr(moments, stats)
    np.testing.assert_allclose(moments.values, np.stack([a.mean(1), a.var(1)], 1), rtol=1e-5, atol=1e-5)
    if free >= 8:
        eight, places = new((partitions, 8)), new((partitions, 8), nl.uint32)
        nisa.max8(eight, x)
        np.testing.assert_array_equal(eight.values, -np.sort(-a, axis=1)[:, :8])
        nisa.nc_find_index8(places, x, eight)
        np.testing.assert_array_equal(places.values, np.argsort(-a, axis=1, kind="stable")[:, :8])
        nisa.nc_match_replace8(dst, x, eight, -99.0)
        expected = a.copy()
        np.put_along_axis(expected, np.argsort(-a, axis=1, kind="stable")[:, :8], -99, 1)
        np.testing.assert_array_equal(dst.values, expected)
    nisa.dma_compute(out := hbm(size), [in_hbm(a), in_hbm(b)], nl.add)
    np.testing.assert_array_equal(out.values, a + b)


@pytest.mark.parametrize(
    "rows, columns, moving", list(itertools.product((1, 3, 127, 128), (1, 3, 127, 128), (1, 511, 512)))
)
def test_matmul_sizes(core, rows, columns, moving):
    a, b = numbers("bfloat16", (rows, columns)), numbers("bfloat16", (rows, moving), 1)
    dst = psum((columns, moving))
    nisa.nc_matmul(dst, tile(a, nl.bfloat16), tile(b, nl.bfloat16))
    np.testing.assert_array_equal(dst.values, a.T @ b)  # exact: quarters
    refuses(lambda: nisa.nc_matmul(psum((columns, 513)), tile(a, nl.bfloat16), new((rows, 513), nl.bfloat16)))
    turned = psum((columns, rows), nl.bfloat16)
    nisa.nc_transpose(turned, tile(a, nl.bfloat16))
    np.testing.assert_array_equal(turned.values, a.T)
