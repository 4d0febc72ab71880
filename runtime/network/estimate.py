"""About how long a network takes with so many images side by side, so that the best number is taken.

More of them give the engines' lanes more work at a time. But their filters are diagonal: as channels grow, fewer images
fit, and the matmuls of those that do read zeros for the others; fewer side by side leave room for several taps.
"""

from __future__ import annotations

from ...kernels.convolution.forms import (
    DIRECT,
    SCALAR_NS,
    START_NS,
    VECTOR_NS,
    engines_ns,
    matmul_columns,
    matmuls_ns,
    matrices,
    piece_of,
)
from ...kernels.tiling.packing import PARTITIONS, ceil_div
from .forms import DMA_BYTES_NS
from .layout import COPY_NS, LaidOut, heights_of, read_together, steps_of
from .memory import PSUM_COLUMNS
from .program import CONVOLUTIONS, Planned

ENGINE_BYTES_NS = 1 / 27.2  # of one, which serves eight partitions
SERVED = 8
BLANK_NS = (
    150  # of the GpSimd Engine, beside the elements, to blank a row; what it takes of them is the Scalar Engine's
)
RUN_NS = 14  # to describe what a partition reads of an image, all DMAs one after the other
FINISH_NS = 250  # of the Vector and the Scalar Engine, beside the elements, to finish sums


def estimate(laid_out: LaidOut, channels: int, together: int, itemsize: int, batch: int) -> float:
    """Nanoseconds, as if one engine worked at a time; `channels` and `together` are those of the input."""
    total = laid_out.numbers * itemsize / DMA_BYTES_NS
    for layer in laid_out.layers:
        images = ceil_div(batch, layer.together)
        if layer.kind == "taps":
            total += _loading(layer, images, itemsize)
        elif layer.kind in CONVOLUTIONS:
            rows = heights_of(laid_out.layers, layer.sources[0], channels, together)
            apart = read_together(laid_out.layers, layer, together) // layer.together
            total += _convolving(layer, len(rows), apart, images, itemsize)
    return total


def _loading(layer: Planned, images: int, itemsize: int) -> float:
    """Of an image with its taps, and the zeros between them."""
    elements = images * layer.after[1] * layer.after[2]
    given = layer.channels * layer.together
    spread = layer.copies[2] > given
    moved = min(SERVED, given) * elements * itemsize * ENGINE_BYTES_NS
    return max(moved, layer.copies[0] * given * images * RUN_NS) + spread * elements / 2 * VECTOR_NS


def _convolving(layer: Planned, inputs: int, apart: int, images: int, itemsize: int) -> float:
    """Of `images` along the free axis of the output, those of each `apart` by matmuls of their own."""
    outputs = layer.channels * layer.together
    tiles = ceil_div(outputs, PARTITIONS)
    high, wide = (side * layer.pool_size for side in layer.after[1:])
    columns = images * tiles * high * wide
    pieces = max(tiles * min(apart, images), ceil_div(columns, PSUM_COLUMNS))
    contracted = 1 if layer.taps[0] * layer.taps[1] > 1 else max(1, inputs // layer.groups)
    moved = columns * matmul_columns(layer.form, high, wide) / (high * wide)
    steps = steps_of(layer, layer.taps)
    multiplied = matrices(layer.form, steps) * contracted * matmuls_ns(itemsize, moved, pieces, outputs)
    if layer.form != DIRECT:
        work = (contracted, tiles, steps, layer.pool_size)
        piece = piece_of(layer.form, layer.pool_size, high, wide, high)
        multiplied = (
            max(engines_ns(layer.form, itemsize, (images, high, wide), piece, work, True)) + START_NS[layer.form]
        )
    above, below, _ = layer.blank
    blanked = ((above > 0) + below) * (BLANK_NS + images * layer.after[2] * SCALAR_NS)
    copied = (layer.copies[0] - 1) * (columns / layer.pool_size**2 * VECTOR_NS / 2 + COPY_NS)
    return multiplied + columns * VECTOR_NS + pieces * FINISH_NS + copied + blanked
