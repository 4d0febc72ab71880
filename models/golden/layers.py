"""The layers that are no matrix multiplication: pooling, normalisation, and numbers put elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..network import (
    ChannelShuffle,
    GroupNorm,
    LayerNorm,
    LocalResponseNorm,
    Pad,
    Pool,
    Transpose,
)

_OPERATIONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


def average_pool(x: np.ndarray, window_height: int, window_width: int) -> np.ndarray:
    """Average of windows that lie side by side; rows and columns left over are dropped.

    x [B, C, H, W] -> [B, C, H // window_height, W // window_width].
    """
    return pool(x, Pool("pool", "average", (window_height, window_width), (window_height, window_width)))


def pool(x: np.ndarray, layer: Pool) -> np.ndarray:
    """Maximum or average over windows, x [B, C, H, W] -> [B, C, H', W']; see `Pool`."""
    shape = x.shape[1:]
    _, height, width = layer.output_shape(shape)
    largest = layer.method == "max"
    padded = _room(x, layer, (height, width), -np.inf if largest else 0.0)
    windows = np.lib.stride_tricks.sliding_window_view(padded, layer.spans, axis=(2, 3))
    windows = windows[:, :, :: layer.stride[0], :: layer.stride[1]][:, :, :height, :width]
    windows = windows[..., :: layer.dilation[0], :: layer.dilation[1]]
    if largest:
        return windows.max(axis=(4, 5))
    return windows.sum(axis=(4, 5), dtype=np.float32) / layer.counts(shape)


def _room(x: np.ndarray, layer: Pool, windows: tuple[int, int], filling: float) -> np.ndarray:
    """The image with as much around it as all windows reach over."""
    sides = []
    for axis, count in enumerate(windows):
        before = layer.padding[axis]
        reached = (count - 1) * layer.stride[axis] + layer.spans[axis] - before - x.shape[2 + axis]
        sides.append((before, max(0, reached)))
    return np.pad(x, ((0, 0), (0, 0), *sides), constant_values=filling)


def combine(a: np.ndarray, b: np.ndarray, operation: str) -> np.ndarray:
    """a operation b, element by element; b may be [B, C, 1, 1] where a is an image."""
    return _OPERATIONS[operation](a, b)


def per_channel(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Numbers [C], or of one whole example, in a shape that broadcasts over the batch x."""
    return values.reshape(values.shape + (1,) * (x.ndim - 1 - values.ndim))


def local_response_norm(x: np.ndarray, layer: LocalResponseNorm) -> np.ndarray:
    """x [B, C, H, W] over sums of squares of the channels around each; see `LocalResponseNorm`."""
    around = layer.size // 2
    squares = np.pad(x * x, ((0, 0), (around, around), (0, 0), (0, 0)))
    sums = np.lib.stride_tricks.sliding_window_view(squares, layer.size, axis=1).sum(axis=-1)
    return x / (np.float32(layer.bias) + np.float32(layer.alpha / layer.size) * sums) ** np.float32(layer.beta)


def layer_norm(x: np.ndarray, scale: np.ndarray, shift: np.ndarray, layer: LayerNorm) -> np.ndarray:
    """x [B, C, ...] normalised over its channels, at each pixel; scale and shift are [C]."""
    centred = x - x.mean(axis=1, keepdims=True)
    variance = (centred * centred).mean(axis=1, keepdims=True)
    normal = centred / np.sqrt(variance + np.float32(layer.epsilon))
    return normal * per_channel(scale, x) + per_channel(shift, x)


def group_norm(x: np.ndarray, scale: np.ndarray, shift: np.ndarray, layer: GroupNorm) -> np.ndarray:
    """x [B, C, H, W] normalised over all pixels of each group of channels; scale and shift are [C]."""
    grouped = x.reshape(len(x), layer.groups, -1)
    centred = grouped - grouped.mean(axis=2, keepdims=True)
    variance = (centred * centred).mean(axis=2, keepdims=True)
    normal = (centred / np.sqrt(variance + np.float32(layer.epsilon))).reshape(x.shape)
    return normal * per_channel(scale, x) + per_channel(shift, x)


def pad(x: np.ndarray, layer: Pad) -> np.ndarray:
    """x [B, C, H, W] with a value around it, or cut where the padding is below 0."""
    top, left, bottom, right = layer.padding
    height, width = x.shape[2:]
    kept = x[:, :, max(0, -top) : height + min(0, bottom), max(0, -left) : width + min(0, right)]
    room = ((0, 0), (0, 0), (max(0, top), max(0, bottom)), (max(0, left), max(0, right)))
    return np.pad(kept, room, constant_values=layer.value)


def transpose(x: np.ndarray, layer: Transpose) -> np.ndarray:
    """Each example split into axes, these reordered, the result in the layer's shape."""
    order = (0, *(axis + 1 for axis in layer.order))
    return x.reshape(len(x), *layer.split).transpose(order).reshape(len(x), *layer.shape)


def channel_shuffle(x: np.ndarray, layer: ChannelShuffle) -> np.ndarray:
    """Channels [groups, C / groups] read as [C / groups, groups]."""
    batch, channels, *sides = x.shape
    split = x.reshape(batch, layer.groups, channels // layer.groups, *sides)
    return split.swapaxes(1, 2).reshape(x.shape)


def softmax(x: np.ndarray) -> np.ndarray:
    """Softmax over the last axis."""
    exponents = np.exp(x - x.max(axis=-1, keepdims=True))
    result: np.ndarray = exponents / exponents.sum(axis=-1, keepdims=True)
    return result


def log_softmax(x: np.ndarray) -> np.ndarray:
    """Logarithms of the softmax over the last axis."""
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def argmax(x: np.ndarray) -> np.ndarray:
    """Index of the largest value over the last axis, the first of equals; int32."""
    return np.argmax(x, axis=-1).astype(np.int32)
