"""Normalisation by an image's own statistics: each group of channels over all its pixels.

One group is layer norm over a whole image, one group for each channel is instance norm. Channels are on the partitions.
Each partition sums its own pixels; the Tensor Engine then sums over a group's channels by multiplying with a matrix
that has ones where two channels share a group, which leaves the sum on each of them. Sums of a group that spans several
tiles accumulate in PSUM.
"""

import nki.isa as nisa
import nki.language as nl

from .tiling.tiles import PARTITIONS, even_tiles, reshaped

GROUP_NORM_PIXELS = 4096  # pixels of a channel at a time: 16 KiB of a partition in float32


def group_matrices(parts, each):
    """For each tile of channels, list the tiles that share groups of `each` channels with it: [index, matrix], float32
    [channels of that tile, channels of this one], ones where two channels share a group."""
    ones = nl.ndarray((PARTITIONS, PARTITIONS), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0, engine=nisa.engine.vector)
    matrices = []
    for part in parts:
        first, last = part.start // each, (part.end - 1) // each
        sharing = []
        for n in range(len(parts)):
            other = parts[n]
            start, end = other.start // each, (other.end - 1) // each
            if start == end and first == last and start == first:
                sharing.append([n, ones[0 : other.size, 0 : part.size]])
            elif start <= last and first <= end:
                sharing.append([n, _same_group(each, other, part, first, last + 1 - first)])
        matrices.append(sharing)
    return matrices


def _same_group(each, others, channels, first, groups):
    """Return ones where two channels share one of the `groups` from `first` on, else 0: [others, channels]."""
    matrix = nl.ndarray((others.size, groups, each), dtype=nl.float32, buffer=nl.sbuf)  # for all channels of the groups
    nisa.memset(dst=matrix, value=1.0, engine=nisa.engine.vector)
    # channel p has position p + away - g * each in group g: 0 to each - 1 if it belongs to it
    away = others.start - first * each
    for bound in range(2):
        nisa.affine_select(
            dst=matrix,
            pattern=[[-each, groups], [0, each]],
            channel_multiplier=1,
            on_true_tile=matrix,
            on_false_value=0.0,
            cmp_op=nl.greater_equal if bound == 0 else nl.less_equal,
            offset=away if bound == 0 else away + 1 - each,
        )
    begin = channels.start - first * each
    return reshaped(matrix, (others.size, groups * each))[:, begin : begin + channels.size]


def group_norm_tiles(targets, sources, same, count, numbers):
    """Normalise tiles of channels in SBUF by the statistics of their groups, for each image.

    targets, sources: [channels, images, rows, columns] of each tile. same: as `group_matrices` returns it. count:
    elements of a group. numbers: scales and shifts, float32 columns for each tile, and epsilon, a float32 column
    [128, 1].
    """
    scales, shifts, epsilon = numbers
    _, images, rows, columns = sources[0].shape
    most = max(1, GROUP_NORM_PIXELS // (rows * columns))
    for some in even_tiles(images, min(most, nl.tile_size.psum_bank_fmax)):
        means = _over_groups(same, [_sums(tile, some, None) for tile in sources], 1.0 / count)
        squares = [_sums(tile, some, mean) for tile, mean in zip(sources, means)]
        variances = _over_groups(same, squares, 1.0 / count)
        for t, source in enumerate(sources):
            channels = source.shape[0]
            factor = nl.ndarray((channels, some.size), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(dst=factor, op=nl.rsqrt, data=variances[t], bias=epsilon[0:channels])
            nisa.tensor_scalar(dst=factor, data=factor, op0=nl.multiply, operand0=scales[t])
            _normalise(targets[t], source, some, means[t], factor, shifts[t])


def _pieces(tile):
    """Cut an image of a tile into blocks of rows and columns of at most GROUP_NORM_PIXELS."""
    rows, columns = tile.shape[2], tile.shape[3]
    across = even_tiles(columns, GROUP_NORM_PIXELS)
    downs = even_tiles(rows, max(1, GROUP_NORM_PIXELS // across[0].size))
    return [(down, part) for down in downs for part in across]


def _piece(tile, some, piece):
    """Return a block of rows and columns of some images of a tile."""
    rows, columns = piece
    return tile[:, some.start : some.end, rows.start : rows.end, columns.start : columns.end]


def _on_pixels(numbers, data):
    """Broadcast numbers [P, images] to all pixels."""
    return numbers.expand_dim(2).expand_dim(3).broadcast(2, data.shape[2]).broadcast(3, data.shape[3])


def _sums(tile, some, means):
    """Sum the pixels of each channel and image, or their squared differences from `means`: float32 [P, images]."""
    pieces = _pieces(tile)
    each = nl.ndarray((tile.shape[0], some.size, len(pieces)), dtype=nl.float32, buffer=nl.sbuf)
    for n, piece in enumerate(pieces):
        data = _piece(tile, some, piece)
        if means is not None:
            centred = _centred(data, means)
            data = nl.ndarray(centred.shape, dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(dst=data, op=nl.square, data=centred)
        nisa.tensor_reduce(dst=each[:, :, n], op=nl.add, data=data, axis=(2, 3))
    if len(pieces) == 1:
        return each[:, :, 0]
    total = nl.ndarray((tile.shape[0], some.size), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=each, axis=2)
    return total


def _centred(data, means):
    """data - means, float32."""
    centred = nl.ndarray(data.shape, dtype=nl.float32, buffer=nl.sbuf)
    if data.shape[1] == 1:
        nisa.tensor_scalar(dst=centred, data=data, op0=nl.subtract, operand0=means)
    else:
        nisa.tensor_tensor(dst=centred, data1=data, data2=_on_pixels(means, data), op=nl.subtract)
    return centred


def _over_groups(same, sums, factor):
    """Sum over all channels of a group, times `factor`, for each tile of channels: float32 [P, images]."""
    totals = []
    for own, sharing in zip(sums, same):
        banked = nl.ndarray(own.shape, dtype=nl.float32, buffer=nl.psum)
        for n, (index, matrix) in enumerate(sharing):
            nisa.nc_matmul(dst=banked, stationary=matrix, moving=sums[index], accumulate=n > 0)
        whole = nl.ndarray(own.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=whole, data=banked, op0=nl.multiply, operand0=factor)
        totals.append(whole)
    return totals


def _normalise(target, tile, some, means, factors, shift):
    """Compute (x - mean) * factor + shift for some images of a tile of channels; `means` and `factors` are [P,
    images]."""
    for piece in _pieces(tile):
        data = _piece(tile, some, piece)
        normal = nl.ndarray(data.shape, dtype=nl.float32, buffer=nl.sbuf)
        if data.shape[1] == 1:
            nisa.tensor_scalar(
                dst=normal, data=data, op0=nl.subtract, operand0=means, op1=nl.multiply, operand1=factors
            )
        else:
            factor = _on_pixels(factors, data)
            nisa.tensor_tensor(dst=normal, data1=_centred(data, means), data2=factor, op=nl.multiply)
        nisa.activation(dst=_piece(target, some, piece), op=nl.copy, data=normal, bias=shift)
