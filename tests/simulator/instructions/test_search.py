"""topk, nonzero_with_count and sequence_bounds, compared with NumPy."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nki_tensors import integers, like, on, tile, uniform
from trninfer.simulator import NkiValidationError


@given(groups=st.integers(1, 2), n=st.integers(8, 60), ordered=st.booleans(), data=st.data())
def test_topk(groups, n, ordered, data):
    """Result j of a group is at partition j % 16, column j // 16, like the group's elements (nki.isa.topk of SDK
    2.33)."""
    count = data.draw(st.integers(1, n))
    columns, used = -(-n // 16), -(-count // 16)
    with on():
        source = tile(integers(50, 16 * groups, columns), nl.bfloat16)
        values, index = nl.ndarray((16 * groups, count), nl.bfloat16), nl.ndarray((16 * groups, count), nl.uint32)
        nisa.memset(values[:, used:], 77.0) if used < count else None
        nisa.topk(values, index, source, n, sorted=ordered)
        for group in range(groups):
            rows = slice(16 * group, 16 * group + 16)
            snake = source.values[rows].flatten(order="F")[:n]
            found = values.values[rows].flatten(order="F")[:count]
            where = index.values[rows].flatten(order="F")[:count]
            assert np.array_equal(np.sort(found), np.sort(snake)[n - count :])
            assert np.array_equal(snake[where], found) and len(set(where.tolist())) == count
            assert (np.diff(found) >= 0).all() if ordered else (np.diff(where.astype(np.int64)) > 0).all()
            assert (values.values[rows, used:] == 77).all()
            assert np.isnan(values.values[rows, :used].flatten(order="F")[count:]).all()


def test_limits_of_topk(trn3_core):
    source, values, index = (
        tile(uniform(16, 2), nl.bfloat16),
        nl.ndarray((16, 4), nl.bfloat16),
        nl.ndarray((16, 4), nl.uint32),
    )
    for n, allowed in ((7, "an integer of 8 to 65535"), (33, "at most the 32 elements")):
        with pytest.raises(NkiValidationError, match=f"n must be {allowed}"):
            nisa.topk(values, index, source, n)
    with pytest.raises(NkiValidationError, match=r"src .* must be bfloat16"):
        nisa.topk(values, index, like(source, nl.float32), 16)
    with pytest.raises(NkiValidationError, match="must have 1 to 8 elements"):
        nisa.topk(nl.ndarray((16, 9), nl.bfloat16), nl.ndarray((16, 9), nl.uint32), source, 8)
    with pytest.raises(NkiValidationError, match="multiple of 16"):
        nisa.topk(values[:8], index[:8], source[:8], 16)


def test_nonzero_with_count(trn3_core):
    source = tile(np.tile([0, 1, 1, 0, 0, 1, 0, 0], (32, 1)), nl.int32)
    dst = tile(np.full((32, 9), 77), nl.int32)
    nisa.nonzero_with_count(dst, source, 16)
    expected = np.full((32, 9), 77)
    expected[[0, 16]] = [17, 18, 21, -1, -1, -1, -1, -1, 3]
    assert np.array_equal(dst.values, expected)
    with pytest.raises(NkiValidationError, match="9 elements"):
        nisa.nonzero_with_count(dst[:, :8], source)
    with pytest.raises(NkiValidationError, match="float32 or int32"):
        nisa.nonzero_with_count(dst, like(source, nl.int16))
    with on("trn1"), pytest.raises(NkiValidationError, match="NeuronCore-v3"):
        nisa.nonzero_with_count(dst, source)


def test_sequence_bounds(trn3_core):
    ids = tile([[0, 1, 1, 2, 2, 2, 0, 3, 3]], nl.int32)
    dst = nl.ndarray((1, 2, 9), nl.int32)
    nisa.sequence_bounds(dst, ids)
    assert np.array_equal(dst.values[0], [[9, 1, 1, 3, 3, 3, 9, 7, 7], [-1, 3, 3, 6, 6, 6, -1, 9, 9]])
    with pytest.raises(NkiValidationError, match="of shape"):
        nisa.sequence_bounds(nl.ndarray((1, 9, 2), nl.int32), ids)
    with pytest.raises(NkiValidationError, match="float32 or int32"):
        nisa.sequence_bounds(dst, like(ids, nl.uint32))


def test_rand2_is_uniform_between_its_bounds(trn3_core):
    dst, low = nl.ndarray((128, 500), nl.float32), tile(np.arange(128.0)[:, None])
    nisa.rand2(dst, low, 200.0)
    assert (dst.values >= low.values).all() and (dst.values <= 200).all()
    assert np.abs(dst.values.mean(axis=1) - (low.values[:, 0] + 200) / 2).max() < 12
    with pytest.raises(NkiValidationError, match="must be less than"):
        nisa.rand2(dst, 1.0, 1.0)
