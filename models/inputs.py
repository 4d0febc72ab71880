"""The input of a network: its shape, and how a picture is converted to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .checks import (
    INPUT,
    MAX_CHANNELS,
    MAX_FEATURES,
    MAX_SIDE,
    Shape,
    check_choice,
    check_numbers,
    check_range,
)
from .errors import ModelError

PREPROCESSING = ("digit", "photo", "none")
LAYOUTS = ("CHW", "HWC", "HW", "CW")
CHANNEL_ORDERS = ("rgb", "bgr")


@dataclass(frozen=True)
class ImageInput:
    """An image [channels, height, width], and how a picture is converted to it.

    `preprocess` names the conversion (see `preprocess.py`; "none": only arrays are accepted, no pictures); its result,
    in 0..1, is then (value - mean) / std by channel; a std below 0 turns light into dark. `resize` is for "photo"
    alone: the shorter side of the picture, in pixels, before height x width are cut from its centre. `channel_order`
    is that of the colours, of a photo of three channels. `layout` is the order of axes of one example in a file of
    arrays made for the network as it was trained: "HWC" has the channels last, "HW" no axis for the one channel, "CW"
    none for the one row. The layers always read [channels, height, width].
    """

    channels: int
    height: int
    width: int
    preprocess: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    resize: int = 0
    layout: str = "CHW"
    channel_order: str = "rgb"

    kind: ClassVar[str] = "image"

    def __post_init__(self) -> None:
        check_range(INPUT, "channels", self.channels, 1, MAX_CHANNELS)
        check_range(INPUT, "height", self.height, 1, MAX_SIDE)
        check_range(INPUT, "width", self.width, 1, MAX_SIDE)
        check_choice(INPUT, "preprocess", self.preprocess, PREPROCESSING)
        check_choice(INPUT, "layout", self.layout, LAYOUTS)
        check_choice(INPUT, "channel_order", self.channel_order, CHANNEL_ORDERS)
        check_numbers(INPUT, "mean", self.mean, self.channels)
        check_numbers(INPUT, "std", self.std, self.channels)
        if 0 in self.std:
            raise ModelError(f"input: std is {self.std}, but none may be 0")
        if (self.layout == "HW" and self.channels != 1) or (self.layout == "CW" and self.height != 1):
            raise ModelError(f"input: layout {self.layout} leaves out an axis of {self.shape} that is not 1")
        self._check_picture()

    def _check_picture(self) -> None:
        if self.channel_order == "bgr" and (self.preprocess != "photo" or self.channels != 3):
            raise ModelError("input: channel_order bgr is for photos of three channels")
        if self.preprocess != "photo":
            check_range(INPUT, "resize", self.resize, 0, 0)
            return
        check_range(INPUT, "resize", self.resize, max(self.height, self.width), MAX_SIDE)
        if self.channels not in (1, 3):
            raise ModelError(f"input: channels is {self.channels}; a photo has 3, red, green and blue, or 1, grey")

    @property
    def shape(self) -> Shape:
        """(C, H, W)."""
        return (self.channels, self.height, self.width)

    @property
    def array_shape(self) -> Shape:
        """The shape of one example in a file of arrays, in the order of `layout`."""
        sizes = dict(zip("CHW", self.shape))
        return tuple(sizes[axis] for axis in self.layout)


@dataclass(frozen=True)
class FeatureInput:
    """A row of numbers, used as it is."""

    features: int

    kind: ClassVar[str] = "features"

    def __post_init__(self) -> None:
        check_range(INPUT, "features", self.features, 1, MAX_FEATURES)

    @property
    def shape(self) -> Shape:
        """(F,)."""
        return (self.features,)


Input = ImageInput | FeatureInput
INPUT_KINDS: dict[str, type[Input]] = {kind.kind: kind for kind in (ImageInput, FeatureInput)}
