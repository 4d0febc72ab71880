"""Normalization of groups of channels, with statistics over the group and all pixels of an image.

A single group corresponds to layer norm over a whole image, one group per channel to instance norm. Channels are on the
partitions. Each partition sums its pixels. The Tensor Engine then sums over the channels of a group by multiplying with
a matrix that contains ones where two channels share a group; this leaves the sum on the partition of each channel. The
sums of a group that spans several tiles accumulate in PSUM.
"""

import nki.isa as nisa
import nki.language as nl

from .tiling.tiles import PARTITIONS, Tile, even_tiles, reshaped

GROUP_NORM_PIXELS = 4096  # pixels of a channel processed together: 16 KiB of a partition in float32
MOST_POWERS = 64  # for up to this many images, powers are faster than a lookup table
MOST_IN_PSUM = 2  # for up to this many tiles, sums stay in PSUM
MOST_SUMMED = 512  # up to this many pixels, sums of squares are as exact as 16-bit pixels
FEW_PIXELS = 100  # for fewer pixels, a second instruction for the shift takes less time than combining the constants
MANY_PIXELS = 256  # for this many pixels per image or more, one instruction per image is as fast


def group_matrices(parts, each, share=1.0):
    """For each tile of channels, list as [index, matrix] the tiles with which it shares groups of `each` channels.

    The matrix is float32 [channels of the other tile, channels of this tile], with `share` where two channels share a
    group. If all channels belong to one group, there is a single list, whose matrices have 128 columns.
    """
    ones = nl.ndarray((PARTITIONS, PARTITIONS), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=share, engine=nisa.engine.vector)
    if len(parts) > 1 and parts[len(parts) - 1].end <= each:
        return [[[part.index, ones[0 : part.size]] for part in parts]]
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
                sharing.append([n, _same_group(each, other, part, (first, last + 1 - first), share)])
        matrices.append(sharing)
    return matrices


def _same_group(each, others, channels, images, share):
    """Return a matrix [others, channels] with `share` where two channels share one of the groups (first, count), else
    0."""
    first, groups = images
    matrix = nl.ndarray((others.size, groups, each), dtype=nl.float32, buffer=nl.sbuf)  # all channels of the groups
    nisa.memset(dst=matrix, value=share, engine=nisa.engine.vector)
    # channel p has position p + away - g * each in group g; it belongs to the group if this is 0 to each - 1
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


def group_norm_tiles(targets, sources, parts, each, numbers):
    """For each image, normalize tiles of channels in SBUF by the statistics of their groups of `each` channels.

    targets, sources: [channels, images, rows, columns] for each tile. parts: the tiles. numbers: the scales and the
    shifts, each a list of float32 columns (one per tile) or None, and epsilon, a float32 column [128, 1].
    """
    scales, shifts, epsilon = numbers
    _, images, rows, columns = sources[0].shape
    by_image = images == 1 or rows * columns >= MANY_PIXELS
    are_means = by_image and not _are_summed(sources[0])  # the numbers that are summed over groups
    same = group_matrices(parts, each, 1.0 / (each if are_means else each * rows * columns))
    most = max(1, GROUP_NORM_PIXELS // (rows * columns))
    for some in even_tiles(images, min(most, nl.tile_size.psum_bank_fmax)):
        means, variances = (_statistics_by_image if by_image else _statistics)(same, sources, some)
        roots = []
        for variance in variances:
            root = nl.ndarray(variance.shape, dtype=nl.float32, buffer=nl.sbuf)
            _inverse_root(root, variance, epsilon[0 : variance.shape[0]])
            roots.append(root)
        of_tiles = zip(_for_tiles(means, sources), _for_tiles(roots, sources))
        for t, (source, (mean, factor)) in enumerate(zip(sources, of_tiles)):
            if scales is not None:
                root, factor = factor, nl.ndarray(factor.shape, dtype=nl.float32, buffer=nl.sbuf)
                nisa.tensor_scalar(dst=factor, data=root, op0=nl.multiply, operand0=scales[t])
            _normalise(targets[t], source, some, mean, factor, None if shifts is None else shifts[t])


def _for_tiles(numbers, sources):
    """Return the statistics [P, images] of each tile of channels. Tiles of a single group share them."""
    if len(numbers) == len(sources):
        return numbers
    return [numbers[0][0 : source.shape[0]] for source in sources]


def _statistics(same, sources, images):
    """Return the mean and the variance of each group in several images, both as [P, images] for each tile of channels.

    Each instruction processes all images together.
    """
    means = _over_groups(same, [_sums(tile, images, None) for tile in sources])
    squares = [_sums(tile, images, mean) for tile, mean in zip(sources, _for_tiles(means, sources))]
    return means, _over_groups(same, squares)


def _statistics_by_image(same, sources, images):
    """Return the same result as `_statistics`, but process each image with separate instructions, which read its pixels
    only once.

    The variance of a group is the mean of the variances of its channels plus the mean squared difference between the
    means of the channels and the mean of the group.
    """
    if _are_summed(sources[0]):
        return _pooled(same, [_sums_and_squares(tile) for tile in sources])
    moments = [_moments(tile, images) for tile in sources]
    if images.size == 1 and sources[0].dtype != nl.float32:
        for tile_moments in moments:
            _square(tile_moments[:, :, 1], tile_moments[:, :, 0], nl.add, tile_moments[:, :, 1])
        return _pooled(same, [tile_moments[:, 0] for tile_moments in moments])
    means = _over_groups(same, [tile_moments[:, :, 0] for tile_moments in moments])
    spreads = []
    for tile_moments, mean in zip(moments, _for_tiles(means, sources)):
        away, spread = (nl.ndarray(mean.shape, dtype=nl.float32, buffer=nl.sbuf) for _ in range(2))
        nisa.tensor_tensor(dst=away, data1=tile_moments[:, :, 0], data2=mean, op=nl.subtract)
        _square(spread, away, nl.add, tile_moments[:, :, 1])
        spreads.append(spread)
    return means, _over_groups(same, spreads)


def _are_summed(tile):
    """True if the pixels of a tile and their squares are summed at the same time: one small image of 16-bit pixels."""
    _, images, rows, columns = tile.shape
    return images == 1 and tile.dtype != nl.float32 and rows * columns <= MOST_SUMMED


def _sums_and_squares(tile):
    """Return the sum of the pixels of each channel of an image and the sum of their squares: float32 [P, 2].

    The Vector Engine sums the pixels while the Scalar Engine sums the squares.
    """
    sums = nl.ndarray((tile.shape[0], 2), dtype=nl.float32, buffer=nl.sbuf)
    squares = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=sums[:, 0:1], op=nl.add, data=tile, axis=(1, 2, 3))
    nisa.activation_reduce(dst=squares, op=nl.square, data=tile, reduce_op=nl.add, reduce_res=sums[:, 1:2])
    return sums


