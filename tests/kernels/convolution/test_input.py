"""The input of a convolution in SBUF, one group at a time: the rows and columns of the padded image at each tap,
compared with NumPy."""

from typing import Any

import numpy as np
from convolution_problems import least_sides, problem
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from nki_tensors import counted, in_hbm, normal, on, tile
from trninfer.kernels.convolution.forms import RESERVED_BYTES, Form
from trninfer.kernels.convolution.input import (
    ZEROED_TILES,
    advance,
    load_first,
    load_input,
    look_ahead,
    open_inputs,
    start_inputs,
    zeroed_inputs,
)
from trninfer.kernels.convolution.plan import Conv2dPlan, input_columns, input_rows, plan_groups
from trninfer.kernels.convolution.problem import Block
from trninfer.kernels.convolution.resident import plan_resident
from trninfer.kernels.tiling.tiles import Tile

AROUND = 64  # zeros around an image, more than any tap can reach


def expected_tile(x: Any, plan: Conv2dPlan, group: Block, channels: Tile) -> Any:
    """Return the expected contents of a tile in SBUF: a block of partitions for each tap, with zeros outside of the
    image and between blocks."""
    what, taps = plan.problem, plan.problem.filters.taps
    (first, end), count = input_columns(plan, group), input_rows(plan, group)
    images = x[group.image : group.image + group.images, channels.start : channels.end].swapaxes(0, 1)
    padded = np.pad(images, ((0, 0), (0, 0), (AROUND, AROUND), (AROUND, AROUND)))
    partitions = (taps.count - 1) * taps.stride + channels.size
    found = np.zeros((partitions, group.images, count, end - first), np.float32)
    for block, (i, j) in enumerate(np.ndindex(taps.rows, taps.columns)):
        top = group.row * what.movement.stride[0] - what.movement.padding[0] + i * what.movement.dilation[0]
        rows = AROUND + top + np.arange(count) * plan.reach.row_pitch
        columns = AROUND + j * what.movement.dilation[1] + np.arange(first, end)
        target = slice(block * taps.stride, block * taps.stride + channels.size)
        found[target] = padded[:, :, rows][:, :, :, columns]
    return found


def check_stream(plan: Conv2dPlan, x: Any, out_tiles: int) -> None:
    """Check all groups of a stream, prefetching each one while the previous one is multiplied."""
    source = in_hbm(x)
    stream = open_inputs(source, plan)
    for t in range(len(plan.channel_tiles)):
        load_first(stream, t)
    start_inputs(stream, zeroed_inputs(source, plan))
    for index, group in enumerate(plan.groups):
        for out_tile in range(out_tiles):
            look_ahead(stream, index, out_tile, out_tiles)
        for t, channels in enumerate(plan.channel_tiles):
            np.testing.assert_array_equal(stream.tiles[t].values, expected_tile(x, plan, group, channels))
        advance(stream, index)


PAIR = st.tuples(st.integers(1, 3), st.integers(1, 3))


@settings(max_examples=30)
@given(st.data())
def test_every_group_is_loaded_with_its_halo_and_padding(data: st.DataObject) -> None:
    kernel = data.draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    stride, dilation, padding = data.draw(PAIR), data.draw(PAIR), data.draw(st.tuples(*[st.integers(0, 3)] * 4))
    least = least_sides(kernel, stride, dilation, padding)
    what = problem(
        batch=data.draw(st.integers(1, 3)),
        in_channels=data.draw(st.sampled_from([1, 3, 8, 20, 40, 64, 130])),
        out_channels=3,
        height=data.draw(st.integers(least[0], 20)),
        width=data.draw(st.integers(least[1], 12)),
        kernel=kernel,
        stride=stride,
        dilation=dilation,
        padding=padding,
    )
    with on("trn2"):
        try:
            plan = plan_groups(what, 128, RESERVED_BYTES + data.draw(st.integers(400, 8000)))
        except AssertionError:  # not even one row fits
            reject()
        shape = what.images.count, what.filters.in_channels, what.images.rows, what.images.columns
        check_stream(plan, counted(*shape) % 8191 + 1, data.draw(st.integers(1, 2)))


