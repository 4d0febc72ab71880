"""Connected components of a mask. NumPy only."""

from __future__ import annotations

import numpy as np


def connected_components(mask: np.ndarray) -> tuple[np.ndarray, int]:
    """Labels 1.. of the 8-connected blobs of a boolean mask [H, W] (0 elsewhere), and how many there are.

    Every pixel starts as its own label and takes the smallest of its neighbours' until nothing changes; following
    labels of labels makes the number of rounds grow with the logarithm of a blob's length, not with its length.
    """
    index = np.cumsum(mask).reshape(mask.shape) - 1
    pairs = []
    for a, b in (
        (np.s_[:, :-1], np.s_[:, 1:]),
        (np.s_[:-1, :], np.s_[1:, :]),
        (np.s_[:-1, :-1], np.s_[1:, 1:]),
        (np.s_[1:, :-1], np.s_[:-1, 1:]),
    ):
        both = mask[a] & mask[b]
        pairs.append((index[a][both], index[b][both]))
    first = np.concatenate([pair[0] for pair in pairs])
    second = np.concatenate([pair[1] for pair in pairs])
    parent = np.arange(int(mask.sum()))
    while True:
        low, high = np.minimum(parent[first], parent[second]), np.maximum(parent[first], parent[second])
        differ = low != high
        if not differ.any():
            break
        np.minimum.at(parent, high[differ], low[differ])
        while not np.array_equal(parent, parent[parent]):
            parent = parent[parent]
    roots = np.cumsum(parent == np.arange(len(parent)))  # up to each pixel, which are their own parents
    result = np.zeros(mask.shape, np.int64)
    result[mask] = roots[parent]
    return result, int(roots[-1]) if len(roots) else 0
