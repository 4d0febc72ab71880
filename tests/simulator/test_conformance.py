"""What AWS's documentation says of each instruction, sentence by sentence (nki/api/nki/isa/__init__.py of
aws-neuron-sdk, nki.api.shared.rst, the architecture guides), as far as the other tests do not have it."""

from contextlib import contextmanager

import ml_dtypes
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from trninfer.simulator import NkiValidationError
from trninfer.simulator.core import NeuronCore, running
from trninfer.simulator.targets import find_target

FLOATS = (nl.float32, nl.bfloat16, nl.float16, nl.float8_e4m3, nl.float8_e5m2)


@contextmanager
def on(target="trn2"):
    core = NeuronCore(find_target(target))
    with running(core):
        yield core


def tile(values, dtype=nl.float32, buffer=nl.sbuf):
    """A tile that holds `values`."""
    values = np.asarray(values)
    tensor = nl.ndarray(values.shape, dtype, buffer)
    tensor.write(values.astype(np.float32) if values.dtype.kind == "f" else values)
    return tensor


def new(shape, dtype=nl.float32, buffer=nl.sbuf):
    return nl.ndarray(shape, dtype, buffer)


def psum(shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype, nl.psum)


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# nc_matmul


def test_each_accumulate_flag_in_a_loop_adds_up_what_it_says():
    a, b = numbers(3, 16, 8), numbers(3, 16, 12, seed=1)
    for flags in ((False, True, True), (None, None, None), (None, True, None)):
        with on():
            total = psum((8, 12))
            for i, flag in enumerate(flags):
                nisa.nc_matmul(total, tile(a[i]), tile(b[i]), accumulate=flag)
            np.testing.assert_allclose(total.values, np.einsum("ikm,ikn->mn", a, b), rtol=1e-5, atol=1e-5)
            nisa.nc_matmul(total, tile(a[0]), tile(b[0]), accumulate=False)
            np.testing.assert_allclose(total.values, a[0].T @ b[0], rtol=1e-5, atol=1e-5)


