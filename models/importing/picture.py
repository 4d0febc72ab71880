"""Preprocessing of pictures for an imported network; the network file does not specify it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..checks import MAX_CHANNELS, MAX_SIDE
from ..errors import ModelError
from ..inputs import FeatureInput, ImageInput, Input, PartInput

# Means and standard deviations of red, green and blue over ImageNet, as in torchvision's and timm's presets.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

SMALL_SIDE = 96  # smaller networks were trained on uncropped pictures of their input size, e.g. CIFAR or MNIST


@dataclass(frozen=True)
class PreprocessingOptions:
    """The user's preprocessing options; options that were not given are None.

    Pixel values from 0 to 255 are mapped to `input_range` (in descending order if the first number is larger); then
    `mean` is subtracted, and the result is divided by `std`. `pictures` is "digit" or "photo". `invert` swaps light
    and dark before these steps. `size` is the (height, width) to use if the network does not fix it. For `resize`,
    `resize_mode`, `filter`, `pad_colour` and `pad_place`, see `ImageInput`. `usual_size` is used if neither the
    network nor the user specifies a size. `is_beside` is True if all options come from files next to the network file
    or from its exporter; such options are ignored if the network does not read pictures.
    """

    input_range: tuple[float, float] | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    resize: int | None = None
    pictures: str | None = None
    invert: bool = False
    channel_order: str | None = None
    size: tuple[int, int] | None = None
    resize_mode: str | None = None
    filter: str | None = None
    pad_colour: int | None = None
    pad_place: str | None = None
    usual_size: tuple[int, int] | None = None
    is_beside: bool = False

    @property
    def is_given(self) -> bool:
        """True if the user specified any option that applies only to pictures."""
        return not self.is_beside and self != PreprocessingOptions()

    def for_channels(self, count: int) -> PreprocessingOptions:
        """Return the options without those for three colours, unless the network reads three channels."""
        if count == 3:
            return self
        mean, std = ((sum(values) / len(values),) if values else None for values in (self.mean, self.std))
        return replace(self, channel_order=None, mean=mean, std=std)

    def over(self, others: PreprocessingOptions) -> PreprocessingOptions:
        """Return these options, with missing ones taken from `others`."""
        stated = {name: value for name, value in vars(self).items() if value not in (None, False)}
        are_beside = bool(stated.pop("is_beside", not stated)) and not (others == self == PreprocessingOptions())
        if self.pictures == "digit":  # digits are located and cropped by a separate method
            others = PreprocessingOptions(usual_size=others.usual_size)
        if self.input_range or self.mean or self.std:  # never mix values of these options from different sources
            others = replace(others, input_range=None, mean=None, std=None)
        return replace(others, **stated, is_beside=are_beside)


def network_input(shape: tuple[int, ...], options: PreprocessingOptions, layout: str = "CHW") -> PartInput:
    """Return the input of a network whose examples have the shape (C, H, W) or (F,).

    Raises ModelError if the shape and the options do not fit together.
    """
    if len(shape) == 1:
        if options.is_given:
            raise ModelError(
                f"the network reads {shape[0]} features; options for the preprocessing of pictures do not apply"
            )
        return FeatureInput(shape[0])
    channels, height, width = shape
    if channels > MAX_CHANNELS or max(height, width) > MAX_SIDE:
        sizes = "x".join(map(str, shape))
        raise ModelError(
            f"it reads an image of {sizes}, but at most {MAX_CHANNELS} channels and sides of {MAX_SIDE} are allowed"
        )
    pictures = options.pictures or ("photo" if channels in (1, 3) and layout != "CW" else "none")
    if pictures == "none" and options.is_beside:
        options = PreprocessingOptions()
    _check_options(channels, pictures, options)
    low, high = options.input_range or (0.0, 1.0)
    if options.invert:
        low, high = high, low
    mean, std = _normalisation(channels, pictures, options)
    resizing = _resizing(height, width, options) if pictures == "photo" else {}
    return ImageInput(
        channels=channels,
        height=height,
        width=width,
        preprocess=pictures,
        mean=tuple((value - low) / (high - low) for value in mean),
        std=tuple(value / (high - low) for value in std),
        layout=layout,
        channel_order=options.channel_order or "rgb",
        **resizing,
    )


def _check_options(channels: int, pictures: str, options: PreprocessingOptions) -> None:
    """Raise ModelError if an option does not apply to this kind of pictures, or requires another option."""
    if pictures == "none" and replace(options, size=None).is_given:
        raise ModelError(f"the network reads {channels} channels, but pictures have 1 or 3, so it accepts only arrays")
    if options.input_range is not None and options.input_range[0] == options.input_range[1]:
        low, high = options.input_range
        raise ModelError(f"the input range {low:g},{high:g} is empty")
    if (options.resize or options.resize_mode or options.filter) and pictures != "photo":
        raise ModelError(f"--resize, --resize-mode and --filter apply only to photos, not to pictures of a {pictures}")
    if options.resize_mode is None and options.pad_colour is not None:
        raise ModelError("--pad-colour requires --resize-mode pad")


def _normalisation(
    channels: int, pictures: str, options: PreprocessingOptions
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the mean and the deviation of each channel, in the order of the channels."""
    step = -1 if options.channel_order == "bgr" else 1  # the default values are in RGB order
    usual: tuple[tuple[float, ...], tuple[float, ...]] = (0.0,), (1.0,)
    if _is_imagenet(channels, pictures, options):
        usual = IMAGENET_MEAN[::step], IMAGENET_STD[::step]
    return _each("mean", options.mean or usual[0], channels), _each("std", options.std or usual[1], channels)


