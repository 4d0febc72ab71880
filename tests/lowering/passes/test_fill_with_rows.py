"""Partitions filled with rows of very few channels, compared with the golden model."""

import numpy as np
import pytest
from hypothesis import event, given, reject, settings
from hypothesis import strategies as st
from lowered import assert_right, convolution_of, decide, decided, graph_of, nanoseconds, nodes_of
from random_networks import labels, picture
from trninfer.kernels.program import RowFold, RowFoldPool
from trninfer.lowering.decisions import Kind
from trninfer.lowering.graph.graph import Graph
from trninfer.lowering.passes.fill_with_rows import fill_with_rows
from trninfer.lowering.passes.lanes import Lanes
from trninfer.lowering.pipeline import Pipeline
from trninfer.lowering.search.candidates import Candidates
from trninfer.lowering.search.cost_model import CostModel
from trninfer.models.layers import Affine, Combine, Concat, Conv2d, Dense, Flatten, Layer, Pool
from trninfer.models.network import Network

FILLED = decide(fills_with_rows=True)
ACTIVATIONS = ("relu", "identity", "tanh", "clip", "leaky_relu")


def test_even_rows_precede_odd_rows() -> None:
    lanes = Lanes(4, 3, 1)
    rows = np.repeat(np.arange(4), 3)
    np.testing.assert_array_equal(lanes.ordered(rows, 0), np.repeat([0, 2, 1, 3], 3))
    np.testing.assert_array_equal(Lanes(8, 1, 2).ordered(np.arange(8), 0), [0, 4, 2, 6, 1, 5, 3, 7])


