"""The plan of a convolution, compared with the output that it must cover."""

import pytest
from convolution_problems import problem
from hypothesis import given, settings
from hypothesis import strategies as st
from nki_tensors import on
from trninfer.kernels.convolution.forms import QUICKEST, Form, input_room, matmul_columns, matrices, most_columns
from trninfer.kernels.convolution.plan import Conv2dPlan, input_columns, input_rows, plan_conv2d, psum_pieces, ramp
from trninfer.kernels.convolution.problem import Block
from trninfer.simulator.machine.chip import PSUM_BANK_FLOATS


def test_filters_too_large_for_sbuf_are_reported() -> None:
    large = problem(in_channels=65536, height=80, width=80, out_channels=1, kernel=(63, 63), packed=True)
    with pytest.raises(AssertionError, match=r"the filters of one output channel take \d+ bytes of a partition"):
        plan_conv2d(large, 192 * 1024)


def check_pieces(plan: Conv2dPlan, group: Block) -> None:
    """Check that the pieces of a group in PSUM cover the group, and that each fits in one bank."""
    pieces = psum_pieces(plan, group)
    assert sum(p.images * p.rows * p.columns for p in pieces) == group.images * group.rows * group.columns
    pool_size = plan.problem.finish.pool_size
    for p in pieces:
        assert p.images * matmul_columns(plan.form, p.rows, p.columns) <= most_columns(plan.form, PSUM_BANK_FLOATS)
        assert p.rows % pool_size == 0 and p.columns % pool_size == 0
        assert p.images == 1 or (p.rows, p.columns) == plan.problem.output


pair = st.tuples(st.integers(1, 3), st.integers(1, 3))


@settings(deadline=None, max_examples=100)
@given(
    st.integers(1, 9),
    st.integers(1, 600),
    st.integers(1, 300),
    st.one_of(st.integers(1, 300), st.just(20000)),
    st.integers(1, 300),
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.integers(1, 2),
    st.tuples(*[st.integers(0, 4)] * 4),
    pair,
    pair,
    st.sampled_from([2, 4]),
    st.booleans(),
    st.sampled_from([192 * 1024, 224 * 1024, 256 * 1024]),
    st.sampled_from(["trn1", "trn2"]),
)
def test_a_plan_covers_the_output_once_and_fits(
    batch: int,
    in_channels: int,
    height: int,
    width: int,
    out_channels: int,
    kernel: tuple[int, int],
    pool_size: int,
    padding: tuple[int, int, int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    item_bytes: int,
    packed: bool,
    sbuf_bytes: int,
    target: str,
) -> None:
    what = problem(
        batch=batch,
        in_channels=in_channels,
        height=height,
        width=width,
        out_channels=out_channels,
        kernel=kernel,
        stride=stride,
        dilation=dilation,
        padding=padding,
        pool_size=pool_size,
        item_bytes=item_bytes,
        packed=packed,
        form=QUICKEST,
    )
    if min(what.output[0], what.output[1]) < 1:
        return
    with on(target):  # the rule for the form depends on the generation of the chip
        plan = plan_conv2d(what, sbuf_bytes)
    covered = 0
    expected_row: dict[tuple[int, int], int] = {}
    seen: set[tuple[int, int, int]] = set()
    loaded = 0
    for group in plan.groups:
        for i in range(group.image, group.image + group.images):
            key = (i, group.column)  # the rows of a column block are in order, so the halo is present
            assert expected_row.get(key, 0) == group.row
            expected_row[key] = group.row + group.rows
        pixels = group.images * group.rows * group.columns
        covered += pixels
        assert group.rows % pool_size == 0 and group.columns % pool_size == 0
        size = group.images, group.rows, group.columns
        if size not in seen:  # pieces are relative to a group, so groups of equal size have equal pieces
            seen.add(size)
            check_pieces(plan, group)
        first, end = input_columns(plan, group)
        item = len(plan.channel_tiles) * item_bytes * (input_room(plan.form) - (plan.form is Form.SQUARES))
        group_bytes = group.images * input_rows(plan, group) * (end - first) * item
        loaded = max(loaded, group_bytes + pixels // pool_size**2 * item_bytes)
    assert covered == batch * what.output[0] * what.output[1]
    filters = matrices(plan.form, len(plan.steps))
    tile_bytes = plan.weights.out_tiles[0].size * len(plan.channel_tiles) * filters * item_bytes
    assert min(2, len(plan.groups)) * loaded + plan.weights.resident_tiles * tile_bytes <= sbuf_bytes - 8 * 1024


@given(st.integers(1, 500), st.integers(1, 10), st.integers(0, 30), st.booleans(), st.booleans())
def test_group_sizes_add_up(total: int, smallest: int, more: int, rising: bool, falling: bool) -> None:
    largest = smallest + more
    sizes = ramp(total, smallest, largest, rising, falling)
    assert sum(sizes) == total
    assert max(sizes) <= largest and min(sizes) >= 1
    assert not rising or sizes[0] <= smallest
    assert not falling or sizes[-1] <= smallest
