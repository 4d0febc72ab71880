"""Normalization in a launch: of each pixel over its channels, or of groups of channels over an image.

Images packed along the partitions are also treated as groups of channels, so that each image has separate sums.

    for block of pixels across all tiles:
        sums = ones^T @ values, ones^T @ values^2               # PSUM; over the channels of each pixel
        result = (values - mean) / sqrt(variance + epsilon) * scale + shift

| tile | shape | bounds |
|---|---|---|
| ones | [channels, channels] | one for each dtype that is summed |
| values, result | [channels, images, rows, columns] of each tile | as many pixels as fit in a PSUM bank |
| scale, shift | [channels, 1] | float32 |
"""

from dataclasses import dataclass

import nki.isa as nisa
import nki.language as nl

from ..group_normalization import group_matrices, group_norm_tiles
from ..normalization import Response, layer_norm_tiles, local_response_tiles, norm_block, response_bands
from ..program import GroupNorm, LayerNorm, LocalResponseNorm
from ..tiling.tiles import PARTITIONS, Tile, even_tiles


@dataclass(frozen=True)
class _Normalized:
    """A normalization of a value: the tiles that are read and written, their channels, and the columns of constants."""

    sources: list[nl.NkiTensor]
    targets: list[nl.NkiTensor]
    parts: list[Tile]
    scales: list[nl.NkiTensor]
    shifts: list[nl.NkiTensor]
    epsilon: nl.NkiTensor

    @property
    def numbers(self):
        """The scales, the shifts and epsilon; the scales and shifts are None if they have no effect."""
        return self.scales or None, self.shifts or None, self.epsilon


def normalize_groups(launch, number, operation: GroupNorm, operands):
    """Normalize groups of channels over each image."""
    (value,) = operands
    output = launch.output_of(operation, value.heights)
    norm = _open(launch, operation, value, output)
    each = operation.channels // operation.groups
    group_norm_tiles(norm.targets, norm.sources, norm.parts, each, norm.numbers)
    return output


def normalize_pixels(launch, number, operation: LayerNorm, operands):
    """Normalize each pixel over its channels, processing blocks of pixels across all tiles."""
    (value,) = operands
    output = launch.output_of(operation, value.heights)
    norm = _open(launch, operation, value, output)
    ones = _ones(value, norm.parts)
    for n, (results, data) in enumerate(_blocks(norm.targets, norm.sources)):
        turn = n * len(data)
        layer_norm_tiles(results, data, ones, value.channels, norm.numbers, turn)
    return output


def normalize_responses(launch, number, operation: LocalResponseNorm, operands):
    """Divide each channel by the response of the surrounding channels, in blocks of pixels across all tiles."""
    (value,) = operands
    output = launch.output_of(operation, value.heights)
    sizes = value.heights
    ends = [sum(sizes[: t + 1]) for t in range(len(sizes))]
    parts = [Tile(t, end - size, size, end) for t, (size, end) in enumerate(zip(sizes, ends))]
    bands = response_bands(parts, operation.size)
    targets, sources = ([each.inside(t) for t in range(len(sizes))] for each in (output, value))
    response = Response(operation.alpha / operation.size, operation.beta, operation.bias)
    for results, data in _blocks(targets, sources):
        local_response_tiles(results, data, bands, response)
    return output


def _blocks(targets, sources):
    """Yield blocks of pixels of two values, across all tiles."""
    _, images, rows, columns = sources[0].shape
    most = norm_block(len(sources))
    for across in even_tiles(columns, most):
        for down in even_tiles(rows, max(1, most // across.size)):
            for some in even_tiles(images, max(1, most // (down.size * across.size))):
                yield tuple([_block(tile, some, down, across) for tile in tiles] for tiles in (targets, sources))


def _open(launch, operation, value, output):
    sizes = value.heights
    ends = [sum(sizes[: t + 1]) for t in range(len(sizes))]
    epsilon = nl.ndarray((PARTITIONS, 1), dtype=nl.float32, buffer=nl.sbuf)
    columns = [operation.constants + 2 * t for t in range(len(sizes))] if operation.is_scaled else []
    norm = _Normalized(
        sources=[value.inside(t) for t in range(len(sizes))],
        targets=[output.inside(t) for t in range(len(sizes))],
        parts=[Tile(t, end - size, size, end) for t, (size, end) in enumerate(zip(sizes, ends))],
        scales=[launch.constants(size, column) for size, column in zip(sizes, columns)],
        shifts=[launch.constants(size, column + 1) for size, column in zip(sizes, columns)],
        epsilon=epsilon,
    )
    nisa.memset(dst=epsilon, value=operation.epsilon, engine=nisa.engine.gpsimd)
    return norm


def _ones(value, parts):
    """Return the matrices for `layer_norm_tiles`.

    For a single channel, the matrices have 128 channels, since a single 16-bit column cannot be an operand. Squares of
    bfloat16 values are kept in bfloat16, since the Tensor Engine needs four passes for float32 and rounding hardly
    affects their sum.
    """
    is_alone = len(parts) == 1 and parts[0].size > 1
    same = group_matrices(parts, value.channels)[0][0][1] if is_alone else None
    own, ones = value.tiles[0].dtype, []
    for dtype in (own, nl.bfloat16 if own == nl.bfloat16 else nl.float32):
        size = PARTITIONS if same is None else parts[0].size
        matrix = nl.ndarray((size, size), dtype=dtype, buffer=nl.sbuf)
        if same is None:
            nisa.memset(dst=matrix, value=1.0, engine=nisa.engine.gpsimd)
        else:
            nisa.tensor_copy(dst=matrix, src=same, engine=nisa.engine.gpsimd)
        ones.append(matrix)
    return ones


def _block(tile, images, rows, columns):
    part = tile[:, images.start : images.end, rows.start : rows.end]
    return part[:, :, :, columns.start : columns.end]
