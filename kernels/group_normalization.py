"""Normalisation by an image's own statistics: each group of channels over all its pixels.

One group is layer norm over a whole image, a group a channel instance norm. Channels lie on the partitions. Each sums
its own pixels; the Tensor Engine then sums over a group's channels by a matrix that has ones where two channels are of
one group, and leaves the sum on each of them. The sums of a group that lies in several tiles add up in PSUM.

`group_norm_tiles` works on tiles of channels in SBUF as on those in HBM, of which it loads some pixels at a time.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .tiling.tiles import PARTITIONS, Tile, check_dtype, even_tiles, tiles

MAX_CHANNELS = 1 << 16
GROUP_NORM_PIXELS = 4096  # of a channel at a time: 16 KiB of a partition in float32


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
                mean = same_group^T @ sums(x) / count
                variance = same_group^T @ sums((x - mean) ** 2) / count
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
    each = channels // groups
    small = nl.ndarray((PARTITIONS, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=small, value=epsilon, engine=nisa.engine.vector)
    for parts in _parts(channels, each):
        same = group_matrices(parts, each)
        scales, shifts = [], []
        for part in parts:
            scales.append(_column(scale, part))
            shifts.append(_column(shift, part))
        for image in range(batch):
            sources, targets = [], []
            for part in parts:
                sources.append(_as_tile(x[image : image + 1, part.start : part.end]))
                targets.append(_as_tile(out[image : image + 1, part.start : part.end]))
            group_norm_tiles(targets, sources, same, each * height * width, (scales, shifts, small), in_sbuf=False)
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


def _column(vector, part):
    column = nl.ndarray((part.size, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=column, src=vector[part.start : part.end].reshape((part.size, 1)))
    return column


def _as_tile(channels):
    """Channels of an image in HBM, [1, C, H, W], as [C, 1, 1, pixels]."""
    _, count, height, width = channels.shape
    return channels.reshape((count, 1, 1, height * width))


def group_matrices(parts, each):
    """For each tile of channels, those that share groups of `each` channels with it: [index, matrix], ones where two
    channels are of one group, float32 [channels of that one, channels of this one]."""
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
    """Ones where two channels are of one of the `groups` from `first` on, else 0: [others, channels]."""
    matrix = nl.ndarray((others.size, groups, each), dtype=nl.float32, buffer=nl.sbuf)  # of all channels of the groups
    nisa.memset(dst=matrix, value=1.0, engine=nisa.engine.vector)
    away = others.start - first * each  # channel p is p + away - g * each channels into group g: 0 to each - 1 if in it
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
    return matrix.reshape((others.size, groups * each))[:, begin : begin + channels.size]


def group_norm_tiles(targets, sources, same, count, numbers, in_sbuf):
    """Normalise tiles of channels by the statistics of their groups, for each image.

    targets, sources: [channels, images, rows, columns] of each tile, in SBUF or in HBM. same: as `group_matrices` gives
    it. count: numbers of a group. numbers: scales and shifts, float32 columns of each tile, and epsilon, a float32
    column [128, 1].
    """
    scales, shifts, epsilon = numbers
    _, images, rows, columns = sources[0].shape
    most = max(1, GROUP_NORM_PIXELS // (rows * columns))
    for some in even_tiles(images, min(most, nl.tile_size.psum_bank_fmax)):
        sums, squares = [], []
        for t in range(len(sources)):
            sums.append(_sums(sources[t], some, None, in_sbuf))
        means = _over_groups(same, sums, 1.0 / count)
        for t in range(len(sources)):
            squares.append(_sums(sources[t], some, means[t], in_sbuf))
        variances = _over_groups(same, squares, 1.0 / count)
        for t in range(len(sources)):
            channels = sources[t].shape[0]
            factor = nl.ndarray((channels, some.size), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(dst=factor, op=nl.rsqrt, data=variances[t], bias=epsilon[0:channels])
            nisa.tensor_scalar(dst=factor, data=factor, op0=nl.multiply, operand0=scales[t])
            _normalise(targets[t], sources[t], some, means[t], factor, shifts[t], in_sbuf)


def _pieces(tile):
    """Tiles of rows, and of columns, of which an image of a tile is made: GROUP_NORM_PIXELS at most."""
    rows, columns = tile.shape[2], tile.shape[3]
    across = even_tiles(columns, GROUP_NORM_PIXELS)
    pieces = []
    for down in even_tiles(rows, max(1, GROUP_NORM_PIXELS // across[0].size)):
        for part in across:
            pieces.append((down, part))
    return pieces


def _piece(tile, some, piece):
    """Some images of a tile, of which a piece of the rows and columns."""
    rows, columns = piece
    return tile[:, some.start : some.end, rows.start : rows.end, columns.start : columns.end]


def _at_hand(view, in_sbuf):
    """A view in SBUF: itself, or what it has in HBM."""
    if in_sbuf:
        return view
    data = nl.ndarray(view.shape, dtype=view.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=data, src=view)
    return data


def _on_pixels(numbers, data):
    """Numbers [P, images] for all pixels."""
    return numbers.expand_dim(2).expand_dim(3).broadcast(2, data.shape[2]).broadcast(3, data.shape[3])


def _sums(tile, some, means, in_sbuf):
    """Of each channel and image the sum of its pixels, or of the squares of what they differ from `means`: float32
    [P, images]."""
    pieces = _pieces(tile)
    each = nl.ndarray((tile.shape[0], some.size, len(pieces)), dtype=nl.float32, buffer=nl.sbuf)
    for n in range(len(pieces)):
        data = _at_hand(_piece(tile, some, pieces[n]), in_sbuf)
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
    """What all channels of a group give together, times `factor`, for each tile of channels: float32 [P, images]."""
    totals = []
    for t in range(len(sums)):
        banked = nl.ndarray(sums[t].shape, dtype=nl.float32, buffer=nl.psum)
        for n in range(len(same[t])):
            index, matrix = same[t][n]
            nisa.nc_matmul(dst=banked, stationary=matrix, moving=sums[index], accumulate=n > 0)
        whole = nl.ndarray(sums[t].shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=whole, data=banked, op0=nl.multiply, operand0=factor)
        totals.append(whole)
    return totals


def _normalise(target, tile, some, means, factors, shift, in_sbuf):
    """(x - mean) * factor + shift of some images of a tile of channels; `means` and `factors` are [P, images]."""
    for piece in _pieces(tile):
        data = _at_hand(_piece(tile, some, piece), in_sbuf)
        normal = nl.ndarray(data.shape, dtype=nl.float32, buffer=nl.sbuf)
        if data.shape[1] == 1:
            nisa.tensor_scalar(
                dst=normal, data=data, op0=nl.subtract, operand0=means, op1=nl.multiply, operand1=factors
            )
        else:
            factor = _on_pixels(factors, data)
            nisa.tensor_tensor(dst=normal, data1=_centred(data, means), data2=factor, op=nl.multiply)
        place = _piece(target, some, piece)
        result = place if in_sbuf else nl.ndarray(data.shape, dtype=target.dtype, buffer=nl.sbuf)
        nisa.activation(dst=result, op=nl.copy, data=normal, bias=shift)
        if not in_sbuf:
            nisa.dma_copy(dst=place, src=result)
