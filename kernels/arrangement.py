"""Layers that compute nothing: the same numbers in other places of HBM.

Whole channels move from HBM to HBM, a DMA for each image or for all of them: no engine takes part. What turns axes
around goes through the Tensor Engine where it is a matrix that is transposed, because a DMA would move element by
element; any other order is left to the DMAs all the same.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .tiling.tiles import check_dtype, even_tiles, row_groups
from .tiling.windows import CHUNK, Span, load_padded
from .transpose import transpose_into

MAX_DMA_AXES = 5  # of an access pattern


def _check(name, tensor, axes):
    assert len(tensor.shape) in axes, f"{name} must have {axes[0]} axes or {axes[-1]}, got shape {tensor.shape}"
    check_dtype(name, tensor)


def _with_channels(x, channels):
    """Room in HBM for a tensor like x, but of so many channels."""
    shape = (x.shape[0], channels, x.shape[2], x.shape[3]) if len(x.shape) == 4 else (x.shape[0], channels)
    return nl.ndarray(shape, dtype=x.dtype, buffer=nl.shared_hbm)


@nki.jit
def concat(a, b, c=None, d=None, e=None, f=None, g=None, h=None):
    """The channels (or features) of two to eight tensors, one after another.

    Args:
        a to h: [B, C, H, W] or [B, F] in HBM, alike but for C or F; float32, bfloat16 or float16.
    Returns:
        [B, sum of C, H, W] or [B, sum of F] in HBM, of their dtype.
    """
    _check("a", a, (2, 4))
    parts = []
    width = 0
    for part in (a, b, c, d, e, f, g, h):
        if part is not None:
            same = part.shape[0] == a.shape[0] and tuple(part.shape[2:]) == tuple(a.shape[2:])
            assert same and len(part.shape) == len(a.shape) and part.dtype == a.dtype, (
                f"all must be {a.dtype} and alike {a.shape} but for axis 1, got {part.dtype} {part.shape}"
            )
            parts.append(part)
            width += part.shape[1]
    out = _with_channels(a, width)
    first = 0
    for part in parts:
        end = first + part.shape[1]
        nisa.dma_copy(dst=out[:, first:end], src=part)
        first = end
    return out


@nki.jit
def channel_slice(x, first, last):
    """Channels (or features) `first` to `last` - 1 of x [B, C, H, W] or [B, F]."""
    _check("x", x, (2, 4))
    assert first >= 0 and first < last and last <= x.shape[1], (
        f"first and last must be in order and within the {x.shape[1]} channels of x, got {first} and {last}"
    )
    out = _with_channels(x, last - first)
    nisa.dma_copy(dst=out, src=x[:, first:last])
    return out


@nki.jit
def channel_shuffle(x, groups):
    """Channels of x [B, C, H, W] seen as [groups, C / groups] and read the other way round."""
    _check("x", x, (4,))
    batch, channels, height, width = x.shape
    assert groups >= 1 and channels % groups == 0, f"groups must divide the {channels} channels of x, got {groups}"
    each = channels // groups
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    source = x.reshape((batch, groups, each, height * width))
    nisa.dma_copy(dst=out.reshape((batch, each, groups, height * width)), src=source.permute((0, 2, 1, 3)))
    return out


@nki.jit
def pad(x, padding, value=0.0):
    """`value` around images, or less of them.

    Args:
        x: [B, C, H, W] in HBM; float32, bfloat16 or float16.
        padding: rows and columns at (top, left, bottom, right); one below 0 cuts pixels off.
        value: what the padding holds.
    Returns:
        [B, C, H + top + bottom, W + left + right] in HBM, of the dtype of x.
    """
    _check("x", x, (4,))
    batch, channels, height, width = x.shape
    top, left, bottom, right = padding
    rows, columns = height + top + bottom, width + left + right
    kept_rows, kept_columns = height + min(top, 0) + min(bottom, 0), width + min(left, 0) + min(right, 0)
    assert rows > 0 and columns > 0 and kept_rows > 0 and kept_columns > 0, (
        f"padding must leave something of {height}x{width}, got {padding}"
    )
    out = nl.ndarray((batch, channels, rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    planes, results = x.reshape((batch * channels, height, width)), out.reshape((batch * channels, rows, columns))
    for across in even_tiles(columns, CHUNK):
        for down in even_tiles(rows, max(1, CHUNK // across.size)):
            for group in row_groups(batch * channels, max(1, CHUNK // (down.size * across.size))):
                shape = (group.partitions, group.rows)
                source = planes[group.start : group.end].reshape_dim(0, shape)
                data = load_padded(source, _span(down, top, height), _span(across, left, width), value)
                target = results[group.start : group.end, down.start : down.end, across.start : across.end]
                nisa.dma_copy(dst=target.reshape_dim(0, shape), src=data)
    return out


def _span(tile, before, extent):
    """The positions of an axis that a tile of its padded form holds."""
    start = tile.start - before
    head = min(tile.size, max(0, -start))
    return Span(start, tile.size, head, min(tile.size - head, max(0, start + tile.size - extent)))


@nki.jit
def permute(x, split, order):
    """Each example's numbers, seen as axes of `split`, with these axes in another order.

    Args:
        x: [B, ...] in HBM, of as many numbers an example as `split` has; float32, bfloat16 or float16.
        split: the sizes of the axes.
        order: order[i] is the axis that comes i-th.
    Returns:
        [B, product of split] in HBM, of the dtype of x.
    """
    check_dtype("x", x)
    batch = x.shape[0]
    numbers = 1
    for extent in split:
        numbers *= extent
    given = 1
    for extent in x.shape[1:]:
        given *= extent
    assert numbers == given, f"split must have the {given} numbers of an example of x, {x.shape}, got {split}"
    out = nl.ndarray((batch, numbers), dtype=x.dtype, buffer=nl.shared_hbm)
    permute_images(out, x.reshape((batch, numbers)), split, order)
    return out


def permute_images(out, x, split, order):
    """Bring each row of x [B, numbers] in HBM, seen as axes of `split`, into another order of axes, into `out`."""
    batch, numbers = x.shape
    sizes, places = _merged(split, order)
    if len(sizes) == 1:
        nisa.dma_copy(dst=out, src=x)
        return
    for image in range(batch):
        source, target = x[image : image + 1].reshape((numbers,)), out[image : image + 1].reshape((numbers,))
        if len(sizes) == 2 and min(sizes) > 1:
            transpose_into(target.reshape((sizes[1], sizes[0])), source.reshape((sizes[0], sizes[1])))
        else:
            assert len(sizes) <= MAX_DMA_AXES, f"at most {MAX_DMA_AXES} axes can move on their own, got {order}"
            turned = source.reshape(tuple(sizes)).permute(tuple(places))
            nisa.dma_copy(dst=target.reshape(turned.shape), src=turned)


def _merged(split, order):
    """The sizes of the axes and their order, where axes that stay neighbours are one and those of size 1 are none."""
    kept = []
    for axis in order:
        if split[axis] > 1:
            kept.append(axis)
    runs: list[list[int]] = []  # [first axis, last axis, size] in the new order
    for axis in kept:
        if len(runs) > 0 and _next_axis(split, runs[-1][1]) == axis:
            runs[-1][1] = axis
            runs[-1][2] *= split[axis]
        else:
            runs.append([axis, axis, split[axis]])
    if len(runs) == 0:
        return [1], [0]
    sizes = []
    places = []
    for run in runs:  # its place among the runs in the old order
        place = 0
        for other in runs:
            if other[0] < run[0]:
                place += 1
        places.append(place)
        sizes.append(0)
    for index in range(len(runs)):
        sizes[places[index]] = runs[index][2]
    return sizes, places


def _next_axis(split, axis):
    """The next axis that is longer than 1."""
    axis += 1
    while axis < len(split) and split[axis] == 1:
        axis += 1
    return axis
