"""Random small networks with every kind of layer that the launch of a whole network supports."""

import numpy as np
from hypothesis import reject
from hypothesis import strategies as st
from trninfer.models.checks import Shape
from trninfer.models.errors import ModelError
from trninfer.models.files import Model
from trninfer.models.inputs import ImageInput
from trninfer.models.layers import (
    Activation,
    Affine,
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
    Pool,
    PRelu,
    RowSoftmax,
    Softmax,
)
from trninfer.models.network import Network
from trninfer.models.outputs import NamedOutput, Output

KINDS = [
    "combine",
    "gate",
    "concat",
    "pool",
    "affine",
    "activation",
    "slice",
    "shuffle",
    "prelu",
    "layer_norm",
    "group_norm",
    "channel_softmax",
    "row_softmax",
]
ACTIVATIONS = ["identity", "relu", "gelu", "sigmoid", "tanh", "silu", "hardswish"]


@st.composite
def chains(draw: st.DrawFn) -> Network:
    """Draw convolutions and pools of all kinds, followed by dense layers."""
    channels = draw(st.sampled_from([1, 2, 3, 5, 16, 130]))
    side = draw(st.sampled_from([1, 3, 8, 13]))
    shape = (channels, side, draw(st.sampled_from([side, side + 2])))
    image = ImageInput(*shape, "none", (0.0,) * channels, (1.0,) * channels)
    layers: list[Layer] = []
    for number in range(draw(st.integers(0, 4))):
        layer: Layer
        if draw(st.integers(0, 3)):
            kernel = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
            layer = Conv2d(
                f"l{number}",
                shape[0],
                draw(st.sampled_from([1, 4, 16, 33, 64, 128, 140])),
                kernel,
                draw(st.tuples(*[st.integers(0, 2)] * 4)),
                draw(st.sampled_from([1, 1, 2])),
                draw(st.sampled_from(ACTIVATIONS)),
                stride=draw(st.sampled_from([(1, 1), (1, 1), (2, 1), (2, 2)])),
                dilation=draw(st.sampled_from([(1, 1), (1, 1), (2, 1)])),
            )
        else:
            window = draw(st.sampled_from([(2, 2), (3, 3), (1, 2), shape[1:]]))
            padding = draw(st.sampled_from([(0, 0, 0, 0), (0, 0, 0, 0), (1, 1, 1, 1)]))
            padding = padding if min(window) > 1 else (0, 0, 0, 0)
            method = draw(st.sampled_from(["max", "average"]))
            ceil_mode = draw(st.booleans())
            stride = draw(st.sampled_from([(2, 2), (1, 1)]))
            dilation = draw(st.sampled_from([(1, 1), (1, 1), (2, 1), (2, 3)]))
            layer = Pool(f"l{number}", method, window, stride, padding, ceil_mode, dilation=dilation)
        try:
            shape = layer.output_shape(shape)  # type: ignore[assignment]
        except ValueError:
            continue
        layers.append(layer)
    layers.append(Flatten("flat"))
    features = int(np.prod(shape))
    for number in range(draw(st.integers(0, 2)) + (features > 60)):
        outputs = draw(st.sampled_from([1, 3, 10, 129]))
        layers.append(Dense(f"d{number}", features, outputs, draw(st.sampled_from(ACTIVATIONS))))
        features = outputs
    if draw(st.booleans()):
        layers.append(Softmax("softmax", log=draw(st.booleans())))
    return Network("n", image, tuple(layers), labels(features))


def model_of(network: Network) -> Model:
    """Return random weights that keep numbers near 1."""
    rng = np.random.default_rng(3)
    tensors = {
        name: (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]) if len(shape) == 4 else shape[0])).astype("f4")
        for name, shape in network.tensor_shapes().items()
    }
    return Model(network, tensors, {})


def labels(count: int) -> tuple[str, ...]:
    """Return the given number of class names, so that the network is a classifier."""
    return tuple(f"class {number}" for number in range(count))


