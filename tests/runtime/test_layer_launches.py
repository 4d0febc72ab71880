"""Every kind of layer, and graphs of layers, on the kernels, compared with the golden model."""

from typing import Any, get_args

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trninfer.kernels.convolution.forms import Form
from trninfer.lowering.config import LoweringConfig
from trninfer.lowering.plan_cache import PlanCache
from trninfer.models.checks import INPUT
from trninfer.models.files import Model
from trninfer.models.golden import run_network
from trninfer.models.inputs import FeatureInput, ImageInput
from trninfer.models.layers import (
    ACTIVATION_PARAMETERS,
    LAYER_KINDS,
    MAX_AXES,
    Activation,
    Affine,
    Attention,
    ChannelShuffle,
    ChannelSlice,
    ChannelSoftmax,
    Combine,
    Concat,
    Conv2d,
    Dense,
    Flatten,
    GroupNorm,
    Layer,
    LayerNorm,
    LocalResponseNorm,
    Pad,
    PixelArgmax,
    Pool,
    PRelu,
    Reshape,
    RowSoftmax,
    Softmax,
    Transpose,
)
from trninfer.models.network import Network
from trninfer.models.outputs import NamedOutput, Output
from trninfer.runtime.backend import DTYPES
from trninfer.runtime.launch_options import LaunchOptions, Per
from trninfer.runtime.layer_launches import KernelStep, LayerStep, ProgramStep, plan_layers
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend

C, H, W = 6, 9, 7
IMAGE = ImageInput(C, H, W, "none", (0.0,) * C, (1.0,) * C)
SAME = (1, 1, 1, 1)
NUMBERS = {"clip": (-0.5, 0.5), "hardsigmoid": (0.2, 0.5), "selu": (1.67, 1.05)}


def model_of(network: Network) -> Model:
    rng = np.random.default_rng(5)
    tensors = {}
    for name, shape in network.tensor_shapes().items():
        scale = 1.0 if len(shape) == 1 else 1 / np.sqrt(np.prod(shape[1:]) if len(shape) == 4 else shape[0])
        tensors[name] = (rng.standard_normal(shape) * scale).astype(np.float32)
    return Model(network, tensors, {})


def of_image(*layers: Layer) -> Network:
    """Return layers on an image, with flattened output."""
    return Network("n", IMAGE, (*layers, Flatten("flat")), (), Output("values"))


def of_features(*layers: Layer, width: int = 20) -> Network:
    return Network("n", FeatureInput(width), layers, (), Output("values"))


def assert_as_golden(network: Network, dtype: str = "float32", count: int = 3) -> None:
    model = model_of(network)
    x = np.random.default_rng(7).standard_normal((count, *network.input.shape)).astype(np.float32)
    expected = run_network(network, model.tensors, x).probabilities
    tolerance = {"float32": 1e-5, "float16": 1e-2, "bfloat16": 6e-2}[dtype]
    # Normalizing values that nearly cancel amplifies earlier rounding errors; computing with rounded operands shows by
    # how much.
    rounded = {name: tensor.astype(DTYPES[dtype]).astype(np.float32) for name, tensor in model.tensors.items()}
    by_operands = run_network(network, rounded, x.astype(DTYPES[dtype]).astype(np.float32)).probabilities - expected
    allowed = tolerance + 2 * float(np.abs(by_operands).max(initial=0))
    for launches in get_args(Per):
        result = Session(model, SimulatedBackend("trn2"), dtype, 2, LaunchOptions(launches)).run(x)
        np.testing.assert_allclose(result.probabilities, expected, rtol=tolerance, atol=allowed)
        largest = np.full(count, -1) if network.output.kind == "values" else result.probabilities.argmax(axis=1)
        np.testing.assert_array_equal(result.classes, largest)


def conv(name: str, outputs: int = C, **fields: Any) -> Conv2d:
    return Conv2d(name, outputs and C, outputs, **{"kernel_size": (3, 3), "padding": SAME, **fields})