def _resizing(height: int, width: int, options: PreprocessingOptions) -> dict[str, Any]:
    """Return the fields of an input that determine how photos are resized."""
    mode, side = options.resize_mode or "crop", max(height, width)
    usual = default_resize(height, width) if mode == "crop" else side
    fields = {"resize": options.resize or usual, "resize_mode": mode, "filter": options.filter or "bilinear"}
    if mode != "pad":
        return fields
    if fields["resize"] != side:
        raise ModelError(f"--resize-mode pad fits pictures into {height}x{width}; omit --resize")
    return {**fields, "pad_colour": options.pad_colour or 0, "pad_place": options.pad_place or "centre"}


def assumed(source: Input, options: PreprocessingOptions, inner: tuple[float, float] | None = None) -> list[str]:
    """Return messages about the assumptions made: every setting that neither an option nor the file specifies.

    `inner` is the range of pixel values that the preprocessing steps inside the network expect, if there are any.
    """
    if not isinstance(source, ImageInput) or source.preprocess == "none":
        return []
    notes = []
    if options.pictures is None:
        notes.append("pictures are assumed to be photos, not drawings of a digit (--pictures)")
    if inner is not None:
        notes.append(
            f"the first operations of the network expect pixel values from {inner[0]:g} to {inner[1]:g} (--input-range)"
        )
    elif not (options.input_range or options.mean or options.std):
        usual = ("to 0 to 1", "by ImageNet's mean and deviation")[_is_imagenet(source.channels, "photo", options)]
        notes.append(f"pixels are normalised {usual} (--mean, --std, --input-range)")
    if options.channel_order is None and source.channels == 3:
        notes.append("channels are in the order red, green, blue (--channel-order)")
    if source.preprocess != "photo":
        return notes
    if options.resize is None and options.resize_mode is None:
        notes.append(
            f"the shorter side is scaled to {source.resize}, then the center is cropped (--resize, --resize-mode)"
        )
    if options.filter is None:
        notes.append("pictures are resized with a bilinear filter (--filter)")
    if not options.invert and source.channels == 1:
        notes.append("light pixels are assumed to have high values (--invert)")
    return notes


def _is_imagenet(channels: int, pictures: str, options: PreprocessingOptions) -> bool:
    is_stated = options.input_range or options.mean or options.std or options.invert
    return channels == 3 and pictures == "photo" and not is_stated


def default_resize(height: int, width: int) -> int:
    """Return the length of the shorter side of a picture before the centre crop.

    Small networks read the whole picture. Larger ones read a centre crop with the same ratio as in torchvision's
    presets: 224 of 256 pixels.
    """
    side = max(height, width)
    return side if side < SMALL_SIDE else min(MAX_SIDE, round(side * 256 / 224))


def _each(name: str, values: tuple[float, ...], channels: int) -> tuple[float, ...]:
    if len(values) not in (1, channels):
        raise ModelError(f"{name} has {len(values)} values; expected one, or one for each of {channels} channels")
    return values * channels if len(values) == 1 else values
