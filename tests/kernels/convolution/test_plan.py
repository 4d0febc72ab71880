"""The plan of a convolution against what it must cover, and the geometry of packed weights."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trninfer.kernels.convolution import quickest
from trninfer.kernels.convolution.forms import QUICKEST, Form, input_room, matmul_columns, matrices, most_columns
from trninfer.kernels.convolution.plan import input_columns, input_rows, plan_conv2d, psum_pieces, ramp
from trninfer.kernels.convolution.problem import Problem, output_extent
from trninfer.kernels.tiling.packing import taps_in_partitions
from trninfer.simulator.chip import PARTITIONS, PSUM_BANK_FLOATS


@pytest.fixture(scope="module", params=[False, True], autouse=True)
def _on_either_generation(request: pytest.FixtureRequest) -> Iterator[None]:
    """Plans are made outside of a kernel here, where nobody knows the NeuronCore."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quickest, "is_gen2", lambda: request.param)
        yield


def problem(**fields: Any) -> Problem:
    """A convolution of these fields, and of others that follow from them or do not matter."""
    plain = {"stride": (1, 1), "dilation": (1, 1), "padding": (0, 0, 0, 0), "pool_size": 1, "form": QUICKEST}
    fields = {**plain, "item_bytes": 4, "packed": False, "activation": "relu", "parameters": (), **fields}
    top, left, bottom, right = fields["padding"]
    rows, columns = (
        output_extent(size, *(fields[name][axis] for name in ("kernel", "stride", "dilation")), zeros)
        for axis, (size, zeros) in enumerate(((fields["height"], top + bottom), (fields["width"], left + right)))
    )
    pool_size = fields["pool_size"]
    return Problem(
        **fields,
        taps=taps_in_partitions(fields["in_channels"], fields["kernel"], PARTITIONS),
        out_rows=rows // pool_size * pool_size,
        out_columns=columns // pool_size * pool_size,
    )


def test_filters_too_large_for_sbuf_are_told() -> None:
    with pytest.raises(AssertionError, match=r"the filters of one output channel take \d+ bytes of a partition"):
        large = problem(batch=1, in_channels=65536, height=80, width=80, out_channels=1, kernel=(63, 63), packed=True)
        plan_conv2d(large, 192 * 1024)


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
    )
    if min(what.out_rows, what.out_columns) < 1:
        return
    plan = plan_conv2d(what, sbuf_bytes)
    covered = 0
    expected_row: dict[tuple[int, int], int] = {}
    loaded = 0
    for group in plan.groups:
        for i in range(group.image, group.image + group.images):
            key = (i, group.column)  # rows of a column block come in order: the halo is there
            assert expected_row.get(key, 0) == group.row
            expected_row[key] = group.row + group.rows
        pixels = group.images * group.rows * group.columns
        covered += pixels
        assert group.rows % pool_size == 0 and group.columns % pool_size == 0
        pieces = psum_pieces(plan, group)
        assert sum(p.images * p.rows * p.columns for p in pieces) == pixels
        for p in pieces:
            assert p.images * matmul_columns(plan.form, p.rows, p.columns) <= most_columns(plan.form, PSUM_BANK_FLOATS)
            assert p.rows % pool_size == 0 and p.columns % pool_size == 0
            assert p.images == 1 or (p.rows, p.columns) == (what.out_rows, what.out_columns)
        first, end = input_columns(plan, group)
        item = len(plan.channel_tiles) * item_bytes * (input_room(plan.form) - (plan.form is Form.SQUARES))
        group_bytes = group.images * input_rows(plan, group) * (end - first) * item
        loaded = max(loaded, group_bytes + pixels // pool_size**2 * item_bytes)
    assert covered == batch * what.out_rows * what.out_columns
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
