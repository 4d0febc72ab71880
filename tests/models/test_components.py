"""Connected components of a mask, compared with a flood fill."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from trninfer.models.components import connected_components, find_runs


@st.composite
def masks(draw: st.DrawFn) -> np.ndarray:
    """Draw a mask of random pixels; arrays from hypothesis are mostly uniform."""
    shape = draw(st.tuples(st.integers(1, 20), st.integers(1, 20)))
    share = draw(st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.8, 1.0]))
    return np.random.default_rng(draw(st.integers(0, 999))).random(shape) < share


@given(mask=masks())
def test_connected_components_against_flood_fill(mask: np.ndarray) -> None:
    labels, count = connected_components(mask)
    assert ((labels > 0) == mask).all()
    assert set(labels[mask].tolist()) == set(range(1, count + 1))
    unvisited = {(int(y), int(x)) for y, x in np.argwhere(mask)}
    blobs = 0
    while unvisited:
        stack = [unvisited.pop()]
        label = labels[stack[0]]
        blobs += 1
        while stack:
            y, x = stack.pop()
            assert labels[y, x] == label
            near = {(y + dy, x + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)} & unvisited
            unvisited -= near
            stack.extend(near)
    assert blobs == count


@given(mask=masks())
def test_runs_are_the_pixels_in_order(mask: np.ndarray) -> None:
    runs = find_runs(mask)
    pixels = [(row, x) for row, a, b in zip(runs.rows, runs.starts, runs.ends) for x in range(a, b)]
    assert pixels == [(int(y), int(x)) for y, x in np.argwhere(mask)]
    ys, xs = np.nonzero(mask)
    np.testing.assert_array_equal(runs.find(ys, xs), np.repeat(np.arange(len(runs.rows)), runs.lengths))
    np.testing.assert_array_equal(runs.spread(np.arange(runs.total)), runs.blobs[runs.find(ys, xs)])
