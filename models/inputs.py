"""The inputs of a network: shapes, and the conversion of pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from .checks import (
    INPUT,
    MAX_CHANNELS,
    MAX_FEATURES,
    MAX_SIDE,
    Shape,
    check_choice,
    check_numbers,
    check_printable,
    check_range,
)
from .errors import ModelError
from .json_fields import build, described, fields_of, typed

PREPROCESSING = ("digit", "photo", "none")
LAYOUTS = ("CHW", "HWC", "HW", "CW")
CHANNEL_ORDERS = ("rgb", "bgr")
RESIZE_MODES = ("crop", "squash", "pad")
# "linear" is OpenCV's bilinear filter, without antialiasing
FILTERS = ("nearest", "bilinear", "bicubic", "lanczos", "linear")
PAD_PLACES = ("centre", "corner")
MAX_INPUTS = 16


@dataclass(frozen=True)
class ImageInput:
    """An image [channels, height, width], and how a picture is converted to it.

    `preprocess` names the conversion (see `preprocess.py`; "none": only arrays are accepted, no pictures); its result,
    in 0..1, is then (value - mean) / std by channel; a negative std inverts light and dark. `resize`, `resize_mode` and
    `filter` are for "photo" alone: `crop` makes the shorter side of the picture `resize` pixels long, `squash` both
    sides `resize` where the network's image is a square (in proportion where it is not), before height x width are cut
    from the centre; `pad` fits the whole picture into height x width (a letterbox), in the centre or in the upper left
    corner by `pad_place`, with grey of `pad_colour` (0 black, 255 white) around it. `channel_order` is that of the
    colours, of a photo of three channels. `layout` is the order of axes of one example in a file of arrays made for the
    network as it was trained: "HWC" puts channels last, "HW" omits the axis of a single channel, "CW" that of a single
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
    resize_mode: str = field(default="crop", metadata={"late": True})
    filter: str = field(default="bilinear", metadata={"late": True})
    pad_colour: int = field(default=0, metadata={"late": True})
    pad_place: str = field(default="centre", metadata={"late": True})

    kind: ClassVar[str] = "image"

    def __post_init__(self) -> None:
        check_range(INPUT, "channels", self.channels, 1, MAX_CHANNELS)
        check_range(INPUT, "height", self.height, 1, MAX_SIDE)
        check_range(INPUT, "width", self.width, 1, MAX_SIDE)
        check_choice(INPUT, "preprocess", self.preprocess, PREPROCESSING)
        check_choice(INPUT, "layout", self.layout, LAYOUTS)
        check_choice(INPUT, "channel_order", self.channel_order, CHANNEL_ORDERS)
        check_choice(INPUT, "resize_mode", self.resize_mode, RESIZE_MODES)
        check_choice(INPUT, "filter", self.filter, FILTERS)
        check_choice(INPUT, "pad_place", self.pad_place, PAD_PLACES)
        check_range(INPUT, "pad_colour", self.pad_colour, 0, 255)
        check_numbers(INPUT, "mean", self.mean, self.channels)
        check_numbers(INPUT, "std", self.std, self.channels)
        if 0 in self.std:
            raise ModelError(f"input: std is {self.std}, but none may be 0")
        if (self.layout == "HW" and self.channels != 1) or (self.layout == "CW" and self.height != 1):
            raise ModelError(f"input: layout {self.layout} leaves out an axis of {self.shape} that is not 1")
        self._check_picture()

    def _check_picture(self) -> None:
        if self.resize_mode != "pad" and (self.pad_colour, self.pad_place) != (0, "centre"):
            raise ModelError("input: pad_colour and pad_place are for resize_mode pad")
        if self.channel_order == "bgr" and (self.preprocess != "photo" or self.channels != 3):
            raise ModelError("input: channel_order bgr is for photos of three channels")
        if self.preprocess != "photo":
            check_range(INPUT, "resize", self.resize, 0, 0)
            check_choice(INPUT, "resize_mode", self.resize_mode, ("crop",))
            check_choice(INPUT, "filter", self.filter, ("bilinear",))
            return
        check_range(INPUT, "resize", self.resize, max(self.height, self.width), MAX_SIDE)
        if self.channels not in (1, 3):
            raise ModelError(f"input: channels is {self.channels}; a photo has 3, red, green and blue, or 1, grey")

    @property
    def shape(self) -> Shape:
        """(F,), the total size of all inputs."""
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


PartInput = ImageInput | FeatureInput
INPUT_KINDS: dict[str, type[PartInput]] = {kind.kind: kind for kind in (ImageInput, FeatureInput)}


@dataclass(frozen=True)
class NamedInput:
    """One of several inputs: its name in the original file, and its description."""

    name: str
    input: PartInput

    def __post_init__(self) -> None:
        check_printable("input name", self.name)


@dataclass(frozen=True)
class SeveralInputs:
    """Several inputs by name. Layers read them as one row of numbers: each input flattened, one after another."""

    parts: tuple[NamedInput, ...]

    kind: ClassVar[str] = "several"

    def __post_init__(self) -> None:
        check_range(INPUT, "parts", len(self.parts), 2, MAX_INPUTS)
        names = [part.name for part in self.parts]
        if len(set(names)) < len(names):
            raise ModelError(f"input: the names {', '.join(map(repr, names[:8]))} are not all different")
        check_range(INPUT, "numbers of all parts", self.shape[0], 1, MAX_FEATURES)

    @property
    def shape(self) -> Shape:
        """(F,), the numbers of all inputs."""
        return (sum(math.prod(part.input.shape) for part in self.parts),)

    def span(self, name: str) -> tuple[int, int]:
        """Return (first, last + 1) of one input's numbers."""
        first = 0
        for part in self.parts:
            last = first + math.prod(part.input.shape)
            if part.name == name:
                return first, last
            first = last
        raise KeyError(name)

    def pack(self, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return rows [B, F] from a batch of each input, [B, *shape] by name."""
        return np.concatenate([arrays[part.name].reshape(len(arrays[part.name]), -1) for part in self.parts], axis=1)

    def unpack(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return the batch of each input by name from rows [B, F]."""
        spans = {part.name: self.span(part.name) for part in self.parts}
        return {
            part.name: rows[:, slice(*spans[part.name])].reshape(len(rows), *part.input.shape) for part in self.parts
        }


Input = ImageInput | FeatureInput | SeveralInputs


def read_input(data: Any) -> Input:
    """Build an input from its JSON object; ModelError for unknown or missing fields and kinds."""
    if not isinstance(data, dict) or data.get("kind") != SeveralInputs.kind:
        return build(INPUT_KINDS, INPUT, data)
    parts = fields_of(INPUT, data, ("kind", "parts"))["parts"]
    if not isinstance(parts, list):
        raise ModelError("input: parts must be a list")
    named = []
    for number, part in enumerate(parts, start=1):
        where = f"input number {number}"
        fields = fields_of(where, part, ("name", "input"))
        named.append(NamedInput(typed(where, "name", fields["name"], str), build(INPUT_KINDS, where, fields["input"])))
    return SeveralInputs(tuple(named))


def describe_input(spec: Input) -> dict[str, Any]:
    """Return the JSON object of an input, as `read_input` reads it."""
    if not isinstance(spec, SeveralInputs):
        return described(spec)
    parts = [{"name": part.name, "input": described(part.input)} for part in spec.parts]
    return {"kind": spec.kind, "parts": parts}
