"""About how long a network takes with so many images side by side, so that the best number is taken.

More of them give the engines' lanes more work at a time. But their filters are diagonal: as channels grow, fewer images
fit, and the matmuls of those that do read zeros for the others; fewer side by side leave room for several taps.
"""

from __future__ import annotations

from ...kernels.convolution.forms import LEAST_COLUMNS, TENSOR_NS, VECTOR_NS, matmul_columns, matrices
from ...kernels.tiling.packing import PARTITIONS, ceil_div
from .layout import COPY_NS, LaidOut, heights_of, read_together, steps_of
from .memory import PSUM_COLUMNS
from .program import CONVOLUTIONS, Planned

BYTES_NS = 1 / 368  # of all DMA engines
ENGINE_BYTES_NS = 1 / 27.2  # of one, which serves eight partitions
SERVED = 8
FINISH_NS = 250  # of the Vector and the Scalar Engine, beside the elements, to finish sums


def estimate(laid_out: LaidOut, channels: int, together: int, itemsize: int, batch: int) -> float:
    """Nanoseconds, as if one engine worked at a time; `channels` and `together` are those of the input."""
    total = laid_out.numbers * itemsize * BYTES_NS
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
    return min(SERVED, given) * elements * itemsize * ENGINE_BYTES_NS + spread * elements / 2 * VECTOR_NS


def _convolving(layer: Planned, inputs: int, apart: int, images: int, itemsize: int) -> float:
    """Of `images` along the free axis of the output, those of each `apart` by matmuls of their own."""
    outputs = layer.channels * layer.together
    tiles = ceil_div(outputs, PARTITIONS)
    high, wide = (side * layer.pool_size for side in layer.after[1:])
    columns = images * tiles * high * wide
    pieces = max(tiles * min(apart, images), ceil_div(columns, PSUM_COLUMNS))
    least, pace = (LEAST_COLUMNS, 1) if itemsize == 2 else (min(PARTITIONS, outputs), 4)
    contracted = 1 if layer.taps[0] * layer.taps[1] > 1 else max(1, inputs // layer.groups)
    moved = columns * matmul_columns(layer.form, high, wide) / (high * wide)
    matmuls = matrices(layer.form, steps_of(layer, layer.taps)) * contracted
    multiplied = matmuls * max(moved, pieces * least) * pace * TENSOR_NS
    copied = (layer.copies[0] - 1) * (columns / layer.pool_size**2 * VECTOR_NS / 2 + COPY_NS)
    return multiplied + columns * VECTOR_NS + pieces * FINISH_NS + copied
