"""Interpolation along one axis, as a matrix whose rows contain the weights of the old pixels in each new pixel."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..errors import ModelError
from .onnx_attributes import integer, number, text
from .onnx_file import Node

_NEAREST: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


@dataclass(frozen=True)
class Resized:
    """A resized axis: its extent, its new size, its scale, and the region that is read, as fractions of the extent
    (None for the whole axis)."""

    extent: int
    size: int
    scale: float
    region: tuple[float, float] | None = None


def interpolation(node: Node, old: bool, way: str, axis: Resized) -> np.ndarray:
    """Return the matrix [size, extent] of one axis, with zeros for positions of `tf_crop_and_resize` that are outside
    the axis.

    `way` is the kind of interpolation: nearest, linear or cubic. If `old` is true, the rules from before opset 11
    apply.
    """
    extent, positions = axis.extent, _places(node, old, axis)
    if integer(node, "antialias", 0) and way != "nearest":
        return _smoothed(node, way, extent, positions, min(1.0, axis.scale))
    matrix = _shares(node, old, way, extent, positions)
    if text(node, "coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize":
        matrix[(positions < 0) | (positions > extent - 1)] = 0
    return matrix


def _shares(node: Node, old: bool, way: str, extent: int, place: np.ndarray) -> np.ndarray:
    """Return the matrix [size, extent] that contains the weights of the pixels around each position."""
    matrix = np.zeros((len(place), extent))
    rows = np.arange(len(place))
    if way == "nearest":
        rounding = text(node, "nearest_mode", "floor" if old else "round_prefer_floor")
        if rounding not in _NEAREST:
            raise ModelError(f"its nearest_mode {rounding!r} is unknown")
        matrix[rows, np.clip(_NEAREST[rounding](place), 0, extent - 1).astype(np.int64)] = 1
        return matrix
    if way == "cubic":
        return _cubic(node, matrix, place)
    place = np.clip(place, 0, extent - 1)
    low = np.floor(place).astype(np.int64)
    matrix[rows, low] += 1 - (place - low)
    matrix[rows, np.minimum(low + 1, extent - 1)] += place - low
    return matrix


def _cubic(node: Node, matrix: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Return a matrix with the weights of the four pixels around each position (Keys' cubic convolution)."""
    extent = matrix.shape[1]
    low = np.floor(place)
    for pixel in (low - 1, low, low + 1, low + 2):
        share = _cubic_weight(node, np.abs(place - pixel))
        if integer(node, "exclude_outside", 0):
            share[(pixel < 0) | (pixel >= extent)] = 0
        matrix[np.arange(len(place)), np.clip(pixel, 0, extent - 1).astype(np.int64)] += share
    return matrix / matrix.sum(axis=1, keepdims=True)  # the sum differs from 1 only if pixels are excluded


def _cubic_weight(node: Node, far: np.ndarray) -> np.ndarray:
    """Return the weight of pixels at a distance of up to 2."""
    a = number(node, "cubic_coeff_a", -0.75)
    return np.where(far <= 1, ((a + 2) * far - (a + 3)) * far**2 + 1, a * (((far - 5) * far + 8) * far - 4))


def _smoothed(node: Node, way: str, extent: int, place: np.ndarray, scale: float) -> np.ndarray:
    """Return the matrix [size, extent] of one axis with antialiasing: the filter is widened by 1 / `scale`."""
    beyond = math.ceil(2 / scale)  # pixels beyond each end, which repeat the last one or are left out
    pixels = np.arange(-beyond, extent + beyond)
    far = np.abs(pixels - place[:, None].astype(np.float64)) * scale
    shares = np.maximum(0, 1 - far) if way == "linear" else np.where(far < 2, _cubic_weight(node, far), 0)
    if integer(node, "exclude_outside", 0):
        shares[:, (pixels < 0) | (pixels >= extent)] = 0
    matrix = np.zeros((len(place), extent))
    np.add.at(matrix.T, np.clip(pixels, 0, extent - 1), shares.T)
    return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))


def _places_in_region(axis: Resized) -> np.ndarray:
    """Return the position of each new pixel when a region of the old pixels is resized."""
    start, end = (np.float32(share) for share in axis.region or (0.0, 1.0))
    last = np.float32(axis.extent - 1)
    if axis.size == 1:
        return np.full(1, np.float32(0.5) * (start + end) * last)
    new = np.arange(axis.size, dtype=np.float32)
    return start * last + new * ((end - start) * last / np.float32(axis.size - 1))


def _places(node: Node, old: bool, axis: Resized) -> np.ndarray:
    """Return the position of each new pixel in the coordinates of the old pixels."""
    rule = text(node, "coordinate_transformation_mode", "asymmetric" if old else "half_pixel")
    extent, size, scale = axis.extent, axis.size, axis.scale
    new = np.arange(size, dtype=np.float64)
    if rule in ("half_pixel", "half_pixel_symmetric") or (rule == "pytorch_half_pixel" and size > 1):
        # Compute positions in float32, like ONNX Runtime, because a floor distinguishes 3 from 2.9999998.
        half = np.float32(0.5)
        positions = (new.astype(np.float32) + half) / np.float32(scale) - half
        if rule == "half_pixel_symmetric":  # align the centre of the axis with that of its unrounded new size
            positions += np.float32(extent / 2 * (1 - size / (scale * extent)))
        return positions
    if rule == "tf_half_pixel_for_nn":
        return (new.astype(np.float32) + np.float32(0.5)) / np.float32(scale)
    if rule == "tf_crop_and_resize":
        return _places_in_region(axis)
    if rule == "pytorch_half_pixel":
        return new * 0
    if rule == "asymmetric":
        return new / scale
    if rule == "align_corners":
        return new * ((extent - 1) / max(1, size - 1))
    raise ModelError(f"its coordinate_transformation_mode {rule!r} is not supported")
