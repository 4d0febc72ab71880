"""Fold scales and shifts before a ReLU into the convolution after it, as in DenseNet and ResNet V2.

relu(scale * x + shift) equals scale * (max(x, bound) - bound), where bound = -shift / scale; for a negative scale, it
is the minimum instead. The scales and bounds become part of the filters and biases of the convolution, and the Vector
Engine limits x to the bounds. If x is a concatenation, the Scalar Engine computes some parts of the ReLU as they are,
so that both engines share the work.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...kernels.program import Activation, Parts
from ...models.layers import Affine, Conv2d
from ..builder import GraphBuilder
from ..graph.channels import Channels
from ..graph.graph import Node
from ..graph.lazy import LazyArray

FLOAT32 = float(np.finfo(np.float32).max)
EVERY = 3  # the Scalar Engine computes one in this many parts
FARTHEST, FARTHEST_FLOAT16 = 1e30, 65504.0  # no value is farther from zero, so such a bound is never crossed
MOST_SHIFT = 100.0  # in float32, bounds of larger shifts would leave fewer exact digits of the sums
FLOAT16_SCALES = (1 / 64, 64.0)  # scales outside this range might make filters overflow or underflow in float16


def fold_scales(builder: GraphBuilder, layer: Conv2d) -> tuple[LazyArray, np.ndarray] | None:
    """Turn the scaled ReLU that a convolution reads into bounds, and return the new filters and biases of the
    convolution. Return None if it does not read such a ReLU, or if the ReLU is read elsewhere."""
    number = _scaled_relu(builder, layer)
    if number is None:
        return None
    (read,) = layer.inputs
    scale, shift = (builder.tensor(builder.layers[read], name).astype(np.float64) for name in ("scale", "shift"))
    if builder.dtype == np.float16 and not _fits_float16(scale):
        return None
    if builder.dtype == np.float32 and abs(shift).max() > MOST_SHIFT:
        return None
    is_limited = _split_parts(builder, read, number)
    builder.nodes[number] = _limited(builder.nodes[number], builder.dtype)
    folded = _folded(scale, shift, is_limited, builder.dtype)
    weights = builder.filters(layer).make().astype(np.float64)
    filters = (weights * folded.factors[:, None, None]).astype(builder.dtype).astype(np.float32)
    constant = weights.sum(axis=(2, 3)) @ folded.constants - filters.sum(axis=(2, 3), dtype=np.float64) @ folded.bounds
    return LazyArray.of(filters), (builder.tensor(layer, "bias") + constant).astype(np.float32)


def _scaled_relu(builder: GraphBuilder, layer: Conv2d) -> int | None:
    """Return the node of the scaled ReLU that only `layer` reads, or None."""
    (read,) = layer.inputs
    affine = builder.layers.get(read)
    is_plain = layer.groups == 1 and not any(layer.padding) and not builder.is_quantized and builder.is_whole
    if not is_plain or not isinstance(affine, Affine) or affine.activation != "relu" or len(affine.shape) != 1:
        return None
    (part, *others) = builder.places[read].parts
    is_own = not others and part >= 0 and builder.nodes[part].name == read and builder.is_read_once(read)
    return part if is_own and builder.nodes[part].kind == affine.kind else None


def _fits_float16(scale: np.ndarray) -> bool:
    magnitudes = abs(scale[scale != 0])
    return bool(((magnitudes >= FLOAT16_SCALES[0]) & (magnitudes <= FLOAT16_SCALES[1])).all())


def _split_parts(builder: GraphBuilder, name: str, number: int) -> np.ndarray:
    """Move one in EVERY parts that node `number` reads to a new node, and return which channels of the layer are
    left."""
    node, place = builder.nodes[number], builder.places[name]
    (parts,) = node.sources
    if len(parts) < EVERY:
        return np.ones(len(place.order), bool)
    part_of = np.repeat(np.arange(len(parts)), [_channels(builder, part) for part in parts])
    stays = part_of % EVERY < EVERY - 1
    positions = np.where(stays, np.cumsum(stays) - 1, stays.sum() + np.cumsum(~stays) - 1)
    builder.nodes[number] = _part(node, tuple(part for n, part in enumerate(parts) if n % EVERY < EVERY - 1), stays)
    builder.nodes.append(_part(node, parts[EVERY - 1 :: EVERY], ~stays))
    sizes = (int(stays.sum()), int((~stays).sum()))
    builder.places[name] = Channels((number, len(builder.nodes) - 1), sizes, positions[place.order])
    return stays[place.order]


def _channels(builder: GraphBuilder, part: int) -> int:
    return builder.inputs[-1 - part][0] if part < 0 else builder.nodes[part].operation.channels


def _part(node: Node, parts: Parts, channels: np.ndarray) -> Node:
    """Return a node that computes some of the channels of a scaled ReLU, which are those of `parts`."""
    count = int(channels.sum())
    some = replace(node, before=(count, *node.before[1:]), numbers=tuple(each[channels] for each in node.numbers))
    return some.changed(sources=(parts,), channels=count)


@dataclass(frozen=True)
class _Folded:
    """For each channel, the ReLU is factor * (y - bound) + constant, where y is what its node computes."""

    bounds: np.ndarray
    factors: np.ndarray
    constants: np.ndarray


def _folded(scale: np.ndarray, shift: np.ndarray, is_limited: np.ndarray, dtype: np.dtype[Any]) -> _Folded:
    """Return the numbers for scales and shifts; channels that are not limited have their ReLU already."""
    bounds, is_constant, is_open = _bounds(scale, shift, dtype)
    constants = np.where(is_constant, np.maximum(shift, 0.0) * (scale == 0), np.where(is_open, shift, 0.0))
    return _Folded(
        bounds=np.where(is_limited & ~is_constant & ~is_open, bounds, 0.0),
        factors=np.where(is_limited, np.where(is_constant, 0.0, scale), 1.0),
        constants=np.where(is_limited, constants, 0.0),
    )


def _bounds(scale: np.ndarray, shift: np.ndarray, dtype: np.dtype[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the bound of each channel, rounded to a dtype, whether the ReLU is constant, and whether it never
    applies."""
    is_far = abs(shift) > (FARTHEST_FLOAT16 if dtype == np.float16 else FARTHEST) * abs(scale)
    bounds = -shift / np.where(is_far | (scale == 0), 1.0, scale)
    is_constant = (scale == 0) | (is_far & (shift < 0))
    return bounds.astype(dtype).astype(np.float64), is_constant, is_far & ~is_constant


def _limited(node: Node, dtype: np.dtype[Any]) -> Node:
    """Return the node of a scaled ReLU with bounds instead. Constant channels, including those that are not read,
    become 1."""
    scale, shift = (numbers.astype(np.float64) for numbers in node.numbers)
    bounds, is_constant, is_open = _bounds(scale, shift, dtype)
    low = np.where(is_open | (scale < 0), -FLOAT32, bounds)
    high = np.where(is_open | (scale > 0), FLOAT32, bounds)
    numbers = tuple(np.where(is_constant, 1.0, each).astype(np.float32) for each in (low, high))
    return replace(node, numbers=numbers).changed(activation=Activation("within"))
