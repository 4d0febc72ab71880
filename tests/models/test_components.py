"""Connected components of a mask, against a flood fill."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from trninfer.models.components import connected_components


@given(mask=hnp.arrays(bool, st.tuples(st.integers(1, 12), st.integers(1, 12))))
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
