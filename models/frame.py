"""Frames: the place of a picture in a network's image, resized and then cut or padded."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .inputs import ImageInput


class Frame(NamedTuple):
    """A picture of `width` x `height` pixels, resized, with the network's image cut out of it.

    `left` and `top` are where the network's image begins in the resized picture; below 0 where there is padding.
    """

    width: int
    height: int
    resized_width: int
    resized_height: int
    left: int
    top: int

    @property
    def scale(self) -> tuple[float, float]:
        """Pixels of the network's image for one of the picture, along x and y."""
        return self.resized_width / self.width, self.resized_height / self.height

    def to_picture(self, points: np.ndarray) -> np.ndarray:
        """Map points (x, y) [..., 2] of the network's image to the picture, float32; beyond its edges to the edges."""
        first, scale, last = (np.array(pair, np.float32) for pair in ((self.left, self.top), self.scale, self[:2]))
        return np.clip((points.astype(np.float32) + first) / scale, np.float32(0), last)


def frame_of(spec: ImageInput, width: int, height: int) -> Frame:
    """Return the frame of a picture of this size in the image of a network that reads photos.

    Sizes are rounded as torchvision's `Resize` and `CenterCrop` round them, and padded as YOLO's exporter pads them.
    """
    resized = _resized(spec, width, height)
    spare = resized[0] - spec.width, resized[1] - spec.height
    if spec.resize_mode != "pad":
        return Frame(width, height, *resized, round(spare[0] / 2), round(spare[1] / 2))
    if spec.pad_place == "corner":
        return Frame(width, height, *resized, 0, 0)
    return Frame(width, height, *resized, -(-spare[0] // 2), -(-spare[1] // 2))


def own_frame(spec: ImageInput) -> Frame:
    """Return the frame of an image already in the network's size, such as an array."""
    return Frame(spec.width, spec.height, spec.width, spec.height, 0, 0)


def _resized(spec: ImageInput, width: int, height: int) -> tuple[int, int]:
    """Return (width, height) of the resized picture."""
    if spec.resize_mode == "squash":
        scale = spec.resize / max(spec.height, spec.width)
        return round(spec.width * scale), round(spec.height * scale)
    if spec.resize_mode == "pad":
        scale = min(spec.width / width, spec.height / height)
        return max(1, round(width * scale)), max(1, round(height * scale))
    short, long = sorted((width, height))
    longer = int(spec.resize * long / short)
    return (spec.resize, longer) if width <= height else (longer, spec.resize)