def test_tiles_of_zeros_are_used_in_turn() -> None:
    """The gaps between blocks of taps are zeroed once, for the first group only."""
    what = problem(height=40, width=30, in_channels=3, out_channels=3, kernel=(3, 3))
    with on("trn2"):
        plan = plan_groups(what, 128, RESERVED_BYTES + 2400)
        assert len(plan.groups) > ZEROED_TILES + 1
        found = zeroed_inputs(in_hbm(np.zeros((1, 3, 40, 30))), plan)
        assert len(found) == ZEROED_TILES and all((each.values == 0).all() for each in found)
        check_stream(plan, normal(1, 3, 40, 30), 1)
        few = plan_groups(what, 128, 100_000)
        assert len(zeroed_inputs(in_hbm(np.zeros((1, 3, 40, 30))), few)) == len(few.groups) - 1 == 2
        adjacent = plan_groups(problem(height=40, width=30, in_channels=64, out_channels=3, kernel=(3, 3)), 128, 20_000)
        assert zeroed_inputs(in_hbm(np.zeros((1, 64, 40, 30))), adjacent) == []  # there are no gaps between the blocks


def test_an_input_that_is_one_group() -> None:
    x = counted(2, 130, 3, 5)
    with on("trn2"):
        plan = plan_resident(
            problem(batch=2, height=3, width=5, in_channels=130, out_channels=3, kernel=(1, 1)),
            128,
            [128, 2],
            keeps_rows=False,
            combined_bytes=0,
        )
        first, second = load_input(in_hbm(x), plan)
        np.testing.assert_array_equal(first.values, x[:, :128].swapaxes(0, 1))
        np.testing.assert_array_equal(second.values, x[:, 128:].swapaxes(0, 1))


def test_groups_of_what_is_in_sbuf_are_views_of_it() -> None:
    """They include the padding; minimal filtering combines one group at a time."""
    padded = normal(128, 1, 22, 22)
    what = problem(
        height=20, width=20, in_channels=128, out_channels=3, kernel=(3, 3), padding=(1,) * 4, form=Form.PAIRS
    )
    with on("trn2"):
        plan = plan_resident(what, 128, [128], keeps_rows=True, combined_bytes=4 * 4 * 12 * 10)
        assert [(group.row, group.rows) for group in plan.groups] == [(0, 10), (10, 10)]
        stream = open_inputs(None, plan, [tile(padded)])
        load_first(stream, 0)
        start_inputs(stream, [])
        np.testing.assert_array_equal(stream.loaded[0].values, padded[:, :, 0:12])
        first = stream.tiles[0].values
        look_ahead(stream, 0, 0, 1)
        advance(stream, 0)
        np.testing.assert_array_equal(stream.loaded[0].values, padded[:, :, 10:22])
        assert stream.tiles[0].shape == first.shape and not np.array_equal(stream.tiles[0].values, first)
        advance(stream, 1)  # there is no further group
        np.testing.assert_array_equal(stream.loaded[0].values, padded[:, :, 10:22])


def test_groups_of_filters_that_move_by_two_rows() -> None:
    """All rows of the value are present: 10 rows of 40 output columns fill a bank."""
    value = normal(8, 1, 80, 40)
    what = problem(height=80, width=40, in_channels=8, out_channels=3, kernel=(1, 1), stride=(2, 1))
    with on("trn2"):
        plan = plan_resident(what, 128, [8], keeps_rows=True, combined_bytes=0, by_rows=True)
        stream = open_inputs(None, plan, [tile(value)])
        load_first(stream, 0)
        start_inputs(stream, [])
        for index in range(4):
            np.testing.assert_array_equal(stream.tiles[0].values, value[:, :, 20 * index : 20 * index + 19])
            look_ahead(stream, index, 0, 1)
            advance(stream, index)
