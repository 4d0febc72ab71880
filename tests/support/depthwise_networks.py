"""Small networks of depthwise convolutions."""

from __future__ import annotations

from random_networks import model_of, picture
from trninfer.models.files import Model
from trninfer.models.layers import Combine, Conv2d, Dense, Flatten, Layer, Pool
from trninfer.models.network import Network
from trninfer.models.outputs import Output

Activation = tuple[str, tuple[float, ...]]


def depthwise_filters(channels: int = 70, side: int = 11) -> Model:
    """Return a stem, depthwise filters of two sizes, global average pooling and a dense layer."""
    layers: list[Layer] = [
        Conv2d("stem", 3, channels, (3, 3), (1, 1, 1, 1), 1, "relu"),
        Conv2d("each", channels, channels, (5, 5), (2, 2, 2, 2), 1, "silu", groups=channels),
        Conv2d("again", channels, channels, (3, 3), (1, 1, 1, 1), 1, "relu", groups=channels),
        Pool("mean", "average", (side, side), (1, 1)),
        Flatten("flat"),
        Dense("dense", channels, 7),
    ]
    return model_of(Network("depthwise", picture(3, side, side), tuple(layers), (), Output("values")))


def bounded(side: int = 9, activation: Activation = ("clip", (0.0, 6.0))) -> Model:
    """Return a stem, two inverted residual blocks with two tiles of channels, of 3x3 and 5x5, and a dense layer."""
    name, parameters = activation
    layers: list[Layer] = [Conv2d("stem", 3, 24, (3, 3), (1, 1, 1, 1), 1, "relu")]
    for n, kernel in enumerate((3, 5)):
        before, around = layers[-1].name, (kernel // 2,) * 4
        layers += [
            Conv2d(f"expand{n}", 24, 160, (1, 1), activation=name, activation_parameters=parameters),
            Conv2d(
                f"each{n}",
                *(160, 160, (kernel, kernel), around, 1, name),
                groups=160,
                activation_parameters=parameters,
            ),
            Conv2d(f"project{n}", 160, 24, (3, 3), (1, 1, 1, 1)),
            Combine(f"sum{n}", "add", inputs=(f"project{n}", before)),
        ]
    layers += [Pool("mean", "average", (side, side), (1, 1)), Flatten("flat"), Dense("dense", 24, 7)]
    return model_of(Network("bounded", picture(3, side, side), tuple(layers), (), Output("values")))


def made_diagonals(channels: int = 300, side: int = 8) -> Model:
    """Return a depthwise layer with 7x7 filters and three tiles of channels, global average pooling and a dense
    layer."""
    layers: list[Layer] = [
        Conv2d("stem", 3, channels, (1, 1), activation="relu"),
        Conv2d("each", channels, channels, (7, 7), (3, 3, 3, 3), 1, "relu", groups=channels),
        Pool("mean", "average", (side, side), (1, 1)),
        Flatten("flat"),
        Dense("dense", channels, 7),
    ]
    return model_of(Network("made", picture(3, side, side), tuple(layers), (), Output("values")))


def expansions(side: int = 16) -> Model:
    """Return a stem, two inverted residual blocks, the second with a gate, global average pooling and a dense layer."""
    layers: list[Layer] = [Conv2d("stem", 3, 32, (3, 3), (1, 1, 1, 1), 1, "relu")]
    for n, wide in enumerate((70, 96)):
        before = layers[-1].name
        layers += [
            Conv2d(f"expand{n}", 32, wide, (1, 1), activation="relu"),
            Conv2d(f"each{n}", wide, wide, (3, 3), (1, 1, 1, 1), 1, "silu", groups=wide),
        ]
        if n:
            layers += [
                Pool(f"mean{n}", "average", (side, side), (1, 1)),
                Conv2d(f"gate{n}", wide, wide, (1, 1), activation="sigmoid"),
                Combine(f"gated{n}", "multiply", inputs=(f"each{n}", f"gate{n}")),
            ]
        layers += [Conv2d(f"project{n}", wide, 32, (1, 1)), Combine(f"sum{n}", "add", inputs=(f"project{n}", before))]
    layers += [Pool("mean", "average", (side, side), (1, 1)), Flatten("flat"), Dense("dense", 32, 7)]
    return model_of(Network("expansions", picture(3, side, side), tuple(layers), (), Output("values")))
