"""Normalisation by an image's own statistics: each group of channels over all its pixels.

One group is layer norm over a whole image, a group a channel instance norm. Channels lie on the partitions. Each sums
its own pixels; the Tensor Engine then sums over a group's channels by a matrix that has ones where two channels are of
one group, and leaves the sum on each of them. Groups of up to 128 channels lie whole on the partitions, several side by
side; wider ones take several tiles, whose sums add up in PSUM.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .tiling.tiles import PARTITIONS, Tile, check_dtype, even_tiles, tiles

PIXELS = 4096  # of a channel at once: 16 KiB of a partition in float32
MAX_CHANNELS = 1 << 16


@nki.jit
def group_norm(x, scale, shift, groups, epsilon=1e-5):
    """(x - mean) / sqrt(variance + epsilon) * scale + shift, mean and variance those of a group of channels.

    Dimensions:
        B, C, H, W: images, channels, height, width; C at most 65536.
    Args:
        x: [B, C, H, W] in HBM; float32, bfloat16 or float16.
        scale, shift: [C] in HBM, float32.
        groups: divides C; group g are channels g * C / groups and those after it.
        epsilon: above 0.
    Returns:
        The shape and dtype of x, in HBM.
    Notes:
        Everything between load and store is float32. The variance is that of differences from the mean, so that a large
        mean costs no digits; x is therefore read three times.
    Pseudocode:
        for some groups whose channels are side by side, or one group:
            for image:
                mean = same_group^T @ sums(x)
                variance = same_group^T @ sums((x - mean) ** 2)
                store (x - mean) * (scale / sqrt(variance + epsilon)) + shift
    """
    assert len(x.shape) == 4, f"x must be [B, C, H, W], got shape {x.shape}"
    batch, channels, height, width = x.shape
    assert channels <= MAX_CHANNELS, f"x must have at most {MAX_CHANNELS} channels, got {channels}"
    assert groups >= 1 and channels % groups == 0, f"groups must divide {channels} channels, got {groups}"
    check_dtype("x", x)
    for vector in (scale, shift):
        assert len(vector.shape) == 1 and vector.shape[0] == channels, (
            f"scale and shift must be [{channels}], got shape {vector.shape}"
        )
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    pixels = height * width
    source, target = x.reshape((batch, channels, pixels)), out.reshape((batch, channels, pixels))
    each = channels // groups
    small = nl.ndarray((PARTITIONS, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=small, value=epsilon, engine=nisa.engine.vector)
    for parts in _parts(channels, each):
        same = _same_group(each, parts[0].size, 1.0 / (each * pixels))
        scales, shifts = [], []
        for part in parts:
            scales.append(_column(scale, part))
            shifts.append(_column(shift, part))
        for image in range(batch):
            means = _over_groups(same, _sums(source[image], parts, None))
            variances = _over_groups(same, _sums(source[image], parts, means))
            for t in range(len(parts)):
                factor = nl.ndarray((parts[t].size, 1), dtype=nl.float32, buffer=nl.sbuf)
                nisa.activation(dst=factor, op=nl.rsqrt, data=variances[t], bias=small[0 : parts[t].size])
                nisa.tensor_tensor(dst=factor, data1=factor, data2=scales[t], op=nl.multiply)
                _store(target[image], source[image], parts[t], means[t], factor, shifts[t])
    return out


def _parts(channels, each):
    """Lists of tiles of channels: of as many whole groups as fit 128 partitions, or the tiles of one group."""
    parts = []
    if each > PARTITIONS:
        for group in tiles(channels, each):
            wide = []
            for part in tiles(each, PARTITIONS):
                start = group.start + part.start
                wide.append(Tile(part.index, start, part.size, start + part.size))
            parts.append(wide)
    else:
        for some in tiles(channels, PARTITIONS // each * each):
            parts.append([some])
    return parts


def _same_group(each, size, value):
    """A matrix [size, size] of `value` where two channels are of one group of `each`, else 0."""
    matrix = nl.ndarray((size, size), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=matrix, value=value, engine=nisa.engine.vector)
    if each >= size:
        return matrix
    by_group = matrix.reshape((size, size // each, each))
    pattern = [[-each, size // each], [0, each]]  # of channel p and group g: p - g * each, from 0 to each - 1
    for bound in range(2):
        nisa.affine_select(
            dst=by_group,
            pattern=pattern,
            channel_multiplier=1,
            on_true_tile=by_group,
            on_false_value=0.0,
            cmp_op=nl.greater_equal if bound == 0 else nl.less_equal,
            offset=0 if bound == 0 else 1 - each,
        )
    return matrix


def _column(vector, part):
    column = nl.ndarray((part.size, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=column, src=vector[part.start : part.end].reshape((part.size, 1)))
    return column


def _load(image, part, columns):
    """Some pixels of a tile of channels."""
    data = nl.ndarray((part.size, columns.size), dtype=image.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=data, src=image[part.start : part.end, columns.start : columns.end])
    return data


def _sums(image, parts, means):
    """Of each tile of channels a column: the sum of its pixels, or of the squares of what they differ from `means`."""
    sums = []
    for t in range(len(parts)):
        part = parts[t]
        pieces = even_tiles(image.shape[1], PIXELS)
        each = nl.ndarray((part.size, len(pieces)), dtype=nl.float32, buffer=nl.sbuf)
        for piece in pieces:
            data = _load(image, part, piece)
            if means is not None:
                centred = nl.ndarray(data.shape, dtype=nl.float32, buffer=nl.sbuf)
                nisa.tensor_scalar(dst=centred, data=data, op0=nl.subtract, operand0=means[t])
                data = nl.ndarray(centred.shape, dtype=nl.float32, buffer=nl.sbuf)
                nisa.activation(dst=data, op=nl.square, data=centred)
            column = each[:, piece.index : piece.index + 1]
            nisa.tensor_reduce(dst=column, op=nl.add, data=data, axis=1, keepdims=True)
        total = each
        if len(pieces) > 1:
            total = nl.ndarray((part.size, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_reduce(dst=total, op=nl.add, data=each, axis=1, keepdims=True)
        sums.append(total)
    return sums


def _over_groups(same, sums):
    """Columns of what all channels of a group give together, for each tile of channels."""
    count = same.shape[1]
    banked = nl.ndarray((count, 1), dtype=nl.float32, buffer=nl.psum)
    for t in range(len(sums)):  # more than one are all of one group
        nisa.nc_matmul(dst=banked, stationary=same[0 : sums[t].shape[0]], moving=sums[t], accumulate=t > 0)
    whole = nl.ndarray((count, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=whole, src=banked, engine=nisa.engine.vector)
    totals = []
    for column in sums:
        totals.append(whole[0 : column.shape[0]])
    return totals


def _store(out, image, part, mean, factor, shift):
    """(x - mean) * factor + shift of a tile of channels."""
    for piece in even_tiles(image.shape[1], PIXELS):
        data = _load(image, part, piece)
        normal = nl.ndarray(data.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=normal, data=data, op0=nl.subtract, operand0=mean, op1=nl.multiply, operand1=factor)
        result = nl.ndarray(data.shape, dtype=out.dtype, buffer=nl.sbuf)
        nisa.activation(dst=result, op=nl.copy, data=normal, bias=shift)
        nisa.dma_copy(dst=out[part.start : part.end, piece.start : piece.end], src=result)