def _pooled(same, moments):
    """Return the mean and variance of each group in an image of 16-bit pixels, for which one sum over each group
    suffices. `moments` are the means of the pixels and of their squares, or their sums: float32 [P, 2] for each tile.

    The variance of a group is the mean of its squares minus the square of its mean, at least 0. If the mean is large,
    the difference has few digits, but still more than 16-bit pixels have.
    """
    pairs = _over_groups(same, moments)
    means, variances = [pair[:, 0:1] for pair in pairs], []
    for pair, mean in zip(pairs, means):
        variance = nl.ndarray(mean.shape, dtype=nl.float32, buffer=nl.sbuf)
        _square(variance, mean, nl.subtract, pair[:, 1:2])
        nisa.tensor_scalar(dst=variance, data=variance, op0=nl.minimum, operand0=0.0, op1=nl.multiply, operand1=-1.0)
        variances.append(variance)
    return means, variances


def _square(result, numbers, operation, others):
    """Compute result = numbers * numbers `operation` others, all [P, images], with one instruction for each image."""
    for image in range(numbers.shape[1]):
        one_image = slice(image, image + 1)
        nisa.tensor_scalar(
            dst=result[:, one_image],
            data=numbers[:, one_image],
            op0=nl.multiply,
            operand0=numbers[:, one_image],
            op1=operation,
            operand1=others[:, one_image],
            engine=nisa.engine.vector,
        )


def _moments(tile, images):
    """Return the mean and variance of each channel and image of a tile: float32 [P, images, 2]."""
    pieces = _pieces(tile, nl.tile_size.bn_stats_fmax)
    moments = nl.ndarray((tile.shape[0], images.size, 2), dtype=nl.float32, buffer=nl.sbuf)
    for image in range(images.size):
        parts = nl.ndarray((tile.shape[0], len(pieces), 6), dtype=nl.float32, buffer=nl.sbuf)
        for n, (rows, columns) in enumerate(pieces):
            data = tile[:, images.start + image, rows.start : rows.end, columns.start : columns.end]
            nisa.bn_stats(dst=parts[:, n], data=data)
        nisa.bn_aggr(dst=moments[:, image], data=parts)
    return moments


def _inverse_root(result, numbers, epsilon):
    """Compute result = (numbers + epsilon) ** -0.5, where all operands are float32 [P, images].

    For few numbers, a power is faster than the Scalar Engine's table.
    """
    if numbers.shape[1] > MOST_POWERS:
        nisa.activation(dst=result, op=nl.rsqrt, data=numbers, bias=epsilon)
    else:
        nisa.tensor_scalar(
            dst=result,
            data=numbers,
            op0=nl.add,
            operand0=epsilon,
            op1=nl.power,
            operand1=-0.5,
            engine=nisa.engine.vector,
        )