KINDS: dict[str, Network] = {
    "conv2d": of_image(conv("a", 8, stride=(2, 1), dilation=(1, 2), activation="relu", pool_size=2)),
    "conv2d in groups": of_image(conv("a", 9, groups=3, activation="leaky_relu", activation_parameters=(0.1,))),
    "conv2d depthwise": of_image(
        conv("a", groups=C, stride=(1, 2), activation="clip", activation_parameters=(0.0, 6.0))
    ),
    "conv2d depthwise and pool": of_image(conv("a", groups=C, pool_size=2)),
    "dense": of_features(Dense("a", 20, 30, "elu", (1.3,)), Dense("b", 30, 5)),
    "pool": of_image(Pool("a", "max", (3, 3), (2, 2), SAME), Pool("b", "average", (3, 2), (1, 2), SAME, True, False)),
    "pool of dilated windows": of_image(
        Pool("a", "max", (3, 2), (2, 1), (2, 1, 1, 0), dilation=(2, 3)),
        Pool("b", "average", (2, 2), (1, 1), dilation=(2, 1)),
    ),
    "pool with padding counted": of_image(Pool("a", "average", (3, 3), (2, 2), SAME, True, True)),
    "activation": of_image(Activation("a", "hardswish")),
    "prelu": of_image(PRelu("a", C)),
    "prelu of features": of_features(PRelu("a", 20)),
    "combine": of_image(conv("a"), Combine("b", "add", "relu", inputs=("a", INPUT))),
    "combine of two convolutions": of_image(
        conv("a"), conv("b", inputs=(INPUT,), stride=(1, 1)), Combine("c", "add", "silu", inputs=("a", "b"))
    ),
    "combine of a grouped convolution": of_image(conv("a", groups=3), Combine("b", "add", inputs=(INPUT, "a"))),
    "combine that is no sum": of_image(conv("a"), Combine("b", "subtract", inputs=(INPUT, "a"))),
    "combine of a pooled convolution": of_image(
        conv("a", pool_size=2),
        Pool("p", "max", (2, 2), (2, 2), inputs=(INPUT,)),
        Combine("b", "add", inputs=("a", "p")),
    ),
    "combine of a convolution read twice": of_image(
        conv("a"), Combine("b", "add", inputs=("a", INPUT)), Combine("c", "multiply", inputs=("a", "b"))
    ),
    "combine with a gate": of_image(
        Pool("a", "average", (H, W), (1, 1)), Combine("b", "multiply", inputs=(INPUT, "a"))
    ),
    "combine with itself": of_image(Combine("b", "multiply", inputs=(INPUT, INPUT))),
    "affine": of_image(Affine("a", (C,), "tanh")),
    "affine of elements": of_image(Affine("a", (C, H, W))),
    "affine of features": of_features(Affine("a", (20,))),
    "concat": of_image(conv("a", 4), Concat("b", inputs=("a", INPUT, "a"))),
    "concat of many": of_image(*(conv(f"c{i}", 3) for i in range(1)), Concat("b", inputs=(INPUT,) * 9 + ("c0",) * 8)),
    "concat of more than a launch reads": of_image(
        *(conv(f"c{i}", 2, inputs=(INPUT,)) for i in range(20)),
        Concat("b", inputs=(*(f"c{i}" for i in range(20)), INPUT, "c3")),
    ),
    "concat of one": of_image(Concat("b", inputs=(INPUT,))),
    "channel_slice": of_image(ChannelSlice("a", 1, 4)),
    "channel_shuffle": of_image(ChannelShuffle("a", 3)),
    "reshape": of_image(Reshape("a", (3, 2 * H, W))),
    "transpose": of_image(Transpose("a", (C, H, W), (1, 2, 0), (H, W, C))),
    "transpose of as many axes as may be": of_features(
        Transpose("a", (2,) * MAX_AXES, tuple(range(MAX_AXES))[::-1], (2**MAX_AXES,)), width=2**MAX_AXES
    ),
    "pad": of_image(Pad("a", (1, 0, -1, 2), 0.5)),
    "local_response_norm": of_image(LocalResponseNorm("a", 3, 0.1)),
    "attention": of_image(conv("c"), Attention("a", 3, 0.5, inputs=("c",) * 3)),
    "attention of rows": of_image(conv("c"), Attention("a", 1, 0.5, True, (1, H, W, W), inputs=("c",) * 3)),
    "layer_norm": of_image(LayerNorm("a", C)),
    "group_norm": of_image(GroupNorm("a", C, 3)),
    "layer_norm of features": of_features(LayerNorm("a", 20)),
    "channel_softmax": of_image(ChannelSoftmax("a", 3)),
    "row_softmax": of_image(RowSoftmax("a")),
    "pixel_argmax": Network("n", IMAGE, (conv("c"), PixelArgmax("a", C)), (), Output("values")),
    "softmax": Network("n", FeatureInput(5), (Softmax("s"),), tuple("abcde")),
    "softmax of more classes than a program takes": Network(
        "n", FeatureInput(2100), (Softmax("s"),), tuple(f"class {n}" for n in range(2100))
    ),
    "affine of many elements": Network(
        "n",
        ImageInput(1, 70, 70, "none", (0.0,), (1.0,)),
        (Affine("a", (1, 70, 70)), Flatten("f")),
        (),
        Output("values"),
    ),
    "concat of other sizes": Network(
        "n",
        IMAGE,
        (
            Pool("p", "max", (3, 3), (3, 3)),
            Flatten("a"),
            Flatten("b", inputs=(INPUT,)),
            Concat("c", inputs=("a", "b")),
        ),
        (),
        Output("values"),
    ),
    "channel_slice of rows": Network(
        "n", IMAGE, (conv("c"), Flatten("a"), ChannelSlice("s", 5, 300)), (), Output("values")
    ),
    "layer_norm of an image's numbers": of_image(conv("c"), Flatten("f"), LayerNorm("n", C * H * W)),
    "softmax's logarithm": Network("n", FeatureInput(5), (Dense("d", 5, 4), Softmax("s", log=True)), tuple("abcd")),
    "softmax after dense": Network("n", FeatureInput(5), (Dense("d", 5, 4), Softmax("s")), tuple("abcd")),
    "flatten": of_image(),
}


