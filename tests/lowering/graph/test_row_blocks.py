"""Depthwise convolutions in row blocks: which ones are eligible, and that the results are the same."""

import itertools
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from lowered import ALL, answers, assert_right, convolution_of, decide, decided, nanoseconds, nodes_of, planned
from onnx_chain import Chain, ends
from random_networks import conv, labels, model_of, picture
from trninfer.kernels.convolution.forms import DEPTHWISE, ROW_BLOCKS, Form
from trninfer.kernels.program import Convolution
from trninfer.lowering.decisions import Decisions
from trninfer.lowering.describe import forms_by_layer
from trninfer.lowering.emission.schedule import Region
from trninfer.lowering.emission.weights import loads_of
from trninfer.lowering.graph.row_blocks import multiplied
from trninfer.lowering.passes.choose_forms import MOST_MULTIPLIED
from trninfer.models import ImageInput, Model
from trninfer.models.layers import Combine, Conv2d, Dense, Flatten, Layer, Pool, Transpose
from trninfer.models.network import Network


def wherever(form: Form) -> Decisions:
    """Return decisions that set a form for every eligible convolution."""
    return decide(forms=tuple((number, form.value, 0) for number in ALL))


def depthwise(channels: int, side: tuple[int, int], **fields: Any) -> Network:
    """Return an expansion, a depthwise convolution, global average pooling and a dense layer."""
    image = picture(3, *side)
    k = fields.pop("kernel_size", (3, 3))
    padding = fields.pop("padding", (k[0] // 2, k[1] // 2) * 2)
    layers: list[Layer] = [
        Conv2d("expand", 3, channels, (1, 1), activation="relu"),
        Conv2d("depthwise", channels, channels, k, padding, groups=channels, **fields),
        conv("project", channels, 8, 1),
    ]
    shape = image.shape
    for layer in layers:
        shape = layer.output_shape(shape)  # type: ignore[assignment]
    layers += [Pool("mean", "average", shape[1:], (1, 1)), Flatten("flat"), Dense("dense", shape[0], 4)]  # type: ignore[arg-type]
    return Network("n", image, tuple(layers), labels(4))


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Draw depthwise convolutions of all sizes on images with odd and even sides."""
    sides = st.integers(5, 19)
    kernel = draw(st.sampled_from([(3, 3), (5, 5), (7, 7), (3, 1), (5, 3)]))
    stride = draw(st.sampled_from([(1, 1), (2, 2), (2, 1), (3, 2)]))
    dilation = draw(st.sampled_from([(1, 1), (1, 1), (2, 1), (2, 2)]))
    reach = tuple((size - 1) * apart + 1 for size, apart in zip(kernel, dilation, strict=True))
    sides_of = tuple(draw(st.integers(0, size)) for size in reach)
    padding = (*sides_of, *(max(0, size - 3 - side) for size, side in zip(reach, sides_of, strict=True)))
    return depthwise(
        draw(st.sampled_from([3, 16, 31, 32, 33, 64, 96, 129, 150, 200])),
        (draw(sides), draw(sides)),
        kernel_size=kernel,
        stride=stride,
        dilation=dilation,
        padding=padding,
        activation=draw(st.sampled_from(["identity", "relu", "silu"])),
    )


@settings(max_examples=25, deadline=None)
@given(networks(), st.sampled_from(DEPTHWISE), st.sampled_from(["float32", "bfloat16", "float16"]), st.integers(1, 3))
def test_forms_of_depthwise_filters_compute_the_same(network: Network, form: Form, dtype: str, batch: int) -> None:
    assert_right(network, wherever(form), batch, dtype, forms=DEPTHWISE)


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 7, 16])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(("side", "size", "stride"), [((3, 3), 5, 1), ((6, 5), 3, 2), ((4, 5), 7, 1)])
def test_products_of_small_images(batch: int, dtype: str, side: tuple[int, int], size: int, stride: int) -> None:
    """Few weights are loaded, and the Tensor Engine multiplies nothing."""
    fields = {"kernel_size": (size, size), "padding": (size // 2,) * 4, "stride": (stride, stride)}
    network = depthwise(300, side, **fields, activation="silu")
    plan = assert_right(network, wherever(Form.PRODUCTS), batch, dtype, forms=DEPTHWISE)
    nodes = nodes_of(plan.graph, "depthwise")
    assert all(node.convolution.form is Form.PRODUCTS for node in nodes)
    pairs = math.prod(side) * math.prod(nodes[0].operation.shape[1:])
    assert sum(load.numbers for node in nodes for load in loads_of(plan.graph, node)) == 300 * pairs


@st.composite
def on_small_images(draw: st.DrawFn, sides: tuple[int, int], largest: int) -> Network:
    """Draw a depthwise filter of any size, padding, stride and dilation, often larger than its image."""
    side = draw(st.integers(*sides)), draw(st.integers(*sides))
    size = draw(st.integers(1, largest)), draw(st.integers(1, largest))
    dilation = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    spans = [(count - 1) * apart + 1 for count, apart in zip(size, dilation)]
    padding = tuple(draw(st.integers(max(0, span - extent), span - 1)) for span, extent in zip(spans * 2, side * 2))
    fields = {"kernel_size": size, "padding": padding, "dilation": dilation}
    stride = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    activation = draw(st.sampled_from(["identity", "relu", "silu"]))
    return depthwise(draw(st.sampled_from([5, 130, 260])), side, **fields, stride=stride, activation=activation)


@settings(max_examples=40, deadline=None)
@given(
    st.one_of(
        st.tuples(st.just(Form.PRODUCTS), on_small_images((1, 6), 9)),
        st.tuples(st.just(Form.ROW_PRODUCTS), on_small_images((6, 12), 4)),
    ),
    st.sampled_from(["float32", "bfloat16", "float16"]),
    st.sampled_from([1, 2, 3, 4, 7, 16]),
)
def test_products_of_small_images_compute_the_same(drawn: tuple[Form, Network], dtype: str, batch: int) -> None:
    """The golden model agrees with ONNX Runtime on the import, and the launch with the golden model."""
    form, network = drawn
    image, layer = network.input, network.layers[1]
    assert isinstance(image, ImageInput) and isinstance(layer, Conv2d)
    channels, side = layer.out_channels, image.shape[1:]
    outputs = layer.output_shape((channels, *side))[1:]
    by_pixels, by_rows = math.prod(side) * math.prod(outputs), math.prod(layer.kernel_size) * math.prod(outputs)
    if form is Form.PRODUCTS:
        assume(by_pixels <= MOST_MULTIPLIED and (dtype != "float32" or 2 * by_rows > by_pixels))
    else:
        assume(by_rows <= min(MOST_MULTIPLIED, by_pixels // 2) and by_pixels > MOST_MULTIPLIED)
    chain = Chain(*image.shape)
    chain.conv((3, channels), (1, 1))
    chain.add("Relu")
    filters, bias = chain.weight(channels, 1, *layer.kernel_size), chain.weight(channels)
    fields = {"pads": layer.padding, "strides": layer.stride, "dilations": layer.dilation, "group": channels}
    chain.add("Conv", filters, bias, **fields)
    if layer.activation == "silu":
        before = chain.value
        chain.add("Mul", chain.add("Sigmoid"), first=before)
    chain.conv((channels, 8), (1, 1))
    chain.add("GlobalAveragePool")
    with tempfile.TemporaryDirectory() as folder:
        imported = ends(chain, 8, Path(folder))
    model = Model(imported.network, imported.tensors, {})
    plan = assert_right(model, wherever(form), batch, dtype, forms=DEPTHWISE)
    assert any(getattr(node.operation, "form", None) is form for node in plan.graph.nodes)


@pytest.mark.parametrize(("form", "dtype"), [(Form.PRODUCTS, "bfloat16"), (Form.ROW_PRODUCTS, "float32")])
def test_products_ignore_the_copies_of_another_reader(form: Form, dtype: str) -> None:
    """The other convolution reads two rows of its input at once: the value, and its copy on the other partitions."""
    layers: list[Layer] = [
        Conv2d("expand", 3, 64, (1, 1), activation="relu"),
        Conv2d("depthwise", 64, 64, (3, 3), (1, 1, 1, 1), groups=64, inputs=("expand",)),
        Conv2d("project", 64, 64, (1, 1)),
        Conv2d("other", 64, 64, (3, 3), (1, 1, 1, 1), inputs=("expand",)),
        Combine("sum", "add", inputs=("project", "other")),
        Pool("mean", "average", (6, 6), (1, 1)),
        Flatten("flat"),
        Dense("dense", 64, 4),
    ]
    network = Network("n", picture(3, 6, 6), tuple(layers), labels(4))
    ways = decide(forms=[(number, form.value, 0) for number in ALL], copied=ALL)
    plan = assert_right(network, ways, 1, dtype, forms=DEPTHWISE)
    assert nodes_of(plan.graph, "expand")[0].operation.copies.count == 2
    assert convolution_of(plan.graph, "depthwise").form is form


@pytest.mark.parametrize("size", [3, 5, 7])
def test_small_images_are_multiplied_elementwise_where_that_is_quicker(size: int) -> None:
    network = depthwise(300, (3, 3), kernel_size=(size, size))
    products, direct = (
        decided(network, each, 1, "bfloat16", DEPTHWISE) for each in (wherever(Form.PRODUCTS), Decisions())
    )
    assert convolution_of(products.graph, "depthwise").form is Form.PRODUCTS
    assert nanoseconds(products, "bfloat16") < nanoseconds(direct, "bfloat16")
    large = decided(depthwise(128, (20, 20), kernel_size=(5, 5)), wherever(Form.PRODUCTS), 1, "bfloat16", DEPTHWISE)
    assert convolution_of(large.graph, "depthwise").form is Form.DIRECT


@pytest.mark.parametrize(("target", "dtype"), [("trn1", "float32"), ("trn2", "bfloat16"), ("trn3", "float16")])
@pytest.mark.parametrize("at_once", [1, 2])
def test_diagonals_that_are_made_are_those_that_are_loaded(target: str, dtype: str, at_once: int) -> None:
    """One of three tiles is loaded; two engines compute the others."""
    network = depthwise(450, (9, 8), kernel_size=(7, 7), activation="relu")
    plan = assert_right(network, wherever(Form.MADE), 3, dtype, target=target, forms=DEPTHWISE, at_once=at_once)
    (node,) = nodes_of(plan.graph, "depthwise")
    assert node.operation.form is Form.MADE  # type: ignore[attr-defined]
    loaded = sum(load.rows * load.elements for load in loads_of(plan.graph, node))
    assert loaded == 49 * (128 * 128 + 128 + 128 + 66 * 66)
    x = np.random.default_rng(1).standard_normal((3, 3, 9, 8)).astype(np.float32)
    direct = decided(network, Decisions(), 3, dtype, DEPTHWISE, at_once)
    model = model_of(network)
    np.testing.assert_array_equal(*(answers(model, each, x, dtype, target) for each in (plan, direct)))


def test_bands_of_rows_compute_the_same() -> None:
    network = depthwise(40, (40, 21), kernel_size=(5, 5), activation="relu")
    for form, end in itertools.product(ROW_BLOCKS, (2, 3)):
        decisions = wherever(form).having(*decide(regions=[Region(0, end, 3)]).choices)
        plan = assert_right(network, decisions, dtype="bfloat16", forms=ROW_BLOCKS)
        assert convolution_of(plan.graph, "depthwise").form is form


def test_phases_of_a_pixel_shuffle_may_be_in_groups_of_rows() -> None:
    """Each phase writes every other row and column of the same value."""
    layers: list[Layer] = [
        Conv2d("expand", 3, 70, (1, 1)),
        Conv2d("phases", 70, 280, (5, 5), (2, 2, 2, 2), groups=70),
        Transpose("shuffle", (70, 2, 2, 9, 8), (0, 3, 1, 4, 2), (70, 18, 16)),
        Pool("mean", "average", (18, 16), (1, 1)),
        Flatten("flat"),
        Dense("dense", 70, 4),
    ]
    network = Network("n", picture(3, 9, 8), tuple(layers), labels(4))
    for form in ROW_BLOCKS:
        plan = assert_right(network, wherever(form), 2, forms=ROW_BLOCKS)
        phases = [node.operation for node in nodes_of(plan.graph, "phases")]
        assert [phase.form for phase in phases if isinstance(phase, Convolution)] == [form] * 4


def test_a_plan_takes_them_where_they_are_predicted_to_be_quicker() -> None:
    """7x7 filters save most of their matmuls; on other targets and dtypes, the answers are correct with either
    choice."""
    network = depthwise(96, (28, 28), kernel_size=(7, 7))
    direct, grouped = (planned(network, dtype="bfloat16", forms=forms) for forms in ((), ROW_BLOCKS))
    assert convolution_of(grouped.graph, "depthwise").form in ROW_BLOCKS
    assert grouped.nanoseconds < 0.8 * direct.nanoseconds
    assert forms_by_layer(grouped.graph)["depthwise"] == convolution_of(grouped.graph, "depthwise").form.value


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_they_are_right_on_every_target(target: str) -> None:
    network = depthwise(150, (13, 9), kernel_size=(5, 5), stride=(1, 2))
    for form in ROW_BLOCKS:
        plan = assert_right(network, wherever(form), 3, "bfloat16", target=target, forms=ROW_BLOCKS)
        assert {node.operation.form for node in nodes_of(plan.graph, "depthwise")} == {form}  # type: ignore[attr-defined]


def test_only_depthwise_convolutions_within_sbuf_take_them() -> None:
    image = picture(40, 12, 12)
    layers: list[Layer] = [
        Conv2d("first", 40, 40, (3, 3), (1, 1, 1, 1), groups=40),  # from HBM
        Conv2d("grouped", 40, 40, (3, 3), (1, 1, 1, 1), groups=20),
        Conv2d("pooled", 40, 40, (3, 3), (1, 1, 1, 1), 2, groups=40),
        Conv2d("each", 40, 40, (3, 3), (1, 1, 1, 1), groups=40),
        Flatten("flat"),
        Dense("dense", 40 * 36, 4),
    ]
    plan = decided(Network("n", image, tuple(layers), labels(4)), wherever(Form.ROWS_4), forms=ROW_BLOCKS)
    forms = {name: convolution_of(plan.graph, name).form for name in ("first", "grouped", "pooled", "each")}
    assert forms == {"first": Form.DIRECT, "grouped": Form.DIRECT, "pooled": Form.DIRECT, "each": Form.ROWS_4}


def test_weights_of_a_block_with_fewer_channels_are_zeros_beyond_them() -> None:
    network = depthwise(33, (12, 12))
    plan = decided(network, wherever(Form.ROWS_4), forms=ROW_BLOCKS)
    (node,) = nodes_of(plan.graph, "depthwise")
    changed, heights = multiplied(plan.graph, node)
    assert heights == [128, 128] and changed.filters is not None
    second = changed.filters.make()[128:].reshape(4, 32, 4, 32, 2, 3)
    assert np.count_nonzero(second[:, 1:]) == np.count_nonzero(second[:, :, :, 1:]) == 0
    assert np.count_nonzero(second) == 4 * 9
