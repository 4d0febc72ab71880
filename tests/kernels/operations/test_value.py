"""Values in SBUF and HBM: slices, margins, and allocated buffers."""

from collections.abc import Iterator
from typing import Any

import nki.language as nl
import numpy as np
import pytest
from nki_tensors import counted, hbm, in_hbm, new, normal, on, tile
from trninfer.kernels.operations.launch import Launch
from trninfer.kernels.operations.value import (
    Value,
    allocate_value,
    copy_down,
    join,
    store_value,
    stored_value,
    value_in_hbm,
)
from trninfer.kernels.program import Copies, Load, Placeholder, Program, Stage


@pytest.fixture(autouse=True)
def launch() -> Iterator[Launch]:
    """Return a launch of an empty program on one image."""
    with on("trn2"):
        yield Launch((hbm((1, 1, 1, 1)),), (hbm((1,)), None), hbm((128, 1)), Program((Stage((), 1),), 1, 1))


def value_of(x: Any, margin: tuple[int, int, int, int] = (0, 0, 0, 0), packed: int = 1, heights: Any = ()) -> Value:
    """Return [images, (image, channel), H, W] as a value with tiles of `heights` partitions and a margin of -1."""
    images, lanes, rows, columns = x.shape
    top, left, bottom, right = margin
    around = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=-1).swapaxes(0, 1)
    ends = np.cumsum(heights or (lanes,))
    tiles = tuple(tile(around[end - height : end]) for height, end in zip(heights or (lanes,), ends))
    return Value(tiles, (margin,) * len(tiles), None, images, lanes // packed, rows, columns, packed, images * packed)


def in_tiles(value: Value) -> Any:
    """Return a value as [images, (image, channel), H, W]."""
    tiles = [value.inside(t).values for t in range(len(value.tiles))]
    return np.concatenate(tiles).swapaxes(0, 1)


def test_the_inside_has_as_much_of_the_margin_as_is_asked_for() -> None:
    x = counted(2, 3, 4, 5)
    value = value_of(x, (1, 2, 3, 4))
    np.testing.assert_array_equal(value.inside(0).values.swapaxes(0, 1), x)
    expected = np.pad(x, ((0, 0), (0, 0), (0, 2), (1, 4)), constant_values=-1)
    np.testing.assert_array_equal(value.inside(0, (0, 1, 2, 4)).values.swapaxes(0, 1), expected)


def test_images_and_their_pictures() -> None:
    """Five pictures, packed in twos, are three images, the last of which is half full."""
    x = counted(3, 2 * 4, 3, 3)
    value = value_of(x, packed=2)
    assert (value.pictures, value.channels) == (6, 4)
    value = Value(**{**value.__dict__, "pictures": 5})
    for first, end, pictures in ((0, 1, 2), (0, 2, 4), (1, 3, 3), (2, 3, 1)):
        part = value.of_images(first, end)
        assert (part.images, part.pictures) == (end - first, pictures)
        np.testing.assert_array_equal(in_tiles(part), x[first:end])
        stored = value_in_hbm(in_hbm(x), 2, 5).of_images(first, end)
        assert (stored.images, stored.pictures, stored.channels) == (end - first, pictures, 4)
        np.testing.assert_array_equal(stored.hbm.values, x[first:end])


def test_rows_keep_the_margin_at_the_border() -> None:
    x = counted(1, 3, 6, 4)
    value = value_of(x, (2, 1, 3, 1))
    for first, end, margin in ((0, 6, (2, 1, 3, 1)), (0, 2, (2, 1, 0, 1)), (2, 4, (0, 1, 0, 1)), (4, 6, (0, 1, 3, 1))):
        part = value.of_rows(first, end)
        assert (part.rows, part.margins) == (end - first, (margin,))
        np.testing.assert_array_equal(in_tiles(part), x[:, :, first:end])
        assert part.tiles[0].shape[2] == end - first + margin[0] + margin[2]
    stored = value_in_hbm(in_hbm(x), 1, 1).of_rows(1, 4)
    assert stored.rows == 3
    np.testing.assert_array_equal(stored.hbm.values, x[:, :, 1:4])


def test_heights_are_without_copies() -> None:
    assert value_of(counted(1, 130, 1, 1), heights=(100, 30)).heights == [100, 30]
    copied = value_of(counted(1, 32, 2, 2))
    assert Value(**{**copied.__dict__, "tiles": (new((96, 1, 2, 2)),)}).heights == [32]
    assert value_in_hbm(hbm((2, 300, 1, 1)), 3, 6).heights == [128, 128, 44]
    assert value_in_hbm(hbm((2, 300, 1, 1)), 3, 6).dtype == copied.dtype == nl.float32


def test_channels_that_follow_one_another() -> None:
    x, y = counted(2, 3, 2, 2), counted(2, 5, 2, 2) + 100
    first = value_of(x, (1, 1, 1, 1))
    assert join([first]) is first
    both = join([first, value_of(y)])
    assert (both.channels, both.margins) == (8, ((1, 1, 1, 1), (0, 0, 0, 0)))
    np.testing.assert_array_equal(in_tiles(both), np.concatenate([x, y], axis=1))


def test_a_room_has_zeros_around_it(launch: Launch) -> None:
    """The interior is not written: NaN."""
    load = Load(name="l", channels=70, rows=3, columns=4, packed=2, margin=(1, 0, 2, 1))
    output = allocate_value(launch, load, 5, [128, 12])
    assert (output.images, output.pictures, output.channels, output.packed) == (3, 5, 70, 2)
    assert [each.shape for each in output.tiles] == [(128, 3, 6, 5), (12, 3, 6, 5)]
    for each in output.tiles:
        expected = np.full(each.shape, np.nan)
        expected[:, :, 0] = expected[:, :, 4:] = expected[:, :, :, 4] = 0
        np.testing.assert_array_equal(each.values, expected)
    assert np.isnan(allocate_value(launch, load, 2, [128, 12], is_blank=False).tiles[0].values).all()


def test_a_room_for_copies(launch: Launch) -> None:
    """Partitions between the copies are also zero."""
    for stride, is_zero in ((4, False), (32, True)):
        resident = Placeholder(name="r", channels=4, rows=2, columns=2, heights=(4,), copies=Copies(3, 1, stride))
        (whole,) = allocate_value(launch, resident, 1, [4]).tiles
        assert whole.shape == (2 * stride + 4, 1, 2, 2)
        assert (whole.values == 0).all() == is_zero


def test_two_tiles_of_8_bits_take_turns(launch: Launch) -> None:
    """The tiles alternate by rows, so that a matmul reads both: the second tile follows the first at a distance of one
    row."""
    load = Load(name="l", channels=300, rows=3, columns=4, is_fp8=True)
    output = allocate_value(launch, load, 2, [100, 100, 100])
    assert output.pitches == (4, 0, 0) and output.dtype == nl.float8_e4m3
    first, second = (output.tiles[t].get_pattern() for t in range(2))
    assert first == second and first[2][0] == 8  # a row of each tile
    assert allocate_value(launch, Load(name="l", channels=300, rows=3, columns=4), 2, [100] * 3).pitches == (0, 0, 0)


@pytest.mark.parametrize("rows", [2, 5])
def test_copies_are_moved_up(rows: int) -> None:
    """Copy n begins n * 2 rows further down; rows beyond the end keep their contents."""
    x = np.zeros((96, 1, rows, 3), np.float32)
    x[:32] = normal(32, 1, rows, 3)
    value = Value((tile(x),), ((0, 0, 0, 0),), None, 1, 32, rows, 3, 1, 1)
    copy_down(Copies(3, 2, 32), value)
    expected = x.copy()
    for copy in (1, 2):
        moved = x[:32, :, copy * 2 :]
        expected[32 * copy : 32 * copy + 32, :, : moved.shape[2]] = moved
    np.testing.assert_array_equal(value.tiles[0].values, expected)


def test_a_value_is_stored_without_its_margin(launch: Launch) -> None:
    x = counted(2, 130, 3, 4)
    value = value_of(x, (1, 2, 0, 1), heights=(100, 30))
    out = hbm(x.shape)
    store_value(value, out)
    np.testing.assert_array_equal(out.values, x)
    np.testing.assert_array_equal(stored_value(launch, value).values, x)
    stored = value_in_hbm(out, 1, 2)
    assert stored_value(launch, stored) is out
