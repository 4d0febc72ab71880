"""nc_matmul: accumulation, modes, tiles of the array, and the operands that each target supports."""

import warnings

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nki_tensors import new, normal, on, psum, tile
from trninfer.simulator import NkiValidationError
from trninfer.simulator.instructions.core import NeuronCore, running
from trninfer.simulator.machine.chip import find_target
from trninfer.simulator.machine.errors import UndefinedOnChipWarning

FLOAT8_ONLY = {
    "trn1 has no double rows": ("trn1", nl.float8_e4m3, nl.float8_e4m3, (4, 2, 4), {}, "requires NeuronCore-v3"),
    "bfloat16": ("trn2", nl.bfloat16, nl.bfloat16, (4, 2, 4), {}, "must be .partitions, 2, columns. of float8"),
    "three planes": ("trn2", nl.float8_e4m3, nl.float8_e4m3, (4, 3, 4), {}, "must be .partitions, 2, columns."),
    "column tiles": (
        "trn2",
        nl.float8_e4m3,
        nl.float8_e4m3,
        (4, 2, 4),
        {"tile_position": (0, 0), "tile_size": (128, 64)},
        "does not support is_transpose",
    ),
    "transpose": (
        "trn2",
        nl.float8_e4m3,
        nl.float8_e4m3,
        (4, 2, 4),
        {"is_transpose": True},
        "does not support is_transpose",
    ),
    "two kinds of e4m3": (
        "trn3",
        nl.float8_e4m3,
        nl.float8_e4m3fn,
        (4, 2, 4),
        {},
        "cannot be combined with float8_e4m3",
    ),
}
FLOATS = (nl.float32, nl.bfloat16, nl.float16, nl.float8_e4m3, nl.float8_e5m2)


def test_trn3_takes_wider_moving_tiles():
    with running(NeuronCore(find_target("trn3"))):
        nisa.nc_matmul(psum((8, 1024)), new((4, 8)), new((4, 1024)))


INITIALISE = (lambda t: nisa.memset(t, 2.0), lambda t: nisa.tensor_copy(t, nl.full(t.shape, 2.0, nl.float32)))


@pytest.mark.parametrize("initialise", INITIALISE)
@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_the_first_matmul_overwrites_what_another_instruction_wrote(target, initialise):
    a, b = normal(4, 8), normal(4, 6)
    with on(target):
        dst = psum((8, 6))
        initialise(dst)
        for times in (1, 2):
            nisa.nc_matmul(dst, tile(a), tile(b))
            np.testing.assert_allclose(dst.values, times * (a.T @ b), rtol=1e-5)


@pytest.mark.parametrize("initialise", INITIALISE)
def test_accumulating_onto_what_another_instruction_wrote_is_a_warning_before_trn3(initialise):
    a, b = normal(4, 8), normal(4, 6)
    for target in ("trn1", "trn2", "trn3"):
        with on(target), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            dst = psum((8, 6))
            initialise(dst)
            nisa.nc_matmul(dst, tile(a), tile(b), accumulate=True)
        np.testing.assert_allclose(dst.values, 2 + a.T @ b, rtol=1e-5)
        assert [w.category for w in caught] == [UndefinedOnChipWarning] * (target != "trn3")
        assert all("undefined on" in str(w.message) and w.filename == __file__ for w in caught)


def test_a_new_tensor_at_an_old_address_begins_a_new_sum():
    """ "First write overwrites, subsequent writes accumulate", for each tensor separately."""
    a, b = normal(128, 128), normal(128, 128, seed=1)
    with on():
        for _ in range(3):
            p = psum((128, 128), address=(0, 0))
            nisa.nc_matmul(p, tile(a), tile(b))
            np.testing.assert_allclose(p.values, a.T @ b, rtol=1e-4, atol=1e-4)
        nisa.nc_matmul(p, tile(a), tile(b))
        np.testing.assert_allclose(p.values, 2 * (a.T @ b), rtol=1e-4, atol=1e-4)
        again = psum((128, 128), address=(0, 0))  # the same memory, to which a matmul has written
        nisa.nc_matmul(again, tile(a), tile(b), accumulate=True)
        np.testing.assert_allclose(p.values, 3 * (a.T @ b), rtol=1e-4, atol=1e-4)


@given(
    parts=st.lists(st.tuples(st.integers(0, 20), st.integers(1, 12), st.integers(1, 2)), min_size=1, max_size=7),
    addressed=st.booleans(),
)
def test_overlapping_regions_accumulate_elements_written_by_matmuls(parts, addressed):
    """The convolution pattern: overlapping and strided views, with each element tracked separately."""
    a, b = normal(3, 5), normal(3, 12, seed=1)
    product = a.T @ b
    expected, touched = np.zeros((5, 50), np.float32), np.zeros(50, bool)
    with on():
        dst = psum((5, 50), **({"address": (0, 2048)} if addressed else {}))
        for start, count, step in parts:
            columns = slice(start, start + count * step, step)
            nisa.nc_matmul(dst[:, columns], tile(a), tile(b[:, :count]))
            expected[:, columns] += product[:, :count]
            touched[columns] = True
        np.testing.assert_allclose(dst.values[:, touched], expected[:, touched], rtol=1e-4, atol=1e-4)
        assert np.isnan(dst.values[:, ~touched]).all()


