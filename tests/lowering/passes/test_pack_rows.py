"""Row packing: packed convolutions compute the same as the golden model, and are used if there are few channels."""

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from lowered import (
    applicable,
    assert_right,
    convolution_of,
    decide,
    decided,
    graph_of,
    nanoseconds,
    nodes_of,
    number_of,
    operation_of,
)
from random_networks import conv, few_channels, labels, picture, stage_of_yolo
from trninfer.kernels.program import RowFold, RowFoldPool
from trninfer.lowering.decisions import Decisions
from trninfer.lowering.emission.schedule import Region
from trninfer.lowering.graph.graph import Graph
from trninfer.lowering.passes.pack_rows import has_packed_rows, pack_rows
from trninfer.models.layers import Combine, Concat, Conv2d, Dense, Flatten, Layer, Pool
from trninfer.models.network import Network

ROWS = decide(packs_rows=True)


def packed_nodes(graph: Graph) -> int:
    return sum(getattr(node.operation, "row_fold", RowFold()).count > 1 for node in graph.nodes)


@settings(max_examples=25)
@given(few_channels(), st.sampled_from([1, 3]), st.sampled_from(["trn1", "trn2"]), st.booleans())
def test_packed_networks_compute_what_the_golden_model_does(
    network: Network, batch: int, target: str, phases: bool
) -> None:
    decisions = applicable(network, decide(packs_rows=True, splits_phases=phases, packed=2), batch)
    plan = assert_right(network, decisions, batch, target=target)
    event(f"{packed_nodes(plan.graph)} packed")


