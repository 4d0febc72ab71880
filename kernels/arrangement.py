"""Permutation of the axes of arrays in HBM.

Matrix transposes use the Tensor Engine, because a DMA would move them element by element; all other permutations use
DMAs.
"""

from .tiling.tiles import copy_by_hardware
from .transpose import transpose_into

MAX_DMA_AXES = 5  # maximum number of axes of an access pattern


def permute_images(out, x, split, order):
    """Permute the axes of each row of x [B, numbers] in HBM, viewed as `split`, to `order`; write to `out`."""
    batch, numbers = x.shape
    sizes, places = _merged(split, order)
    if len(sizes) == 1:
        copy_by_hardware(dst=out, src=x)
        return
    for image in range(batch):
        source, target = x[image : image + 1].reshape((numbers,)), out[image : image + 1].reshape((numbers,))
        if len(sizes) == 2 and min(sizes) > 1:
            transpose_into(target.reshape((sizes[1], sizes[0])), source.reshape((sizes[0], sizes[1])))
        else:
            assert len(sizes) <= MAX_DMA_AXES, f"at most {MAX_DMA_AXES} axes can move on their own, got {order}"
            turned = source.reshape(tuple(sizes)).permute(tuple(places))
            copy_by_hardware(dst=target.reshape(turned.shape), src=turned)


def _merged(split, order):
    """Return the sizes and the order of the axes after merging axes that stay adjacent and dropping axes of
    size 1."""
    runs: list[list[int]] = []  # [first axis, last axis, size] in the new order
    for axis in order:
        if split[axis] == 1:
            continue
        if runs and _next_axis(split, runs[-1][1]) == axis:
            runs[-1][1] = axis
            runs[-1][2] *= split[axis]
        else:
            runs.append([axis, axis, split[axis]])
    if not runs:
        return [1], [0]
    places = [sum(other[0] < run[0] for other in runs) for run in runs]  # position of each run in the old order
    return [size for _, _, size in sorted(runs)], places


def _next_axis(split, axis):
    """Return the next axis longer than 1."""
    return next((later for later in range(axis + 1, len(split)) if split[later] > 1), len(split))
