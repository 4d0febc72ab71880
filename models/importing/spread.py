"""Broadcasting of views by exact multiplications with ones: axes of size 1 are repeated, as in ONNX.

A channel is copied to all channels by a 1x1 convolution with ones; a column is copied to all columns by a depthwise
convolution whose window covers a single element and zeros otherwise; rows are copied in the same way. Each sum has
only one nonzero term, so no rounding occurs.
"""

from __future__ import annotations

import numpy as np

from ..checks import MAX_KERNEL_SIZE, Shape
from ..errors import ModelError
from ..layers import Conv2d, Dense
from .importer import Importer


def spread(importer: Importer, source: str, shape: Shape) -> str:
    """Return a layer that broadcasts the output of `source` to `shape`, which may be features or an image.

    Raises ModelError if a size is neither 1 nor equal to the size in `shape`.
    """
    before = importer.builder.shapes[source]
    if len(before) != len(shape) or any(small not in (1, large) for small, large in zip(before, shape)):
        raise ModelError(f"{list(before)} cannot be broadcast to {list(shape)}")
    if len(shape) == 1:
        return source if before == shape else _spread_feature(importer, source, shape[0])
    # Broadcast rows and columns first, while there are few channels.
    return _spread_channel(importer, _spread_sides(importer, source, shape), shape[0])


def _spread_feature(importer: Importer, source: str, features: int) -> str:
    layer = Dense(importer.name("repeat"), 1, features, inputs=(source,))
    ones, zeros = np.ones((1, features), np.float32), np.zeros(features, np.float32)
    return importer.add(layer, {"weight": ones, "bias": zeros}).layer


def _spread_channel(importer: Importer, source: str, channels: int) -> str:
    if importer.builder.shapes[source][0] == channels:
        return source
    layer = Conv2d(importer.name("repeat"), 1, channels, (1, 1), inputs=(source,))
    ones, zeros = np.ones((channels, 1, 1, 1), np.float32), np.zeros(channels, np.float32)
    return importer.add(layer, {"weight": ones, "bias": zeros}).layer


def _spread_sides(importer: Importer, source: str, shape: Shape) -> str:
    """Broadcast columns, then rows: two long windows require far fewer multiplications than one large window."""
    for axis in (1, 0):
        channels, *sides = importer.builder.shapes[source]
        extent = shape[1 + axis]
        if sides[axis] == extent:
            continue
        if extent > MAX_KERNEL_SIZE:
            raise ModelError(f"repeats a constant over {extent} pixels; at most {MAX_KERNEL_SIZE} are allowed")
        side = extent - 1
        layer = Conv2d(
            importer.name("repeat"),
            channels,
            channels,
            (1, extent) if axis else (extent, 1),
            (0, side, 0, side) if axis else (side, 0, side, 0),
            groups=channels,
            inputs=(source,),
        )
        ones = np.ones((channels, 1, *layer.kernel_size), np.float32)
        source = importer.add(layer, {"weight": ones, "bias": np.zeros(channels, np.float32)}).layer
    return source