def test_parts_of_a_bank_accumulate_by_themselves():
    a, b = numbers(16, 8), numbers(16, 12)
    with on():
        bank = psum((8, 512))
        for start in (0, 12, 24):
            for _ in range(1 + start // 12):
                nisa.nc_matmul(bank[:, start : start + 12], tile(a), tile(b))
        expected = np.concatenate([a.T @ b * times for times in (1, 2, 3)], axis=1)
        np.testing.assert_allclose(bank.values[:, :36], expected, rtol=1e-5, atol=1e-5)
        assert np.isnan(bank.values[:, 36:]).all()


def test_a_tile_that_was_read_goes_on_accumulating_until_it_is_overwritten():
    a, b = numbers(16, 8), numbers(16, 12)
    with on():
        total, copy = psum((8, 12)), new((8, 12))
        nisa.nc_matmul(total, tile(a), tile(b))
        nisa.tensor_copy(copy, total)
        nisa.nc_matmul(total, tile(a), tile(b))
        np.testing.assert_allclose(total.values, 2 * (a.T @ b), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(copy.values, a.T @ b, rtol=1e-5, atol=1e-5)


def test_bfloat16_results_are_rounded_at_each_accumulation_on_trn3():
    ones, steps = np.ones((1, 1)), (256.0, 1.0, 1.0)
    with on("trn3"):
        total = psum((1, 1), nl.bfloat16)
        for step in steps:
            nisa.nc_matmul(total, tile(ones), tile(ones * step))
        assert total.values.item() == 256.0  # each 1 is lost to rounding; the sum of all three is 258


def test_trn3_takes_twice_the_columns_into_bfloat16():
    with on("trn3"):
        wide = tile(numbers(1, 8192), nl.bfloat16)
        nisa.nc_matmul(psum((1, 8192), nl.bfloat16), tile(np.ones((1, 1)), nl.bfloat16), wide)
        with pytest.raises(NkiValidationError, match="8192 columns, at most 4096 on trn3 into float32"):
            nisa.nc_matmul(psum((1, 4096)), tile(np.ones((1, 1)), nl.bfloat16), wide)


@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_a_matmul_in_transpose_mode_moves_nan_and_infinity_as_they_are(target):
    data = numbers(8, 6)
    data[2, 3], data[5, 1] = np.nan, np.inf
    with on(target):
        out = psum((6, 8))
        nisa.nc_matmul(out, tile(data), tile(np.eye(8)), is_transpose=True)
        np.testing.assert_array_equal(out.values, data.T)
        with pytest.raises(NkiValidationError, match="identity or a permutation"):
            nisa.nc_matmul(out, tile(data), tile(2 * np.eye(8)), is_transpose=True)


def test_a_permutation_that_moves_permutes():
    data, order = numbers(8, 6), np.random.default_rng(3).permutation(8)
    with on():
        out = psum((6, 8), nl.bfloat16)
        nisa.nc_matmul(out, tile(data, nl.bfloat16), tile(np.eye(8)[order].T, nl.bfloat16), is_transpose=True)
        np.testing.assert_array_equal(out.values, data.astype(ml_dtypes.bfloat16).astype(np.float32)[order].T)


def test_transpose_mode_is_a_plain_matmul_on_trn1():
    data = numbers(8, 6)
    data[2, 3] = np.nan
    with on("trn1"):
        out = psum((6, 8))
        nisa.nc_matmul(out, tile(data), tile(np.eye(8)), is_transpose=True)
        assert np.isnan(out.values[3]).all()


@pytest.mark.parametrize("left", [nl.float8_e4m3, nl.float8_e5m2])
def test_double_row_contracts_over_two_planes(left):
    a, b = numbers(16, 2, 8), numbers(16, 2, 12, seed=1)
    with on() as core:
        stationary, moving, out = tile(a, left), tile(b, nl.float8_e5m2), psum((8, 12))
        nisa.nc_matmul(out, stationary, moving, perf_mode=nisa.matmul_perf_mode.double_row)
        expected = np.einsum("kpm,kpn->mn", stationary.values, moving.values)
        np.testing.assert_allclose(out.values, expected, rtol=1e-5, atol=1e-5)
        assert core.program[-1].flops == 2 * 32 * 8 * 12


FLOAT8_ONLY = {
    "trn1 has no double rows": ("trn1", nl.float8_e4m3, nl.float8_e4m3, (4, 2, 4), {}, "needs NeuronCore-v3"),
    "bfloat16": ("trn2", nl.bfloat16, nl.bfloat16, (4, 2, 4), {}, "must be .partitions, 2, columns. of float8"),
    "three planes": ("trn2", nl.float8_e4m3, nl.float8_e4m3, (4, 3, 4), {}, "must be .partitions, 2, columns."),
    "column tiles": (
        "trn2",
        nl.float8_e4m3,
        nl.float8_e4m3,
        (4, 2, 4),
        {"tile_position": (0, 0), "tile_size": (128, 64)},
        "goes neither with",
    ),
    "transpose": ("trn2", nl.float8_e4m3, nl.float8_e4m3, (4, 2, 4), {"is_transpose": True}, "goes neither with"),
    "two kinds of e4m3": ("trn3", nl.float8_e4m3, nl.float8_e4m3fn, (4, 2, 4), {}, "not go with float8_e4m3"),
}


@pytest.mark.parametrize("case", FLOAT8_ONLY)
def test_limits_of_double_rows(case):
    target, left, right, shape, options, text = FLOAT8_ONLY[case]
    with on(target), pytest.raises(NkiValidationError, match=text):
        nisa.nc_matmul(
            psum((4, 4)), new(shape, left), new(shape, right), perf_mode=nisa.matmul_perf_mode.double_row, **options
        )


def test_the_ocp_float8_needs_trn3():
    with on("trn2"), pytest.raises(NkiValidationError, match="float8_e4m3fn needs NeuronCore-v4"):
        nisa.nc_matmul(psum((4, 4)), new((4, 4), nl.float8_e4m3fn), new((4, 4), nl.float8_e4m3fn))
    with on("trn3"):
        nisa.nc_matmul(psum((4, 4)), new((4, 4), nl.float8_e4m3fn), new((4, 4), nl.float8_e5m2))


@pytest.mark.parametrize("target, smallest", [("trn1", 64), ("trn2", 32), ("trn3", 32)])
def test_tiles_of_the_array_are_halves_and_from_trn2_on_quarters(target, smallest):
    with on(target):
        nisa.nc_matmul(
            psum((8, 8)),
            new((smallest, 8)),
            new((smallest, 8)),
            tile_position=(64, 0),
            tile_size=(smallest, 128),
        )
        for position, size in (((0, 0), (smallest // 2, 128)), ((16, 0), (64, 128)), ((128, 0), (64, 128))):
            with pytest.raises(NkiValidationError, match="in the row tile of"):
                nisa.nc_matmul(psum((8, 8)), new((8, 8)), new((8, 8)), tile_position=position, tile_size=size)


@pytest.mark.parametrize("left", FLOATS[1:])
@pytest.mark.parametrize("right", FLOATS[1:])
def test_narrow_floats_go_with_each_other_in_a_matmul(left, right):
    with on():
        stationary, moving, out = tile(numbers(16, 8), left), tile(numbers(16, 4, seed=1), right), psum((8, 4))
        nisa.nc_matmul(out, stationary, moving)
        np.testing.assert_allclose(out.values, stationary.values.T @ moving.values, rtol=1e-5, atol=1e-5)


# Copies and casts


@pytest.mark.parametrize("copy", [nisa.tensor_copy, nisa.dma_copy])
def test_copies_are_exact_within_a_dtype_and_go_by_way_of_float32_between_two(copy):
    odd = np.array([[2**24 + 1, 2**31 - 1, 7, 0]], np.int32)
    with on():
        same, other = new((1, 4), nl.int32), new((1, 4), nl.uint32)
        copy(same, tile(odd, nl.int32))
        copy(other, tile(odd, nl.int32))
        np.testing.assert_array_equal(same.values, odd)
        np.testing.assert_array_equal(other.values, [[2**24, 2**31, 7, 0]])


def test_copy_of_a_tile_is_exact():
    with on():
        np.testing.assert_array_equal(nl.copy(tile(np.array([[2**24 + 1]], np.int32), nl.int32)).values, [[2**24 + 1]])


# Operators


def test_magnitudes_compare_and_signed_values_come_back():
    x, y = np.array([[-5, 1, 2, -3.0]], np.float32), np.array([[3, -1, -4, 1.0]], np.float32)
    with on("trn3"):
        larger, smaller = new((1, 4)), new((1, 4))
        nisa.tensor_tensor(larger, tile(x), tile(y), nl.abs_max)
        nisa.tensor_tensor(smaller, tile(x), tile(y), nl.abs_min)
        np.testing.assert_array_equal(larger.values, [[-5, -1, -4, -3]])  # the second of equals
        np.testing.assert_array_equal(smaller.values, [[3, -1, 2, 1]])
    with on("trn2"), pytest.raises(NkiValidationError, match=r"nl\.abs_max needs NeuronCore-v4"):
        nisa.tensor_scalar(new((1, 4)), tile(x), nl.abs_max, 1.0)


def test_sin_extrapolates_a_cubic_beyond_pi():
    x = np.array([[9.0, -9.0, 3.0, -np.pi / 2]], np.float32)
    with on():
        out = new((1, 4))
        nisa.activation(out, nl.sin, tile(x))
        np.testing.assert_allclose(out.values[0, :2], [27.65, -27.65], atol=5e-3)  # the figure of nki-act-func
        np.testing.assert_allclose(out.values[0, 2:], np.sin(x[0, 2:]), rtol=1e-6)


def test_integer_powers_may_be_negative():
    with on():
        out = new((1, 3), nl.int32)
        base, exponent = np.array([[2, 1, -1]], np.int32), np.array([[-1, -5, -3]], np.int32)
        nisa.tensor_tensor(out, tile(base, nl.int32), tile(exponent, nl.int32), nl.power)
        np.testing.assert_array_equal(out.values, [[0, 1, -1]])


def test_integer_arithmetic_wraps_and_bits_keep_their_pattern():
    with on():
        wrapped, bits = new((1, 2), nl.int32), new((1, 2), nl.int32)
        a, b = np.array([[2**31 - 1, -1]], np.int32), np.array([[1, 1]], np.int32)
        nisa.tensor_tensor(wrapped, tile(a, nl.int32), tile(b, nl.int32), nl.add)
        np.testing.assert_array_equal(wrapped.values, [[-(2**31), 0]])
        high = np.array([[2**31, 2**32 - 1]], np.uint32)
        nisa.tensor_tensor(bits, tile(high, nl.uint32), tile(a, nl.int32), nl.bitwise_or)
        np.testing.assert_array_equal(bits.values, (high | a.view(np.uint32)).view(np.int32))


def test_rsqrt_runs_on_gpsimd_in_either_place():
    x = np.array([[4.0, 16.0]], np.float32)
    with on() as core:
        out = new((1, 2))
        nisa.tensor_scalar(out, tile(x), nl.add, 0.0, op1=nl.rsqrt)
        assert core.program[-1].engine is nisa.engine.gpsimd
        np.testing.assert_allclose(out.values, [[0.5, 0.25]])
        nisa.tensor_scalar(out, tile(x), nl.rsqrt, 0.0, engine=nisa.engine.gpsimd)
        np.testing.assert_allclose(out.values, [[0.5, 0.25]])


def test_functions_of_a_wide_tile_and_a_column_take_either_order():
    wide, column = numbers(4, 6), numbers(4, 1, seed=1)
    with on():
        for dtype in (nl.float32, nl.bfloat16):
            narrow = tile(column, dtype)
            result = nl.subtract(narrow, tile(wide))
            np.testing.assert_allclose(result.values, narrow.values - wide, rtol=1e-6)
            np.testing.assert_allclose(nl.subtract(tile(wide), narrow).values, wide - narrow.values, rtol=1e-6)


# Activations


def test_bias_may_have_any_dtype_but_tfloat32():
    x = numbers(4, 6)
    with on():
        for dtype in (nl.bfloat16, nl.int32, nl.uint8, nl.float8_e5m2):
            out, bias = new((4, 6)), tile(np.arange(4).reshape(4, 1), dtype)
            nisa.activation(out, nl.copy, tile(x), bias=bias)
            np.testing.assert_allclose(out.values, x + np.arange(4).reshape(4, 1), rtol=1e-6)
        with pytest.raises(NkiValidationError, match="dtype other than tfloat32"):
            nisa.activation(new((4, 6)), nl.copy, tile(x), bias=new((4, 1), nl.tfloat32))
    with on("trn1"), pytest.raises(NkiValidationError, match=r"bias cannot be given with op=nl\.reciprocal on trn1"):
        nisa.activation(new((4, 6)), nl.reciprocal, tile(x), bias=new((4, 1)))


def test_accumulators_belong_to_partitions():
    upper, lower = numbers(64, 5), numbers(64, 5, seed=1)
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
        nisa.activation(new((4, 5)), nl.copy, tile(numbers(4, 5)), reduce_cmd=command, reduce_res=sums)
        np.testing.assert_array_equal(sums.values, np.zeros((4, 1)))


# max8 and nc_find_index8


def test_equal_values_are_found_where_the_first_of_them_is():
    data = np.array([[5, 9, 9, 1, 5, 9, 0, 2, 2]], np.float32)
    with on():
        values, places = new((1, 8)), new((1, 8), nl.uint32)
        nisa.max8(values, tile(data))
        np.testing.assert_array_equal(values.values, [[9, 9, 9, 5, 5, 2, 2, 1]])
        nisa.nc_find_index8(places, tile(data), values)
        np.testing.assert_array_equal(places.values, [[1, 1, 1, 0, 0, 7, 7, 3]])


@pytest.mark.parametrize("dtype, sentinel", [(nl.uint32, 2**32 - 1), (nl.uint16, 2**16 - 1)])
def test_a_missing_value_is_all_ones(dtype, sentinel):
    with on():
        places = new((1, 8), dtype)
        nisa.nc_find_index8(places, tile(np.zeros((1, 8))), tile(np.arange(8.0).reshape(1, 8)))
        np.testing.assert_array_equal(places.values, [[0] + [sentinel] * 7])


# Views as operands


def test_five_dimensions_and_no_more_reach_an_engine():
    values = numbers(2, 2, 2, 2, 2, 2)
    with on():
        six = tile(values)
        nisa.tensor_copy(new(values.shape), six)  # dense: one free dimension
        turned = six.permute((0, 5, 4, 3, 2, 1))
        with pytest.raises(NkiValidationError, match="at most 4 free dimensions"):
            nisa.tensor_copy(new(values.shape), turned)
        five = tile(values[..., 0]).permute((0, 4, 3, 2, 1))
        out = new(five.shape)
        nisa.tensor_copy(out, five)
        np.testing.assert_array_equal(out.values, values[..., 0].transpose(0, 4, 3, 2, 1))


def test_an_inherited_offset_counts_in_the_new_dtype():
    words = np.arange(64, dtype=np.int32).reshape(2, 32)
    with on():
        view = tile(words, nl.int32)[:, 8:16].ap([[64, 2], [1, 4]], dtype=nl.uint16)
        np.testing.assert_array_equal(view.values, words.view(np.uint16)[:, 16:20])


def test_an_axis_may_be_counted_from_the_end():
    with on():
        data = new((4, 6))
        assert nl.expand_dims(data, -1).shape == nl.expand_dims(data, 2).shape == (4, 6, 1)
        assert nl.expand_dims(data, 1).shape == (4, 1, 6)


@pytest.mark.parametrize("target, newer", [("trn1", False), ("trn2", False), ("trn3", True)])
def test_kernels_compare_versions(target, newer):
    with on(target):
        assert (nisa.get_nc_version() >= nisa.nc_version.gen4) is newer
