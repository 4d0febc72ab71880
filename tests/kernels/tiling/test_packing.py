"""The geometry of packed weights: taps that share the partitions, and groups of channels on the diagonal.

tests/models/test_layout.py checks the position of each weight in the packed array.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trninfer.kernels.tiling.packing import (
    Taps,
    ceil_div,
    conv2d_sections,
    copies_in_partitions,
    filter_steps,
    groups_in_section,
    matmul_passes,
    output_blocks,
    packed_layout,
    round_up,
    taps_in_partitions,
    tile_sizes,
)

CHANNELS, KERNEL = st.integers(1, 300), st.tuples(st.integers(1, 12), st.integers(1, 12))


@given(st.integers(1, 1000), st.integers(1, 300))
def test_quotients_are_rounded_up(a: int, b: int) -> None:
    assert ceil_div(a, b) == int(np.ceil(a / b))
    assert round_up(a, b) == min(multiple for multiple in range(b, a + b + 1, b) if multiple >= a)
    sizes = tile_sizes(a, b)
    assert sum(sizes) == a and set(sizes[:-1]) <= {b} and 1 <= sizes[-1] <= b


def test_only_float32_goes_through_the_array_more_than_once() -> None:
    assert [matmul_passes(item_bytes) for item_bytes in (1, 2, 4)] == [1, 1, 4]


@given(CHANNELS, KERNEL, st.sampled_from([64, 128]))
def test_taps_that_share_the_partitions_fit_them(channels: int, kernel: tuple[int, int], partitions: int) -> None:
    taps = taps_in_partitions(channels, kernel, partitions)
    assert taps.stride >= channels
    assert taps.count == 1 or taps.used_partitions(channels) <= partitions
    if channels * kernel[0] * kernel[1] <= partitions:
        assert (taps.rows, taps.columns) == kernel
    else:
        assert taps.columns == 1 and taps.rows <= kernel[0]


@pytest.mark.parametrize(
    ("channels", "kernel", "expected"),
    [
        (3, (3, 3), Taps(3, 3, 14)),  # all taps, spread over the partitions
        (14, (3, 3), Taps(3, 3, 14)),
        (15, (3, 3), Taps(3, 1, 42)),  # 45 partitions are less than half of them
        (22, (3, 3), Taps(3, 1, 22)),
        (42, (3, 3), Taps(3, 1, 42)),
        (43, (3, 3), Taps(2, 1, 43)),
        (40, (5, 5), Taps(3, 1, 40)),
        (32, (5, 5), Taps(3, 1, 32)),  # rather than 4 and 1
        (64, (3, 3), Taps(2, 1, 64)),
        (65, (3, 3), Taps(1, 1, 65)),
        (300, (3, 3), Taps(1, 1, 300)),
        (128, (1, 1), Taps(1, 1, 128)),
    ],
)
def test_taps_of_128_partitions(channels: int, kernel: tuple[int, int], expected: Taps) -> None:
    assert taps_in_partitions(channels, kernel, 128) == expected


@given(st.integers(1, 128), st.integers(1, 9))
def test_copies_begin_at_quarters_of_the_partitions(channels: int, rows: int) -> None:
    """Engines write from partition 0, 32, 64 or 96 on."""
    copies = copies_in_partitions(channels, rows, 128)
    starts = [copy * copies.stride for copy in range(copies.rows)]
    assert copies.columns == 1 and copies.rows <= rows
    assert set(starts) <= {0, 32, 64, 96} and copies.stride >= channels and starts[-1] + channels <= 128
    assert copies.rows > 1 or channels > 64 or rows == 1


@pytest.mark.parametrize(
    ("channels", "rows", "expected"),
    [
        (32, 3, Taps(3, 1, 32)),
        (33, 3, Taps(2, 1, 64)),
        (16, 5, Taps(3, 1, 32)),  # rather than 4 and 1
        (64, 3, Taps(2, 1, 64)),
        (65, 3, Taps(1, 1, 65)),
        (32, 1, Taps(1, 1, 32)),
    ],
)
def test_copies_on_128_partitions(channels: int, rows: int, expected: Taps) -> None:
    assert copies_in_partitions(channels, rows, 128) == expected


@given(KERNEL, st.data())
def test_each_tap_is_in_one_step(kernel: tuple[int, int], data: st.DataObject) -> None:
    whole = data.draw(st.booleans())
    taps = Taps(*kernel, 8) if whole else Taps(data.draw(st.integers(1, kernel[0])), 1, 8)
    found = [
        (step.row + tap // taps.columns, step.column + tap % taps.columns)
        for step in filter_steps(kernel, taps)
        for tap in range(step.taps)
    ]
    assert sorted(found) == list(np.ndindex(kernel))


@given(st.integers(1, 60), st.integers(1, 140), st.integers(1, 140))
def test_sections_hold_as_many_whole_groups_as_fit(groups: int, each_in: int, each_out: int) -> None:
    channels = groups * each_in, groups * each_out
    together = groups_in_section(*channels, groups, 128)
    assert together == 1 or together * max(each_in, each_out) <= 128
    assert together == groups or (together + 1) * max(each_in, each_out) > 128
    sections = conv2d_sections(*channels, groups, together)
    for number, section in enumerate(sections):
        count = min(together, groups - number * together)
        assert (section.first_in, section.channels_in) == (number * together * each_in, count * each_in)
        assert (section.first_out, section.channels_out) == (number * together * each_out, count * each_out)
    assert len(sections) == ceil_div(groups, together)
    blocks = output_blocks(sections, 128)
    assert [channel for first, size in blocks for channel in range(first, first + size)] == list(range(channels[1]))
    starts = {section.first_out for section in sections}
    for first, size in blocks:  # no block extends into the next section
        assert 1 <= size <= 128 and not starts & set(range(first + 1, first + size))


def test_the_layout_of_a_grouped_convolution_is_that_of_a_section() -> None:
    """32 groups that map 4 channels to 4 form one section of 128; 3 groups that map 50 to 20 form two sections with 100
    rows."""
    layout = packed_layout(128, 128, (3, 3), 32, 128)
    assert (len(layout.sections), layout.rows, layout.steps, layout.taps.count) == (1, 128, 9, 1)
    layout = packed_layout(150, 60, (3, 3), 3, 128)
    assert [section.channels_in for section in layout.sections] == [100, 50]
    assert (layout.rows, layout.steps) == (100, 9)
    layout = packed_layout(3, 64, (7, 7), 1, 128)  # 3 x 7 taps do not fit, so 7 rows of taps take 18 partitions each
    assert layout.taps == Taps(7, 1, 18) and layout.steps == 7 and layout.rows == 6 * 18 + 3
