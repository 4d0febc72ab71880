"""Layers that only reorder channels or do nothing: their operations in a launch, and that answers stay the same."""

import pytest
from lowered import applicable, assert_right, decide, graph_of, kinds_of
from random_networks import conv, ending_in_dense, labels, picture
from trninfer.kernels.program import Load, Rearrange
from trninfer.lowering.decisions import Decisions
from trninfer.lowering.graph.graph import Unsupported
from trninfer.lowering.passes.pack_rows import has_packed_rows
from trninfer.models.inputs import FeatureInput, ImageInput
from trninfer.models.layers import (
    Activation,
    Affine,
    ChannelShuffle,
    ChannelSlice,
    Combine,
    Concat,
    Dense,
    Flatten,
    Layer,
    Pool,
    Reshape,
)
from trninfer.models.network import Network
from trninfer.models.outputs import Output

VALUES = Output("values")


@pytest.mark.parametrize(("half", "size", "is_split"), [(32, 3, True), (64, 3, True), (65, 3, False), (32, 1, False)])
def test_a_slice_whose_rows_may_be_packed_is_computed_alone(half: int, size: int, is_split: bool) -> None:
    """As in YOLO's stages: a convolution reads one half, and the concatenation contains both."""
    layers = [
        conv("both", 3, 2 * half, 3),
        ChannelSlice("left", 0, half, inputs=("both",)),
        ChannelSlice("right", half, 2 * half, inputs=("both",)),
        conv("a", half, half, size, inputs=("right",)),
        Concat("all", inputs=("left", "right", "a")),
        conv("b", 3 * half, 8, 1),
    ]
    network = ending_in_dense((3, 16, 6), layers)
    assert (len([node for node in graph_of(network).nodes if node.name == "both"]) == 2) == is_split
    plan = assert_right(network, decide(packs_rows=True), 2)
    assert has_packed_rows(plan.graph) == is_split


@pytest.mark.parametrize("half", [1, 12, 65])
def test_a_unit_of_shufflenet_has_its_convolutions_alone(half: int) -> None:
    whole = 2 * half
    layers: list[Layer] = [conv("stem", 3, whole, 3)]
    before = "stem"
    for n in range(3):
        layers += [
            ChannelSlice(f"left{n}", 0, half, inputs=(before,)),
            ChannelSlice(f"right{n}", half, whole, inputs=(before,)),
            conv(f"a{n}", half, half, 1, inputs=(f"right{n}",)),
            conv(f"b{n}", half, half, 3, groups=half),
            conv(f"c{n}", half, half, 1),
            Concat(f"cat{n}", inputs=(f"left{n}", f"c{n}")),
            ChannelShuffle(f"shuffle{n}", 2),
        ]
        before = f"shuffle{n}"
    kinds = kinds_of(layers, 3)
    assert set(kinds) <= {"conv2d", "average_pool", "dense"} and kinds.count("conv2d") == 10


@pytest.mark.parametrize("sizes", [(90, 90), (33, 70, 129), (1, 64, 64), (140, 3, 20, 7)])
def test_a_convolution_computes_its_slices_apart(sizes: tuple[int, ...]) -> None:
    """As in MixConv: slices of an expansion, each with depthwise filters of a different size."""
    layers: list[Layer] = [conv("expand", 3, sum(sizes), 1)]
    first = 0
    for n, size in enumerate(sizes):
        layers.append(ChannelSlice(f"slice{n}", first, first + size, inputs=("expand",)))
        layers.append(conv(f"own{n}", size, size, 3 + 2 * n, groups=size, inputs=(f"slice{n}",)))
        first += size
    layers.append(Concat("all", inputs=tuple(f"own{n}" for n in range(len(sizes)))))
    kinds = kinds_of(layers, 3)
    assert set(kinds) <= {"conv2d", "average_pool", "dense"}
    assert kinds.count("conv2d") == 2 * len(sizes)


def test_both_halves_of_a_convolution_are_multiplied() -> None:
    """As in gated units."""
    layers: list[Layer] = [
        conv("both", 3, 150, 1),
        ChannelSlice("value", 0, 75, inputs=("both",)),
        ChannelSlice("gate", 75, 150, inputs=("both",)),
        Activation("bent", "sigmoid", inputs=("gate",)),
        Combine("gated", "multiply", inputs=("value", "bent")),
    ]
    assert kinds_of(layers, 3).count("conv2d") == 2