@st.composite
def graphs(draw: st.DrawFn) -> Network:
    """Draw layers that read any earlier ones: sums, gates, concatenations, groups, slices, shuffles."""
    shapes: dict[str, Shape] = {
        "input": (draw(st.sampled_from([1, 4, 24, 64, 130])), draw(st.sampled_from([1, 5, 9])), 6)
    }
    image = ImageInput(*shapes["input"], "none", (0.0,) * shapes["input"][0], (1.0,) * shapes["input"][0])  # type: ignore[misc]
    layers: list[Layer] = []
    for number in range(draw(st.integers(1, 7))):
        layer = _of_graph(draw, f"l{number}", shapes)
        layers.append(layer)
        shapes[layer.name] = layer.output_shape(*[shapes[name] for name in layer.inputs])
    used = {name for layer in layers for name in layer.inputs}
    loose = [layer.name for layer in layers if layer.name not in used]
    means = []
    for name in loose:  # all unread values are combined at the end
        layers.append(Pool(f"mean {name}", "average", shapes[name][1:], (1, 1), inputs=(name,)))  # type: ignore[arg-type]
        means.append(f"mean {name}")
    layers.append(Concat("all", inputs=tuple(means)))
    layers.append(Flatten("flat"))
    outputs = draw(st.sampled_from([2, 10]))
    layers.append(Dense("dense", sum(shapes[name][0] for name in loose), outputs))
    if draw(st.booleans()):
        layers.append(Softmax("softmax", log=draw(st.booleans())))
    return Network("n", image, tuple(layers), labels(outputs))


