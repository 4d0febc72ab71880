"""Coarse backgrounds, compared with plain NumPy: means of cells, medians, a least-squares surface, and its full-size
version."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trninfer.models.backgrounds import FullSizeBackground, bands, coarsen, fit_surface, local_median, rim_colour

PICTURES = {"height": st.integers(1, 150), "width": st.integers(3, 150), "channels": st.sampled_from([1, 3])}


def draw(height: int, width: int, channels: int, seed: int) -> np.ndarray:
    """Draw random uint8 planes under uneven light."""
    rng = np.random.default_rng(seed)
    light = np.linspace(0.3, 1, width) * np.linspace(1, 0.6, height)[:, None]
    return (light * rng.integers(120, 256, (channels, height, width))).astype(np.uint8)


@settings(deadline=None)
@given(**PICTURES, seed=st.integers(0, 9))
def test_cells_are_means(height: int, width: int, channels: int, seed: int) -> None:
    planes = draw(height, width, channels, seed)
    rows, columns = (np.linspace(0, n, min(n, 32) + 1).astype(int) for n in (height, width))
    expected = [
        [[plane[a:b, c:d].mean() / 255 for c, d in itertools.pairwise(columns)] for a, b in itertools.pairwise(rows)]
        for plane in planes
    ]
    np.testing.assert_allclose(coarsen(planes), expected, rtol=1e-12)
    np.testing.assert_allclose(coarsen((planes / 255).astype(np.float32)), expected, rtol=1e-5)


@settings(deadline=None)
@given(**PICTURES, seed=st.integers(0, 9), reach=st.sampled_from([0.0, 0.3]))
def test_a_stretched_background_is_the_closest_value_around(
    height: int, width: int, channels: int, seed: int, reach: float
) -> None:
    planes = (draw(height, width, channels, seed) / 255).astype(np.float32)
    cells = coarsen(planes)
    cells += reach * np.random.default_rng(seed).normal(size=cells.shape)  # beyond 0 and 1, which surfaces may exceed
    h, w = cells.shape[1:]
    low, high = np.empty_like(cells), np.empty_like(cells)
    for y in range(h):
        for x in range(w):
            near = cells[:, max(y - 1, 0) : y + 2, max(x - 1, 0) : x + 2]
            low[:, y, x], high[:, y, x] = near.min(axis=(1, 2)), near.max(axis=(1, 2))
    at_y, at_x = ((np.arange(full) + 0.5) * n / full - 0.5 for n, full in ((h, height), (w, width)))

    def enlarge(grid: np.ndarray) -> np.ndarray:
        across = np.array([[np.interp(at_x, np.arange(w), row) for row in plane] for plane in grid])
        down = [[np.interp(at_y, np.arange(h), column) for column in plane.T] for plane in across]
        return np.clip(np.array(down).transpose(0, 2, 1), 0, 1)

    expected = np.clip(planes, enlarge(low), enlarge(high))
    background = FullSizeBackground(cells, planes.shape)
    found = np.concatenate([background.at(rows, planes[:, rows]) for rows in bands(height)], axis=1)
    np.testing.assert_allclose(found, expected, atol=2e-6)


@pytest.mark.parametrize("shape", [(1, 32, 32), (3, 32, 20), (3, 5, 32), (1, 2, 9), (1, 1, 4)])
def test_a_surface_is_fitted_by_weighted_least_squares(shape: tuple[int, int, int]) -> None:
    cells = 0.6 + 0.05 * np.random.default_rng(3).normal(size=shape)
    cells[:, shape[1] // 3 : shape[1] // 2, shape[2] // 3 : shape[2] // 2] = 0.05  # ink
    y, x = np.meshgrid(*(np.linspace(-1, 1, n) for n in shape[1:]), indexing="ij")
    design = np.stack([np.ones_like(x), x, y, x * x, x * y, y * y], axis=-1).reshape(-1, 6)
    for plane, found in zip(cells, fit_surface(cells)):
        weights = np.where(np.maximum(np.abs(x), np.abs(y)) > 0.8, 1.0, 0.05).ravel()
        for step in range(8):
            root = np.sqrt(weights)
            surface = design @ np.linalg.lstsq(design * root[:, None], plane.ravel() * root, rcond=None)[0]
            residual = np.abs(plane.ravel() - surface)
            spread = max(0.02, (5.6 if step < 3 else 3.5) * float(np.median(residual)))
            weights = np.clip(1 - (residual / spread) ** 2, 0, None) ** 2 + 1e-4
        np.testing.assert_allclose(found.ravel(), surface, atol=1e-7)


@pytest.mark.parametrize("shape", [(1, 32, 32), (3, 9, 20), (1, 1, 4)])
def test_medians_of_the_rim_and_around_each_cell(shape: tuple[int, int, int]) -> None:
    cells = np.random.default_rng(5).random(shape)
    rim = np.ones(shape[1:], bool)
    rim[1:-1, 1:-1] = False
    if min(shape[1:]) > 1:
        np.testing.assert_allclose(rim_colour(cells).colour[:, 0, 0], np.median(cells[:, rim], axis=1), rtol=1e-6)
    sides = [min(15, 2 * (n // 4) + 1) for n in shape[1:]]
    padded = np.pad(cells, ((0, 0), *((side // 2,) * 2 for side in sides)), mode="symmetric")
    expected = [
        [
            [np.median(plane[y : y + sides[0] : 2, x : x + sides[1] : 2]) for x in range(shape[2])]
            for y in range(shape[1])
        ]
        for plane in padded
    ]
    np.testing.assert_allclose(local_median(cells), expected, rtol=1e-6)
