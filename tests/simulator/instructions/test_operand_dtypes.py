"""Dtypes that operands may have according to nki/api/nki/isa/__init__.py (aws-neuron-sdk); others are rejected with one
line."""

import itertools

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from golden_dtypes import DTYPES, FLOATS, INTEGERS, numbers, refuses, stored
from nki_tensors import new, on, psum, tile

_ANY, _FLOAT, _NARROW = set(DTYPES), {*FLOATS, "tfloat32"}, {"uint8", "uint16", "uint32"}
MATMUL = {"float8_e4m3", "float8_e5m2", "bfloat16", "float16"}
CASES = {
    # call of operands -> {operand: (shape, dtype, allowed dtypes, memory)}
    "tensor_copy_predicated predicate": (
        lambda t: nisa.tensor_copy_predicated(t("dst"), t("src"), t("predicate")),
        {
            "dst": ((3, 8), "int16", {"int16"}),
            "src": ((3, 8), "int16", {"int16"}),
            "predicate": ((3, 8), "uint8", _NARROW),
        },
    ),
    "nc_matmul": (
        lambda t: nisa.nc_matmul(t("dst"), t("stationary"), t("moving")),
        {
            "dst": ((8, 8), "float32", {"float32"}, nl.psum),
            "stationary": ((3, 8), "bfloat16", MATMUL),
            "moving": ((3, 8), "float16", MATMUL),
        },
    ),
    "nc_matmul of float32": (
        lambda t: nisa.nc_matmul(t("dst"), t("stationary"), t("moving")),
        {
            "dst": ((8, 8), "float32", {"float32"}, nl.psum),
            "stationary": ((3, 8), "float32", {"float32", "tfloat32"}),
            "moving": ((3, 8), "tfloat32", {"float32", "tfloat32"}),
        },
    ),
    "nc_transpose": (
        lambda t: nisa.nc_transpose(t("dst"), t("data")),
        {"dst": ((8, 3), "int32", {"int32"}), "data": ((3, 8), "int32", {"int32"})},
    ),
    "tensor_scalar": (
        lambda t: nisa.tensor_scalar(t("dst"), t("data"), nl.add, t("operand0")),
        {"dst": ((3, 8), "int8", _ANY), "data": ((3, 8), "uint8", _ANY), "operand0": ((3, 1), "float32", {"float32"})},
    ),
    "tensor_scalar_cumulative": (
        lambda t: nisa.tensor_scalar_cumulative(t("dst"), t("src"), nl.add, nl.add, t("imm0")),
        {
            "dst": ((3, 8), "int8", _ANY - {"int32", "uint32", "tfloat32"}),
            "src": ((3, 8), "uint8", _ANY - {"int32", "uint32", "tfloat32"}),
            "imm0": ((3, 1), "float32", {"float32"}),
        },
    ),
    "activation": (
        lambda t: nisa.activation(t("dst"), nl.copy, t("data"), t("bias"), t("scale")),
        {
            "dst": ((3, 8), "int8", _ANY),
            "data": ((3, 8), "uint8", _ANY),
            "bias": ((3, 1), "float32", _ANY - {"tfloat32"}),
            "scale": ((3, 1), "float32", {"float32"}),
        },
    ),
    "nc_n_gather": (
        lambda t: nisa.nc_n_gather(t("dst"), t("data"), t("indices")),
        {
            "dst": ((3, 8), "int8", {"int8"}),
            "data": ((3, 8), "int8", {"int8"}),
            "indices": ((3, 8), "uint32", {"uint32"}),
        },
    ),
    "local_gather": (
        lambda t: nisa.local_gather(t("dst"), t("src_buffer"), t("index")),
        {
            "dst": ((16, 16), "int8", {"int8"}),
            "src_buffer": ((16, 8), "int8", {"int8"}),
            "index": ((16, 1), "uint16", {"uint16"}),
        },
    ),
    "nc_stream_shuffle": (
        lambda t: nisa.nc_stream_shuffle(t("dst"), t("src"), list(range(32))),
        {"dst": ((32, 8), "int16", {"int16"}), "src": ((32, 8), "int16", {"int16"})},
    ),
    "rng": (lambda t: nisa.rng(t("dst")), {"dst": ((3, 8), "int8", set(INTEGERS))}),
    "dropout": (
        lambda t: nisa.dropout(t("dst"), t("data"), 0.5),
        {"dst": ((3, 8), "int8", {"int8"}), "data": ((3, 8), "int8", {"int8"})},
    ),
    "dropout of integers": (
        lambda t: nisa.dropout(t("dst"), t("dst"), t("prob")),
        {"dst": ((3, 8), "int8", _ANY), "prob": ((3, 1), "float32", {"float32"})},
    ),
    "dropout of floats": (
        lambda t: nisa.dropout(t("dst"), t("dst"), t("prob")),
        {"dst": ((3, 8), "float16", _FLOAT), "prob": ((3, 1), "bfloat16", _FLOAT)},
    ),
    "range_select": (
        lambda t: nisa.range_select(t("dst"), t("on_true"), nl.less, nl.less, t("bound0"), t("bound1")),
        {
            "dst": ((3, 8), "float32", _ANY),
            "on_true": ((3, 8), "bfloat16", _FLOAT),
            "bound0": ((3, 1), "float32", {"float32"}),
            "bound1": ((3, 1), "float32", {"float32"}),
        },
    ),
    "select_reduce": (
        lambda t: nisa.select_reduce(
            t("dst"), t("predicate"), t("on_true"), 1.0, t("reduce_res"), nisa.reduce_cmd.reset_reduce
        ),
        {
            "dst": ((3, 8), "float32", _ANY),
            "predicate": ((3, 8), "uint8", {"int8", "uint8", "int16", "uint16"}),
            "on_true": ((3, 8), "bfloat16", _ANY - {"tfloat32", "int32", "uint32"}),
            "reduce_res": ((3, 1), "float32", _FLOAT),
        },
    ),
    "nc_find_index8": (
        lambda t: nisa.nc_find_index8(t("dst"), t("data"), t("vals")),
        {
            "dst": ((3, 8), "uint32", {"uint16", "uint32"}),
            "data": ((3, 8), "float32", _ANY),
            "vals": ((3, 8), "float32", _ANY),
        },
    ),
    "sequence_bounds": (
        lambda t: nisa.sequence_bounds(t("dst"), t("segment_ids")),
        {
            "dst": ((1, 2, 8), "int32", {"float32", "int32"}),
            "segment_ids": ((1, 8), "int32", {"float32", "int32"}),
        },
    ),
    "nonzero_with_count": (
        lambda t: nisa.nonzero_with_count(t("dst"), t("src")),
        {"dst": ((16, 9), "int32", {"int32"}), "src": ((16, 8), "float32", {"float32", "int32"})},
    ),
    "topk": (
        lambda t: nisa.topk(t("val_dst"), t("idx_dst"), t("src"), 8),
        {
            "val_dst": ((16, 2), "bfloat16", {"bfloat16"}),
            "idx_dst": ((16, 2), "uint32", {"uint32"}),
            "src": ((16, 1), "bfloat16", {"bfloat16"}),
        },
    ),
    "dma_transpose": (
        lambda t: nisa.dma_transpose(t("dst"), t("src")),
        {"dst": ((8, 16), "float16", {"float16"}), "src": ((16, 8), "float16", {"float16"})},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_dtypes_are_accepted_or_refused_as_documented(core, case):
    run, operands = CASES[case]
    for changed, dtype in itertools.product(operands, DTYPES):

        def operand(name, changed=changed, dtype=dtype, made={}):  # noqa: B006 (one for each combination is enough)
            shape, own, _, *memory = operands[name]
            tensor = new(shape, dtype if name == changed else own, *memory)
            if not memory:
                tensor.write(np.zeros(shape, np.float32))
            return tensor

        if dtype in operands[changed][2]:
            run(operand)
        else:
            refuses(lambda: run(operand))


def test_matmuls_of_every_pair_of_dtypes(core):
    """float32 can be combined only with float32; products are exact, and summed in float32."""
    for left, right in itertools.product(DTYPES, DTYPES):
        wide = {"float32", "tfloat32"}
        if {left, right} <= MATMUL or {left, right} <= wide:
            a, b, dst = numbers(left, (5, 4)), numbers(right, (5, 6), 1), psum((4, 6))
            nisa.nc_matmul(dst, tile(a, left), tile(b, right))
            np.testing.assert_array_equal(dst.values, a.T @ b)
        else:
            refuses(lambda: nisa.nc_matmul(psum((4, 6)), new((5, 4), left), new((5, 6), right)))  # noqa: B023


def test_trn3_has_one_more_float8_and_bfloat16_sums():
    with on("trn3"):
        for dtype in ("float8_e4m3fn", "float8_e5m2", "bfloat16"):
            a, b, dst = numbers("float8_e4m3fn", (5, 4)), numbers(dtype, (5, 6), 1), psum((4, 6), nl.bfloat16)
            nisa.nc_matmul(dst, tile(a, "float8_e4m3fn"), tile(b, dtype))
            np.testing.assert_array_equal(dst.values, stored(a.T @ b, "bfloat16"))
        refuses(lambda: nisa.nc_matmul(psum((4, 6)), new((5, 4), "float8_e4m3fn"), new((5, 6), "float8_e4m3")))
        for dtype in ("float32", "int8", "bfloat16"):
            a, dst, total = numbers("int16", (3, 7)), new((3, 7), dtype), new((3, 1))
            command = nisa.reduce_cmd.reset_reduce
            nisa.exponential(dst, tile(a, nl.int16), 2.0, total, command)
            expected = np.exp(a.astype(np.float64) - 2)
            np.testing.assert_allclose(dst.values, stored(expected, dtype), rtol=0.01 if dtype == "bfloat16" else 1e-6)
            np.testing.assert_allclose(total.values[:, 0], expected.sum(1), rtol=1e-6)