def _of_graph(draw: st.DrawFn, name: str, shapes: dict[str, Shape]) -> Layer:
    """Add a layer that reads some of the existing ones; kinds that do not fit become a convolution."""
    read = draw(st.sampled_from(sorted(shapes)))
    shape = shapes[read]
    alike = sorted(other for other, its in shapes.items() if its == shape)
    gates = sorted(other for other, its in shapes.items() if its == (shape[0], 1, 1))
    beside = sorted(other for other, its in shapes.items() if its[1:] == shape[1:])
    activation = draw(st.sampled_from(ACTIVATIONS))
    kind = draw(st.sampled_from(["conv2d", "conv2d", "conv2d", *KINDS]))
    if kind == "combine":
        operation = draw(st.sampled_from(["add", "add", "multiply", "maximum"]))
        return Combine(name, operation, activation, inputs=(read, draw(st.sampled_from(alike))))
    if kind == "gate" and gates:
        return Combine(name, "multiply", activation, inputs=(read, draw(st.sampled_from(gates))))
    if kind == "concat" and beside and sum(shapes[other][0] for other in beside) < 400:
        return Concat(name, inputs=tuple(draw(st.lists(st.sampled_from(beside), min_size=1, max_size=3))))
    if kind == "pool":
        method = draw(st.sampled_from(["max", "average"]))
        window = draw(st.sampled_from([(1, 1), (min(2, shape[1]), min(2, shape[2])), shape[1:]]))
        return Pool(name, method, window, draw(st.sampled_from([(1, 1), (2, 2)])), inputs=(read,))  # type: ignore[arg-type]
    if kind == "affine":
        return Affine(name, draw(st.sampled_from([shape[:1], shape])), activation, inputs=(read,))
    if kind == "prelu":
        return PRelu(name, shape[0], inputs=(read,))
    if kind == "layer_norm":
        return LayerNorm(name, shape[0], draw(st.sampled_from([1e-5, 0.1])), inputs=(read,))
    if kind == "group_norm":
        groups = draw(st.sampled_from([count for count in (1, 2, 5, 13, shape[0]) if shape[0] % count == 0]))
        return GroupNorm(name, shape[0], groups, draw(st.sampled_from([1e-5, 0.1])), inputs=(read,))
    if kind == "channel_softmax":
        length = draw(st.sampled_from([count for count in (2, 3, 4, 13, shape[0]) if shape[0] % count == 0]))
        inner = draw(st.sampled_from([1, shape[0] // length]))
        return ChannelSoftmax(name, length, inner, log=draw(st.booleans()), inputs=(read,))
    if kind == "row_softmax":
        return RowSoftmax(name, log=draw(st.booleans()), inputs=(read,))
    if kind == "activation":
        return Activation(name, activation, inputs=(read,))
    if kind == "slice":
        first = draw(st.integers(0, shape[0] - 1))
        return ChannelSlice(name, first, draw(st.integers(first + 1, shape[0])), inputs=(read,))
    if kind == "shuffle":
        groups = draw(st.sampled_from([count for count in (2, 3, 4, shape[0]) if shape[0] % count == 0]))
        return ChannelShuffle(name, groups, inputs=(read,))
    groups = draw(st.sampled_from([count for count in (1, 1, 2, 4, 13, shape[0]) if shape[0] % count == 0]))
    outputs = draw(st.sampled_from([shape[0], groups * draw(st.sampled_from([1, 3, 8]))]))
    size = draw(st.sampled_from([1, 3]))
    padding = (1, 1, 1, 1) if size == 3 else (0, 0, 0, 0)
    stride = draw(st.sampled_from([(1, 1), (1, 1), (2, 2)]))
    return Conv2d(name, shape[0], outputs, (size, size), padding, 1, activation, stride, groups=groups, inputs=(read,))


def picture(channels: int, rows: int, columns: int = 5) -> ImageInput:
    return ImageInput(channels, rows, columns, "none", (0.0,) * channels, (1.0,) * channels)


def conv(name: str, before: int, after: int, size: int, **fields: object) -> Conv2d:
    padding = fields.pop("padding", (size // 2, min(size, 3) // 2) * 2)
    return Conv2d(name, before, after, (size, min(size, 3)), padding, activation="relu", **fields)  # type: ignore[arg-type]


def stage_of_yolo(channels: int) -> list[Layer]:
    """Return a stem, parts of a few `channels` that are added and stacked, and a convolution of 64 channels."""
    return [
        conv("stem", 3, 2 * channels, 3),
        Conv2d("a", 2 * channels, channels, (1, 1), activation="silu", inputs=("stem",)),
        Conv2d("b", 2 * channels, channels, (1, 1), activation="silu", inputs=("stem",)),
        Conv2d("c", channels, channels, (3, 3), (1, 1, 1, 1), activation="silu", inputs=("b",)),
        Combine("d", "add", inputs=("c", "b")),
        Concat("all", inputs=("a", "b", "d")),
        conv("wide", 3 * channels, 64, 1),
    ]


@st.composite
def few_channels(draw: st.DrawFn) -> Network:
    """Draw a stem, then convolutions, residual blocks and pools with 64 or 32 channels, then more channels, optionally
    in a sum, and a mean."""
    image = picture(
        draw(st.sampled_from([1, 3, 48])), draw(st.sampled_from([33, 34, 39])), draw(st.sampled_from([5, 8]))
    )
    channels = draw(st.sampled_from([64, 64, 64, 32]))
    stride = draw(st.sampled_from([(1, 1), (2, 2)]))
    size = draw(st.sampled_from([1, 3, 7]))
    padding = draw(st.sampled_from([(size // 2,) * 4, (size // 2, 1, size // 2 + 1, 1)]))
    layers: list[Layer] = [conv("stem", image.channels, channels, size, stride=stride, padding=padding)]
    for number in range(draw(st.integers(1, 3))):
        before, name = layers[-1].name, f"l{number}"
        kind = draw(st.sampled_from(["conv", "conv", "sum", "pool"]))
        size = draw(st.sampled_from([1, 2, 3]))
        if kind == "conv":
            pool = draw(st.sampled_from([1, 1, 2]))
            layers.append(conv(name, channels, channels, size, pool_size=pool, padding=(1, 1, 1, 1)))
        elif kind == "pool":
            window = draw(st.sampled_from([2, 3]))
            layers.append(Pool(name, "max", (window, window), (2, 2), (window // 2,) * 4))
        else:
            layers.append(conv(f"{name}a", channels, channels, 3))
            layers.append(Conv2d(f"{name}b", channels, channels, (3, 3), (1, 1, 1, 1)))
            layers.append(Combine(name, "add", "relu", inputs=(f"{name}b", before)))
    wide, narrow = draw(st.sampled_from([20, 128, 256])), layers[-1].name
    stride, size, is_sum = draw(st.sampled_from([(1, 1), (2, 2)])), draw(st.sampled_from([1, 3])), draw(st.booleans())
    layers.append(conv("sum" if is_sum else "wide", channels, wide, size, stride=stride))
    if is_sum:
        layers.append(Conv2d("beside", channels, wide, (1, 1), stride=stride, inputs=(narrow,)))
        layers.append(Combine("wide", "add", "relu", inputs=("beside", "sum")))
    shapes: dict[str, tuple[int, ...]] = {"input": image.shape}
    for layer, before in zip(layers, ["input", *(layer.name for layer in layers)]):
        try:
            shapes[layer.name] = layer.output_shape(*[shapes[name] for name in layer.inputs or (before,)])
        except ModelError:  # few columns become empty
            reject()
    layers += [Pool("mean", "average", shapes["wide"][1:], (1, 1)), Flatten("flat"), Dense("dense", wide, 4)]  # type: ignore[arg-type]
    return Network("n", image, tuple(layers), labels(4))


def residual(channels: int = 40, side: int = 12, blocks: int = 3) -> Model:
    """Return a stem, residual blocks, global average pooling and a dense layer."""
    layers: list[Layer] = [Conv2d("stem", 3, channels, (3, 3), (1, 1, 1, 1), 1, "relu")]
    before = "stem"
    for n in range(blocks):
        layers.append(Conv2d(f"a{n}", channels, channels, (3, 3), (1, 1, 1, 1), 1, "relu", inputs=(before,)))
        layers.append(Conv2d(f"b{n}", channels, channels, (3, 3), (1, 1, 1, 1)))
        layers.append(Combine(f"sum{n}", "add", "relu", inputs=(f"b{n}", before)))
        before = f"sum{n}"
    layers += [Pool("mean", "average", (side, side), (1, 1)), Flatten("flat"), Dense("dense", channels, 7)]
    image = ImageInput(3, side, side, "none", (0.0,) * 3, (1.0,) * 3)
    return model_of(Network("residual", image, tuple(layers), (), Output("values")))


KINDS_OF_LAYERS = ("shuffle", "prelu", "elements", "dilated", "layer_norm", "group_norm", "instance_norm")


@st.composite
def joined_channels(draw: st.DrawFn) -> Network:
    """Draw two concatenated layers with few channels, then layers of all kinds that keep the positions of the
    channels."""
    first, second = draw(st.sampled_from([1, 4, 12, 24])), draw(st.sampled_from([3, 8, 30]))
    channels = first + second
    layers: list[Layer] = [
        conv("a", 3, first, 3, inputs=("input",)),
        conv("b", first, second, draw(st.sampled_from([1, 3]))),
        Concat("both", inputs=draw(st.sampled_from([("a", "b"), ("b", "a")]))),
    ]
    kinds = ["affine", "elements", "prelu", "pool", "activation", "shuffle", "layer_norm", "group_norm", "sum", "again"]
    for number in range(draw(st.integers(1, 3))):
        kind, name, before = draw(st.sampled_from(kinds)), f"l{number}", layers[-1].name
        if kind == "sum":
            layers.append(Combine(name, "multiply", "tanh", inputs=(before, "both")))
        elif kind == "again":
            layers += [conv(f"{name} conv", channels, 5, 3), conv(f"{name} back", 5, first, 1)]
            layers += [
                ChannelSlice(f"{name} part", 0, second, inputs=(before,)),
                Concat(name, inputs=(f"{name} part", f"{name} back")),
            ]
        else:
            made = {
                "affine": Affine(name, (channels,), "relu"),
                "elements": Affine(name, (channels, 6, 5), "sigmoid"),
                "prelu": PRelu(name, channels),
                "pool": Pool(name, "max", (3, 3), (1, 1), (1, 1, 1, 1)),
                "activation": Activation(name, "gelu"),
                "shuffle": ChannelShuffle(name, next(n for n in range(2, channels + 1) if channels % n == 0)),
                "layer_norm": LayerNorm(name, channels),
                "group_norm": GroupNorm(name, channels, 1),
            }
            layers.append(made[kind])
    layers.append(conv("wide", channels, draw(st.sampled_from([4, 40])), 3))
    layers += [Pool("mean", "average", (6, 5), (1, 1)), Flatten("flat"), Dense("dense", layers[-1].out_channels, 4)]  # type: ignore[attr-defined]
    return Network("n", picture(3, 6), tuple(layers), labels(4))


def of_kind(kind: str, channels: int = 24) -> Model:
    """Return a stem, two layers of one kind with a convolution between them, global average pooling and a dense
    layer."""
    image = picture(3, 12, 12)
    layers: list[Layer] = [conv("stem", 3, channels, 3)]
    for n in range(2):
        before = layers[-1].name
        layers += _of_kind(kind, f"{kind}{n}", channels, (before,))
        layers.append(conv(f"conv{n}", channels, channels, 3))
    side = 12 if kind != "dilated" else 4
    layers += [Pool("mean", "average", (side, side), (1, 1)), Flatten("flat"), Dense("dense", channels, 7)]
    return model_of(Network(kind, image, tuple(layers), labels(7)))


def _of_kind(kind: str, name: str, channels: int, inputs: tuple[str, ...]) -> list[Layer]:
    if kind == "prelu":
        return [PRelu(name, channels, inputs=inputs)]
    if kind == "layer_norm":
        return [LayerNorm(name, channels, 1e-6, inputs=inputs)]
    if kind in ("group_norm", "instance_norm"):
        return [GroupNorm(name, channels, 4 if kind == "group_norm" else channels, inputs=inputs)]
    if kind == "elements":
        return [Affine(name, (channels, 12, 12), "relu", inputs=inputs)]
    if kind == "dilated":
        return [Pool(name, "max", (3, 3), (1, 1), dilation=(2, 2), inputs=inputs)]
    half = channels // 2
    return [
        ChannelSlice(f"{name} left", 0, half, inputs=inputs),
        ChannelSlice(f"{name} right", half, channels, inputs=inputs),
        conv(f"{name} conv", half, half, 3, groups=half),
        Concat(f"{name} all", inputs=(f"{name} left", f"{name} conv")),
        ChannelShuffle(name, 2),
    ]


def ending_in_dense(shape: tuple[int, int, int], layers: list[Layer]) -> Network:
    """Return the given layers, followed by a dense layer."""
    given: dict[str, Shape] = {"input": shape}
    before = "input"
    for layer in layers:
        given[layer.name] = layer.output_shape(*[given[name] for name in layer.inputs or (before,)])
        before = layer.name
    dense = Dense("dense", int(np.prod(given[before])), 5)
    return Network("n", picture(*shape), (*layers, Flatten("flat"), dense), labels(5))


@st.composite
def two_of_few_channels(draw: st.DrawFn) -> Network:
    """Draw two convolutions with few channels, of any size, stride and padding with a non-empty result."""
    shape = (draw(st.integers(1, 4)), draw(st.sampled_from([1, 2, 7, 18, 33])), draw(st.sampled_from([1, 3, 16, 31])))
    layers: list[Layer] = []
    before = shape
    for number in range(2):
        layer = Conv2d(
            f"l{number}",
            before[0],
            draw(st.sampled_from([3, 8, 32, 33, 48])),
            draw(st.tuples(st.integers(1, 5), st.integers(1, 5))),
            draw(st.tuples(*[st.integers(0, 3)] * 4)),
            draw(st.sampled_from([1, 2])),
            "relu",
            stride=draw(st.tuples(st.integers(1, 3), st.integers(1, 3))),
            dilation=draw(st.tuples(st.integers(1, 2), st.integers(1, 2))),
        )
        try:
            before = layer.output_shape(before)  # type: ignore[assignment]
        except ValueError:
            continue
        layers.append(layer)
    if not layers:
        layers = [Conv2d("l", shape[0], 3, (1, 1))]
    return ending_in_dense(shape, layers)


@st.composite
def with_outputs(draw: st.DrawFn, networks: st.SearchStrategy[Network]) -> Network:
    """Draw networks that also return the values of up to two other layers."""
    network = draw(networks)
    shapes = network.shapes()
    inner = [layer.name for layer in network.layers[:-1] if not isinstance(layer, Softmax)]
    chosen = draw(st.sets(st.sampled_from(inner), max_size=2)) if inner else set()
    layers: list[Layer] = []
    others: list[NamedOutput] = []
    for layer in network.layers:
        layers.append(layer)
        if layer.name in chosen:
            name = layer.name
            if len(shapes[name]) > 1 or draw(st.booleans()):
                name = f"{layer.name} flat"
                layers.append(Flatten(name, inputs=(layer.name,)))
            others.append(NamedOutput(name, name, (int(np.prod(shapes[layer.name])),), Output("values")))
    return Network(network.name, network.input, tuple(layers), network.labels, network.output, tuple(others))
