"""Accumulation of an output tile in PSUM, and its epilogue, compared with float64."""

from typing import Any

import nki.language as nl
import numpy as np
import pytest
from convolution_problems import least_sides, problem
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from nki_tensors import in_hbm, new, normal, on, tile
from numpy.lib.stride_tricks import sliding_window_view
from trninfer.kernels.convolution.input import load_input
from trninfer.kernels.convolution.plan import plan_groups, psum_pieces
from trninfer.kernels.convolution.resident import plan_resident
from trninfer.kernels.convolution.sums import Epilogue, OutputTile, convolve_tile, diagonal_of
from trninfer.kernels.convolution.weights import WeightStream
from trninfer.kernels.tiling.packing import Taps

ACTIVATIONS: dict[str, tuple[tuple[float, ...], Any]] = {
    "identity": ((), lambda x: x),
    "relu": ((), lambda x: np.maximum(x, 0)),
    "clip": ((-0.5, 0.75), lambda x: np.clip(x, -0.5, 0.75)),
    "tanh": ((), np.tanh),
    "silu": ((), lambda x: x / (1 + np.exp(-x))),
}


def convolution(activation: str = "identity", **fields: Any) -> Any:
    """Return a problem with one tap per matmul."""
    sizes = {"height": 5, "width": 6, "in_channels": 8, "out_channels": 5, "kernel": (1, 1), **fields}
    parameters = ACTIVATIONS[activation][0]
    return problem(taps=Taps(1, 1, sizes["in_channels"]), activation=activation, parameters=parameters, **sizes)


def sums_of(padded: Any, w: Any, what: Any) -> Any:
    """Convolve [Cin, B, H, W] in float64, and return [Cout, B, H', W']."""
    reach = [(size - 1) * apart + 1 for size, apart in zip(what.filters.kernel, what.movement.dilation)]
    windows = sliding_window_view(padded.astype(np.float64), reach, axis=(2, 3))
    windows = windows[
        :,
        :,
        :: what.movement.stride[0],
        :: what.movement.stride[1],
        :: what.movement.dilation[0],
        :: what.movement.dilation[1],
    ]
    return np.einsum("cbhwij,ocij->obhw", windows[:, :, : what.output[0], : what.output[1]], w, optimize=True)


