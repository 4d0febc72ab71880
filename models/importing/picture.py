"""How a picture becomes the input of an imported network, which its file does not tell."""

from __future__ import annotations

from dataclasses import dataclass

from ..network import MAX_SIDE, FeatureInput, ImageInput, Input, ModelError

# Means and deviations of red, green and blue over ImageNet, as torchvision's and timm's presets have them.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class PictureOptions:
    """What the user told of the preprocessing; None for what was not told.

    A pixel of 0 to 255 is mapped to `input_range`, then mean is subtracted, and the rest divided by std.
    """

    input_range: tuple[float, float] | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    resize: int | None = None

    @property
    def told(self) -> bool:
        """Whether there is anything that only a picture can have."""
        return self != PictureOptions()


def network_input(shape: tuple[int, ...], options: PictureOptions) -> Input:
    """The input of a network that reads one example of `shape`, (C, H, W) or (F,); ModelError where it cannot be."""
    if len(shape) == 1:
        if options.told:
            raise ModelError(f"the network reads {shape[0]} features, to which no preprocessing of pictures applies")
        return FeatureInput(shape[0])
    channels, height, width = shape
    low, high = options.input_range or (0.0, 1.0)
    if not low < high:
        raise ModelError(f"the input range {low:g},{high:g} is empty")
    imagenet = channels == 3 and not (options.input_range or options.mean or options.std)
    mean = _each("mean", options.mean or (IMAGENET_MEAN if imagenet else (0.0,)), channels)
    std = _each("std", options.std or (IMAGENET_STD if imagenet else (1.0,)), channels)
    return ImageInput(
        channels,
        height,
        width,
        "photo",
        tuple((value - low) / (high - low) for value in mean),
        tuple(value / (high - low) for value in std),
        options.resize or default_resize(height, width),
    )


def default_resize(height: int, width: int) -> int:
    """The shorter side before the middle is cut out: 256 for 224, as in torchvision's presets, and in proportion."""
    return min(MAX_SIDE, round(max(height, width) * 256 / 224))


def _each(name: str, values: tuple[float, ...], channels: int) -> tuple[float, ...]:
    if len(values) not in (1, channels):
        raise ModelError(f"{name} has {len(values)} numbers; one, or one for each of {channels} channels, is needed")
    return values * channels if len(values) == 1 else values
