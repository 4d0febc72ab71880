"""The two ends of a network: what goes in and how a picture becomes it, and what the numbers that come out mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .checks import (
    INPUT,
    MAX_CHANNELS,
    MAX_FEATURES,
    MAX_SIDE,
    ModelError,
    Shape,
    check_choice,
    check_numbers,
    check_range,
)

PREPROCESSING = ("digit", "photo", "none")
LAYOUTS = ("CHW", "HWC", "HW", "CW")
CHANNEL_ORDERS = ("rgb", "bgr")
OUTPUT_KINDS = ("classes", "sigmoid", "values")
CLASS_SCORES = ("raw", "softmax", "log_softmax")


@dataclass(frozen=True)
class ImageInput:
    """An image [channels, height, width] and how a picture becomes it.

    `preprocess` names the way (see `preprocess.py`; "none": no picture becomes it, only arrays do); its result, in
    0..1, is then (value - mean) / std by channel; a std below 0 turns light into dark. `resize` is for "photo" alone:
    the shorter side of the picture, in pixels, before height x width are cut from its middle. `channel_order` is that
    of the colours, of a photo of three channels. `layout` is how an array of one example lies in a file made for the
    network as it was trained: "HWC" has the channels last, "HW" no axis for the one channel, "CW" none for the one
    row. The layers always read [channels, height, width].
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
        """The shape of one example in a file of arrays, as `layout` has it."""
        sizes = dict(zip("CHW", self.shape))
        return tuple(sizes[axis] for axis in self.layout)


@dataclass(frozen=True)
class FeatureInput:
    """A row of numbers, used as it comes."""

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


@dataclass(frozen=True)
class Output:
    """What the last layer's numbers mean.

    "classes": one of several; `scores` says whether they are raw scores, probabilities (softmax) or their logarithms.
    "sigmoid": independent probabilities, one for each label, or a single one. "values": numbers that stand for
    themselves, such as a regression's or an embedding.

    Of classes, `none` may name the label that says that the input is none of the others.
    """

    kind: str = "classes"
    scores: str = ""
    none: str = ""

    def __post_init__(self) -> None:
        check_choice("output", "kind", self.kind, OUTPUT_KINDS)
        check_choice("output", "scores", self.scores, CLASS_SCORES if self.kind == "classes" else ("",))