def same(name: str, before: int, after: int, size: int, **fields: object) -> Conv2d:
    """Return a convolution that preserves the size of an image."""
    return Conv2d(name, before, after, (size, size), (size // 2,) * 4, activation="relu", **fields)  # type: ignore[arg-type]


def meso(side: int = 64) -> Network:
    """Return a network that begins and ends with very few channels."""
    layers = (
        same("a", 3, 8, 3, pool_size=2),
        same("b", 8, 8, 5, pool_size=2),
        same("c", 8, 16, 5),
        Pool("pool", "max", (4, 4), (4, 4)),
        Flatten("flat"),
        Dense("first", side * side // 16, 8, "leaky_relu", (0.1,)),
        Dense("dense", 8, 4),
    )
    return Network("n", picture(3, side, side), layers, labels(4))


def test_channels_and_rows_fill_the_partitions() -> None:
    graph = fill_with_rows(graph_of(meso(128)).with_ids())
    assert graph is not None
    assert [convolution_of(graph, name).channels for name in "abc"] == [128] * 3
    assert convolution_of(graph, "a").row_fold == RowFold(16)
    assert convolution_of(graph, "b").kernel == (2, 5)  # half a group more at the top
    assert [type(node.operation) for node in nodes_of(graph, "pool")] == [RowFoldPool] * 2


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 7, 16])
def test_a_network_of_eight_channels(batch: int) -> None:
    assert_right(meso(), FILLED, batch)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_it_is_quicker_where_channels_are_very_few(dtype: str) -> None:
    """Also with copies of a pool's value, of which a matmul contracts over two groups."""
    copied = decide(fills_with_rows=True, copied=[None])
    graph = decided(meso(), copied).graph
    assert convolution_of(graph, "c").taps.rows == 2
    assert nanoseconds(decided(meso(), copied, 16, dtype), dtype) < nanoseconds(
        decided(meso(), decide(packs_rows=True), 16, dtype), dtype
    )


def test_images_are_not_packed_too() -> None:
    candidates = Candidates(Pipeline(graph_of(meso()), (), 2**17), CostModel("trn2", 4), 16)
    choices = candidates.shapes()
    assert any(each.value(Kind.FILL_WITH_ROWS) for each in choices)
    assert not any(each.value(Kind.FILL_WITH_ROWS) and each.value(Kind.PACK_IMAGES) for each in choices)


def test_rows_outside_the_image_are_not_in_a_mean() -> None:
    layers: list[Layer] = [
        Conv2d("a", 1, 1, (1, 1), activation="relu", stride=(2, 2)),
        Conv2d("b", 1, 9, (5, 5), padding=(2, 2, 2, 2), activation="relu", stride=(2, 2)),
        Pool("mean", "average", (8, 2), (1, 1)),
        Flatten("flat"),
        Dense("dense", 9, 4),
    ]
    assert_right(Network("n", picture(1, 32, 8), tuple(layers), labels(4)), FILLED, 1)


@pytest.mark.parametrize(("stride", "side"), [(3, 96), (5, 80)])
def test_a_stride_that_is_no_power_of_two(stride: int, side: int) -> None:
    layers = (
        same("a", 3, 4, 3),
        same("b", 4, 4, 5),
        same("c", 4, 4, 5),
        Conv2d("d", 4, 4, (stride, stride), activation="relu", stride=(stride, stride)),
        Flatten("flat"),
        Dense("first", 4 * (side // stride) ** 2, 8, "relu"),
        Dense("dense", 8, 4),
    )
    assert_right(Network("n", picture(3, side, side), layers, labels(4)), FILLED, 2)


def odd(side: int, channels: int = 16) -> Network:
    """Draw convolutions on pictures whose number of rows is not a multiple of the group size."""
    layers = (same("a", 3, channels, 3), same("b", channels, channels, 3), same("c", channels, channels, 3))
    end = (Pool("mean", "average", (side, side), (1, 1)), Flatten("flat"), Dense("dense", channels, 4))
    return Network("n", picture(3, side, side), (*layers, *end), labels(4))


@pytest.mark.parametrize("side", [33, 35, 39])
@pytest.mark.parametrize("channels", [8, 16])
def test_rows_that_groups_do_not_divide(side: int, channels: int) -> None:
    """The last rows of the last group are outside of the image; they begin at a partition that engines can write."""
    graph = decided(odd(side, channels), FILLED).graph
    for name in "ab":  # the average reads only rows of the image
        convolution = convolution_of(graph, name)
        fold = convolution.row_fold
        assert fold.count == 128 // channels and (fold.count - fold.below) * channels % 32 == 0
        assert convolution.rows * fold.count == side + fold.above + fold.below
    assert_right(odd(side, channels), FILLED, 2)


def test_odd_pictures_take_hardly_longer() -> None:
    times = {side: nanoseconds(decided(odd(side), FILLED, 1, "bfloat16"), "bfloat16") for side in (64, 65)}
    assert times[65] < 1.15 * times[64]


@pytest.mark.parametrize("window", [2, 4])
def test_a_pool_of_stacked_values(window: int) -> None:
    layers = (
        same("a", 3, 8, 3),
        same("b", 8, 8, 3),
        Concat("stacked", inputs=("a", "b")),
        Pool("pool", "max", (window, window), (window, window)),
        same("c", 16, 8, 3),
        Pool("mean", "average", (32 // window, 16 // window), (1, 1)),
        Flatten("flat"),
        Dense("dense", 8, 4),
    )
    network = Network("n", picture(3, 32, 16), layers, labels(4))
    assert_right(network, FILLED if fill_with_rows(graph_of(network).with_ids()) else decide(), 2)


@pytest.mark.parametrize("activation", ["relu", "reciprocal"])  # 1 / 0 in the channels that pad a group
def test_channels_between_a_quarter_and_half_of_the_partitions(activation: str) -> None:
    layers = (
        Conv2d("a", 3, 40, (3, 3), (1, 1, 1, 1), activation=activation, stride=(2, 2)),
        Conv2d("b", 40, 8, (1, 1), activation="tanh"),
        same("c", 8, 8, 5),
        Flatten("flat"),
        Dense("dense", 8 * 32 * 32, 4),
    )
    assert_right(Network("n", picture(3, 64, 64), layers, labels(4)), FILLED, 1)


@st.composite
def very_few_channels(draw: st.DrawFn) -> Network:
    """Draw convolutions and pools of 1 to 40 channels, residual sums, and an end that reads rows, averages or
    everything."""
    side = draw(st.sampled_from([16, 32, 48, 17, 25, 33, 37, 50, 67]))
    image = picture(draw(st.sampled_from([1, 3])), side, draw(st.sampled_from([8, 12])))
    layers: list[Layer] = []
    shape: tuple[int, ...] = image.shape
    for number in range(draw(st.integers(2, 4))):
        name, before = f"l{number}", layers[-1].name if layers else "input"
        channels, least = shape[0], min(shape[1:])
        pools = ["pooled", "pool"] if least >= 2 else []
        kind = draw(st.sampled_from(["conv", "conv", "sum", *pools])) if number else "conv"
        size = draw(st.sampled_from([1, 3, 5]))
        activation = draw(st.sampled_from(ACTIVATIONS))
        parameters = {"clip": (0.0, 6.0), "leaky_relu": (0.1,)}.get(activation, ())
        after = draw(st.sampled_from([*(1, 4, 8, 9, 12, 16) * 2, 24, 31, 40]))
        if kind == "sum":
            layers.append(same(f"{name}a", channels, channels, 3))
            layers.append(Combine(name, "add", "relu", inputs=(f"{name}a", before)))
        elif kind == "pool":
            window = draw(st.sampled_from([2, 4] if least >= 4 else [2]))
            layers.append(Pool(name, "max", (window, window), (window, window)))
        else:
            strides = [(2, 2), (3, 3), (4, 2), (5, 5)] if kind == "conv" else []
            stride = draw(st.sampled_from([*[(1, 1)] * 5, *strides]))
            pool_size = 2 if kind == "pooled" else 1
            margins = [(size // 2,) * 4, (size // 2, 0, size - 1 - size // 2, 1)]
            padding = draw(st.sampled_from(margins if size + pool_size <= least + 2 else margins[:1]))
            layers.append(
                Conv2d(
                    name,
                    channels,
                    after,
                    (size, size),
                    padding,
                    pool_size,
                    activation,
                    stride,
                    activation_parameters=parameters,
                )
            )
        if kind != "sum":
            shape = layers[-1].output_shape(shape)  # type: ignore[arg-type]
            if kind != "pool" and draw(st.booleans()):
                layers.append(Affine(f"{name}scaled", shape[:1]))
    if draw(st.booleans()):
        layers += [Pool("mean", "average", shape[1:], (1, 1)), Flatten("flat"), Dense("dense", shape[0], 4)]
    else:
        layers += [Flatten("flat"), Dense("first", int(np.prod(shape)), 8), Dense("dense", 8, 4)]
    return Network("n", image, tuple(layers), labels(4))


@st.composite
def filled(draw: st.DrawFn) -> tuple[Network, Graph]:
    """Draw networks until one can fill the partitions with rows, which about a fifth can; return it and its graph."""
    for _ in range(30):
        network = draw(very_few_channels())
        graph = fill_with_rows(graph_of(network).with_ids())
        if graph is not None:
            return network, graph
    reject()


@settings(max_examples=10)
@given(
    filled(),
    st.sampled_from([1, 2, 3, 4, 7, 16]),
    st.sampled_from(["float32", "bfloat16", "float16"]),
    st.sampled_from(["trn1", "trn2", "trn3"]),
)
def test_filled_partitions_compute_what_the_golden_model_does(
    drawn: tuple[Network, Graph], batch: int, dtype: str, target: str
) -> None:
    network, graph = drawn
    event(f"{sum(isinstance(node.operation, RowFoldPool) for node in graph.nodes)} pools")
    folds = [node.operation.convolved.row_fold for node in graph.nodes if node.operation.convolved is not None]
    event(f"{any(fold.below for fold in folds)} rows below")
    assert_right(
        network,
        decide(fills_with_rows=True, copied=[None]),
        batch,
        dtype,
        target=target,
        tolerance=2e-5 if dtype == "float32" else 4e-2,
    )