def test_the_input_may_be_joined_and_sliced() -> None:
    layers: list[Layer] = [
        ChannelSlice("one", 1, 2, inputs=("input",)),
        conv("a", 1, 3, 3),
        Concat("all", inputs=("input", "a", "one")),
        conv("b", 7, 6, 3),
    ]
    kinds_of(layers, 3)


def test_a_channel_that_is_read_twice() -> None:
    layers: list[Layer] = [
        conv("a", 3, 4, 3),
        ChannelSlice("some", 1, 3),
        Concat("twice", inputs=("some", "a")),
        conv("b", 6, 5, 1, inputs=("twice",)),
        Affine("c", (6,), "tanh", inputs=("twice",)),
        Concat("all", inputs=("b", "c")),
    ]
    assert kinds_of(layers, 3)[:3] == ["conv2d", "conv2d", "affine"]


def test_features_in_slices() -> None:
    layers = (Dense("a", 20, 30, "relu"), ChannelSlice("some", 7, 29), Dense("b", 22, 5))
    assert_right(Network("n", FeatureInput(20), layers, labels(5)), Decisions(), 3)


@pytest.mark.parametrize("side", [6, 30])  # below 128 numbers, and 2 * 2,700, more than can be rearranged in SBUF
@pytest.mark.parametrize("batch", [1, 7])
def test_inputs_of_several_are_cut_apart_in_hbm(side: int, batch: int) -> None:
    """Two pictures and a row of features in one row of numbers: separating them needs no matmul and no load."""
    numbers, rest = 3 * side * side, 4
    layers: list[Layer] = [
        ChannelSlice("one", 0, numbers, inputs=("input",)),
        Reshape("left", (3, side, side)),
        conv("a", 3, 5, 3),
        Pool("b", "average", (side, side), (1, 1)),
        Flatten("c"),
        ChannelSlice("two", numbers, 2 * numbers, inputs=("input",)),
        Reshape("right", (3, side, side)),
        conv("d", 3, 5, 3),
        Pool("e", "max", (side, side), (1, 1)),
        Flatten("f"),
        ChannelSlice("row", 2 * numbers, 2 * numbers + rest, inputs=("input",)),
        Concat("all", inputs=("c", "f", "row")),
        Dense("dense", 10 + rest, 4),
    ]
    network = Network("n", FeatureInput(2 * numbers + rest), tuple(layers), labels(4))
    moves = [node.operation for node in graph_of(network).nodes if isinstance(node.operation, Rearrange)]
    assert sorted(move.first for move in moves) == [
        0,
        numbers,
        2 * numbers,
    ]
    for target, dtype in (("trn1", "bfloat16"), ("trn2", "float32"), ("trn3", "float16")):
        plan = assert_right(network, Decisions(), batch, dtype, target=target)
        assert not any(isinstance(operation, Load) for operation in plan.program.operations)


@pytest.mark.parametrize(("first", "last", "fits"), [(60, 150, True), (10, 150, False)])
def test_slices_of_a_flattened_image(first: int, last: int, fits: bool) -> None:
    """Whole channels of the image become a slice of channels; part of a channel has no location of its own."""
    layers = (conv("a", 3, 6, 3), Flatten("flat"), ChannelSlice("some", first, last), Dense("b", last - first, 5))
    network = Network("n", picture(3, 6), layers, labels(5))
    if fits:
        assert_right(network, Decisions(), 2)
    else:
        with pytest.raises(Unsupported, match="layer 'some' \\(channel_slice\\) crops an image's rows"):
            graph_of(network)


def test_a_gate_of_dense_layers_is_no_other_launch() -> None:
    """The original form of squeeze and excite: features become an image of one pixel again."""
    kinds = kinds_of(
        [
            conv("a", 3, 12, 3),
            Pool("squeeze", "average", (6, 5), (6, 5)),
            Flatten("flatten"),
            Dense("less", 12, 3, "relu"),
            Dense("more", 3, 12, "sigmoid"),
            Reshape("gate", (12, 1, 1)),
            Combine("b", "multiply", inputs=("a", "gate")),
        ],
        3,
    )
    assert kinds == ["conv2d", "average_pool", "dense", "dense", "combine", "average_pool", "dense"]


