"""Normalization in a launch: each pixel over its channels, or groups of channels over an image.

Images packed along the partitions are also treated as groups of channels, so that each image has separate sums.

    for block of pixels across all tiles:
        centred = values - mean                                 # by matmuls or by the Vector Engine
        variance = ones^T @ centred^2                           # PSUM; over the channels of each pixel
        result = centred / sqrt(variance + epsilon) * scale + shift

| tile | shape | bounds |
|---|---|---|
| ones, centring | [channels, channels] | one for each dtype that is summed |
| values, result | [channels, images, rows, columns] of each tile | as many pixels as fit in a PSUM bank |
| scale, shift | [channels, 1] | float32 |
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import nki.isa as nisa
import nki.language as nl

from ..group_normalization import group_matrices, group_norm_tiles
from ..normalization import (
    Centring,
    PixelNorm,
    Response,
    centre_tiles,
    centring_mode,
    local_response_tiles,
    norm_block,
    response_bands,
    scale_tiles,
)
from ..program import GroupNorm, LayerNorm, LocalResponseNorm
from ..tiling.tiles import PARTITIONS, Tile, even_tiles


@dataclass(frozen=True)
class _Normalization:
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
    nisa.memset(dst=norm.epsilon, value=operation.epsilon, engine=nisa.engine.gpsimd)
    group_channels = operation.channels // operation.groups
    group_norm_tiles(norm.targets, norm.sources, norm.parts, group_channels, norm.numbers)
    return output


def normalize_pixels(launch, number, operation: LayerNorm, operands):
    """Normalize each pixel over its channels, processing blocks of pixels across all tiles. A block is centred before
    the previous one is scaled, so that no engine waits for the variance."""
    (value,) = operands
    output = launch.output_of(operation, value.heights)
    norm = _open(launch, operation, value, output)
    constants = _constants(launch, operation, value, norm)
    waiting: list[Any] = []
    for n, (results, data) in enumerate(_blocks(norm.targets, norm.sources)):
        waiting.append(partial(scale_tiles, results, centre_tiles(data, constants), constants, n, n * len(data)))
        if n > 0:
            waiting.pop(0)()
    waiting.pop()()
    return output


def normalize_responses(launch, number, operation: LocalResponseNorm, operands):
    """Divide each channel by the response of the surrounding channels, in blocks of pixels across all tiles."""
    (value,) = operands
    output = launch.output_of(operation, value.heights)
    sizes = value.heights
    ends = [sum(sizes[: t + 1]) for t in range(len(sizes))]
    parts = [Tile(t, end - size, size, end) for t, (size, end) in enumerate(zip(sizes, ends))]
    bands = response_bands(parts, operation.size)
    targets, sources = ([value_tiles.inside(t) for t in range(len(sizes))] for value_tiles in (output, value))
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
    norm = _Normalization(
        sources=[value.inside(t) for t in range(len(sizes))],
        targets=[output.inside(t) for t in range(len(sizes))],
        parts=[Tile(t, end - size, size, end) for t, (size, end) in enumerate(zip(sizes, ends))],
        scales=[launch.constants(size, column) for size, column in zip(sizes, columns)],
        shifts=[launch.constants(size, column + 1) for size, column in zip(sizes, columns)],
        epsilon=epsilon,
    )
    return norm


def _constants(launch, operation: LayerNorm, value, norm: _Normalization):
    """Return the constants of layer norm. A single channel uses matrices for 128 channels, since a single 16-bit column
    cannot be an operand. Squares of bfloat16 values are kept in bfloat16, since the Tensor Engine needs four passes for
    float32 and rounding hardly affects their sum."""
    sizes = [part.size for part in norm.parts]
    is_alone = len(sizes) == 1 and sizes[0] > 1
    same = group_matrices(norm.parts, value.channels)[0][0][1] if is_alone else None
    dtype = value.tiles[0].dtype
    mode = centring_mode(sizes, value.channels, dtype, operation.is_centred)
    if mode is Centring.MATMUL:
        nisa.memset(dst=norm.epsilon, value=operation.epsilon * value.channels**2, engine=nisa.engine.gpsimd)
        centring = _centring_matrices(launch, dtype, value.channels, same, len(sizes))
    else:
        nisa.memset(dst=norm.epsilon, value=operation.epsilon, engine=nisa.engine.gpsimd)
        centring = (_matrix(dtype, same),) if mode is Centring.VECTOR else ()
    return PixelNorm(
        channels=value.channels,
        mode=mode,
        dtype=dtype,
        ones=_matrix(nl.bfloat16 if dtype == nl.bfloat16 else nl.float32, same),
        centring=centring,
        epsilon=norm.epsilon,
        scales=norm.numbers[0],
        shifts=norm.numbers[1],
    )


def _matrix(dtype, same, value=1.0):
    """Return a matrix [128, 128] filled with a number, or a copy of `same` if it is given."""
    if same is None:
        matrix = nl.ndarray((PARTITIONS, PARTITIONS), dtype=dtype, buffer=nl.sbuf)
        nisa.memset(dst=matrix, value=value, engine=nisa.engine.gpsimd)
        return matrix
    matrix = nl.ndarray(same.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=matrix, src=same, engine=nisa.engine.gpsimd)
    return matrix


def _centring_matrices(launch, dtype, channels, same, tiles):
    """Return the matrices that centre a tile, multiplied by `channels`: one for the tile itself, and one for the other
    tiles."""
    other = _matrix(dtype, None, -1.0) if tiles > 1 else None
    size = PARTITIONS if same is None else same.shape[0]
    centring = nl.ndarray((size, size), dtype=dtype, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=centring,
        data=launch.identity()[0:size, 0:size],
        op0=nl.multiply,
        operand0=float(channels),
        op1=nl.add if same is None else nl.subtract,
        operand1=other if same is None else same,
    )
    return (centring,) if other is None else (centring, other)


def _block(tile, images, rows, columns):
    part = tile[:, images.start : images.end, rows.start : rows.end]
    return part[:, :, :, columns.start : columns.end]
