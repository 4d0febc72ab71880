"""Models of an unevenly lit background, fitted to a coarse grid: one colour, a smooth surface, a local median.

Arrays consist of float32 planes: [channels, H, W] for pictures, [channels, h, w] for the cells of the grid.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np

COARSE_CELLS = 32  # maximum number of grid cells per side
MEDIAN_CELLS = 15  # side of the local median's window

BAND_ROWS = 64  # rows of a picture processed at a time

_FITTED_SIDE = 3  # minimum number of cells per side that determine a quadratic surface


class Background(Protocol):
    """The background of a picture."""

    def at(self, rows: slice, part: np.ndarray) -> np.ndarray:
        """Return the background of some rows, [channels, rows, W]; `part` contains the picture's pixels in these
        rows."""


class OneColour(NamedTuple):
    """A background of a single colour."""

    colour: np.ndarray  # float32 [channels, 1, 1]

    def at(self, rows: slice, part: np.ndarray) -> np.ndarray:
        """See `Background`."""
        return self.colour.copy()


class FullSizeBackground:
    """A coarse background at full size: each pixel's value, limited to the range of its cell and the adjacent cells.

    Between a lit and a shaded cell, a pixel may have the value of either cell, so the edge itself does not stand out.
    """

    def __init__(self, cells: np.ndarray, shape: tuple[int, ...]) -> None:
        """Interpolate the cells to a picture of shape [channels, H, W]."""
        cells = cells.astype(np.float32)
        low, high = _extremes(cells, np.minimum), _extremes(cells, np.maximum)
        self._beyond = bool(low.max() > 1 or high.min() < 0)
        self._low, self._high = (_Rows.between(_widen(cells_bound, shape[2]), shape[1]) for cells_bound in (low, high))

    def at(self, rows: slice, part: np.ndarray) -> np.ndarray:
        """See `Background`."""
        background = self._low.at(rows)
        np.maximum(background, part, out=background)
        np.minimum(background, self._high.at(rows), out=background)
        return np.clip(background, 0, 1, out=background) if self._beyond else background


def bands(height: int) -> Iterator[slice]:
    """Yield slices of a few rows each, which fit into the processor's cache."""
    return (slice(start, start + BAND_ROWS) for start in range(0, height, BAND_ROWS))


def coarsen(planes: np.ndarray) -> np.ndarray:
    """Reduce a picture to at most COARSE_CELLS cells per side, each of which is the mean of its pixels; float64, from 0
    to 1."""
    rows, columns = (np.linspace(0, n, min(n, COARSE_CELLS) + 1).astype(int) for n in planes.shape[1:])
    kind, white = (np.uint32, 255) if planes.dtype == np.uint8 else (np.float32, 1)
    sums = np.stack([planes[:, start:end].sum(axis=1, dtype=kind) for start, end in itertools.pairwise(rows)], axis=1)
    sums = np.add.reduceat(sums / np.diff(rows)[:, None], columns[:-1], axis=2)
    return np.asarray(sums / (np.diff(columns) * white))


def rim_colour(cells: np.ndarray) -> OneColour:
    """Return the median of the picture's rim."""
    rim = np.concatenate([cells[:, 0], cells[:, -1], cells[:, 1:-1, 0], cells[:, 1:-1, -1]], axis=1)
    return OneColour(np.median(rim, axis=1).astype(np.float32)[:, None, None])


def fit_surface(cells: np.ndarray) -> np.ndarray:
    """Fit a quadratic surface to each channel robustly, so that ink does not distort it.

    Uses iteratively reweighted least squares with Tukey's weights and a decreasing threshold. The first step gives the
    largest weights to the rim, because digits are rarely there.
    """
    design, products, weights = _quadratics(*cells.shape[1:])
    solve = np.linalg.solve if min(cells.shape[1:]) >= _FITTED_SIDE else _solve_least
    values = cells.reshape(len(cells), -1)
    low, high = (values.shape[1] - 1) // 2, values.shape[1] // 2  # indices of the two middle values
    for step in range(8):
        normal = (weights @ products).reshape(-1, 6, 6)
        surface = solve(normal, ((weights * values) @ design.T)[:, :, None])[:, :, 0] @ design
        residual = np.abs(values - surface)
        ordered = np.partition(residual, (low, high))
        spread = (5.6 if step < 3 else 3.5) / 2 * (ordered[:, low] + ordered[:, high])
        residual /= np.maximum(0.02, spread)[:, None]
        residual *= residual
        weights = np.maximum(1 - residual, 0) ** 2 + 1e-4
    return surface.reshape(cells.shape)


