"""Patterns computed by GpSimd, compared with their definition."""

import warnings

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nki_tensors import new, on
from trninfer.simulator import NkiValidationError
from trninfer.simulator.machine.errors import UndefinedOnChipWarning

PAIRS = st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 4)), min_size=1, max_size=4)


@given(PAIRS, st.sampled_from([1, 3, 127]), st.integers(-100, 100), st.integers(-7, 7))
def test_iota_counts_by_its_pattern(pairs, partitions, offset, multiplier):
    counts = [count for _, count in pairs]
    expected = offset + multiplier * np.arange(partitions).reshape(-1, *[1] * len(pairs))
    for axis, (step, count) in enumerate(pairs, 1):
        expected = expected + step * np.arange(count).reshape([-1 if at == axis else 1 for at in range(len(pairs) + 1)])
    with on():
        numbers = new((partitions, *counts), nl.int32)
        nisa.iota(numbers, [list(pair) for pair in pairs], offset=offset, channel_multiplier=multiplier)
        np.testing.assert_array_equal(numbers.values, np.broadcast_to(expected, numbers.shape))


def test_numbers_wrap_at_32_bits(core):
    numbers = new((2, 2), nl.int32)
    nisa.iota(numbers, [[1, 2]], offset=2**31 - 1, channel_multiplier=-(2**31))
    assert numbers.values.tolist() == [[2**31 - 1, -(2**31)], [-1, 0]]


def test_floats_count_too(core):
    numbers = new((2, 3))
    nisa.iota(numbers, ((2, 3),), offset=1)
    assert numbers.values.tolist() == [[1, 3, 5]] * 2
    assert core.program[-1].engine is nisa.engine.gpsimd


@pytest.mark.parametrize(
    "pattern, message",
    [
        ([[1, 5]], r"iota: pattern \[\[1, 5\]\] generates 5 elements, but dst .* has 6 per partition"),
        ([], r"iota: pattern \[\] must be 1 to 4 pairs \[step, count\] with count >= 1"),
        ([[1, 1]] * 4 + [[1, 6]], "must be 1 to 4 pairs"),
        ([[1, 0]], "with count >= 1"),
        ([[1, 2, 3]], "must be 1 to 4 pairs"),
        ([[1, 6.0]], "must be integers"),
        ([6], "must be integers"),
    ],
)
def test_limits_of_patterns(core, pattern, message):
    with pytest.raises(NkiValidationError, match=message):
        nisa.iota(new((4, 6), nl.int32), pattern)


@pytest.mark.parametrize(
    "dtype, pattern, offset, bounds",
    [
        (nl.int8, [[1, 128]], 1, "1 to 128, but int8 has -128 to 127"),
        (nl.uint8, [[-1, 128]], 126, "-1 to 126, but uint8 has 0 to 255"),
        (nl.float32, [[1, 128]], 2**24 - 126, f"{2**24 - 126} to {2**24 + 1}, but float32 has not every integer"),
        (nl.float32, [[2, 128]], 2**25 - 250, f"{2**25 - 250} to {2**25 + 4}, but float32 has not"),
    ],
)
def test_numbers_that_the_dtype_does_not_hold_cause_a_warning(core, dtype, pattern, offset, bounds):
    with pytest.warns(UndefinedOnChipWarning, match=f"iota: the pattern generates {bounds}"):
        nisa.iota(new((2, 128), dtype), pattern, offset=offset)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step = abs(pattern[0][0])
        nisa.iota(
            new((2, 128), dtype), pattern, offset=offset + (step if dtype == nl.uint8 else -4 if step > 1 else -1)
        )


@pytest.mark.parametrize("given", [{"offset": 0.5}, {"offset": 2**31}, {"channel_multiplier": 1.0}])
def test_offsets_and_multipliers_are_32_bit_integers(core, given):
    (name,) = given
    with pytest.raises(NkiValidationError, match=f"iota: {name} must be an int32, got"):
        nisa.iota(new((2, 2), nl.int32), [[1, 2]], **given)
    with pytest.raises(NkiValidationError, match=f"affine_select: {name} must be an int32, got"):
        tile = new((2, 2))
        nisa.affine_select(tile, [[1, 2]], **{"channel_multiplier": 1, **given}, on_true_tile=tile, on_false_value=0.0)