def test_an_image_in_other_sizes_goes_through_hbm() -> None:
    layers = (conv("a", 3, 4, 1), Reshape("b", (6, 4, 5)), conv("c", 6, 4, 1), Flatten("flat"), Dense("dense", 80, 4))
    network = Network("n", picture(3, 6), layers, labels(4))
    assert any(isinstance(node.operation, Rearrange) for node in graph_of(network).nodes)
    for batch, packed in ((1, 1), (5, 4)):
        assert_right(network, decide(packed=packed), batch)


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 7, 16])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_flattened_images_beside_others_are_one_launch(batch: int, dtype: str) -> None:
    """Images of two sizes and a row of features."""
    layers: list[Layer] = [
        conv("a", 3, 4, 3, inputs=("input",)),
        Flatten("fa"),
        Pool("b", "max", (2, 1), (2, 1), inputs=("input",)),
        Flatten("fb"),
        Pool("c", "average", (6, 5), (6, 5), inputs=("input",)),
        Flatten("fc"),
        Concat("all", inputs=("fa", "fb", "fc")),
        Dense("dense", 4 * 30 + 45 + 3, 4),
    ]
    for packed in (1, 2):
        network = Network("n", picture(3, 6), tuple(layers), labels(4))
        assert_right(network, applicable(network, decide(packed=packed), batch), batch, dtype)


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 7, 16])
@pytest.mark.parametrize(("channels", "rows", "columns"), [((5, 3), 6, 5), ((130, 7, 40), 3, 3), ((1, 1), 1, 7)])
def test_parts_are_reshaped_as_one(channels: tuple[int, ...], rows: int, columns: int, batch: int) -> None:
    """The levels of a detector's head, concatenated and split into different axes."""
    names = [f"part{n}" for n in range(len(channels))]
    total = sum(channels) * rows * columns
    layers: list[Layer] = [
        *(conv(name, 3, count, 1, inputs=("input",)) for name, count in zip(names, channels)),
        Concat("all", inputs=tuple(names)),
        Reshape("other", (total // columns, 1, columns)),
        Activation("last", "tanh"),
        Flatten("flat"),
    ]
    network = Network("n", ImageInput(3, rows, columns, "none", (0.0,) * 3, (1.0,) * 3), tuple(layers), (), VALUES)
    assert_right(network, Decisions(), batch)


@pytest.mark.parametrize("batch", [1, 3])
def test_more_channels_than_a_convolution_lays_out_go_through_hbm(batch: int) -> None:
    """Shuffled runs of 2,100 channels from three parts, then all of them in rows of different lengths."""
    layers: list[Layer] = [
        conv("a", 3, 1500, 1, inputs=("input",)),
        conv("b", 3, 500, 1, inputs=("input",)),
        conv("c", 3, 100, 1, inputs=("input",)),
        ChannelSlice("upper", 700, 1500, inputs=("a",)),
        ChannelSlice("lower", 0, 700, inputs=("a",)),
        Concat("all", inputs=("upper", "c", "lower", "b")),
        Reshape("other", (2100 * 3, 1, 2)),
        Activation("last", "tanh"),
        Flatten("flat"),
    ]
    network = Network("n", ImageInput(3, 2, 3, "none", (0.0,) * 3, (1.0,) * 3), tuple(layers), (), VALUES)
    for dtype in ("float32", "bfloat16"):
        assert_right(network, Decisions(), batch, dtype)


@pytest.mark.parametrize(("shape", "margins"), [((9, 1, 20), 1), ((9, 5, 4), 3), ((9, 2, 10), 1)])
def test_pixels_of_other_rows_are_copied_on_the_chip(shape: tuple[int, int, int], margins: int) -> None:
    """Also from a value that has zeros around it for another reader."""
    layers: list[Layer] = [
        conv("a", 3, 9, 3),
        conv("b", 9, 9, 3),
        Reshape("r", shape, inputs=("b",)),
        conv("c", 9, 4, margins, inputs=("r",)),
        Reshape("back", (4, 4, 5), inputs=("c",)),
        conv("d", 9, 4, 3, inputs=("b",)),
        Concat("both", inputs=("back", "d")),
    ]
    network = ending_in_dense((3, 4, 5), layers)
    assert not any(isinstance(node.operation, Rearrange) for node in graph_of(network).nodes)
    for batch in (1, 3):
        assert_right(network, Decisions(), batch)