def test_a_rectangle_that_a_matmul_overwrote_is_its_own_again():
    with running(NeuronCore(find_target("trn2"))):
        dst = psum((8, 16))
        nisa.memset(dst[:, 2:4], 0)
        nisa.nc_matmul(dst, new((4, 8)), new((4, 16)), accumulate=False)
        nisa.nc_matmul(dst, new((4, 8)), new((4, 16)), accumulate=True)


def test_each_accumulate_flag_in_a_loop_adds_up_what_it_says():
    a, b = normal(3, 16, 8), normal(3, 16, 12, seed=1)
    for flags in ((False, True, True), (None, None, None), (None, True, None)):
        with on():
            total = psum((8, 12))
            for i, flag in enumerate(flags):
                nisa.nc_matmul(total, tile(a[i]), tile(b[i]), accumulate=flag)
            np.testing.assert_allclose(total.values, np.einsum("ikm,ikn->mn", a, b), rtol=1e-5, atol=1e-5)
            nisa.nc_matmul(total, tile(a[0]), tile(b[0]), accumulate=False)
            np.testing.assert_allclose(total.values, a[0].T @ b[0], rtol=1e-5, atol=1e-5)


def test_parts_of_a_bank_accumulate_by_themselves():
    a, b = normal(16, 8), normal(16, 12)
    with on():
        bank = psum((8, 512))
        for start in (0, 12, 24):
            for _ in range(1 + start // 12):
                nisa.nc_matmul(bank[:, start : start + 12], tile(a), tile(b))
        expected = np.concatenate([a.T @ b * times for times in (1, 2, 3)], axis=1)
        np.testing.assert_allclose(bank.values[:, :36], expected, rtol=1e-5, atol=1e-5)
        assert np.isnan(bank.values[:, 36:]).all()


def test_a_tile_that_was_read_accumulates_until_it_is_overwritten():
    a, b = normal(16, 8), normal(16, 12)
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
        assert total.values.item() == 256.0  # each 1 is lost in rounding; the sum of all three is 258


def test_trn3_takes_twice_the_columns_into_bfloat16():
    with on("trn3"):
        wide = tile(normal(1, 8192), nl.bfloat16)
        nisa.nc_matmul(psum((1, 8192), nl.bfloat16), tile(np.ones((1, 1)), nl.bfloat16), wide)
        with pytest.raises(NkiValidationError, match="8192 columns; at most 4096 are allowed on trn3 into float32"):
            nisa.nc_matmul(psum((1, 4096)), tile(np.ones((1, 1)), nl.bfloat16), wide)


@pytest.mark.parametrize("left", [nl.float8_e4m3, nl.float8_e5m2])
def test_double_row_contracts_over_two_planes(left):
    a, b = normal(16, 2, 8), normal(16, 2, 12, seed=1)
    with on() as core:
        stationary, moving, out = tile(a, left), tile(b, nl.float8_e5m2), psum((8, 12))
        nisa.nc_matmul(out, stationary, moving, perf_mode=nisa.matmul_perf_mode.double_row)
        expected = np.einsum("kpm,kpn->mn", stationary.values, moving.values)
        np.testing.assert_allclose(out.values, expected, rtol=1e-5, atol=1e-5)
        assert core.program[-1].flops == 2 * 32 * 8 * 12


@pytest.mark.parametrize("case", FLOAT8_ONLY)
def test_limits_of_double_rows(case):
    target, left, right, shape, options, text = FLOAT8_ONLY[case]
    with on(target), pytest.raises(NkiValidationError, match=text):
        nisa.nc_matmul(
            psum((4, 4)), new(shape, left), new(shape, right), perf_mode=nisa.matmul_perf_mode.double_row, **options
        )


def test_the_ocp_float8_needs_trn3():
    with on("trn2"), pytest.raises(NkiValidationError, match="float8_e4m3fn requires NeuronCore-v4"):
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
            with pytest.raises(NkiValidationError, match="do not fit a row tile of"):
                nisa.nc_matmul(psum((8, 8)), new((8, 8)), new((8, 8)), tile_position=position, tile_size=size)


@pytest.mark.parametrize("left", FLOATS[1:])
@pytest.mark.parametrize("right", FLOATS[1:])
def test_narrow_floats_may_be_combined_in_a_matmul(left, right):
    with on():
        stationary, moving, out = tile(normal(16, 8), left), tile(normal(16, 4, seed=1), right), psum((8, 4))
        nisa.nc_matmul(out, stationary, moving)
        np.testing.assert_allclose(out.values, stationary.values.T @ moving.values, rtol=1e-5, atol=1e-5)
