"""Predicted time as a function of picture size: exceeding SBUF costs no more than the additional computation."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from random_networks import labels, model_of, picture
from trninfer.models.checks import INPUT, Shape
from trninfer.models.layers import Combine, Concat, Conv2d, Dense, Flatten, Layer, Pool
from trninfer.models.network import Network
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend

USUAL = 224
# Larger and smaller sides: in `plain`, rows of the few channels fill the partitions if the group size divides the rows
# that its pools read.
SIZES = {"plain": ((225, 240), (96,))}
MORE = 1.3  # relative to the time per pixel at the usual size


class Builder:
    """Layers of a network on square pictures of `side` pixels; `shape` is the shape of the last layer."""

    def __init__(self, side: int) -> None:
        self.image = picture(3, side, side)
        self.layers: list[Layer] = []
        self.shapes: dict[str, Shape] = {INPUT: self.image.shape}
        self.last = INPUT

    @property
    def shape(self) -> Shape:
        return self.shapes[self.last]

    def add(self, make: Callable[[str], Layer]) -> str:
        """Append the layer that `make` returns for a name; it reads the named layers, or the last one."""
        layer = make(f"n{len(self.layers)}")
        self.shapes[layer.name] = layer.output_shape(*[self.shapes[name] for name in layer.inputs or (self.last,)])
        self.layers.append(layer)
        self.last = layer.name
        return layer.name

    def conv(
        self,
        channels: int,
        kernel: int = 3,
        stride: int = 1,
        *,
        groups: int = 1,
        activation: str = "relu",
        before: str = "",
    ) -> str:
        """Append a convolution of the last value or `before`, which preserves the size except for its stride."""
        return self.add(
            lambda name: Conv2d(
                name,
                self.shapes[before or self.last][0],
                channels,
                (kernel, kernel),
                (kernel // 2,) * 4,
                stride=(stride, stride),
                groups=groups,
                activation=activation,
                inputs=(before,) if before else (),
            )
        )

    def pool(self) -> str:
        """Append 2x2 max pooling."""
        return self.add(lambda name: Pool(name, "max", (2, 2), (2, 2)))

    def mean(self) -> str:
        """Append global average pooling."""
        return self.add(lambda name: Pool(name, "average", self.shape[1:], (1, 1)))  # type: ignore[arg-type]

    def add_to(self, before: str) -> str:
        """Append the sum of the last value and an earlier one."""
        own = self.last
        return self.add(lambda name: Combine(name, "add", "relu", inputs=(own, before)))

    def network(self) -> Network:
        """Return the layers, followed by global average pooling and a dense layer."""
        self.mean()
        channels = self.shape[0]
        self.add(Flatten)
        self.add(lambda name: Dense(name, channels, 10))
        return Network("n", self.image, tuple(self.layers), labels(10))


def plain(build: Builder) -> None:
    """As VGG."""
    for channels in (16, 32, 64):
        build.conv(channels)
        build.conv(channels)
        build.pool()


def residual(build: Builder) -> None:
    """As ResNet."""
    before = build.conv(64, 7, 2)
    build.pool()
    for channels, stride in ((64, 1), (128, 2)):
        before = build.conv(channels, 1, stride, activation="identity")
        build.conv(channels)
        build.conv(channels, activation="identity")
        build.add_to(before)


def inverted(build: Builder) -> None:
    """As MobileNetV2."""
    build.conv(32, 3, 2)
    for channels, stride in ((24, 2), (24, 1), (40, 2)):
        before, inputs = build.last, build.shape[0]
        build.conv(6 * inputs, 1)
        build.conv(6 * inputs, 3, stride, groups=6 * inputs)
        build.conv(channels, 1, activation="identity")
        if build.shape == build.shapes[before]:
            build.add_to(before)


def gated(build: Builder) -> None:
    """As EfficientNet."""
    build.conv(32, 3, 2, activation="silu")
    for channels, stride, times in ((16, 1, 1), (24, 2, 6), (24, 1, 6)):
        wide = times * build.shape[0]
        if times > 1:
            build.conv(wide, 1, activation="silu")
        each = build.conv(wide, 3, stride, groups=wide, activation="silu")
        build.mean()
        build.conv(8, 1)
        gate = build.conv(wide, 1, activation="sigmoid")
        build.add(lambda name, of=(each, gate): Combine(name, "multiply", inputs=of))
        build.conv(channels, 1, activation="identity")


def concatenated(build: Builder) -> None:
    """As SqueezeNet."""
    build.conv(64, 3, 2)
    build.pool()
    for channels in (64, 128):
        squeezed = build.conv(16, 1)
        wide = build.conv(channels)
        narrow = build.conv(channels, 1, before=squeezed)
        build.add(lambda name, of=(narrow, wide): Concat(name, inputs=of))
        build.pool()


FAMILIES = {each.__name__: each for each in (plain, residual, inverted, gated, concatenated)}
SLOW = ("inverted",)  # the others are run manually


def predicted(family: str, side: int) -> float:
    """Return the predicted time of one picture in bfloat16 on trn2, in microseconds."""
    build = Builder(side)
    FAMILIES[family](build)
    session = Session(model_of(build.network()), SimulatedBackend("trn2"), "bfloat16", 1)
    note = session.launches_note or ""
    assert not note or "at most" in note or "faster than one launch" in note  # planning has not failed
    return session.time(1).total_us


@pytest.mark.parametrize(
    "family",
    [pytest.param(name, marks=getattr(pytest.mark, "slow" if name in SLOW else "by_hand")) for name in FAMILIES],
)
def test_time_for_each_pixel_does_not_rise_with_the_size_nor_time_for_smaller_pictures(family: str) -> None:
    usual = predicted(family, USUAL)
    most = MORE * usual / USUAL**2
    larger, smaller = SIZES.get(family, ((225, 512), (97,)))
    times = {side: predicted(family, side) / side**2 for side in larger}
    assert {side: time for side, time in times.items() if time > most} == {}
    assert max(predicted(family, side) for side in smaller) <= usual