@pytest.mark.usefixtures("first_plans")
@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", list(KINDS))
def test_every_kind_of_layer(kind: str, dtype: str) -> None:
    assert_as_golden(KINDS[kind], dtype)


def test_no_kind_is_left_out() -> None:
    seen = {type(layer) for network in KINDS.values() for layer in network.layers}
    assert seen == set(LAYER_KINDS.values())


@pytest.mark.slow
@pytest.mark.usefixtures("first_plans")
@pytest.mark.parametrize("activation", list(ACTIVATION_PARAMETERS))
def test_every_activation_after_every_layer_that_takes_one(activation: str) -> None:
    numbers = NUMBERS.get(activation, (0.3,) * len(ACTIVATION_PARAMETERS[activation]))
    of_positive = activation in ("sqrt", "log", "reciprocal", "power")
    first = Activation("first", "abs" if of_positive else "identity")
    after = {"activation": activation, "activation_parameters": numbers}
    weighted = (conv("conv", **after), conv("depthwise", groups=C, **after), Affine("affine", (C,), **after))
    together = activation != "exp"  # the exponential of an exponential overflows
    for layers in [] if of_positive else [weighted] if together else [(layer,) for layer in weighted]:
        assert_as_golden(of_image(*layers))
    assert_as_golden(of_image(first, Activation("a", activation, numbers)))
    assert_as_golden(of_image(first, Combine("b", "add", **after, inputs=("first", "first"))))
    if not of_positive:
        assert_as_golden(of_features(Dense("d", 20, 4, **after)))


def steps_of(network: Network, dtype: str = "float32", forms: tuple[Form, ...] = ()) -> tuple[LayerStep, ...]:
    config = LoweringConfig("trn2", DTYPES[dtype].itemsize, forms, PlanCache(None))
    return plan_layers(model_of(network), DTYPES[dtype], config)


def test_steps_read_what_layers_read_and_views_launch_nothing() -> None:
    layers = (
        conv("a"),
        Reshape("view", (C, W, H)),
        Reshape("back", (C, H, W)),
        Combine("b", "add", inputs=("back", "a")),
    )
    steps = steps_of(of_image(*layers))
    assert [(step.name, step.kernel, step.reads) for step in steps] == [
        ("a.conv2d", "fused_conv2d_maxpool_packed", (INPUT,)),
        ("b.combine", "combine", ("a.conv2d", "a.conv2d")),
    ]


def test_classes_end_in_an_argmax_and_values_do_not() -> None:
    labels = tuple("abcde")
    for output, names in ((Output("classes", "raw"), labels), (Output("sigmoid"), labels), (Output("values"), ())):
        network = Network("n", FeatureInput(20), (Dense("d", 20, 5),), names, output)
        kernels = [step.kernel for step in steps_of(network)]
        assert ("argmax" in kernels) == (output.kind != "values")


def test_a_network_of_views_alone_copies_its_input() -> None:
    (step,) = steps_of(of_image())
    assert (step.name, step.reads, step.answers) == ("flat.load", (INPUT,), (0,))


