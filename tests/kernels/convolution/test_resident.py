"""Plans of convolutions whose input is in SBUF: the covered outputs, and the amount combined at a time."""

from typing import Any

import pytest
from convolution_problems import problem
from hypothesis import given
from hypothesis import strategies as st
from nki_tensors import on
from trninfer.kernels.convolution.forms import Form, combined_elements, matmul_columns, most_columns, rows_together
from trninfer.kernels.convolution.plan import Conv2dPlan, psum_pieces
from trninfer.kernels.convolution.resident import plan_resident
from trninfer.simulator.machine.chip import PSUM_BANK_FLOATS


def planned(what: Any, channels: list[int], combined_bytes: int = 0, **options: bool) -> Conv2dPlan:
    with on("trn2"):
        options = {"keeps_rows": True, **options}
        return plan_resident(what, 128, channels, combined_bytes=combined_bytes, **options)


@given(
    st.integers(1, 9),
    st.integers(3, 60),
    st.integers(3, 60),
    st.sampled_from([1, 2]),
    st.sampled_from(["direct", "pairs", "squares"]),
    st.integers(4_000, 60_000),
    st.booleans(),
)
def test_groups_and_pieces_cover_the_output_once(
    batch: int, height: int, width: int, pool_size: int, form: str, combined_bytes: int, by_rows: bool
) -> None:
    height, width = (max(size, 2 + pool_size) for size in (height, width))
    sizes = {"batch": batch, "height": height, "width": width, "pool_size": pool_size, "form": Form(form)}
    what = problem(**sizes, in_channels=200, out_channels=300, kernel=(3, 3))
    plan = planned(what, [128, 72], combined_bytes, by_rows=by_rows)
    count = 0
    order = []
    for group in plan.groups:
        order.append((group.image, group.row))
        for piece in psum_pieces(plan, group):
            columns = piece.images * matmul_columns(plan.form, piece.rows, piece.columns)
            assert columns <= most_columns(plan.form, PSUM_BANK_FLOATS)
            assert piece.rows % pool_size == 0
            count += piece.images * piece.rows * piece.columns
    assert count == batch * what.output[0] * what.output[1]
    assert order == sorted(set(order))  # no duplicates, one image after another
    if form != "direct" and plan.groups[0].rows < what.output[0]:  # some rows at a time: as many as fit, for two tiles
        rows = max(group.rows for group in plan.groups)
        fits = 2 * 4 * combined_elements(plan.form, (rows, what.output[1]), 3) <= combined_bytes
        assert fits or rows == rows_together(plan.form, pool_size)


def test_input_tiles_are_as_high_as_given() -> None:
    plan = planned(problem(height=5, width=5, in_channels=140, out_channels=300, kernel=(1, 1)), [96, 40, 4])
    assert [(tile.start, tile.size, tile.end) for tile in plan.channel_tiles] == [
        (0, 96, 96),
        (96, 40, 136),
        (136, 4, 140),
    ]
    assert [tile.size for tile in plan.weights.out_tiles] == [128, 128, 44]
    assert plan.weights.resident_tiles == 3 and plan.weights.used_bytes == 0


def test_outputs_row_by_row() -> None:
    """All output tiles of a group of rows precede those of the next group; each PSUM tile of rows is one group."""
    what = problem(batch=2, height=40, width=40, in_channels=8, out_channels=8, kernel=(1, 1))
    assert [(group.images, group.rows) for group in planned(what, [8]).groups] == [(2, 40)]
    found = planned(what, [8], by_rows=True).groups
    assert [(group.image, group.images, group.row, group.rows) for group in found] == [
        (image, 1, row, 10) for image in range(2) for row in (0, 10, 20, 30)
    ]


@pytest.mark.parametrize(("keeps_rows", "expected"), [(True, (1, 2)), (False, (2, 1))])
def test_rows_that_no_tap_reads(keeps_rows: bool, expected: tuple[int, int]) -> None:
    """1x1 filters with a row stride of 2 read every other row, either of all rows in SBUF or of the loaded rows."""
    what = problem(height=9, width=9, in_channels=128, out_channels=8, kernel=(1, 1), stride=(2, 2))
    reach = planned(what, [128], keeps_rows=keeps_rows).reach
    assert (reach.row_pitch, reach.row_step) == expected
    assert reach.pads_columns
