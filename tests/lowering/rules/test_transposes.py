"""Transposes, compared with the golden model: by the host, as phases of pixels, as channels of pixels, and through
HBM."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lowered import applicable, assert_right, decide, graph_of, nodes_of, operation_of
from random_networks import conv, ending_in_dense, labels, model_of, picture
from trninfer.kernels.attention_operation import PixelTranspose
from trninfer.kernels.program import Convolution, PixelShuffle, Rearrange
from trninfer.lowering.decisions import Decisions
from trninfer.models.checks import Shape
from trninfer.models.files import Model
from trninfer.models.inputs import FeatureInput
from trninfer.models.layers import Concat, Conv2d, Dense, Flatten, Layer, LayerNorm, Reshape, Transpose
from trninfer.models.network import Network


@pytest.mark.parametrize("shape", [(12, 1, 9), (108,)])
def test_the_host_transposes_an_input(shape: Shape) -> None:
    """[9, 12] tokens by channels become channels by tokens, or features in another order."""
    turn = Transpose("turn", (9, 12), (1, 0), shape)
    first = conv("a", 12, 30, 1) if len(shape) == 3 else Dense("a", 108, 30)
    after: tuple[Layer, ...] = (LayerNorm("norm", 30), Flatten("flat"), Dense("b", 270 if len(shape) == 3 else 30, 5))
    network = Network("n", picture(1, 9, 12), (turn, first, *after), labels(5))
    assert [node.kind for node in graph_of(network).nodes] == [first.kind, "layer_norm", "dense"]
    for dtype in ("float32", "float16", "bfloat16"):
        assert_right(network, Decisions(), 3, dtype)


def pixel_shuffle(channels: int, rows: int, columns: int, down: int, across: int, name: str = "up") -> Transpose:
    """Return layers that turn channels into pixels."""
    split = (channels, down, across, rows, columns)
    return Transpose(name, split, (0, 3, 1, 4, 2), (channels, rows * down, columns * across))


@pytest.mark.parametrize(("down", "across"), [(2, 2), (1, 3), (2, 1)])
@pytest.mark.parametrize(("batch", "packed"), [(1, 1), (3, 2)])
def test_channels_that_become_pixels_take_turns(down: int, across: int, batch: int, packed: int) -> None:
    """The convolution before them computes each phase with separate filters."""
    layers: list[Layer] = [conv("a", 3, 4 * down * across, 3), pixel_shuffle(4, 6, 5, down, across), conv("b", 4, 4, 3)]
    network = ending_in_dense((3, 6, 5), layers)
    graph = graph_of(network)
    operation = operation_of(graph, "up")
    assert isinstance(operation, PixelShuffle) and operation.step == (down, across)
    assert len([node for node in graph.nodes if node.name == "a"]) == down * across
    assert_right(network, decide(packed=packed), batch)


@st.composite
def with_zeros(draw: st.DrawFn) -> Model:
    """Draw a convolution whose phases have rows and columns of zeros at the beginning or end of their filters."""
    down, across = draw(st.sampled_from([(2, 2), (1, 3), (2, 1)]))
    before, groups = draw(st.sampled_from([(3, 1), (4, 4), (8, 2)]))
    kernel = (draw(st.integers(1, 4)), draw(st.integers(1, 3)))
    around = draw(st.tuples(*[st.integers(0, 2)] * 4))
    spread = Conv2d("a", before, 8 * down * across, kernel, around, groups=groups, activation="relu")
    rows, columns = (side + sum(around[n::2]) - size + 1 for n, (side, size) in enumerate(zip((7, 6), kernel)))
    stem = [] if draw(st.booleans()) else [conv("stem", before, before, 3)]
    layers: list[Layer] = [*stem, spread, pixel_shuffle(8, rows, columns, down, across), conv("b", 8, 4, 3)]
    model = model_of(ending_in_dense((before, 7, 6), layers))
    used = model.tensors["a.weight"].reshape(8, down * across, -1, *kernel)
    for phase in range(down * across):
        top, left = (draw(st.integers(0, size - 1)) for size in kernel)
        bottom, right = (draw(st.integers(first + 1, size)) for first, size in zip((top, left), kernel))
        kept = used[:, phase, :, top:bottom, left:right].copy()
        used[:, phase] = 0
        used[:, phase, :, top:bottom, left:right] = kept
    return model


@settings(max_examples=30)
@given(with_zeros(), st.sampled_from([(1, 1), (3, 1), (3, 2)]), st.sampled_from(["float32", "bfloat16"]))
def test_taps_of_zeros_are_left_out(model: Model, images: tuple[int, int], dtype: str) -> None:
    """This holds even if the filters then do not read all of their input."""
    batch, packed = images
    assert_right(model, applicable(model, decide(packed=packed), batch), batch, dtype)


def test_filters_of_phases_have_only_the_taps_that_they_need() -> None:
    """Bilinear upsampling by two: two of three rows and columns for each phase."""
    layers: list[Layer] = [conv("a", 3, 4, 3), Conv2d("up", 4, 16, (3, 3), groups=4), pixel_shuffle(4, 4, 3, 2, 2, "b")]
    model = model_of(ending_in_dense((3, 6, 5), layers))
    shares = np.array([[0.25, 0.75, 0], [0, 0.75, 0.25]], np.float32)
    model.tensors["up.weight"] = np.tile(np.einsum("ai,bj->abij", shares, shares).reshape(4, 1, 3, 3), (4, 1, 1, 1))
    phases = [node.operation for node in nodes_of(graph_of(model), "up")]
    assert [(phase.kernel, phase.padding) for phase in phases if isinstance(phase, Convolution)] == [
        ((2, 2), (0, 0, -1, -1)),
        ((2, 2), (0, -1, -1, 0)),
        ((2, 2), (-1, 0, 0, -1)),
        ((2, 2), (-1, -1, 0, 0)),
    ]
    assert_right(model, Decisions(), 3)


def test_channels_that_others_read_too_are_laid_out_for_each_phase() -> None:
    layers: list[Layer] = [
        conv("a", 3, 16, 3),
        pixel_shuffle(4, 6, 5, 2, 2),
        conv("b", 4, 16, 2, stride=(2, 2), padding=(0, 0, 0, 0)),
        Concat("all", inputs=("a", "b")),
        conv("c", 32, 4, 1),
    ]
    network = ending_in_dense((3, 6, 5), layers)
    assert len([node for node in graph_of(network).nodes if node.name == "a"]) == 1
    assert_right(network, Decisions(), 3)


@pytest.mark.parametrize(("down", "across"), [(2, 1), (3, 5)])
def test_pixels_that_become_channels_are_a_convolution_by_ones(down: int, across: int) -> None:
    split = (4, 6 // down, down, 5 // across, across)
    turn = Transpose("down", split, (0, 2, 4, 1, 3), (4 * down * across, 6 // down, 5 // across))
    network = ending_in_dense((3, 6, 5), [conv("a", 3, 4, 3), turn, conv("b", 4 * down * across, 4, 1)])
    operation = operation_of(graph_of(network), "down")
    assert isinstance(operation, Convolution) and operation.stride == operation.kernel == (down, across)
    assert_right(network, Decisions(), 3)


@st.composite
def transposes(draw: st.DrawFn) -> Transpose:
    """Draw any permutation of any axes of 8 x 6 x 4 numbers, as an image or as features."""
    split = draw(st.sampled_from([(8, 6, 4), (8, 24), (2, 4, 6, 4), (8, 3, 2, 4), (4, 2, 3, 2, 4), (192,)]))
    order = tuple(draw(st.permutations(range(len(split)))))
    axes = [split[axis] for axis in order]
    shape = draw(st.sampled_from([(192,), (axes[0], math.prod(axes[1:]), 1), (8, 4, 6), (4, 6, 8), (32, 3, 2)]))
    return Transpose("turn", split, order, shape)


@settings(max_examples=60)
@given(transposes(), st.sampled_from([(1, 1), (3, 1), (3, 2), (5, 4)]), st.sampled_from(["float32", "bfloat16"]))
def test_any_transpose(turn: Transpose, images: tuple[int, int], dtype: str) -> None:
    batch, packed = images
    network = ending_in_dense((3, 6, 4), [conv("a", 3, 8, 1), turn])
    assert_right(network, applicable(network, decide(packed=packed), batch), batch, dtype)


def test_features_are_transposed() -> None:
    layers = (Dense("a", 20, 24), Transpose("turn", (4, 6), (1, 0), (24,)), Dense("b", 24, 5))
    network = Network("n", FeatureInput(20), layers, labels(5))
    assert_right(network, Decisions(), 3)


@settings(max_examples=25, deadline=None)
@given(
    channels=st.sampled_from([3, 16, 130]),
    split=st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.integers(1, 4)),
    order=st.permutations(range(4)),
    batch=st.sampled_from([1, 2, 3, 4, 7, 16]),
    dtype=st.sampled_from(["float32", "bfloat16", "float16"]),
    size=st.sampled_from([1, 3]),
)
def test_pixels_in_another_order_stay_on_their_partitions(
    channels: int, split: tuple[int, ...], order: list[int], batch: int, dtype: str, size: int
) -> None:
    """Windows of a Swin transformer and patches of MobileViT: no DMA moves them."""
    image = (split[0] * split[1], split[2] * split[3])
    after = tuple(split[axis] for axis in order)
    shape = (channels, after[0] * after[1], after[2] * after[3])
    turn = Transpose("turn", (channels, *split), (0, *(axis + 1 for axis in order)), shape)
    network = ending_in_dense((3, *image), [conv("a", 3, channels, size), turn, conv("b", channels, 4, size)])
    if [axis for axis in order if split[axis] > 1] != [axis for axis in range(4) if split[axis] > 1]:
        assert not isinstance(operation_of(graph_of(network), "turn"), Rearrange)
    packed = 2 if channels == 3 else 1
    assert_right(network, applicable(network, decide(packed=packed), batch), batch, dtype)


@pytest.mark.parametrize(("down", "across"), [(2, 2), (1, 3), (4, 2)])
@pytest.mark.parametrize("batch", [1, 3])
def test_tokens_that_become_channels(down: int, across: int, batch: int) -> None:
    """Patch merging of a Swin transformer, whose tokens have lost their rows and columns."""
    rows, columns = 3, 5
    split = (6, rows, down, columns, across)
    merged = Transpose("merged", split, (4, 2, 0, 1, 3), (6 * down * across, rows, columns))
    tokens = Reshape("tokens", (6, 1, rows * down * columns * across))
    layers: list[Layer] = [conv("a", 3, 6, 3), tokens, merged, conv("b", 6 * down * across, 4, 1)]
    network = ending_in_dense((3, rows * down, columns * across), layers)
    assert not any(isinstance(node.operation, Rearrange) for node in graph_of(network).nodes)
    assert_right(network, Decisions(), batch)


@settings(max_examples=25)
@given(
    st.sampled_from([(9, 3, 3), (30, 4, 5), (131, 2, 7), (256, 3, 3), (600, 1, 12), (2, 10, 13), (5, 8, 17)]),
    st.sampled_from([1, 2, 3, 4, 7, 16]),
    st.sampled_from(["float32", "bfloat16", "float16"]),
    st.sampled_from(["trn1", "trn2", "trn3"]),
    st.sampled_from([1, 3]),
)
def test_channels_and_pixels_change_places_on_the_chip(
    shape: Shape, batch: int, dtype: str, target: str, kernel: int
) -> None:
    """Pixels are mixed as channels and transposed back; padded convolutions read and compute the values."""
    channels, rows, columns = shape
    pixels, mixed = rows * columns, rows + 1
    layers: list[Layer] = [
        conv("stem", 3, channels, kernel),
        Transpose("there", (channels, pixels), (1, 0), (pixels, 1, channels)),
        conv("mix", pixels, mixed * columns, 1),
        Transpose("back", (mixed * columns, channels), (1, 0), (channels, mixed, columns)),
        conv("next", channels, 8, kernel),
    ]
    network = ending_in_dense((3, rows, columns), layers)
    assert_right(network, Decisions(), batch, dtype, target=target)
    turned = [isinstance(operation_of(graph_of(network), name), PixelTranspose) for name in ("there", "back")]
    assert turned == [True, True]


@settings(max_examples=25)
@given(
    st.sampled_from([(4, 48, 6, 6), (8, 128, 3, 3), (3, 5, 2, 11), (2, 2, 1, 2), (3, 40, 10, 13), (5, 90, 1, 30)]),
    st.sampled_from([1, 2, 3, 4, 7, 16]),
    st.sampled_from(["float32", "bfloat16", "float16"]),
    st.sampled_from(["trn1", "trn2", "trn3"]),
    st.sampled_from([1, 3]),
)
def test_channels_and_pixels_of_each_head_change_places_on_the_chip(
    shape: tuple[int, int, int, int], batch: int, dtype: str, target: str, kernel: int
) -> None:
    """The tokens of each attention head are mixed as channels and transposed back."""
    heads, each, rows, columns = shape
    pixels = rows * columns
    layers: list[Layer] = [
        conv("stem", 3, heads * each, kernel),
        Transpose("there", (heads, each, pixels), (0, 2, 1), (heads * pixels, 1, each)),
        conv("mix", heads * pixels, heads * pixels, 1),
        Transpose("back", (heads, pixels, each), (0, 2, 1), (heads * each, rows, columns)),
        conv("next", heads * each, 8, kernel),
    ]
    network = ending_in_dense((3, rows, columns), layers)
    assert_right(network, Decisions(), batch, dtype, target=target)
    turned = [isinstance(operation_of(graph_of(network), name), PixelTranspose) for name in ("there", "back")]
    assert turned == [True, True]