def test_sums_go_into_the_convolution_that_they_alone_read() -> None:
    layers = (conv("a"), conv("b", inputs=(INPUT,)), Combine("c", "add", "relu", inputs=("a", "b")))
    steps = steps_of(of_image(*layers))
    assert [(step.name, step.kernel, step.reads) for step in steps[:2]] == [
        ("b.conv2d", "fused_conv2d_maxpool_packed", (INPUT,)),
        ("a.conv2d_add", "fused_conv2d_add_packed", (INPUT, "b.conv2d")),
    ]
    assert isinstance(steps[1], KernelStep) and steps[1].parameters["activation"] == "relu" and len(steps) == 2


def test_a_convolution_that_the_network_returns_is_not_its_sum() -> None:
    layers = (
        Dense("a", 20, 5, inputs=(INPUT,)),
        Dense("b", 20, 5, inputs=(INPUT,)),
        Combine("c", "add", inputs=("a", "b")),
        Softmax("s"),
    )
    others = (NamedOutput("raw", "c", (5,), Output("values")), NamedOutput("a", "a", (5,), Output("values")))
    network = Network("n", FeatureInput(20), layers, tuple("abcde"), others=others)
    assert sorted(answer for step in steps_of(network) for answer in step.answers) == [0, 1, 2]
    x = np.random.default_rng(7).standard_normal((3, 20)).astype(np.float32)
    model = model_of(network)
    expected = np.concatenate([each.probabilities for each in run_network(network, model.tensors, x).outputs], axis=1)
    for per in get_args(Per):
        given = Session(model, SimulatedBackend("trn2"), "float32", 2, LaunchOptions(per)).run(x).probabilities
        np.testing.assert_allclose(given, expected[:, : given.shape[1]], atol=1e-5)


def test_weights_have_the_dtype_and_biases_are_float32() -> None:
    steps = steps_of(of_image(conv("a"), conv("b", groups=C)), "bfloat16")
    dtypes = [[operand.dtype for operand in step.operands] for step in steps if isinstance(step, KernelStep)]
    assert dtypes == [[ml_dtypes.bfloat16, np.float32]] * 2


def test_forms_are_the_quickest_or_the_direct_one() -> None:
    for forms, form in (((), "direct"), ((Form.PAIRS,), "quickest")):
        (step,) = steps_of(of_image(conv("a")), forms=forms)
        assert isinstance(step, KernelStep) and step.parameters["form"] == form


@pytest.mark.parametrize("batch", [1, 3])
def test_a_program_of_a_layer_is_planned_for_each_batch(batch: int) -> None:
    (step,) = steps_of(of_image(GroupNorm("a", C, 3)))
    assert isinstance(step, ProgramStep) and (step.kernel, step.name) == ("group_norm", "a.group_norm")
    x = np.random.default_rng(7).standard_normal((batch, C, H, W)).astype(np.float32)
    backend = SimulatedBackend("trn2")
    result = step.launch(backend, [x])
    assert result.outputs[0].shape == (batch, C, H, W)
    assert step.time(backend, batch, DTYPES["float32"]).time.latency_us == result.time.latency_us > 0


@st.composite
def graphs(draw: Any) -> Network:
    """Draw layers that preserve the image's shape, each reading any earlier one, and a sum of all unread values."""
    names = [INPUT]
    layers: list[Layer] = []
    unread: list[str] = []
    for number in range(draw(st.integers(1, 5))):
        name = f"l{number}"
        source = draw(st.sampled_from(names))
        layer: Layer = draw(
            st.sampled_from(
                [
                    conv(name, inputs=(source,), activation="relu"),
                    conv(name, groups=C, inputs=(source,)),
                    Pool(name, "max", (3, 3), (1, 1), SAME, inputs=(source,)),
                    LayerNorm(name, C, inputs=(source,)),
                    Combine(name, "subtract", "tanh", inputs=(source, draw(st.sampled_from(names)))),
                ]
            )
        )
        layers.append(layer)
        unread = [other for other in (*unread, name) if other not in layer.inputs]
        names.append(name)
    for number, name in enumerate(unread[:-1]):
        layers.append(Combine(f"sum{number}", "add", inputs=(layers[-1].name if number else unread[-1], name)))
    return of_image(*layers)


@pytest.mark.slow
@settings(max_examples=15)
@given(graphs(), st.sampled_from(["float32", "float16"]))
def test_any_graph(network: Network, dtype: str) -> None:
    assert_as_golden(network, dtype)
