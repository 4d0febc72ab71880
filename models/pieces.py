"""The connected pieces of a picture's ink: their positions, their amounts of ink, and their similarity to a sign."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .components import Runs


class Box(NamedTuple):
    """A rectangle in pixels; right and bottom are exclusive."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.right - self.left

    @property
    def height(self) -> int:
        """Number of rows."""
        return self.bottom - self.top

    def cut(self, values: np.ndarray) -> np.ndarray:
        """Return the part of an array [H, W, ...] inside the box, as a view."""
        return values[self.top : self.bottom, self.left : self.right]


class Pieces(NamedTuple):
    """The connected pieces of a picture's ink; arrays have the shape [pieces], boxes are in pixels."""

    left: np.ndarray
    top: np.ndarray
    right: np.ndarray
    bottom: np.ndarray
    mass: np.ndarray  # sum of the ink over the piece
    doubt: np.ndarray  # confidence, 0 to 1: below 1 for pieces that are unlikely to be a sign
    clear: np.ndarray  # the same, considering only contact with the picture's edge and sharpness

    @property
    def sides(self) -> np.ndarray:
        """The longer side of each piece."""
        return np.maximum(self.right - self.left, self.bottom - self.top)

    def likeness(self, box: Box) -> np.ndarray:
        """Return the overlap of each piece's box with this box as intersection over union, from 0 to 1."""
        shared = self._shared(box)
        return shared / ((self.right - self.left) * (self.bottom - self.top) + box.width * box.height - shared)

    def inside(self, box: Box) -> np.ndarray:
        """Return a mask of the pieces whose boxes lie at least half inside this box."""
        return 2 * self._shared(box) >= (self.right - self.left) * (self.bottom - self.top)

    def gap(self, box: Box) -> np.ndarray:
        """Return the distance of each piece's box from this box, the larger of x and y; at most 0 if they overlap."""
        across = np.maximum(self.left - box.right, box.left - self.right)
        return np.maximum(across, np.maximum(self.top - box.bottom, box.top - self.bottom))

    def _shared(self, box: Box) -> np.ndarray:
        wide = np.minimum(self.right, box.right) - np.maximum(self.left, box.left)
        high = np.minimum(self.bottom, box.bottom) - np.maximum(self.top, box.top)
        return np.maximum(wide, 0) * np.maximum(high, 0)

    def box(self, chosen: np.ndarray) -> Box:
        """Return the bounding box of the chosen pieces."""
        edges = (self.left[chosen].min(), self.top[chosen].min(), self.right[chosen].max(), self.bottom[chosen].max())
        return Box(*(int(edge) for edge in edges))


def measure(ink: np.ndarray, mask: np.ndarray, runs: Runs) -> Pieces:
    """Return the pieces of the ink [H, W] within a mask, given the mask's runs.

    Pieces at the picture's edges or in its corners (shadows, the desk), lines, frames and filled rectangles are treated
    as doubtful.
    """
    count, of, lengths = runs.total, runs.blobs, runs.lengths
    height, width = runs.shape
    left, top = np.full(count, width), np.full(count, height)
    right, bottom = np.zeros(count, int), np.zeros(count, int)
    np.minimum.at(left, of, runs.starts)
    np.minimum.at(top, of, runs.rows)
    np.maximum.at(right, of, runs.ends)
    np.maximum.at(bottom, of, runs.rows + 1)
    wide, high = right - left, bottom - top
    sides = np.maximum(wide, high)

    area = np.bincount(of, lengths, count)
    # number of ends of each run that touch the picture's edge
    ends_x = np.minimum((runs.starts == 0) * 1 + (runs.ends == width), lengths)
    edge_y = (runs.rows == 0) | (runs.rows == height - 1)
    contact = np.bincount(of, np.where(edge_y, lengths, ends_x), count) / np.sqrt(area)
    corners = np.bincount(of, edge_y * ends_x, count)
    frame = np.bincount(of, _near_rim(runs, left, top, right, bottom), count) > 0.9 * area
    line = sides > 12 * np.minimum(wide, high)
    # A stroke leaves much of its box empty, unlike a spot of light, a dark rectangle or the inside of a 0.
    filled = np.where(sides < 3 * np.minimum(wide, high), area / (wide * high), 0)
    odd = line | frame | (filled > 0.95)
    mass = np.bincount(of, np.add.reduceat(ink[mask], np.cumsum(lengths) - lengths, dtype=np.float64), count)
    ys, xs = np.divmod(np.flatnonzero(_outline(mask)), width)  # faster than `numpy.nonzero`
    sharpness = _sharpness(ink, ys, xs, of[runs.find(ys, xs)], mass / area, sides)
    clear = np.exp(-0.5 * contact) * 0.1**corners * sharpness**4
    doubt = clear * 0.1**odd * 0.4 ** np.clip(4 * filled - 2.8, 0, 1)
    return Pieces(left=left, top=top, right=right, bottom=bottom, mass=mass, doubt=doubt, clear=clear)


def _near_rim(runs: Runs, left: np.ndarray, top: np.ndarray, right: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    """Count the pixels of each run that are within a tenth of the box size from the rim of their piece's box."""
    of, rows, lengths = runs.blobs, runs.rows, runs.lengths
    margin = np.ceil(0.1 * (right - left)).astype(int)
    inner = np.minimum(runs.ends, (right - margin)[of]) - np.maximum(runs.starts, (left + margin)[of])
    near_y = np.minimum(rows - top[of], bottom[of] - 1 - rows) < (0.1 * (bottom - top))[of]
    return np.where(near_y, lengths, lengths - np.maximum(inner, 0))


def _outline(mask: np.ndarray) -> np.ndarray:
    """Return the pixels of a mask with a neighbour (above, below, left, right) outside the mask or the picture."""
    inside = np.zeros(mask.shape, bool)
    inner = mask[1:-1, 1:-1]
    np.logical_and(mask[:-2, 1:-1], mask[2:, 1:-1], out=inside[1:-1, 1:-1])
    inside[1:-1, 1:-1] &= inner & mask[1:-1, :-2] & mask[1:-1, 2:]
    return mask & ~inside


def _sharpness(
    ink: np.ndarray, ys: np.ndarray, xs: np.ndarray, of: np.ndarray, level: np.ndarray, sides: np.ndarray
) -> np.ndarray:
    """Return the sharpness of each piece's outline, from 0 to 1, [pieces]: 1 if ink changes by 0.8 times its `level`.

    The outline is given by the positions of its pixels, and `of` is the piece of each pixel. The change is measured
    over a tenth of the piece's longer side: even blurred strokes end within this distance, but light and shadows do
    not.
    """
    reach = np.maximum(1, np.rint(0.05 * sides)).astype(int)[of]
    up, down = np.maximum(ys - reach, 0), np.minimum(ys + reach, ink.shape[0] - 1)
    before, after = np.maximum(xs - reach, 0), np.minimum(xs + reach, ink.shape[1] - 1)
    neighbours = np.stack([ink[up, xs], ink[down, xs], ink[ys, before], ink[ys, after]])
    change = np.clip((neighbours.max(axis=0) - neighbours.min(axis=0)) / (0.8 * level)[of], 0, 1)
    return np.bincount(of, change, len(sides)) / np.maximum(np.bincount(of, minlength=len(sides)), 1)