@st.composite
def stacked(draw: st.DrawFn) -> Network:
    """Return a stage of YOLO: two halves, residual blocks on one of them, and a convolution of the concatenation."""
    half = draw(st.sampled_from([32, 32, 64, 40]))
    rows = draw(st.sampled_from([20, 33, 35]))
    activation = draw(st.sampled_from(["relu", "silu"]))
    layers: list[Layer] = [conv("stem", 3, 2 * half, 3, stride=draw(st.sampled_from([(1, 1), (2, 1)])))]
    layers += [Conv2d(name, 2 * half, half, (1, 1), activation=activation, inputs=("stem",)) for name in ("a", "b")]
    parts = ["a", "b"]
    for n in range(draw(st.integers(1, 2))):
        size, last = draw(st.sampled_from([1, 3])), parts[-1]
        padding = (size // 2,) * 4
        layers += [
            Conv2d(f"c{n}", half, half, (3, 3), (1, 1, 1, 1), activation=activation, inputs=(last,)),
            Conv2d(f"d{n}", half, half, (size, size), padding, activation=activation),
        ]
        if draw(st.booleans()):
            layers.append(Combine(f"e{n}", "add", draw(st.sampled_from(["identity", "relu"])), inputs=(f"d{n}", last)))
        parts.append(layers[-1].name)
    wide, size = draw(st.sampled_from([32, 64, 72, 128])), draw(st.sampled_from([1, 3]))
    stride = draw(st.sampled_from([(1, 1), (2, 2)]))
    count = len(parts) * half
    layers += [
        Concat("all", inputs=tuple(draw(st.permutations(parts)))),
        conv("wide", count, wide, size, stride=stride),
    ]
    layers.append(conv("down", wide, 24, 3, stride=(2, 2)))
    image = picture(3, rows, 6)
    shapes: dict[str, tuple[int, ...]] = {}
    for layer in layers:
        before = list(shapes.values())[-1] if shapes else image.shape
        shapes[layer.name] = layer.output_shape(*[shapes[name] for name in layer.inputs] or [before])
    layers += [Pool("mean", "average", shapes["down"][1:], (1, 1)), Flatten("flat"), Dense("dense", 24, 4)]  # type: ignore[arg-type]
    return Network("n", image, tuple(layers), labels(4))


@settings(max_examples=5)
@given(stacked(), st.sampled_from([1, 3]), st.booleans())
def test_stacked_values_and_their_sums_stay_in_groups(network: Network, batch: int, pads: bool) -> None:
    decisions = applicable(network, decide(packs_rows=True, pads_channels=pads), batch)
    plan = assert_right(network, decisions, batch)
    event(f"{packed_nodes(plan.graph)} packed")


def test_values_that_are_added_or_stacked_stay_in_groups() -> None:
    """In a stage of YOLO, only the last convolution computes single rows, because it has too many channels."""
    layers = (
        *stage_of_yolo(32),
        conv("down", 64, 128, 3, stride=(2, 2)),
        Flatten("flat"),
        Dense("dense", 128 * 16 * 4, 4),
    )
    graph = pack_rows(graph_of(Network("n", picture(3, 32, 8), layers, labels(4))))
    assert [operation_of(graph, name).channels for name in ("stem", "a", "b", "c", "d")] == [128] * 5
    assert convolution_of(graph, "wide").rows_at_once == 4
    assert convolution_of(graph, "c").kernel == (3, 3)  # the sum keeps the offset of its operands


@pytest.mark.parametrize("padding", [(0, 0, 2, 0), (1, 0, 2, 0), (2, 0, 1, 0), (1, 0, 0, 0)])
@pytest.mark.parametrize(("stride", "more"), [(1, 0), (1, 2), (2, 2)])
def test_rows_of_padding_alone(padding: tuple[int, int, int, int], stride: int, more: int) -> None:
    layers: list[Layer] = [
        Conv2d("a", 1, 1, (1, 1), (0, 0, more, 0), 1, stride=(stride, 1)),
        Conv2d("b", 1, 1, (1, 1), padding, 1, stride=(1, 2)),
    ]
    rows = (13 + more - 1) // stride + 1 + padding[0] + padding[2]
    flat = Network("n", picture(1, 13, 13), (*layers, Flatten("flat")), labels(7 * rows))
    assert_right(flat, ROWS)


@pytest.mark.parametrize("rows", [27, 29, 30, 31, 34])
@pytest.mark.parametrize(("stride", "rows_at_once"), [(1, 4), (2, 2)])
@pytest.mark.parametrize("bands", [1, 3])
def test_the_last_group_is_left_though_it_is_not_full(rows: int, stride: int, rows_at_once: int, bands: int) -> None:
    """A convolution reads groups of four rows and computes single rows, each from its own row of a group."""
    layers = (
        conv("a", 3, 32, 3),
        conv("b", 32, 40, 3, stride=(stride, stride)),
        conv("c", 40, 5, 3),
        Flatten("flat"),
        Dense("dense", 5 * (-(-rows // stride)) * (-(-9 // stride)), 4),
    )
    network = Network("n", picture(3, rows, 9), layers, labels(4))
    graph = decided(network, ROWS).graph
    end = number_of(graph, "b") + 1
    regions = (Region(end - 2, end, bands),) if bands > 1 else ()
    for batch in (1, 3):
        plan = assert_right(network, ROWS.having(*decide(graph, regions=regions).choices), batch)
        assert convolution_of(plan.graph, "b").rows_at_once == rows_at_once


def test_few_rows_of_groups_are_beyond_the_image() -> None:
    """Two of 16 rows would be: an overhead of one seventh."""
    layers = (conv("a", 3, 32, 3), conv("b", 32, 40, 3))
    for rows, is_packed in ((14, False), (15, True), (18, True), (17, False)):
        ends = (Flatten("flat"), Dense("dense", 40 * rows * 9, 4))
        graph = pack_rows(graph_of(Network("n", picture(3, rows, 9), (*layers, *ends), labels(4))))
        assert has_packed_rows(graph) == is_packed, rows


def block(rows: int, channels: int = 64) -> Network:
    """Return the beginning of a residual network."""
    layers = (
        conv("stem", 3, channels, 7, stride=(2, 2)),
        Pool("pool", "max", (3, 3), (2, 2), (1, 1, 1, 1)),
        conv("a", channels, channels, 3),
        Conv2d("b", channels, channels, (3, 3), (1, 1, 1, 1)),
        Combine("sum", "add", "relu", inputs=("b", "pool")),
        conv("down", channels, 128, 3, stride=(2, 2)),
        Pool("mean", "average", (rows // 8, rows // 8), (1, 1)),
        Flatten("flat"),
        Dense("dense", 128, 4),
    )
    return Network("n", picture(3, rows, rows), layers, labels(4))


def test_a_residual_block_of_64_channels_takes_two_rows_of_taps() -> None:
    graph = pack_rows(graph_of(block(128)))
    assert [convolution_of(graph, name).kernel for name in ("a", "b", "down")] == [(2, 3)] * 3
    assert [operation_of(graph, name).channels for name in ("stem", "pool", "a", "b", "down")] == [128] * 5
    assert convolution_of(graph, "stem").kernel == (9, 3)  # seven rows, plus two for the second row of a group
    assert isinstance(operation_of(graph, "pool"), RowFoldPool)
    with_phases = decided(block(128), decide(packs_rows=True, splits_phases=True)).graph
    assert convolution_of(with_phases, "stem").kernel == (3, 2)  # phases of four rows and two columns


def bottleneck(rows: int) -> Network:
    """Return the beginning of a 50-layer residual network: a convolution to 64 channels reads a sum of 128 channels."""
    layers = (
        conv("stem", 3, 64, 7, stride=(2, 2)),
        conv("a", 64, 64, 3),
        Conv2d("beside", 64, 128, (1, 1), inputs=("stem",)),
        Conv2d("b", 64, 128, (1, 1), inputs=("a",)),
        Combine("sum", "add", "relu", inputs=("b", "beside")),
        Pool("mean", "average", (-(-rows // 2), -(-rows // 2)), (1, 1)),
        Flatten("flat"),
        Dense("dense", 128, 4),
    )
    return Network("n", picture(3, rows, rows), layers, labels(4))


@pytest.mark.parametrize("rows", [36, 67])
@pytest.mark.parametrize("bands", [1, 3])
def test_a_sum_of_single_rows_reads_groups(rows: int, bands: int) -> None:
    network = bottleneck(rows)
    graph = decided(network, ROWS).graph
    end = number_of(graph, "b") + 1
    regions = (Region(end - 2, end, bands),) if bands > 1 else ()
    for batch in (1, 3):
        graph = assert_right(network, ROWS.having(*decide(graph, regions=regions).choices), batch).graph
        total = convolution_of(graph, "b")
        assert (len(total.sources), total.rows_at_once, total.kernel) == (2, 2, (1, 1))
        assert convolution_of(graph, "a").row_fold.count == 2


@st.composite
def depthwise(draw: st.DrawFn) -> Network:
    """Return the beginning of a depthwise-separable network: at most 32 channels, then an expansion or a smaller
    image."""
    rows = draw(st.sampled_from([32, 33, 35, 38, 64, 67]))
    stride = draw(st.sampled_from([(1, 1), (2, 2)])) if rows > 38 else (1, 1)
    activation = draw(st.sampled_from(["relu", "silu", "clip"]))
    fields: dict[str, object] = {"activation": activation}
    if activation == "clip":
        fields["activation_parameters"] = (0.0, 6.0)
    layers: list[Layer] = [conv("stem", 3, 32, 3, stride=stride)]
    channels = 32
    for number in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["depthwise", "depthwise", "project", "sum", "groups", "gate"]))
        name, before, size = f"l{number}", layers[-1].name, draw(st.sampled_from([2, 3, 5]))
        padding = (size // 2,) * 4
        if kind == "project":
            after = draw(st.sampled_from([8, 16, 24, 32, 64]))
            layers.append(Conv2d(name, channels, after, (1, 1), **fields))
            channels = after
        elif kind == "gate":
            layers += _gate(name, channels, before, _given(layers, picture(3, rows).shape)[1:])
        elif kind == "sum":
            layers.append(Conv2d(f"{name}a", channels, channels, (1, 1)))
            layers.append(Combine(name, "add", "relu", inputs=(f"{name}a", before)))
        else:
            groups = channels if kind == "depthwise" else channels // 4
            stride = draw(st.sampled_from([(1, 1), (1, 1), (2, 1)]))
            layers.append(
                Conv2d(name, channels, channels, (size, size), padding, groups=groups, stride=stride, **fields)
            )
    wide = draw(st.sampled_from([20, 96, 128, 144]))
    size = draw(st.sampled_from([1, 3]))
    layers.append(conv("wide", channels, wide, size, stride=draw(st.sampled_from([(1, 1), (2, 2), (4, 4)]))))
    image = picture(3, rows)
    layers += [
        Pool("mean", "average", _given(layers, image.shape)[1:], (1, 1)),
        Flatten("flat"),
        Dense("dense", wide, 4),
    ]  # type: ignore[arg-type]
    return Network("n", image, tuple(layers), labels(4))


def _gate(name: str, channels: int, before: str, window: tuple[int, ...]) -> list[Layer]:
    """Return a squeeze-and-excite gate."""
    return [
        Pool(f"{name}mean", "average", window, (1, 1), inputs=(before,)),  # type: ignore[arg-type]
        Conv2d(f"{name}squeeze", channels, 5, (1, 1), activation="relu"),
        Conv2d(f"{name}excite", 5, channels, (1, 1), activation="sigmoid"),
        Combine(name, "multiply", inputs=(before, f"{name}excite")),
    ]


def _given(layers: list[Layer], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the output of the last layer for an image of the given shape."""
    shapes: dict[str, tuple[int, ...]] = {}
    for layer in layers:
        shape = layer.output_shape(*[shapes[name] for name in layer.inputs] or [shape])
        shapes[layer.name] = shape
    return shape


@settings(max_examples=25)
@given(depthwise(), st.sampled_from([1, 3]), st.sampled_from(["float32", "bfloat16", "float16"]))
def test_packed_depthwise_layers_compute_what_the_golden_model_does(network: Network, batch: int, dtype: str) -> None:
    tolerance = 2e-5 if dtype == "float32" else 4e-2
    plan = assert_right(network, ROWS, batch, dtype, tolerance=tolerance)
    event(f"{packed_nodes(plan.graph)} packed")


def expansion(side: int = 64) -> Network:
    """Return the beginning of a depthwise-separable network."""
    layers = (
        conv("stem", 3, 32, 3, stride=(2, 2)),
        Conv2d("each", 32, 32, (3, 3), (1, 1, 1, 1), 1, "relu", groups=32),
        Conv2d("project", 32, 16, (1, 1)),
        Conv2d("expand", 16, 96, (1, 1), activation="relu"),
        Pool("mean", "average", (side, side), (1, 1)),
        Flatten("flat"),
        Dense("dense", 96, 4),
    )
    return Network("n", picture(3, 2 * side, 2 * side), layers, labels(4))


def test_a_depthwise_layer_of_32_channels_takes_two_rows_of_taps_for_four() -> None:
    graph = pack_rows(graph_of(expansion()))
    each, project, expand = (convolution_of(graph, name) for name in ("each", "project", "expand"))
    assert (each.kernel, each.groups, each.shape) == ((2, 3), 1, (128, 16, 64))
    assert (project.kernel, project.shape, project.row_fold) == ((1, 1), (64, 16, 64), RowFold(4))
    assert (expand.kernel, expand.shape, expand.rows_at_once) == ((1, 1), (96, 64, 64), 4)


@pytest.mark.parametrize(("rows", "channels"), [(8, 64), (128, 65)])
def test_small_images_and_odd_numbers_of_channels_stay_as_they_are(rows: int, channels: int) -> None:
    graph = graph_of(block(rows, channels))
    assert convolution_of(pack_rows(graph), "a").kernel == (3, 3)


@pytest.mark.parametrize("network", [block(64), expansion(32)], ids=["residual", "depthwise"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_packed_rows_are_quicker(network: Network, dtype: str) -> None:
    """There are fewer rows of taps, and all rows and columns of the Tensor Engine are used."""
    packed, plain = (nanoseconds(decided(network, each, dtype=dtype), dtype) for each in (ROWS, Decisions()))
    assert packed < plain


def test_rows_of_a_value_in_groups_have_numbers_for_each_row() -> None:
    before = graph_of(block(128))
    graph = pack_rows(before)
    (node,), (single,) = nodes_of(graph, "a"), nodes_of(before, "a")
    assert node.operation.row_fold.count == 2
    np.testing.assert_array_equal(node.numbers[0], np.tile(single.numbers[0], 2))
    assert has_packed_rows(graph) and not has_packed_rows(before)
    assert [each.shown for each in nodes_of(graph, "a")] == [single.shown]  # tables show the layer's own shapes


@pytest.mark.parametrize(("channels", "more"), [(16, 48), (32, 64), (48, 96), (64, 128)])
@pytest.mark.parametrize("batch", [1, 2, 3, 4, 7, 16])
def test_a_residual_behind_a_depthwise_layer(channels: int, more: int, batch: int) -> None:
    """In StarNet's block, the sum is packed only if both operands are."""
    layers: list[Layer] = [
        conv("stem", 3, channels, 3, inputs=("input",)),
        conv("d", channels, channels, 7, groups=channels),
        conv("f", channels, more, 1, inputs=("d",)),
        conv("h", channels, more, 1, inputs=("d",)),
        Combine("m", "multiply", inputs=("f", "h")),
        conv("g", more, channels, 1),
        Conv2d("q", channels, channels, (7, 7), (3, 3, 3, 3), 1, groups=channels),
        Combine("r", "add", inputs=("stem", "q")),
        Pool("mean", "average", (13, 12), (13, 12)),
        Flatten("flat"),
        Dense("dense", channels, 5),
    ]
    network = Network("n", picture(3, 13, 12), tuple(layers), labels(5))
    for expansions in (True, False):
        assert_right(
            network, applicable(network, decide(packs_rows=True, pack_depthwise_expansions=expansions), batch), batch
        )