def check(
    what: Any,
    channels: list[int],
    columns: tuple[str, ...] = ("bias",),
    added: bool = False,
    loaded: bool = False,
) -> None:
    """Compute and compare one output tile of a random input, which is in SBUF with its padding, or `loaded` without
    column padding.

    `columns`: the columns that are present.
    """
    top, left, bottom, right = what.movement.padding
    x = normal(what.filters.in_channels, what.images.count, what.images.rows, what.images.columns)
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    w = (
        normal(what.filters.out_channels, what.filters.in_channels, *what.filters.kernel, seed=1)
        / what.filters.in_channels
    )
    shape = (
        what.filters.out_channels,
        what.images.count,
        what.output[0] // what.finish.pool_size,
        what.output[1] // what.finish.pool_size,
    )
    rng = np.random.default_rng(3)
    given = {name: (0.5 + rng.random((what.filters.out_channels, 1))).astype(np.float32) for name in columns}
    addend = normal(*shape, seed=7) if added else None
    held = Epilogue(**{name: tile(column) for name, column in given.items()})
    if "inverse" in given:
        held.diagonal = diagonal_of(held.inverse, nl.float32)
    parts = [slice(end - size, end) for size, end in zip(channels, np.cumsum(channels))]
    units = [
        tile(w[:, part].reshape(len(w), -1, what.filters.kernel[0] * what.filters.kernel[1]).transpose(1, 2, 0))
        for part in parts
    ]
    plan = plan_resident(what, 128, channels, keeps_rows=True, combined_bytes=0)
    inputs = [tile(padded[part]) for part in parts]
    if loaded:
        plan = plan_groups(what, 128, 150_000)
        assume(len(plan.groups) == 1)
        inputs = load_input(in_hbm(x.swapaxes(0, 1)), plan)
    held.addend = None if addend is None else tile(addend)
    result = new(shape)
    for group in plan.groups:
        stream = WeightStream(new((1, 1)), plan, 0, len(units), [], units)
        pieces = psum_pieces(plan, group)
        convolve_tile(OutputTile(result, group, pieces=pieces), inputs, stream, held)
    bias, scale, before, after, inverse = (
        given[name][:, :, None, None] if name in given else float(name != "bias")
        for name in ("bias", "scale", "before", "after", "inverse")
    )
    sums = sums_of(padded, w, what)
    if addend is not None:
        sums = sums * before + inverse * addend
    expected = ACTIVATIONS[what.finish.activation][1](sums * scale * after + bias)
    cut = (*shape[:3], what.finish.pool_size, shape[3], what.finish.pool_size)
    expected = expected.reshape(cut).max(axis=(3, 5))
    np.testing.assert_allclose(result.values, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", ["trn1", "trn2"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("pool_size", [1, 2])
@pytest.mark.parametrize("columns", [("bias",), ("bias", "scale")])
def test_every_piece_is_finished_alike(target: str, activation: str, pool_size: int, columns: tuple[str, ...]) -> None:
    """Five pieces of one bank each, which two engines share."""
    with on(target):
        check(convolution(activation, height=50, width=50, pool_size=pool_size), [8], columns)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("columns", [("bias",), ("bias", "before", "after"), ("bias", "scale", "inverse")])
def test_addends(activation: str, columns: tuple[str, ...]) -> None:
    """The Vector Engine adds them, between the scales, or the Tensor Engine does."""
    with on("trn2"):
        check(convolution(activation, batch=2, height=40, width=21), [8], columns, added=True)


PAIR = st.tuples(st.integers(1, 3), st.integers(1, 3))


@settings(max_examples=30)
@given(st.data())
def test_filters_of_any_size(data: st.DataObject) -> None:
    channels = data.draw(st.sampled_from([[3], [128, 2], [40, 40, 1]]))
    kernel, stride, dilation, pool_size = *(data.draw(PAIR) for _ in range(3)), data.draw(st.integers(1, 2))
    padding = data.draw(st.tuples(*[st.integers(0, 2)] * 4))
    least = least_sides(kernel, stride, dilation, padding, pool_size)
    what = convolution(
        batch=data.draw(st.integers(1, 3)),
        height=data.draw(st.integers(least[0], 12)),
        width=data.draw(st.integers(least[1], 12)),
        in_channels=sum(channels),
        out_channels=data.draw(st.sampled_from([1, 3, 127])),
        kernel=kernel,
        stride=stride,
        dilation=dilation,
        padding=padding,
        pool_size=pool_size,
    )
    with on("trn2"):
        check(what, channels, loaded=channels[0] != 40 and data.draw(st.booleans()))


def test_gelu_goes_before_the_maximum() -> None:
    """gelu is not monotonic below zero: of -0.7 and -3, the larger input does not have the larger output."""
    what = problem(height=2, width=2, in_channels=1, out_channels=1, kernel=(1, 1), pool_size=2, activation="gelu")
    with on("trn2"):
        plan = plan_resident(what, 128, [1], keeps_rows=True, combined_bytes=0)
        stream = WeightStream(new((1, 1)), plan, 0, 1, [], [tile(np.ones((1, 1, 1)))])
        result, column = new((1, 1, 1, 1)), tile(np.zeros((1, 1)))
        x = tile(np.array([-0.7, -3.0, -0.7, -0.7]).reshape(1, 1, 2, 2))
        convolve_tile(OutputTile(result, plan.groups[0]), [x], stream, Epilogue(column))
        assert result.values.item() == pytest.approx(-0.00404969, abs=1e-6)


def test_a_column_on_the_diagonal() -> None:
    column = np.arange(1, 128, dtype=np.float32)
    with on("trn2"):
        np.testing.assert_array_equal(diagonal_of(tile(column[:, None]), nl.float32).values, np.diag(column))
