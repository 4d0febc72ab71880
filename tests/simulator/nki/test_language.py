"""Functions of nki.language that are one instruction, and its constants."""

import nki.language as nl
import numpy as np
import pytest
from nki_tensors import normal, on, tile, uniform
from trninfer.simulator import NkiValidationError


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


def test_an_assertion_about_tiles_has_a_message(core):
    """The examples of nki.language end in `assert nl.equal(c, expected)`."""
    a, b = nl.full((4, 5), 3.0, nl.float32), nl.full((4, 5), 2.0, nl.float32)
    assert nl.equal(nl.add(a, b), nl.full((4, 5), 5.0, nl.float32)) and nl.less(b, a) and nl.greater_equal(a, 3.0)
    assert not nl.equal(a, b)
    b.write(np.where(np.eye(4, 5), np.float32(2), np.float32(3)))
    assert not nl.equal(a, b) and not nl.not_equal(a, b)
    assert nl.zeros((4, 5), nl.float32)  # any other tensor is an object, and therefore true
    with on(functional=False):
        assert nl.equal(nl.zeros((4, 5), nl.float32), 1.0)  # without values, nothing contradicts it


def test_functions_of_a_wide_tile_and_a_column_take_either_order():
    wide, column = normal(4, 6), normal(4, 1, seed=1)
    with on():
        for dtype in (nl.float32, nl.bfloat16):
            narrow = tile(column, dtype)
            result = nl.subtract(narrow, tile(wide))
            np.testing.assert_allclose(result.values, narrow.values - wide, rtol=1e-6)
            np.testing.assert_allclose(nl.subtract(tile(wide), narrow).values, wide - narrow.values, rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x, y: nl.matmul(x, y),
            r"x sbuf\[9, 5\] float32 has 5 elements .*, but y sbuf\[9, 6\] float32 has 9 partitions",
        ),
        (lambda x, y: nl.matmul(x, nl.zeros((4, 6), nl.float32), transpose_x=True), "has 9 partitions.*x.T @ y sums"),
        (lambda x, y: nl.matmul(nl.zeros((9, 129), nl.float32), y), "x sbuf.9, 129. float32 has 129 .* at most 128"),
        (
            lambda x, y: nl.matmul(x, nl.zeros((9, 513), nl.float32), True),
            "y sbuf.9, 513. float32 has 513 .* at most 512",
        ),
        (lambda x, y: nl.matmul(nl.matmul(x, y, True), y), "x must be a tile in SBUF, got psum.5, 6. float32"),
        (lambda x, y: nl.matmul(x, 2.0), "y must be a tile in SBUF, got 2.0"),
        (lambda x, y: nl.add(x, y), r"nl.add: x sbuf\[9, 5\] float32 and y sbuf\[9, 6\] .*nl.broadcast_to"),
        (
            lambda x, y: nl.multiply(x, nl.zeros((1, 5), nl.float32)),
            r"nl.multiply: x sbuf\[9, 5\] .* and y sbuf\[1, 5\]",
        ),
        (lambda x, y: nl.load(nl.ndarray((129, 2), nl.float32, nl.shared_hbm)), r"nl.load: src .* more than 128 rows"),
    ],
)
def test_errors_name_the_functions_own_operands(core, call, message):
    """Instead of the tiles and instructions that implement a function."""
    with pytest.raises(NkiValidationError, match=message):
        call(tile(uniform(9, 5)), tile(uniform(9, 6)))
