"""The ink of a picture: what stands out from an unevenly lit background, and the blob of it that is meant. NumPy only.

Three models of the background are tried (one colour, a smooth surface, a local median), since no single one holds for
a tight crop, for a lamp from the side and for the edge of a shadow. Each leads to a blob; the one is taken that
accounts best for all that stands out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .components import connected_components

# Ink that differs from its background by less than this share of the light looks like stains and shadows.
MIN_CONTRAST = 0.08

# Dark backgrounds are divided by this at least, so that the noise of a black one is not taken for ink.
MIN_LIGHT = 0.25

MIN_BLOB_SIDE = 5

COARSE_CELLS = 32  # backgrounds are fitted on a grid of at most this many cells a side
MEDIAN_CELLS = 15  # side of the local median's window


# From a coarse picture [h, w, channels] to its background, in the same shape.
_BackgroundModel = Callable[[np.ndarray], np.ndarray]


class InkError(ValueError):
    """There is no ink to be found; the message says why."""


class Box(NamedTuple):
    """A rectangle in pixels; right and bottom are exclusive."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def width(self) -> int:
        """Columns."""
        return self.right - self.left

    @property
    def height(self) -> int:
        """Rows."""
        return self.bottom - self.top

    def cut(self, values: np.ndarray) -> np.ndarray:
        """The part of an array [H, W, ...] that is in the box, as a view."""
        return values[self.top : self.bottom, self.left : self.right]


class Blob(NamedTuple):
    """The ink that is meant."""

    mask: np.ndarray  # bool [H, W]
    box: Box
    ink: np.ndarray  # float32 [H, W], how far each pixel stands out; above 0 is ink
    quality: float  # 0..1, the share of all that stands out that the blob accounts for
    several: bool  # whether there is more than one of its kind


def find_blob(pixels: np.ndarray, expected: Box | None = None) -> Blob:
    """The main blob of ink in float32 [H, W, channels] of 0..1, W at least 3; InkError where nothing stands out.

    Where a box is expected, blobs that fill it are preferred.
    """
    coarse = _coarse(pixels)
    blobs = []
    for model in _BACKGROUNDS:
        try:
            ink, threshold = _ink(pixels, _background(pixels, model(coarse)))
            blob = _main_blob(ink, threshold, expected)
            blobs.append(blob._replace(quality=blob.quality * _trust(model, blob.box, pixels.shape)))
        except InkError:
            # Light on an empty page accounts for all there is, unless there is known to be something.
            if model is _surface and (expected is None or not blobs):
                raise
    return max(blobs, key=lambda blob: blob.quality)


def _trust(model: _BackgroundModel, box: Box, shape: tuple[int, ...]) -> float:
    """Return the trust in a background model: higher for simpler models, since a flexible one may follow
    strokes too."""
    if model is _local_median:
        # A digit that fills the median's window, about half the picture, is partly taken for background.
        return 0.7 if max(box.height / shape[0], box.width / shape[1]) < 0.5 else 0.4
    return 1.0 if model is _one_colour else 0.8


