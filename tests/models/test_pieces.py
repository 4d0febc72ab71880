"""Measurements of a mask's pieces, computed from runs, compared with counting their pixels."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from trninfer.models.components import connected_components, find_runs
from trninfer.models.pieces import measure


def expected_doubt(ink: np.ndarray, piece: np.ndarray, mask: np.ndarray) -> tuple[float, float]:
    """Return `clear` and `doubt` of a piece, given its pixels and those of the mask as bool [H, W]."""
    height, width = mask.shape
    ys, xs = np.nonzero(piece)
    area, mass = len(ys), float(ink[piece].sum(dtype=np.float64))
    left, right, top, bottom = xs.min(), xs.max() + 1, ys.min(), ys.max() + 1
    wide, high = int(right - left), int(bottom - top)
    edge_x, edge_y = (xs == 0) | (xs == width - 1), (ys == 0) | (ys == height - 1)
    near_x = np.minimum(xs - left, right - 1 - xs) < 0.1 * wide
    near_y = np.minimum(ys - top, bottom - 1 - ys) < 0.1 * high
    filled = area / (wide * high) if max(wide, high) < 3 * min(wide, high) else 0.0
    is_odd = (near_x | near_y).sum() > 0.9 * area or max(wide, high) > 12 * min(wide, high) or filled > 0.95
    reach, changes = max(1, round(0.05 * max(wide, high))), []
    outside = np.pad(~mask, 1, constant_values=True)
    for y, x in zip(ys, xs):
        if outside[y, x + 1] or outside[y + 2, x + 1] or outside[y + 1, x] or outside[y + 1, x + 2]:
            around = [ink[max(y - reach, 0), x], ink[min(y + reach, height - 1), x]]
            around += [ink[y, max(x - reach, 0)], ink[y, min(x + reach, width - 1)]]
            changes.append(min(1.0, float(max(around) - min(around)) / (0.8 * mass / area)))
    clear = np.exp(-0.5 * (edge_x | edge_y).sum() / np.sqrt(area)) * 0.1 ** (edge_x & edge_y).sum()
    clear *= float(np.mean(changes)) ** 4
    return clear, clear * 0.1**is_odd * 0.4 ** float(np.clip(4 * filled - 2.8, 0, 1))


@settings(deadline=None)
@given(
    height=st.integers(1, 30),
    width=st.integers(1, 30),
    share=st.sampled_from([0.1, 0.4, 0.7, 1.0]),
    grain=st.integers(1, 6),
    seed=st.integers(0, 99),
)
def test_pieces_are_measured_as_their_pixels(height: int, width: int, share: float, grain: int, seed: int) -> None:
    """Draw masks of squares of `grain` pixels, a share of which is set: specks, bars, frames, and the whole picture."""
    rng = np.random.default_rng(seed)
    coarse = rng.random((height // grain + 1, width // grain + 1)) < share
    coarse.flat[0] = True
    mask = np.kron(coarse, np.ones((grain, grain), bool))[:height, :width]
    ink = np.where(mask, rng.uniform(0.5, 1, mask.shape), rng.uniform(-0.2, 0.4, mask.shape)).astype(np.float32)
    pieces = measure(ink, mask, find_runs(mask))
    labels, count = connected_components(mask)
    assert len(pieces.mass) == count
    for number in range(count):
        piece = labels == number + 1
        ys, xs = np.nonzero(piece)
        box = (xs.min(), ys.min(), xs.max() + 1, ys.max() + 1)
        assert (pieces.left[number], pieces.top[number], pieces.right[number], pieces.bottom[number]) == box
        np.testing.assert_allclose(pieces.mass[number], ink[piece].sum(dtype=np.float64), rtol=1e-9)
        expected = expected_doubt(ink, piece, mask)
        np.testing.assert_allclose((pieces.clear[number], pieces.doubt[number]), expected, rtol=1e-4, atol=1e-12)
