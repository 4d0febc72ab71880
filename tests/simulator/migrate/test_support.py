"""The helpers of migrated files, run on the simulator and compared with NumPy."""

import math

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki_tensors import counted, in_hbm, normal, tile

pytest.importorskip("libcst")
from trninfer.simulator.migrate.support import NEEDS, TEXTS, source


@pytest.fixture(scope="module")
def helpers():
    space = {"nl": nl, "nisa": nisa, "math": math}
    exec(source(set(TEXTS), "nl", "nisa"), space)
    return space


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (nl.float32, nl.bfloat16, nl.float32),
        (nl.int32, nl.bfloat16, nl.bfloat16),
        (nl.int8, nl.int32, nl.int32),
        (nl.float16, nl.float8_e4m3, nl.float16),
        (nl.bfloat16, nl.bfloat16, nl.bfloat16),
    ],
)
def test_the_wider_dtype(helpers, first, second, expected):
    assert helpers["wider_dtype"](first, second) == helpers["wider_dtype"](second, first) == expected


@pytest.mark.parametrize(
    "shapes", [((4, 6), (4, 1)), ((1, 6), (4, 6)), ((4, 2, 3), (4, 3)), ((4, 1), (1, 6)), ((3, 1), (3, 1))]
)
def test_elementwise_repeats_dimensions_of_1(core, helpers, shapes):
    a, b = (normal(*shape, seed=seed) for seed, shape in enumerate(shapes))
    wide = np.broadcast_shapes(a.shape, (b.shape[0], *[1] * (a.ndim - b.ndim), *b.shape[1:]))
    assert helpers["common_shape"](tile(a), tile(b)) == wide
    for first, second in ((a, b), (b, a)):
        result = helpers["elementwise"](nl.subtract, tile(first), tile(second))
        first, second = (
            each.reshape(len(each), *[1] * (len(wide) - each.ndim), *each.shape[1:]) for each in (first, second)
        )
        np.testing.assert_array_equal(result.values, first - second)


def test_elementwise_computes_in_the_wider_dtype_or_the_one_asked_for(core, helpers):
    a, b = tile(counted(4, 6), nl.bfloat16), tile(counted(4, 6))
    assert helpers["elementwise"](nl.add, a, b).dtype == nl.float32
    assert helpers["elementwise"](nl.add, a, b, dtype=nl.float16).dtype == nl.float16
    np.testing.assert_array_equal(helpers["elementwise"](nl.multiply, b, 2.0).values, 2 * counted(4, 6))


def test_a_tile_of_as_many_elements_is_reshaped(core, helpers):
    """[4, 6] and [4, 2, 3] are the same elements of each partition."""
    result = helpers["elementwise"](nl.add, tile(counted(4, 6)), tile(counted(4, 2, 3)))
    np.testing.assert_array_equal(result.values.reshape(4, 6), 2 * counted(4, 6))
    assert helpers["stretched"](2.0, tile(counted(4, 6))) == 2.0


def test_selected(core, helpers):
    a, column = normal(4, 6), normal(4, 1, seed=1)
    result = helpers["selected"](tile((column > 0).astype(np.float32)), tile(a), -1.0)
    np.testing.assert_array_equal(result.values, np.where(column > 0, a, -1))


def test_shapes_and_orders_of_reductions(core, helpers):
    a = tile(counted(4, 2, 3))
    assert helpers["kept_shape"](a, (1,)) == (4, 3) and helpers["kept_shape"](a, (1, -1)) == (4, 1)
    np.testing.assert_array_equal(helpers["axes_last"](a, (1,)).values, counted(4, 2, 3).transpose(0, 2, 1))
    np.testing.assert_array_equal(helpers["axes_last"](a, (-1, 1)).values, counted(4, 2, 3).transpose(0, 2, 1))


def test_assign_copies_tiles_and_fills_with_numbers(core, helpers):
    t = tile(counted(4, 6))
    helpers["assign"](t[:, 0:2], tile(normal(4, 2)))
    helpers["assign"](t[:, 2:3], 7)
    np.testing.assert_array_equal(t.values, np.hstack([normal(4, 2), np.full((4, 1), 7), counted(4, 6)[:, 3:]]))


def test_a_vector_has_its_elements_in_rows(core, helpers):
    assert helpers["as_rows"](in_hbm(counted(5))).shape == (5, 1)
    matrix = in_hbm(counted(5, 3))
    assert helpers["as_rows"](matrix) is matrix


def test_tiles_of_blocks_are_made_when_they_are_used(core, helpers):
    blocks = helpers["TileBlocks"](2, (4, 3), nl.float32, nl.sbuf, value=2)
    assert blocks[0, 1].shape == (4, 3) and len(blocks) == 1 and (blocks[0, 1].values == 2).all()
    nisa.memset(dst=blocks[0, 1, :, 0:1], value=5)
    np.testing.assert_array_equal(blocks[(0, 1)].values, [[5, 2, 2]] * 4)
    assert blocks[0, 1, 0:2].shape == (2, 3) and blocks[1, 1] is not blocks[0, 1]
    assert (helpers["TileBlocks"](1, (2, 3), nl.float32, nl.psum, value=0)[4].values == 0).all()
    rows = helpers["TileBlocks"](1, (4, 3), nl.float32, nl.sbuf)
    assert rows[2].shape == (4, 3) and rows[2, 0:1].shape == (1, 3) and list(rows) == [(2,)]


def test_helpers_include_their_dependencies_under_the_aliases_of_the_file():
    for name in TEXTS:
        text = source({name}, "language", "instructions")
        space = {}
        exec(text, space)
        assert name in space and "nl." not in text.replace("language.", "") and "nisa." not in text
        for needed in ("wider_dtype", "stretched", "common_shape"):
            assert f"{needed}(" not in text or needed in space, (name, needed)
    assert set(NEEDS) <= set(TEXTS) and source(set(), "nl", "nisa") == ""
