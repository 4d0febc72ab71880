"""Sampling of an image at constant positions. A matrix multiplies its pixels: each row of the matrix contains the
weights of the pixels around one position."""

from __future__ import annotations

import math

import numpy as np

from ...errors import ModelError
from ..importer import Importer
from ..onnx_attributes import integer, text
from ..onnx_file import Node
from .rearranging import MAX_SELECTED, mix_entries

COMPUTED = "it samples an image at computed positions, as deformable attention does, which is not supported"
MODES = ("bilinear", "linear", "nearest")  # linear: the name from opset 20 on
PADDING_MODES = ("zeros", "border", "reflection")


def _grid_sample(importer: Importer, node: Node) -> None:
    """Sample an image [batch, channels, rows, columns] at positions [batch, new rows, new columns, (x, y)]."""
    if node.inputs[0] not in importer.views or node.inputs[1] not in importer.constants:
        raise ModelError(COMPUTED)
    mode, padding = text(node, "mode", "linear"), text(node, "padding_mode", "zeros")
    if mode not in MODES:
        raise ModelError(f"its mode {mode!r} is not supported; supported modes are linear and nearest")
    if padding not in PADDING_MODES:
        raise ModelError(f"its padding mode {padding!r} is unknown")
    view = importer.data(node).with_batch()
    grid = importer.of_one_input(view, importer.constants[node.inputs[1]]).astype(np.float32)
    if len(view.axes) != 3:
        raise ModelError(f"its input is {importer.describe(view)}; only images can be sampled")
    if grid.ndim != 4 or grid.shape[3] != 2 or not np.isfinite(grid).all():
        raise ModelError("its positions are not [batch, rows, columns, 2] finite numbers")
    if len(grid) != 1:
        raise ModelError("its positions differ among the images of a batch, which is not supported")
    channels, rows, columns = view.shape
    sizes = (rows, columns), grid.shape[1:3]
    if not all(1 <= math.prod(size) <= MAX_SELECTED for size in sizes):
        (rows, columns), (new_rows, new_columns) = sizes
        raise ModelError(
            f"cannot sample {rows}x{columns} pixels at {new_rows}x{new_columns} positions; at most {MAX_SELECTED} "
            "pixels and positions are supported"
        )
    are_corners = bool(integer(node, "align_corners", 0))
    x, y = (
        _position(grid[0, ..., axis].ravel(), extent, padding, are_corners)
        for axis, extent in ((0, columns), (1, rows))
    )
    matrix = _weights(x, y, rows, columns, mode == "nearest")
    pixels = view.reshaped((channels, rows * columns), True)
    importer.give(node, mix_entries(importer, pixels, 1, matrix).reshaped((channels, *sizes[1]), True))


def _position(position: np.ndarray, extent: int, padding: str, are_corners: bool) -> np.ndarray:
    """Convert positions from -1 to 1 to pixels, moved into the image if it is not padded with zeros. -1 and 1 are the
    centres of the outermost pixels if `are_corners`, else their outer edges.

    The arithmetic is that of ONNX Runtime in float32, so that positions halfway between pixels are rounded alike.
    """
    pixels = (position + 1) / 2 * (extent - 1) if are_corners else ((position + 1) * extent - 1) / 2
    if padding == "reflection":
        first, last = (0.0, extent - 1.0) if are_corners else (-0.5, extent - 0.5)
        span = last - first
        distance = np.abs(pixels - first) % (2 * span) if span else np.zeros_like(pixels)
        pixels = first + np.minimum(distance, 2 * span - distance)
    return (pixels if padding == "zeros" else np.clip(pixels, 0, extent - 1)).astype(np.float64)


def _weights(x: np.ndarray, y: np.ndarray, rows: int, columns: int, is_nearest: bool) -> np.ndarray:
    """Return the weights [positions, pixels] of the pixels of an image at some positions in pixels."""
    matrix = np.zeros((len(x), rows * columns))
    first_x, first_y = (np.round(x), np.round(y)) if is_nearest else (np.floor(x), np.floor(y))
    for step_y in (0,) if is_nearest else (0, 1):
        for step_x in (0,) if is_nearest else (0, 1):
            at_x, at_y = first_x + step_x, first_y + step_y
            weights = np.ones(len(x)) if is_nearest else (1 - np.abs(x - at_x)) * (1 - np.abs(y - at_y))
            inside = np.flatnonzero((at_x >= 0) & (at_x < columns) & (at_y >= 0) & (at_y < rows))
            np.add.at(matrix, (inside, (at_y * columns + at_x)[inside].astype(np.int64)), weights[inside])
    return matrix.astype(np.float32)


OPERATORS = {"GridSample": _grid_sample}