def _ink(pixels: np.ndarray, background: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the ink of each pixel, and the threshold above which it counts as ink.

    Each channel's deviation from its background is taken relative to that background, which undoes uneven light. The
    channels are then added up along the direction in which the picture deviates most, so that red on green counts as
    much as black on white. Ink is the side to which the strong deviations lie, be it the dark or the light one.
    """
    deviation = (pixels - background) / np.maximum(background, MIN_LIGHT)
    flat = deviation.reshape(-1, deviation.shape[2])
    values = deviation @ np.linalg.eigh(flat.T @ flat)[1][:, -1]
    values = values * np.sign(np.sum(values * values * values) or 1.0)
    noise = _noise(values)
    peak = float(np.quantile(values, 1 - min(0.01, 40 / values.size)))
    if peak < MIN_CONTRAST * np.sqrt(pixels.shape[2]):
        raise InkError("the picture is blank")
    if peak < 5 * noise:
        raise InkError("nothing stands out from the noise of the picture")
    return values, max(0.3 * peak, min(4 * noise, 0.5 * peak))


def _noise(values: np.ndarray) -> float:
    """Standard deviation of the noise, as far as distinguishable from uneven light: the lesser of two estimates.

    One is the spread of all values, the other that of second differences along rows, which smooth light hardly touches.
    """
    step = min(4, (values.shape[1] - 1) // 2)
    second = values[:, : -2 * step] - 2 * values[:, step:-step] + values[:, 2 * step :]
    spread = float(np.median(np.abs(values - np.median(values))))
    return 1.4826 * min(spread, float(np.median(np.abs(second))) / np.sqrt(6))


def _coarse(pixels: np.ndarray) -> np.ndarray:
    """`pixels` in at most COARSE_CELLS a side, each cell the mean of the pixels it covers."""
    for axis in (0, 1):
        n = pixels.shape[axis]
        edges = np.linspace(0, n, min(n, COARSE_CELLS) + 1).astype(int)
        counts = np.diff(edges).reshape([-1 if a == axis else 1 for a in range(3)])
        pixels = np.add.reduceat(pixels, edges[:-1], axis=axis) / counts
    return pixels


def _background(pixels: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """The background at each pixel: of what the cell and its neighbours have, the value closest to the pixel.

    Between a lit and a shaded cell the pixels belong to either, so that the edge itself does not stand out.
    """
    padded = np.pad(cells, ((1, 1), (1, 1), (0, 0)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(0, 1))
    low, high = windows.min(axis=(-2, -1)), windows.max(axis=(-2, -1))
    return np.clip(pixels, _spread(low, pixels.shape), _spread(high, pixels.shape))


def _spread(cells: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A coarse grid back at full size [H, W, channels], linearly between the cells' centres."""
    for axis in (0, 1):
        n, full = cells.shape[axis], shape[axis]
        at = np.clip((np.arange(full) + 0.5) * n / full - 0.5, 0, n - 1)
        low = np.minimum(at.astype(int), max(n - 2, 0))
        part = (at - low).astype(np.float32).reshape([-1 if a == axis else 1 for a in range(3)])
        after = np.take(cells, np.minimum(low + 1, n - 1), axis)
        cells = np.take(cells, low, axis)
        cells *= 1 - part
        after *= part
        cells += after
    return np.clip(cells, 0, 1, out=cells).astype(np.float32)


def _one_colour(cells: np.ndarray) -> np.ndarray:
    """The median of the picture's rim, everywhere."""
    rim = np.concatenate([cells[0], cells[-1], cells[1:-1, 0], cells[1:-1, -1]])
    return np.broadcast_to(np.median(rim, axis=0), cells.shape)


def _surface(cells: np.ndarray) -> np.ndarray:
    """A quadratic surface for each channel, fitted so that ink does not pull at it.

    Least squares with Tukey's weights, tightened step by step, starting from the rim, where a digit seldom is.
    """
    y, x = np.meshgrid(*(np.linspace(-1, 1, n) for n in cells.shape[:2]), indexing="ij")
    design = np.stack([np.ones_like(x), x, y, x * x, x * y, y * y], axis=-1).reshape(-1, 6)
    start = np.where(np.maximum(np.abs(x), np.abs(y)) > 0.8, 1.0, 0.05).ravel()
    fitted = np.empty_like(cells)
    for channel in range(cells.shape[2]):
        values = cells[:, :, channel].ravel().astype(np.float64)
        weights = start
        for step in range(8):
            root = np.sqrt(weights)
            surface = design @ np.linalg.lstsq(design * root[:, None], values * root, rcond=None)[0]
            residual = np.abs(values - surface)
            spread = max(0.02, (5.6 if step < 3 else 3.5) * float(np.median(residual)))
            weights = np.clip(1 - (residual / spread) ** 2, 0, None) ** 2 + 1e-4
        fitted[:, :, channel] = surface.reshape(cells.shape[:2])
    return fitted


def _local_median(cells: np.ndarray) -> np.ndarray:
    """The median around each cell, which follows any light, even the edge of a shadow, but not strokes."""
    sides = [min(MEDIAN_CELLS, 2 * (n // 4) + 1) for n in cells.shape[:2]]
    pads = [(side // 2, side // 2) for side in sides]
    padded = np.pad(cells, (*pads, (0, 0)), mode="symmetric")
    windows = np.lib.stride_tricks.sliding_window_view(padded, tuple(sides), axis=(0, 1))
    # Every other row and column of a window is enough for a median, at a quarter of the cost.
    thinned = windows[..., ::2, ::2].reshape(*cells.shape, -1)
    return np.median(thinned, axis=-1)


_BACKGROUNDS: tuple[_BackgroundModel, ...] = (_one_colour, _surface, _local_median)


class _Pieces(NamedTuple):
    """The connected pieces of what stands out; arrays of [pieces], boxes in pixels."""

    left: np.ndarray
    top: np.ndarray
    right: np.ndarray
    bottom: np.ndarray
    mass: np.ndarray  # ink, summed over the piece
    doubt: np.ndarray  # 0..1, below 1 for what is hardly a sign
    clear: np.ndarray  # the same, of lying along the picture's edge alone

    @property
    def sides(self) -> np.ndarray:
        """The longer side of each."""
        return np.maximum(self.right - self.left, self.bottom - self.top)

    def likeness(self, box: Box) -> np.ndarray:
        """Return the overlap of each piece's box with this box: intersection over union, 0..1."""
        shared = self._shared(box)
        return shared / ((self.right - self.left) * (self.bottom - self.top) + box.width * box.height - shared)

    def inside(self, box: Box) -> np.ndarray:
        """Return a mask of the pieces with at least half of their box in this box."""
        return 2 * self._shared(box) >= (self.right - self.left) * (self.bottom - self.top)

    def gap(self, box: Box) -> np.ndarray:
        """Return the distance of each piece's box from this box, the larger of both directions; at most 0 if they
        overlap."""
        across = np.maximum(self.left - box.right, box.left - self.right)
        return np.maximum(across, np.maximum(self.top - box.bottom, box.top - self.bottom))

    def _shared(self, box: Box) -> np.ndarray:
        wide = np.minimum(self.right, box.right) - np.maximum(self.left, box.left)
        high = np.minimum(self.bottom, box.bottom) - np.maximum(self.top, box.top)
        return np.maximum(wide, 0) * np.maximum(high, 0)

    def box(self, chosen: np.ndarray) -> Box:
        """The box of the chosen pieces together."""
        edges = (self.left[chosen].min(), self.top[chosen].min(), self.right[chosen].max(), self.bottom[chosen].max())
        return Box(*(int(edge) for edge in edges))


def _main_blob(ink: np.ndarray, threshold: float, expected: Box | None) -> Blob:
    """Return the most important blob, with the pieces close to it.

    A blob counts by its ink, and for less where it is doubtful. Where a box is expected, blobs that fill it count more.
    """
    labels, count = connected_components(ink > threshold)
    pieces = _measure(ink, labels, count)
    mass, doubt, clear = pieces.mass, pieces.doubt, pieces.clear
    weight = mass * doubt
    if expected is not None:
        weight = weight * (0.1 + 0.9 * pieces.likeness(expected))

    main, sides = int(np.argmax(weight)), pieces.sides
    if sides[main] < MIN_BLOB_SIDE:
        raise InkError("there is nothing but specks")
    sure = np.where(sides <= 0.4 * sides[main], clear, doubt)  # dots and bars of a sign may be filled
    like = (mass >= 0.02 * mass[main]) & (sides <= 1.5 * sides[main]) & (sure >= 0.3 * doubt[main])
    if expected is not None:  # what was not meant at the first look is not meant now
        like &= pieces.inside(expected)
    chosen = np.arange(count) == main
    while (more := like & ~chosen & (pieces.gap(pieces.box(chosen)) <= 0.18 * sides[main])).any():
        chosen |= more
    mask = np.isin(labels, np.flatnonzero(chosen) + 1)
    quality = float(weight[chosen].sum() / ink[ink > 0.5 * threshold].sum())
    several = _others_like_it(pieces, chosen) or _stand_apart(pieces, chosen, labels, ink > 0.3 * threshold)
    return Blob(mask, pieces.box(chosen), ink, quality, several)


def _measure(ink: np.ndarray, labels: np.ndarray, count: int) -> _Pieces:
    """Return the pieces that `labels` distinguishes.

    Doubtful is what lies along the picture's edge or in its corners (a shadow, the desk), is a mere line, a frame or a
    filled rectangle.
    """
    height, width = ink.shape
    ys, xs = np.nonzero(labels)
    of = labels[ys, xs] - 1
    left, top = np.full(count, width), np.full(count, height)
    right, bottom = np.zeros(count, int), np.zeros(count, int)
    np.minimum.at(left, of, xs)
    np.minimum.at(top, of, ys)
    np.maximum.at(right, of, xs + 1)
    np.maximum.at(bottom, of, ys + 1)
    wide, high = right - left, bottom - top

    area = np.bincount(of, minlength=count)
    edge_x, edge_y = (xs == 0) | (xs == width - 1), (ys == 0) | (ys == height - 1)
    contact = np.bincount(of, edge_x | edge_y, count) / np.sqrt(area)
    corners = np.bincount(of, edge_x & edge_y, count)
    margin_x = np.minimum(xs - left[of], right[of] - 1 - xs) < 0.1 * wide[of]
    margin_y = np.minimum(ys - top[of], bottom[of] - 1 - ys) < 0.1 * high[of]
    frame = np.bincount(of, margin_x | margin_y, count) > 0.9 * area
    line = np.maximum(wide, high) > 12 * np.minimum(wide, high)
    # Strokes leave much of their box empty; a spot of light, a dark rectangle and the inside of a 0 do not.
    filled = np.where(np.maximum(wide, high) < 3 * np.minimum(wide, high), area / (wide * high), 0)
    odd = line | frame | (filled > 0.95)
    mass = np.bincount(of, ink[ys, xs], count)
    clear = np.exp(-0.5 * contact) * 0.1**corners * _sharpness(ink, labels, mass / area, np.maximum(wide, high)) ** 4
    doubt = clear * 0.1**odd * 0.4 ** np.clip(4 * filled - 2.8, 0, 1)
    return _Pieces(left=left, top=top, right=right, bottom=bottom, mass=mass, doubt=doubt, clear=clear)


def _sharpness(ink: np.ndarray, labels: np.ndarray, level: np.ndarray, sides: np.ndarray) -> np.ndarray:
    """Return the sharpness of each piece's outline, 0..1, [pieces]: 1 if ink changes there by its `level` or more.

    What counts is the change over a tenth of the piece's longer side. Strokes end within that, even blurred ones; the
    light of a lamp and the shade of a hand do not.
    """
    padded = np.pad(labels, 1)
    outside = [padded[:-2, 1:-1] == 0, padded[2:, 1:-1] == 0, padded[1:-1, :-2] == 0, padded[1:-1, 2:] == 0]
    ys, xs = np.nonzero((labels > 0) & np.logical_or.reduce(outside))
    of = labels[ys, xs] - 1
    reach = np.maximum(1, np.rint(0.05 * sides[of])).astype(int)
    up, down = np.maximum(ys - reach, 0), np.minimum(ys + reach, ink.shape[0] - 1)
    before, after = np.maximum(xs - reach, 0), np.minimum(xs + reach, ink.shape[1] - 1)
    around = np.stack([ink[up, xs], ink[down, xs], ink[ys, before], ink[ys, after]])
    change = np.clip((around.max(axis=0) - around.min(axis=0)) / (0.8 * level[of]), 0, 1)
    return np.bincount(of, change, len(sides)) / np.maximum(np.bincount(of, minlength=len(sides)), 1)


def _others_like_it(pieces: _Pieces, chosen: np.ndarray) -> bool:
    """True if pieces farther off are about as high as the chosen ones together and have as much ink."""
    height, mass = pieces.box(chosen).height, float(pieces.mass[chosen].sum())
    heights = pieces.bottom - pieces.top
    alike = (heights >= 0.5 * height) & (heights <= 2 * height) & (pieces.mass >= 0.25 * mass)
    return bool((~chosen & alike & (pieces.doubt >= 0.5 * pieces.doubt[chosen].max())).any())


def _stand_apart(pieces: _Pieces, chosen: np.ndarray, labels: np.ndarray, fainter: np.ndarray) -> bool:
    """True if the chosen pieces are several signs, side by side or one above the other.

    Each of several signs is about as high as all of them. The parts of a broken stroke are lower, or hang together by
    ink that is `fainter`, and the halves of a stencilled 0 are no wider together than one digit. No digit is much wider
    than it is high.
    """
    if chosen.sum() < 2:
        return False
    whole = pieces.box(chosen)
    signs = _tall_groups(pieces, chosen, across=whole.width >= 0.85 * whole.height)
    if len(signs) < 2:
        return False
    if whole.width > 1.2 * whole.height:
        return True
    linked = connected_components(fainter)[0]
    return len({tuple(np.unique(linked[np.isin(labels, np.array(sign) + 1)])) for sign in signs}) > 1


def _tall_groups(pieces: _Pieces, chosen: np.ndarray, across: bool) -> list[list[int]]:
    """The chosen pieces by groups that stand beside each other (`across`), or one above the other; the tall ones."""
    starts, ends = (pieces.left, pieces.right) if across else (pieces.top, pieces.bottom)
    groups: list[list[int]] = []
    begin = reach = 0.0
    for number in sorted(np.flatnonzero(chosen).tolist(), key=lambda piece: int(starts[piece])):
        if groups and reach - starts[number] > 0.3 * min(ends[number] - starts[number], reach - begin):
            groups[-1].append(number)
        else:
            groups.append([number])
            begin = float(starts[number])
        reach = max(reach, float(ends[number]))
    whole = pieces.box(chosen)
    total = float(pieces.mass[chosen].sum())
    tall = []
    for group in groups:
        box = pieces.box(np.array(group))
        high = box.height >= 0.6 * whole.height if across else box.height >= max(0.35 * whole.height, 1.1 * box.width)
        if high and float(pieces.mass[group].sum()) >= 0.12 * total:
            tall.append(group)
    return tall