@lru_cache(4)
def _quadratics(height: int, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the terms of a quadratic at each cell [6, cells], their products [cells, 36], and the initial weights."""
    y = np.repeat(np.linspace(-1, 1, height), width)
    x = np.tile(np.linspace(-1, 1, width), height)
    design = np.stack([np.ones_like(x), x, y, x * x, x * y, y * y])
    rim = np.where(np.maximum(np.abs(x), np.abs(y)) > 0.8, 1.0, 0.05)
    return design, np.ascontiguousarray((design[:, None] * design).reshape(36, -1).T), rim[None]


def _solve_least(normal: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the least-norm solution of underdetermined equations."""
    return np.asarray(np.linalg.pinv(normal, hermitian=True) @ right)


def local_median(cells: np.ndarray) -> np.ndarray:
    """Return the median around each cell, which follows any lighting, including shadow edges, but not strokes."""
    sides = [min(MEDIAN_CELLS, 2 * (n // 4) + 1) for n in cells.shape[1:]]
    pads = [(side // 2, side // 2) for side in sides]
    padded = np.pad(cells.astype(np.float32), ((0, 0), *pads), mode="symmetric")
    windows = np.lib.stride_tricks.sliding_window_view(padded, tuple(sides), axis=(1, 2))
    # Using every other row and column of a window is sufficient for the median and takes a quarter of the time.
    thinned = np.sort(windows[..., ::2, ::2].reshape(*cells.shape, -1))  # faster than `numpy.median` for few values
    count = thinned.shape[-1]
    return (thinned[..., (count - 1) // 2] + thinned[..., count // 2]) / 2


def _extremes(cells: np.ndarray, extreme: np.ufunc) -> np.ndarray:
    """Return the minimum or maximum of each cell and its neighbours."""
    padded = np.pad(cells, ((0, 0), (1, 1), (1, 1)), mode="edge")
    rows = extreme(extreme(padded[:, :-2], padded[:, 1:-1]), padded[:, 2:])
    return np.asarray(extreme(extreme(rows[:, :, :-2], rows[:, :, 1:-1]), rows[:, :, 2:]))


class _Rows(NamedTuple):
    """Rows interpolated linearly between the rows of a grid, without matrix products, which would start threads."""

    grid: np.ndarray  # float32 [channels, h, W]
    steps: np.ndarray  # float32 [channels, h, W]: differences between consecutive rows
    before: np.ndarray  # [H]: the grid row before each row
    share: np.ndarray  # float32 [H, 1]: the fraction of the step

    @classmethod
    def between(cls, grid: np.ndarray, height: int) -> _Rows:
        """Interpolate `height` rows. The rows of the grid lie at the centres of equal parts of this height."""
        before, share = _between(grid.shape[1], height)
        return cls(grid, np.diff(grid, axis=1, append=grid[:, -1:]), before, share[:, None])

    def at(self, rows: slice) -> np.ndarray:
        """Return some of the interpolated rows, [channels, rows, W]."""
        return _mix(self.grid, self.steps, self.before[rows], self.share[rows], 1)


def _widen(cells: np.ndarray, width: int) -> np.ndarray:
    """Interpolate a grid [channels, h, w] linearly between its cells' centres to a picture's columns."""
    return _mix(cells, np.diff(cells, axis=2, append=cells[:, :, -1:]), *_between(cells.shape[2], width), 2)


def _mix(grid: np.ndarray, steps: np.ndarray, before: np.ndarray, share: np.ndarray, axis: int) -> np.ndarray:
    """Return the lines `before` of a grid, plus a fraction of the step to the next line."""
    values = np.take(steps, before, axis)
    values *= share
    values += np.take(grid, before, axis)
    return values


def _between(n: int, full: int) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each of `full` pixels, which of the n cells precedes it, and the fraction of the way to the next
    cell."""
    at = np.clip((np.arange(full) + 0.5) * n / full - 0.5, 0, n - 1)
    before = np.minimum(at.astype(int), max(n - 2, 0))
    return before, (at - before).astype(np.float32)