def _pieces(tile, most=GROUP_NORM_PIXELS):
    """Split an image of a tile into blocks of rows and columns with at most `most` pixels."""
    rows, columns = tile.shape[2], tile.shape[3]
    across = even_tiles(columns, most)
    downs = even_tiles(rows, max(1, most // across[0].size))
    return [(down, part) for down in downs for part in across]


def _piece(tile, images, piece):
    """Return a view of a block of rows and columns in several images of a tile."""
    rows, columns = piece
    return tile[:, images.start : images.end, rows.start : rows.end, columns.start : columns.end]


def _on_pixels(numbers, data):
    """Broadcast numbers [P, images] to all pixels."""
    return numbers.expand_dim(2).expand_dim(3).broadcast(2, data.shape[2]).broadcast(3, data.shape[3])


def _sums(tile, images, means):
    """Sum the pixels of each channel and image, or their squared differences from `means`: float32 [P, images]."""
    pieces = _pieces(tile)
    piece_sums = nl.ndarray((tile.shape[0], images.size, len(pieces)), dtype=nl.float32, buffer=nl.sbuf)
    for n, piece in enumerate(pieces):
        data = _piece(tile, images, piece)
        if means is not None:
            centred = _centred(data, means)
            data = nl.ndarray(centred.shape, dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(dst=data, op=nl.square, data=centred)
        nisa.tensor_reduce(dst=piece_sums[:, :, n], op=nl.add, data=data, axis=(2, 3))
    if len(pieces) == 1:
        return piece_sums[:, :, 0]
    total = nl.ndarray((tile.shape[0], images.size), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=piece_sums, axis=2)
    return total


def _centred(data, means):
    """Return data - means in float32."""
    centred = nl.ndarray(data.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=centred, data1=data, data2=_on_pixels(means, data), op=nl.subtract)
    return centred


def _over_groups(same, sums):
    """Sum over all channels of a group, for each tile of channels: float32 [P, images], in PSUM if there are only a few
    tiles. If all channels belong to one group, the result is a single tile of 128 partitions."""
    totals = []
    for sharing in same:
        shape = (sharing[0][1].shape[1], *sums[0].shape[1:])
        total = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
        for n, (index, matrix) in enumerate(sharing):
            nisa.nc_matmul(dst=total, stationary=matrix, moving=sums[index], accumulate=n > 0)
        if len(same) > MOST_IN_PSUM:
            banked, total = total, nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=total, src=banked)
        totals.append(total)
    return totals


def _normalise(target, tile, some, means, factors, shift):
    """Compute (x - mean) * factor + shift for several images in a tile of channels.

    `means` and `factors` are [P, images]. `shift` may be None.
    """
    pixels = tile.shape[2] * tile.shape[3]
    if some.size == 1 and shift is not None and tile.dtype != nl.float32 and pixels >= FEW_PIXELS:
        _scale_and_shift(target, tile, some, (means, factors, shift))
        return
    is_large = pixels >= MANY_PIXELS
    for part in even_tiles(some.size, 1 if is_large else some.size):
        columns = slice(part.start, part.end)
        images = Tile(some.index, some.start + part.start, part.size, some.start + part.end)
        for piece in _pieces(tile):
            data, result = (_piece(side, images, piece) for side in (tile, target))
            normal = result
            if shift is not None:
                normal = nl.ndarray(data.shape, dtype=nl.float32, buffer=nl.sbuf)
            mean, factor = means[:, columns], factors[:, columns]
            if part.size == 1:
                nisa.tensor_scalar(
                    dst=normal, data=data, op0=nl.subtract, operand0=mean, op1=nl.multiply, operand1=factor
                )
            else:
                away = _centred(data, mean)
                nisa.tensor_tensor(dst=normal, data1=away, data2=_on_pixels(factor, data), op=nl.multiply)
            if shift is not None:
                nisa.activation(dst=result, op=nl.copy, data=normal, bias=shift)


def _scale_and_shift(target, tile, image, numbers):
    """Compute x * factor - (mean * factor - shift) for an image of 16-bit pixels, with one instruction for the pixels.

    `numbers`: mean, factor and shift, float32 [P, 1]. The difference has fewer digits than (x - mean) * factor if the
    mean is large, but still more than 16-bit pixels have.
    """
    mean, factor, shift = numbers
    less = nl.ndarray(factor.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(
        dst=less,
        data=mean,
        op0=nl.multiply,
        operand0=factor,
        op1=nl.subtract,
        operand1=shift,
        engine=nisa.engine.vector,
    )
    for piece in _pieces(tile):
        data, result = (_piece(side, image, piece) for side in (tile, target))
        nisa.tensor_scalar(dst=result, data=data, op0=nl.multiply, operand0=factor, op1=nl.subtract, operand1=less)
