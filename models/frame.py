"""Frames: the geometry of pictures that are resized, then cropped or padded to a network's image."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .inputs import ImageInput


class Frame(NamedTuple):
    """The geometry of a picture of `width` x `height` pixels that is resized and cropped to the network's image.

    The network's image begins at (`left`, `top`) in the resized picture; negative values denote padding. `ratio` is the
    scale before the resized size is rounded if boxes are mapped with this scale, otherwise 0.
    """

    width: int
    height: int
    resized_width: int
    resized_height: int
    left: int
    top: int
    ratio: float = 0.0

    @property
    def scale(self) -> tuple[float, float]:
        """The number of pixels in the network's image per pixel of the picture, along x and y."""
        if self.ratio:
            return self.ratio, self.ratio
        return self.resized_width / self.width, self.resized_height / self.height

    @property
    def is_squashed(self) -> bool:
        """True if the scales along x and y differ by more than the rounding of the resized size."""
        return abs(self.resized_width * self.height - self.resized_height * self.width) > max(self.width, self.height)

    def to_picture(self, points: np.ndarray) -> np.ndarray:
        """Map points (x, y) [..., 2] of the network's image to the picture, clipped to its edges; float32."""
        first, scale, last = (np.array(pair, np.float32) for pair in ((self.left, self.top), self.scale, self[:2]))
        return np.clip((points.astype(np.float32) + first) / scale, np.float32(0), last)


def frame_of(spec: ImageInput, width: int, height: int) -> Frame:
    """Return the frame that a picture of this size occupies in the image of a network that reads photos.

    Sizes are rounded as in torchvision's `Resize` and `CenterCrop`. Padding follows YOLO's exporter, or YOLOX's in a
    corner.
    """
    resized = _resized(spec, width, height)
    spare = resized[0] - spec.width, resized[1] - spec.height
    if spec.resize_mode != "pad":
        return Frame(width, height, *resized, round(spare[0] / 2), round(spare[1] / 2))
    if spec.pad_place == "corner":
        return Frame(width, height, *resized, 0, 0, min(spec.width / width, spec.height / height))
    return Frame(width, height, *resized, -(-spare[0] // 2), -(-spare[1] // 2))


def own_frame(spec: ImageInput) -> Frame:
    """Return the frame of an image that already has the network's size, such as an array."""
    return Frame(spec.width, spec.height, spec.width, spec.height, 0, 0)


def _resized(spec: ImageInput, width: int, height: int) -> tuple[int, int]:
    """Return the width and height of the resized picture."""
    if spec.resize_mode == "squash":
        scale = spec.resize / max(spec.height, spec.width)
        return round(spec.width * scale), round(spec.height * scale)
    if spec.resize_mode == "pad":
        scale, whole = min(spec.width / width, spec.height / height), int if spec.pad_place == "corner" else round
        return max(1, whole(width * scale)), max(1, whole(height * scale))
    short, long = sorted((width, height))
    longer = int(spec.resize * long / short)
    return (spec.resize, longer) if width <= height else (longer, spec.resize)
