"""Permute the axes of arrays in HBM.

Matrix transposes use the Tensor Engine, because a DMA would move them element by element; all other permutations use
DMAs.
"""

from collections.abc import Sequence
from math import prod

from .tiling.tiles import copy_by_hardware
from .transpose import transpose_into

MAX_DMA_AXES = 5  # maximum number of axes of an access pattern


def permute_images(out, x, split, order):
    """Reshape each row of x [B, numbers] in HBM to `split`, permute the axes to `order`, and write the result to
    `out`."""
    batch, numbers = x.shape
    sizes, places = _merged(split, order)
    if len(sizes) == 1:
        copy_by_hardware(dst=out, src=x)
        return
    for image in range(batch):
        source, target = x[image : image + 1].reshape((numbers,)), out[image : image + 1].reshape((numbers,))
        if are_matrices(split, order):
            matrices = prod(sizes[:-2])
            before = source.reshape((matrices, *sizes[-2:]))
            after = target.reshape((matrices, *reversed(sizes[-2:])))
            for matrix in range(matrices):
                transpose_into(after[matrix], before[matrix])
        else:
            assert len(sizes) <= MAX_DMA_AXES, f"at most {MAX_DMA_AXES} axes can move on their own, got {order}"
            permuted = source.reshape(tuple(sizes)).permute(tuple(places))
            copy_by_hardware(dst=target.reshape(permuted.shape), src=permuted)


def are_matrices(split: Sequence[int], order: Sequence[int]) -> bool:
    """True if the permutation transposes matrices: once adjacent axes are merged, it exchanges the last two."""
    sizes, places = _merged(split, order)
    last = len(sizes) - 1
    return last > 0 and places == [*range(last - 1), last, last - 1]


def _merged(split: Sequence[int], order: Sequence[int]) -> tuple[list[int], list[int]]:
    """Merge axes that stay adjacent, drop axes of size 1, and return the sizes and the order of the other axes."""
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


def _next_axis(split: Sequence[int], axis: int) -> int:
    """Return the next axis longer than 1."""
    return next((later for later in range(axis + 1, len(split)) if split[later] > 1), len(split))
