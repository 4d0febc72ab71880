"""Loading filters and biases into SBUF: the position of each number, by its definition."""

from typing import Any

import nki.language as nl
import numpy as np
import pytest
from convolution_problems import problem
from nki_tensors import in_hbm, normal, on
from trninfer.kernels.convolution.plan import plan_conv2d
from trninfer.kernels.convolution.weights import load_biases, open_weights, stage_weights, units_of, weights_of
from trninfer.models.layout import pack_conv2d

SBUF_BYTES = 192 * 1024


def planned(in_channels: int, out_channels: int, kernel: tuple[int, int], **fields: Any) -> Any:
    sizes = {"in_channels": in_channels, "out_channels": out_channels, "kernel": kernel}
    return plan_conv2d(problem(height=20, width=20, **sizes, **fields), SBUF_BYTES)


def expected_unit(w: Any, plan: Any, out_tile: int, t: int) -> Any:
    """Return [taps and channels, steps, output channels] for one output tile and one input tile, with zeros between the
    taps."""
    out, channels, taps = plan.weights.out_tiles[out_tile], plan.channel_tiles[t], plan.problem.filters.taps
    part = w[out.start : out.end, channels.start : channels.end]
    found = np.zeros(((taps.count - 1) * taps.stride + channels.size, len(plan.steps), out.size), np.float32)
    for s, step in enumerate(plan.steps):
        for tap in range(step.taps):
            row, column = step.filter_row + tap // taps.columns, step.filter_column + tap % taps.columns
            found[tap * taps.stride : tap * taps.stride + channels.size, s] = part[:, :, row, column].T
    return found


FILTERS = [
    (3, 5, (3, 3)),  # all taps on the partitions, with gaps
    (20, 5, (3, 5)),  # rows of taps, with gaps
    (40, 130, (4, 3)),  # rows of taps without gaps; the last step has fewer taps
    (130, 129, (2, 2)),  # two tiles of inputs and of outputs
    (128, 3, (13, 5)),  # loaded in chunks of rows
    (1, 1, (1, 1)),
]


@pytest.mark.parametrize("target", ["trn1", "trn2"])
@pytest.mark.parametrize("dtype", [nl.float32, nl.bfloat16])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("in_channels", "out_channels", "kernel"), FILTERS)
def test_every_number_is_in_its_place(
    target: str, dtype: str, packed: bool, in_channels: int, out_channels: int, kernel: tuple[int, int]
) -> None:
    w = np.random.default_rng(0).integers(-99, 99, (out_channels, in_channels, *kernel)).astype(np.float32)
    with on(target):
        plan = planned(in_channels, out_channels, kernel, packed=packed, item_bytes=4 if dtype == nl.float32 else 2)
        given = in_hbm(pack_conv2d(w, np.zeros(out_channels, np.float32))[0] if packed else w, dtype)
        out_tiles = len(plan.weights.out_tiles)
        stream = open_weights(given, plan, 0, out_tiles)
        for out_tile in range(out_tiles):
            units = units_of(stream, out_tile)
            assert len(units) == len(plan.channel_tiles)
            for t, unit in enumerate(units):
                expected = expected_unit(w, plan, out_tile, t)
                for s, step in enumerate(plan.steps):  # a last step with fewer taps does not use all partitions
                    rows = (step.taps - 1) * plan.problem.filters.taps.stride + plan.channel_tiles[t].size
                    np.testing.assert_array_equal(unit.values[:rows, s], expected[:rows, s])


def test_a_stream_may_begin_at_any_output_tile() -> None:
    w = normal(300, 8, 1, 1)
    with on("trn2"):
        plan = planned(8, 300, (1, 1))
        stream = open_weights(in_hbm(w), plan, 1, 2)
        np.testing.assert_array_equal(weights_of(stream, 1, 0).values, expected_unit(w, plan, 2, 0))


def test_one_unit_more_is_made_ready() -> None:
    """The Tensor Engine can then multiply while the previous unit leaves PSUM; chunks of later units are loading."""
    with on("trn2"):
        plan = planned(300, 300, (3, 3))
        stream = open_weights(in_hbm(normal(300, 300, 3, 3)), plan, 0, 3)
        assert stream.units == 9
        stage_weights(stream, 2)
        assert (len(stream.staged), len(stream.ready)) == (2, 0)
        first = weights_of(stream, 0, 0)
        assert len(stream.ready) == 2 and weights_of(stream, 0, 0) is first
        assert len(stream.staged) == 2 + plan.weights.staged_chunks
        units_of(stream, 2)
        assert len(stream.ready) == len(stream.staged) == 9  # all units are prepared


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("out_channels", [1, 127, 300])
def test_biases_are_a_column_for_each_tile(packed: bool, out_channels: int) -> None:
    bias = normal(out_channels)
    with on("trn2"):
        plan = planned(8, out_channels, (1, 1), packed=packed)
        given = pack_conv2d(np.zeros((out_channels, 8, 1, 1), np.float32), bias)[1] if packed else bias
        columns = load_biases(in_hbm(given), plan)
        assert [column.shape for column in columns] == [(tile.size, 1) for tile in plan.weights.out_tiles]
        np.testing.assert_array_equal(np.concatenate([column.values[:, 0] for column in columns]), bias)


def test_tiles_of_half_a_block() -> None:
    """Two packed images leave 64 outputs per tile: the filters and biases of both take 128 columns."""
    w, bias = normal(130, 1100, 5, 5), normal(130, seed=1)
    with on("trn2"):
        plan = planned(1100, 130, (5, 5), packed=True)
        assert [tile.size for tile in plan.weights.out_tiles] == [64, 64, 2]
        filters, biases = (in_hbm(packed) for packed in pack_conv2d(w, bias))
        stream = open_weights(filters, plan, 1, 1)
        np.testing.assert_array_equal(weights_of(stream, 0, 0).values, expected_unit(w, plan, 1, 0))
        columns = load_biases(biases, plan)
        np.testing.assert_array_equal(np.concatenate([column.values[:, 0] for column in columns]), bias)
