"""The plan of the fused feed-forward network: blocks that cover all rows within the given SBUF."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from trninfer.kernels.ffnn_plan import LEAST_ROWS, MOST_CLASSES, Sizes, plan_fused, row_blocks

SIZES = st.integers(1, 20_000)


@given(SIZES, st.integers(1, 4))
def test_blocks_cover_all_rows_in_as_few_tiles_as_there_can_be(rows: int, most: int) -> None:
    blocks = row_blocks(rows, most)
    assert [block.start for block in blocks] == [0, *(block.end for block in blocks[:-1])] and blocks[-1].end == rows
    tiles = [-(-block.size // 128) for block in blocks]
    assert sum(tiles) == -(-rows // 128) and max(tiles) <= most


@pytest.mark.parametrize(
    ("rows", "blocks"), [(1, [1]), (512, [512]), (513, [257, 256]), (640, [384, 256]), (2048, [512, 512, 512, 512])]
)
def test_blocks_are_even_where_that_takes_no_tile_more(rows: int, blocks: list[int]) -> None:
    assert [block.size for block in row_blocks(rows, 4)] == blocks


@given(SIZES, SIZES, SIZES, st.integers(1, MOST_CLASSES), st.sampled_from([2, 4]), st.sampled_from([64, 192, 224]))
def test_what_is_held_fits(n: int, d: int, h: int, c: int, size: int, room: int) -> None:
    """The values of a block, and either all weights or three panels of them."""
    plan = plan_fused(Sizes(n, d, h, c, size), room * 1024, LEAST_ROWS[size])
    assume(plan is not None)
    tiles = -(-plan.columns // 128)
    values = (-(-d // 128) + -(-h // 128)) * plan.columns * size + 4 * tiles * c
    weights = size * (-(-d // 128) * h + -(-h // 128) * c) if plan.keeps else 3 * plan.panel_bytes
    assert values + weights <= room * 1024
    assert plan.keeps or len(plan.blocks) == 1 or plan.columns >= LEAST_ROWS[size]


def test_none_where_weights_would_come_slower_than_they_are_multiplied() -> None:
    few = Sizes(2048, 16384, 16384, 1024, 4)  # SBUF holds only 128 rows
    assert plan_fused(few, 192 * 1024, LEAST_ROWS[4]) is None
    assert plan_fused(few, 192 * 1024, 0) is not None
    assert plan_fused(Sizes(128, 16384, 16384, 1024, 4), 192 * 1024, LEAST_ROWS[4]) is not None  # read once


def test_none_for_more_classes_than_are_searched_in_one_pass() -> None:
    assert plan_fused(Sizes(128, 128, 128, MOST_CLASSES, 2), 192 * 1024, 0) is not None
    assert plan_fused(Sizes(128, 128, 128, MOST_CLASSES + 1, 2), 192 * 1024, 0) is None
