"""Connected components of a mask, computed from its runs (adjacent pixels of a row). Requires only NumPy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Runs(NamedTuple):
    """The runs of a mask [H, W] in row-major order, and the 8-connected blobs to which they belong."""

    shape: tuple[int, int]
    rows: np.ndarray  # [runs]
    starts: np.ndarray  # [runs], the first column
    ends: np.ndarray  # [runs], the column after the last
    blobs: np.ndarray  # [runs]: blob numbers from 0, in the order of the first pixels
    total: int  # number of blobs

    @property
    def lengths(self) -> np.ndarray:
        """The number of pixels of each run."""
        return self.ends - self.starts

    def find(self, ys: np.ndarray, xs: np.ndarray) -> np.ndarray:
        """Return the index of the run that contains each of the given pixels of the mask."""
        width = self.shape[1]
        return np.searchsorted(self.rows * width + self.starts, ys * width + xs, side="right") - 1

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Return, for each pixel of the mask in row-major order, the value of its blob; `values` is [blobs]."""
        return np.repeat(values[self.blobs], self.lengths)


def connected_components(mask: np.ndarray) -> tuple[np.ndarray, int]:
    """Label the 8-connected blobs of a boolean mask [H, W] with numbers from 1 (0 elsewhere), and count them."""
    runs = find_runs(mask)
    labels = np.zeros(mask.shape, np.int64)
    labels[mask] = runs.spread(np.arange(1, runs.total + 1))
    return labels, runs.total


def find_runs(mask: np.ndarray) -> Runs:
    """Find the runs of a boolean mask [H, W] and their blobs.

    Every run starts with a unique label and repeatedly adopts the smallest label of its neighbours until nothing
    changes. Each round also follows the labels of labels, so the number of rounds is only logarithmic in the length of
    a blob.
    """
    height, width = mask.shape
    stride = width + 1  # an empty column terminates every row
    flat = np.zeros(height * stride + 1, bool)
    flat[1:].reshape(height, stride)[:, :width] = mask
    edges = np.flatnonzero(flat[1:] != flat[:-1])
    begins, ends = edges[::2], edges[1::2]
    # The runs of the next row that touch a run (including diagonally) are consecutive in the list.
    first = np.searchsorted(ends, begins + stride)
    touching = np.searchsorted(begins, ends + stride, side="right") - first
    upper = np.repeat(np.arange(len(begins)), touching)
    lower = np.arange(len(upper)) + np.repeat(first - (np.cumsum(touching) - touching), touching)
    parent = _join(len(begins), upper, lower)
    roots = np.cumsum(parent == np.arange(len(parent)))  # number of roots up to each run
    rows = begins // stride
    starts = begins - rows * stride
    return Runs(
        shape=(height, width),
        rows=rows,
        starts=starts,
        ends=starts + ends - begins,
        blobs=roots[parent] - 1,
        total=int(roots[-1]) if len(roots) else 0,
    )


def _join(count: int, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """For each of `count` items, return the smallest item that is connected to it by the pairs (first, second)."""
    parent = np.arange(count)
    while True:
        root, other = parent[first], parent[second]
        differ = root != other
        if not differ.any():
            return parent
        first, second, root, other = first[differ], second[differ], root[differ], other[differ]
        np.minimum.at(parent, np.maximum(root, other), np.minimum(root, other))
        while not np.array_equal(parent, above := parent[parent]):
            parent = above
