"""The inputs of a network: their shapes, and parameters for the conversion of pictures."""

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
    """An image [channels, height, width], and the conversion of pictures to this image.

    The result of the conversion, from 0 to 1, is normalized per channel to (value - mean) / std; a negative std inverts
    light and dark. The fields `resize`, `resize_mode`, `filter`, `pad_colour` and `pad_place` apply only to "photo".
    The resize modes are:

    - `crop` resizes the shorter side of the picture to `resize` pixels, and crops height x width from the centre.
    - `squash` resizes the longer side of the network's image to `resize` pixels and the other side in proportion,
      regardless of the picture's aspect ratio, and crops height x width from the centre.
    - `pad` fits the whole picture into height x width (a letterbox), and fills the rest with `pad_colour`.
    """

    channels: int
    height: int
    width: int
    preprocess: str  # the conversion (see `preprocess.py`); "none" accepts only arrays, not pictures
    mean: tuple[float, ...]
    std: tuple[float, ...]
    resize: int = 0
    # Order of the axes of an example in array files, as used when the network was trained: "HWC" has the channels last,
    # "HW" omits the axis of a single channel, "CW" the axis of a single row. The layers always read [channels, height,
    # width].
    layout: str = "CHW"
    channel_order: str = "rgb"  # order of the colours in a photo of three channels
    resize_mode: str = field(default="crop", metadata={"late": True})
    filter: str = field(default="bilinear", metadata={"late": True})
    pad_colour: int = field(default=0, metadata={"late": True})  # grey value: 0 is black, 255 is white
    pad_place: str = field(default="centre", metadata={"late": True})  # the centre, or the upper left corner

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
            raise ModelError(f"input: std is {self.std}, but no value may be 0")
        if (self.layout == "HW" and self.channels != 1) or (self.layout == "CW" and self.height != 1):
            raise ModelError(f"input: layout {self.layout} omits an axis of {self.shape} that is not 1")
        self._check_picture()

    def _check_picture(self) -> None:
        if self.resize_mode != "pad" and (self.pad_colour, self.pad_place) != (0, "centre"):
            raise ModelError("input: pad_colour and pad_place require resize_mode pad")
        if self.channel_order == "bgr" and (self.preprocess != "photo" or self.channels != 3):
            raise ModelError("input: channel_order bgr requires photos with three channels")
        if self.preprocess != "photo":
            check_range(INPUT, "resize", self.resize, 0, 0)
            check_choice(INPUT, "resize_mode", self.resize_mode, ("crop",))
            check_choice(INPUT, "filter", self.filter, ("bilinear",))
            return
        check_range(INPUT, "resize", self.resize, max(self.height, self.width), MAX_SIDE)
        if self.channels not in (1, 3):
            raise ModelError(
                f"input: channels must be 3 (red, green and blue) or 1 (grey) for photos, got {self.channels}"
            )

    @property
    def shape(self) -> Shape:
        """(C, H, W)."""
        return (self.channels, self.height, self.width)

    @property
    def array_shape(self) -> Shape:
        """The shape of an example in an array file, in the order of `layout`."""
        sizes = dict(zip("CHW", self.shape))
        return tuple(sizes[axis] for axis in self.layout)


@dataclass(frozen=True)
class FeatureInput:
    """A row of numbers, used without conversion."""

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
    """Several named inputs. Layers read them as a single row of numbers: the flattened inputs, concatenated."""

    parts: tuple[NamedInput, ...]

    kind: ClassVar[str] = "several"

    def __post_init__(self) -> None:
        check_range(INPUT, "parts", len(self.parts), 2, MAX_INPUTS)
        names = [part.name for part in self.parts]
        if len(set(names)) < len(names):
            raise ModelError(f"input: the names {', '.join(map(repr, names[:8]))} are not unique")
        check_range(INPUT, "numbers of all parts", self.shape[0], 1, MAX_FEATURES)

    @property
    def shape(self) -> Shape:
        """(F,), the total number of elements in all inputs."""
        return (sum(math.prod(part.input.shape) for part in self.parts),)

    def span(self, name: str) -> tuple[int, int]:
        """Return the range (first, last + 1) of one input's elements within the row."""
        first = 0
        for part in self.parts:
            last = first + math.prod(part.input.shape)
            if part.name == name:
                return first, last
            first = last
        raise KeyError(name)

    def pack(self, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        """Concatenate the batches of all inputs ([B, *shape], keyed by name) into rows of shape [B, F]."""
        return np.concatenate([arrays[part.name].reshape(len(arrays[part.name]), -1) for part in self.parts], axis=1)

    def unpack(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Split rows [B, F] into the batches of the inputs, keyed by name."""
        spans = {part.name: self.span(part.name) for part in self.parts}
        return {
            part.name: rows[:, slice(*spans[part.name])].reshape(len(rows), *part.input.shape) for part in self.parts
        }


Input = ImageInput | FeatureInput | SeveralInputs


def read_input(data: Any) -> Input:
    """Build an input from its JSON object; raise ModelError for unknown or missing fields and kinds."""
    if not isinstance(data, dict) or data.get("kind") != SeveralInputs.kind:
        return build(INPUT_KINDS, INPUT, data)
    parts = fields_of(INPUT, data, ("kind", "parts"))["parts"]
    if not isinstance(parts, list):
        raise ModelError("input: parts must be a list")
    named_inputs = []
    for number, part in enumerate(parts, start=1):
        where = f"input number {number}"
        fields = fields_of(where, part, ("name", "input"))
        named_inputs.append(
            NamedInput(typed(where, "name", fields["name"], str), build(INPUT_KINDS, where, fields["input"]))
        )
    return SeveralInputs(tuple(named_inputs))


def describe_input(spec: Input) -> dict[str, Any]:
    """Return the JSON object of an input, in the form that `read_input` accepts."""
    if not isinstance(spec, SeveralInputs):
        return described(spec)
    parts = [{"name": part.name, "input": described(part.input)} for part in spec.parts]
    return {"kind": spec.kind, "parts": parts}
